// SPDX-License-Identifier: MIT OR Apache-2.0
//! The first message of a connection: who the client is and how it packs.
//!
//! | field | type |
//! | --- | --- |
//! | security module | text with NUL |
//! | length of the credential, credential | uint32 big-endian, bytes |
//! | flag: what kind of peer | 1 byte |
//! | uid, gid | uint32 big-endian each; only if the flag is not 0 |
//! | nspace, rank | text with NUL, uint32 big-endian; only with flags that have an id |
//! | version of the library | text with NUL |
//! | bfrops module | text with NUL |
//! | kind of buffers | 1 byte |
//! | gds module | text with NUL |
//! | infos | calls: a size, and so many infos |

use bfrops::{BufferKind, Layout, Module, Note};

use crate::printable::printable;

/// The flags of peers that know their id.
const WITH_ID: [u8; 7] = [0, 4, 5, 7, 8, 9, 10];

/// What kind of peer a flag stands for.
const KINDS: [&str; 11] = [
    "client",
    "legacy tool",
    "legacy launcher",
    "tool",
    "tool with an id",
    "tool that a server started",
    "launcher",
    "launcher with an id",
    "launcher that a server started",
    "singleton",
    "scheduler",
];

/// What the first message says.
pub(super) struct Handshake {
    pub(super) notes: Vec<Note>,
    /// How the client packs, if its module is known.
    pub(super) layout: Option<Layout>,
    /// The first number of its version.
    pub(super) major: Option<u32>,
    /// Where the calls begin.
    pub(super) end: usize,
    /// What is missing.
    pub(super) fault: Option<String>,
}

/// Reads the first message.
pub(super) fn read(payload: &[u8]) -> Handshake {
    let mut reader = Reader {
        payload,
        offset: 0,
        notes: Vec::new(),
    };
    let mut seen = Handshake {
        notes: Vec::new(),
        layout: None,
        major: None,
        end: 0,
        fault: None,
    };
    if let Err(what) = fields(&mut reader, &mut seen) {
        seen.fault = Some(format!("the message ends before its {what} does"));
    }
    seen.end = reader.offset;
    seen.notes = reader.notes;
    seen
}

fn fields(reader: &mut Reader<'_>, seen: &mut Handshake) -> Result<(), &'static str> {
    reader.text("security module")?;
    let len = reader.number("credential length")?;
    reader.bytes("credential", usize::try_from(len).unwrap_or(usize::MAX))?;
    let flag = reader.byte("flag", |flag| {
        let kind = KINDS
            .get(usize::from(flag))
            .unwrap_or(&"unknown kind of peer");
        format!("{flag}, a {kind}")
    })?;
    if flag != 0 {
        reader.number("uid")?;
        reader.number("gid")?;
    }
    if WITH_ID.contains(&flag) {
        reader.text("nspace")?;
        reader.number("rank")?;
    }
    let version = reader.text("version")?;
    let digits = version
        .split(|b| !b.is_ascii_digit())
        .next()
        .unwrap_or_default();
    seen.major = std::str::from_utf8(digits)
        .ok()
        .and_then(|d| d.parse().ok());
    let module = reader.text("bfrops module")?;
    let module = std::str::from_utf8(module).ok().and_then(Module::from_name);
    let kind = reader.byte("kind of buffers", |kind| match BufferKind::from_raw(kind) {
        Some(BufferKind::Described) => format!("{kind}, described"),
        Some(BufferKind::NonDescribed) => format!("{kind}, non-described"),
        None => format!("{kind}, unknown"),
    })?;
    let layout = module.map(Layout::new).zip(BufferKind::from_raw(kind));
    seen.layout = layout.map(|(layout, kind)| layout.with_buffer(kind));
    reader.text("gds module")?;
    Ok(())
}

struct Reader<'a> {
    payload: &'a [u8],
    offset: usize,
    notes: Vec<Note>,
}

impl<'a> Reader<'a> {
    fn take(&mut self, what: &'static str, len: usize) -> Result<&'a [u8], &'static str> {
        let rest = self.payload.get(self.offset..).unwrap_or_default();
        let taken = rest.get(..len).ok_or(what)?;
        self.offset += len;
        Ok(taken)
    }

    fn note(&mut self, what: &str, len: usize, meaning: String) {
        self.notes.push(Note {
            range: self.offset - len..self.offset,
            path: what.to_owned(),
            meaning,
        });
    }

    fn text(&mut self, what: &'static str) -> Result<&'a [u8], &'static str> {
        let rest = self.payload.get(self.offset..).unwrap_or_default();
        let len = memchr::memchr(0, rest).ok_or(what)?;
        let text = self.take(what, len + 1)?;
        let text = text.get(..len).unwrap_or_default();
        self.note(what, len + 1, format!("\"{}\"", printable(text)));
        Ok(text)
    }

    fn number(&mut self, what: &'static str) -> Result<u32, &'static str> {
        let bytes = self.take(what, 4)?;
        let number = bytes.iter().fold(0, |n, byte| n << 8 | u32::from(*byte));
        self.note(what, 4, number.to_string());
        Ok(number)
    }

    fn byte(
        &mut self,
        what: &'static str,
        meaning: impl Fn(u8) -> String,
    ) -> Result<u8, &'static str> {
        let byte = self.take(what, 1)?.first().copied().ok_or(what)?;
        self.note(what, 1, meaning(byte));
        Ok(byte)
    }

    fn bytes(&mut self, what: &'static str, len: usize) -> Result<(), &'static str> {
        self.take(what, len)?;
        if len > 0 {
            self.note(what, len, format!("{len} bytes"));
        }
        Ok(())
    }
}
