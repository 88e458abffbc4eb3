// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hello: the first message of a connection.
//!
//! Source: OpenPMIx, `ptl/base`; seen in the records of `testdata/wire`.

use bfrops::{BufferKind, Layout, Module, TracedField};
use pmix_types::{Info, Nspace, Proc, Rank, Status, Text};

use super::{Fields, PeerForm, Role};
use crate::codec::{Many, Reader, Shape, Writer};
use crate::{Error, Header, wire_type};

/// The first message of a connection: the name, the packing format and the credential of the peer.
///
/// | field | type | since |
/// | --- | --- | --- |
/// | security module | text with NUL | 2.0 |
/// | length of the credential, credential | uint32, bytes | 2.0 |
/// | role | 1 byte | 2.0 |
/// | uid, gid | uint32 each; only if the role is not 0 | 2.0 |
/// | nspace, rank | text with NUL, uint32; only for roles that have a name | 2.0 |
/// | version of the library | text with NUL | 2.0 |
/// | bfrops module | text with NUL | 2.1 |
/// | kind of buffers | 1 byte: 1 non-described, 2 described | 2.1 |
/// | gds module | text with NUL | 2.1 |
/// | infos | packed according to the preceding fields: a size, and that number of infos | 3.0 |
///
/// Numbers are big-endian. Frozen: append only. Bytes after the fields that are not infos are
/// ignored: clients of 4.2 send one byte too many.
#[derive(Clone, Debug, PartialEq)]
pub struct Hello<'a> {
    /// The security module of the credential, for example `native`.
    pub psec: Text<'a>,
    /// The credential.
    pub credential: &'a [u8],
    /// The kind of peer.
    pub role: Role,
    /// The user id and group id of the peer, as it states them. Clients do not send them here.
    pub ids: Option<(u32, u32)>,
    /// The process that the peer claims to be.
    pub proc: Option<Proc<'a>>,
    /// The version of the peer's library, for example `5.0.11`.
    pub version: Text<'a>,
    /// The bfrops module of the peer, for example `v41`. It is empty for a peer of 2.0, which does
    /// not send it.
    pub module: Text<'a>,
    /// The kind of the peer's buffers: with or without a type code in each pack call.
    pub buffer: BufferKind,
    /// The data store that the peer uses for job information, for example `hash`.
    pub gds: Text<'a>,
    /// Further infos about the peer.
    pub infos: Vec<Info<'a>>,
}

impl<'a> Hello<'a> {
    /// Reads the payload of a hello.
    ///
    /// # Errors
    ///
    /// The cause and the offset; `PMIX_ERR_NOT_SUPPORTED` for an unknown role. An unknown module is
    /// not an error here, see [`form`](Self::form).
    pub fn decode(payload: &'a [u8]) -> Result<Self, Error> {
        Self::read(&mut Fields::new(payload))
    }

    /// Parses the payload of a hello and records every field up to the infos, or up to the error.
    pub fn explain(payload: &'a [u8]) -> (Result<Self, Error>, Vec<TracedField>) {
        let mut fields = Fields::new(payload).with_trace();
        let hello = Self::read(&mut fields);
        (hello, fields.into_notes())
    }

    fn read(fields: &mut Fields<'a>) -> Result<Self, Error> {
        let psec = fields.text("security module")?;
        let len = fields.u32("credential length")?;
        let credential = fields.bytes(len, "credential")?;
        let role = role(fields)?;
        let ids = match role.says_ids() {
            true => Some((fields.u32("uid")?, fields.u32("gid")?)),
            false => None,
        };
        let proc = match role.says_proc() {
            true => Some(proc(fields)?),
            false => None,
        };
        let mut hello = Self {
            psec,
            credential,
            role,
            ids,
            proc,
            version: fields.text("version")?,
            module: Text::default(),
            buffer: BufferKind::NonDescribed,
            gds: Text::default(),
            infos: Vec::new(),
        };
        if !fields.rest().is_empty() {
            hello.module = fields.text("bfrops module")?;
            hello.buffer = buffer(fields)?;
            hello.gds = fields.text("gds module")?;
            hello.infos = hello.infos(fields.rest());
        }
        Ok(hello)
    }

    /// Returns the infos, or an empty list if the bytes are not valid infos.
    fn infos(&self, bytes: &'a [u8]) -> Vec<Info<'a>> {
        let Ok(form) = self.form() else {
            return Vec::new();
        };
        let mut reader = Reader::new(&form, None, bytes);
        Many::<wire_type::Info>::read(&mut reader).unwrap_or_default()
    }

    /// Returns the form of the peer: its layout and release.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_NOT_SUPPORTED` if the module of the peer is unknown.
    pub fn form(&self) -> Result<PeerForm, Error> {
        let module = match self.module.as_str() {
            Some("") => Some(Module::V20),
            Some(names) => Module::select(names),
            None => None,
        };
        let module = module.ok_or_else(|| {
            let message = format!("the bfrops module {:?} is not known", self.module);
            Error::new(Status::ERR_NOT_SUPPORTED, message)
        })?;
        let layout = Layout::new(module).with_buffer(self.buffer);
        Ok(PeerForm::new(layout, self.version.as_bytes()))
    }

    /// Packs the complete message: header and payload.
    ///
    /// # Errors
    ///
    /// The credential is too long, or an info cannot be packed with the module of the hello.
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        let mut out = Header::hello(0).encode().to_vec();
        push_text(&mut out, &self.psec);
        out.extend(len(self.credential.len(), "credential")?.to_be_bytes());
        out.extend(self.credential);
        out.push(self.role.0);
        if let Some((uid, gid)) = self.ids {
            out.extend(uid.to_be_bytes());
            out.extend(gid.to_be_bytes());
        }
        if let Some(proc) = &self.proc {
            push_text(&mut out, proc.nspace.as_text());
            out.extend(proc.rank.as_raw().to_be_bytes());
        }
        push_text(&mut out, &self.version);
        if !self.module.is_empty() {
            push_text(&mut out, &self.module);
            out.push(self.buffer.as_raw());
            push_text(&mut out, &self.gds);
            if !self.infos.is_empty() {
                let form = self.form()?;
                let mut writer = Writer::new(&form, None);
                Many::<wire_type::Info>::write(&mut writer, &self.infos)?;
                out.extend(writer.finish());
            }
        }
        let header = Header::hello(len(out.len() - Header::LEN, "hello")?).encode();
        out.splice(..Header::LEN, header);
        Ok(out)
    }
}

fn role(fields: &mut Fields<'_>) -> Result<Role, Error> {
    let start = fields.offset();
    let role = Role(fields.byte("flag", |byte| format!("a {}", Role(byte)))?);
    match role.name() {
        Some(_) => Ok(role),
        None => Err(Error::new(Status::ERR_NOT_SUPPORTED, format!("unknown {role}")).at(start)),
    }
}

fn proc<'a>(fields: &mut Fields<'a>) -> Result<Proc<'a>, Error> {
    let start = fields.offset();
    let nspace = fields.text("nspace")?;
    if nspace.len() > Nspace::MAX_LEN {
        let (len, most) = (nspace.len(), Nspace::MAX_LEN);
        let message = format!("nspace of {len} bytes, more than {most}");
        return Err(Error::malformed(start, message));
    }
    Ok(Proc::new(nspace, Rank::new(fields.u32("rank")?)))
}

fn buffer(fields: &mut Fields<'_>) -> Result<BufferKind, Error> {
    let start = fields.offset();
    let number = fields.byte("kind of buffers", |byte| {
        let kind = match BufferKind::from_raw(byte) {
            Some(BufferKind::Described) => "described",
            Some(BufferKind::NonDescribed) => "non-described",
            None => "unknown",
        };
        kind.to_owned()
    })?;
    BufferKind::from_raw(number)
        .ok_or_else(|| Error::malformed(start, format!("unknown kind of buffers {number}")))
}

fn push_text(out: &mut Vec<u8>, text: &Text<'_>) {
    out.extend(text.as_bytes());
    out.push(0);
}

fn len(len: usize, what: &str) -> Result<u32, Error> {
    let number = u32::try_from(len);
    number.map_err(|_| Error::unpackable(format!("a {what} of {len} bytes is too long")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> Hello<'static> {
        Hello {
            psec: "native".into(),
            credential: &[0xe8, 3, 0, 0, 0xe9, 3, 0, 0],
            role: Role::CLIENT,
            ids: None,
            proc: Some(Proc::new("JOB1", Rank::new(3))),
            version: "4.2.2rc2".into(),
            module: "v41".into(),
            buffer: BufferKind::NonDescribed,
            gds: "hash".into(),
            infos: Vec::new(),
        }
    }

    fn tool() -> Hello<'static> {
        Hello {
            role: Role::TOOL,
            ids: Some((1000, 1001)),
            proc: None,
            infos: vec![Info::new("pmix.ppid", pmix_types::Value::Pid(77))],
            ..client()
        }
    }

    fn payload(hello: &Hello<'_>) -> Vec<u8> {
        let bytes = hello.encode().unwrap();
        let (header, payload) = bytes.split_first_chunk::<16>().unwrap();
        let header = Header::decode(header);
        assert_eq!(header, Header::hello(u32::try_from(payload.len()).unwrap()));
        payload.to_vec()
    }

    #[test]
    fn a_hello_survives_encoding() {
        let old = Hello {
            version: "2.0.3".into(),
            module: "".into(),
            gds: "".into(),
            ..client()
        };
        for hello in [client(), tool(), old] {
            let payload = payload(&hello);
            assert_eq!(Hello::decode(&payload).unwrap(), hello);
        }
    }

    #[test]
    fn ignores_bytes_after_the_hello() {
        for garbage in [&[0][..], &[2, 0xff, 0xff], &[0xff; 9], b"text"] {
            let payload = [&payload(&client()), garbage].concat();
            assert_eq!(Hello::decode(&payload).unwrap(), client());
        }
    }

    #[test]
    fn a_truncated_hello_names_the_missing_field() {
        let whole = payload(&client());
        let version = whole.len() - 4 - 5 - 1;
        for len in 0..whole.len() {
            let seen = Hello::decode(&whole[..len]);
            if len == version {
                assert_eq!(seen.unwrap().form().unwrap().layout.module, Module::V20);
                continue;
            }
            let error = seen.unwrap_err();
            assert_eq!(error.status(), Status::ERR_UNPACK_READ_PAST_END_OF_BUFFER);
            assert!(error.offset().unwrap() <= len, "{error}");
        }
        let whole = payload(&tool());
        for len in 0..whole.len() {
            // Truncated infos are ignored.
            if let Ok(hello) = Hello::decode(&whole[..len]) {
                assert!(hello.infos.is_empty());
            }
        }
    }

    #[test]
    fn lengths_and_names_are_checked() {
        let lying = b"native\0\xff\xff\xff\xff";
        let error = Hello::decode(lying).unwrap_err();
        assert_eq!(error.offset(), Some(11));
        let long = Hello {
            proc: Some(Proc::new("j".repeat(256), Rank::new(0))),
            ..client()
        };
        let bytes = payload(&long);
        let error = Hello::decode(&bytes).unwrap_err();
        assert_eq!(error.status(), Status::ERR_UNPACK_FAILURE);
        let unknown = Hello {
            role: Role(11),
            ids: Some((0, 0)),
            proc: None,
            ..client()
        };
        let bytes = payload(&unknown);
        let error = Hello::decode(&bytes).unwrap_err();
        assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED);
        let foreign = Hello {
            module: "v99".into(),
            ..client()
        };
        let bytes = payload(&foreign);
        let hello = Hello::decode(&bytes).unwrap();
        let error = hello.form().unwrap_err();
        assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED);
    }
}
