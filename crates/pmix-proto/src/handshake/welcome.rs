// SPDX-License-Identifier: MIT OR Apache-2.0
//! The welcome: the reply to a hello.
//!
//! Source: OpenPMIx, `ptl/base`; seen in the records of `testdata/wire`.

use pmix_types::{IntoOwned, Measure, Nspace, Proc, Rank, Status};

use super::Fields;
use crate::Error;

/// The fields of a welcome, which depend on the role of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WelcomeForm {
    /// For clients.
    Index,
    /// For tools and launchers that get their name from the server.
    Assigned,
    /// For all other peers.
    Server,
}

/// The reply to a hello. It has no header.
///
/// | form | fields |
/// | --- | --- |
/// | [`Index`](WelcomeForm::Index) | status, index |
/// | [`Assigned`](WelcomeForm::Assigned) | status, nspace, rank, nspace and rank of the server, security status |
/// | [`Server`](WelcomeForm::Server) | status, nspace and rank of the server, security status |
///
/// Numbers have four bytes and are big-endian. An nspace has 256 bytes, padded with NUL. No fields
/// follow a status other than success. Since 2.0; frozen: append only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Welcome<'a> {
    /// For clients.
    Index {
        /// The index of the client. The client sends it in its headers.
        index: u32,
    },
    /// For tools and launchers that get their name from the server.
    Assigned {
        /// The name that the server assigned to the peer.
        proc: Proc<'a>,
        /// The name of the server.
        server: Proc<'a>,
    },
    /// For all other peers.
    Server {
        /// The name of the server.
        server: Proc<'a>,
    },
    /// The status of a rejection. Only tools may receive it.
    Refused(Status),
}

/// The length in bytes of an nspace field.
const NSPACE: usize = Nspace::MAX_LEN + 1;

impl<'a> Welcome<'a> {
    /// Packs the welcome.
    ///
    /// # Errors
    ///
    /// An nspace is longer than 255 bytes.
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        let mut out = Vec::new();
        let success = Status::SUCCESS.as_raw().to_be_bytes();
        match self {
            Self::Index { index } => {
                out.extend(success);
                out.extend(index.to_be_bytes());
            }
            Self::Assigned { proc, server } => {
                out.extend(success);
                push_proc(&mut out, proc)?;
                push_proc(&mut out, server)?;
                out.extend(success);
            }
            Self::Server { server } => {
                out.extend(success);
                push_proc(&mut out, server)?;
                out.extend(success);
            }
            Self::Refused(status) => out.extend(status.as_raw().to_be_bytes()),
        }
        Ok(out)
    }

    /// Decodes a welcome at the start of a stream. Returns it with its length in bytes, or `None`
    /// if bytes are missing.
    #[must_use]
    pub fn decode(form: WelcomeForm, bytes: &'a [u8]) -> Option<(Self, usize)> {
        let mut fields = Fields::new(bytes);
        let welcome = read(form, &mut fields).ok()?;
        Some((welcome, fields.offset()))
    }
}

impl IntoOwned for Welcome<'_> {
    type Owned = Welcome<'static>;

    fn into_owned(self) -> Welcome<'static> {
        match self {
            Self::Index { index } => Welcome::Index { index },
            Self::Assigned { proc, server } => Welcome::Assigned {
                proc: proc.into_owned(),
                server: server.into_owned(),
            },
            Self::Server { server } => Welcome::Server {
                server: server.into_owned(),
            },
            Self::Refused(status) => Welcome::Refused(status),
        }
    }

    fn measure(&self, what: Measure) -> usize {
        match self {
            Self::Index { .. } | Self::Refused(_) => 0,
            Self::Assigned { proc, server } => proc.measure(what) + server.measure(what),
            Self::Server { server } => server.measure(what),
        }
    }
}

/// Reads the fields. The only possible error is that they are truncated.
fn read<'a>(form: WelcomeForm, fields: &mut Fields<'a>) -> Result<Welcome<'a>, Error> {
    let status = Status::from_raw(fields.i32("status")?);
    if !status.is_success() {
        return Ok(Welcome::Refused(status));
    }
    let welcome = match form {
        WelcomeForm::Index => {
            let index = fields.u32("index")?;
            return Ok(Welcome::Index { index });
        }
        WelcomeForm::Assigned => Welcome::Assigned {
            proc: read_proc(fields)?,
            server: read_proc(fields)?,
        },
        WelcomeForm::Server => Welcome::Server {
            server: read_proc(fields)?,
        },
    };
    let security = Status::from_raw(fields.i32("security status")?);
    Ok(match security.is_success() {
        true => welcome,
        false => Welcome::Refused(security),
    })
}

fn read_proc<'a>(fields: &mut Fields<'a>) -> Result<Proc<'a>, Error> {
    let nspace = fields.padded::<NSPACE>("nspace")?;
    Ok(Proc::new(nspace, Rank::new(fields.u32("rank")?)))
}

fn push_proc(out: &mut Vec<u8>, proc: &Proc<'_>) -> Result<(), Error> {
    let nspace = proc.nspace.as_bytes();
    let Some(padding) = Nspace::MAX_LEN.checked_sub(nspace.len()) else {
        let (len, most) = (nspace.len(), Nspace::MAX_LEN);
        let message = format!("nspace of {len} bytes, more than {most}");
        return Err(Error::unpackable(message));
    };
    out.extend(nspace);
    out.extend(std::iter::repeat_n(0, padding + 1));
    out.extend(proc.rank.as_raw().to_be_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_survives_and_needs_all_bytes() {
        let server = Proc::new("server", Rank::new(0));
        let proc = Proc::new("x".repeat(255), Rank::new(7));
        let cases = [
            (WelcomeForm::Index, Welcome::Index { index: 5 }, 8),
            (
                WelcomeForm::Assigned,
                Welcome::Assigned {
                    proc,
                    server: server.clone(),
                },
                528,
            ),
            (WelcomeForm::Server, Welcome::Server { server }, 268),
            (
                WelcomeForm::Server,
                Welcome::Refused(Status::ERR_NOT_SUPPORTED),
                4,
            ),
        ];
        for (form, welcome, len) in cases {
            let mut bytes = welcome.encode().unwrap();
            assert_eq!(bytes.len(), len);
            for short in 0..len {
                assert_eq!(Welcome::decode(form, &bytes[..short]), None);
            }
            // The first frame may arrive together with the welcome.
            bytes.extend([1, 2, 3]);
            assert_eq!(Welcome::decode(form, &bytes), Some((welcome, len)));
        }
    }

    #[test]
    fn rejects_names_that_do_not_fit() {
        let server = Proc::new("x".repeat(256), Rank::new(0));
        let error = Welcome::Server { server }.encode().unwrap_err();
        assert_eq!(error.status(), Status::ERR_PACK_FAILURE);
    }
}
