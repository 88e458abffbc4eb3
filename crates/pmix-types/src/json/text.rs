// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text, bytes, and encoded maps of the string form.

use std::borrow::Cow;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use serde::ser::{SerializeMap, Serializer};

use super::form::{Form, Object};
use super::node::Node;
use super::path::{At, Fault};
use crate::{Bytes, DataType, Key, Nspace, RegexBytes, Text};

/// The maximum length in bytes of a text with `repeat`.
const MAX_REPEATED: usize = 16 << 20;

/// Prints `{"hex": …}`.
pub(super) fn write_hex<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    let mut object = serializer.serialize_map(Some(1))?;
    object.serialize_entry("hex", &HEXLOWER.encode(bytes))?;
    object.end()
}

/// Parses bytes from their hexadecimal digits.
pub(super) fn unhex(node: &Node<'_>, at: &At<'_>) -> Result<Vec<u8>, Fault> {
    let Node::Text(text) = node else {
        return Err(at.expected("a string of hexadecimal digits", node));
    };
    if let Some((place, wrong)) = text.char_indices().find(|(_, c)| !c.is_ascii_hexdigit()) {
        return Err(at.fault(format_args!(
            "{wrong:?} at character {place} is not a hexadecimal digit"
        )));
    }
    if text.len() % 2 != 0 {
        let len = text.len();
        return Err(at.fault(format_args!(
            "a byte has two hexadecimal digits, and {len} is odd"
        )));
    }
    HEXLOWER_PERMISSIVE
        .decode(text.as_bytes())
        .map_err(|e| at.fault(format_args!("invalid hexadecimal text: {e}")))
}

impl Form for Text<'_> {
    const NONE_IS_NULL: bool = true;

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.as_str() {
            Some(text) => serializer.serialize_str(text),
            None => write_hex(self.as_bytes(), serializer),
        }
    }

    fn read(node: Node<'_>, at: &At<'_>) -> Result<Self, Fault> {
        let bytes = match node {
            Node::Text(text) => text.into_owned().into_bytes(),
            Node::Object(_) => {
                let at = at.of(DataType::STRING);
                let mut object = Object::new(node, &at, &["hex", "n", "repeat"])?;
                match object.take("hex") {
                    Some(digits) if object.is_empty() => unhex(&digits, &at.member("hex"))?,
                    Some(_) => return Err(at.fault("`hex` stands alone")),
                    None => repeated(&mut object, &at)?,
                }
            }
            _ => return Err(at.expected("a string", node)),
        };
        if bytes.contains(&0) {
            return Err(at.fault("a string cannot hold a NUL"));
        }
        Ok(bytes.into())
    }
}

/// Reads `{"n": 62, "repeat": "x"}`.
fn repeated(object: &mut Object<'_, '_>, at: &At<'_>) -> Result<Vec<u8>, Fault> {
    let count: u64 = object.member("n")?;
    let part: Text<'_> = object.member("repeat")?;
    let len = usize::try_from(count).unwrap_or(usize::MAX);
    let len = len.saturating_mul(part.len());
    if len > MAX_REPEATED {
        return Err(at.fault(format_args!(
            "a repeated string has {len} bytes, the limit is {MAX_REPEATED}"
        )));
    }
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        bytes.extend_from_slice(part.as_bytes());
    }
    Ok(bytes)
}

macro_rules! names {
    ($($name:ident),*) => {
        $(impl Form for $name<'_> {
            fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.as_text().write(serializer)
            }

            fn read(node: Node<'_>, at: &At<'_>) -> Result<Self, Fault> {
                Text::read(node, at).map(Self::new)
            }
        })*
    };
}

names!(Key, Nspace);

impl Form for Bytes<'_> {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write_hex(self, serializer)
    }

    fn read(node: Node<'_>, at: &At<'_>) -> Result<Self, Fault> {
        let mut object = match node {
            Node::Null => return Ok(Cow::Owned(Vec::new())),
            Node::Object(_) => Object::new(node, at, &["hex"])?,
            _ => return Err(at.expected("{\"hex\": …}", node)),
        };
        object.member::<Digits<'_>>("hex").map(Self::from)
    }
}

/// Bytes whose JSON form is a string of hexadecimal digits.
pub(crate) struct Digits<'a>(Bytes<'a>);

impl<'a> From<&'a Bytes<'_>> for Digits<'a> {
    fn from(bytes: &'a Bytes<'_>) -> Self {
        Self(Cow::Borrowed(bytes))
    }
}

impl<'a> From<Digits<'a>> for Bytes<'a> {
    fn from(digits: Digits<'a>) -> Self {
        digits.0
    }
}

impl Form for Digits<'_> {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&HEXLOWER.encode(&self.0))
    }

    fn read(node: Node<'_>, at: &At<'_>) -> Result<Self, Fault> {
        match node {
            Node::Null => Ok(Self(Cow::Owned(Vec::new()))),
            Node::Object(_) => Bytes::read(node, at).map(Self),
            _ => unhex(&node, at).map(|bytes| Self(Cow::Owned(bytes))),
        }
    }
}

// Encoded maps of the string form.
//
// | form | meaning |
// | --- | --- |
// | `{"string": "…"}` | a form that is text |
// | `{"blob_payload_hex": "…"}` | the compressed form without the frame that its payload implies |
// | `{"hex": "…"}` | any other bytes |

/// The start of the frame of a compressed payload. The length of the payload in decimal, `:` and a
/// NUL follow.
const FRAME: &[u8] = b"blob:\0component=zlib:\0size=";

/// The end of the frame.
const FRAME_END: &[u8] = b":\0";

/// Returns the payload of the compressed form, if its frame is the one that the payload implies.
fn payload(bytes: &[u8]) -> Option<&[u8]> {
    let rest = bytes.strip_prefix(FRAME)?;
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let payload = rest.get(digits..)?.strip_prefix(FRAME_END)?;
    let is_implied = rest.get(..digits)? == payload.len().to_string().as_bytes();
    is_implied.then_some(payload)
}

impl Form for RegexBytes<'_> {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes = &self.0;
        let text = std::str::from_utf8(bytes).ok();
        let (name, form) = match (payload(bytes), text) {
            (Some(payload), _) => ("blob_payload_hex", HEXLOWER.encode(payload)),
            (None, Some(text)) if !bytes.contains(&0) => ("string", text.to_owned()),
            _ => return write_hex(bytes, serializer),
        };
        let mut object = serializer.serialize_map(Some(1))?;
        object.serialize_entry(name, &form)?;
        object.end()
    }

    fn read(node: Node<'_>, at: &At<'_>) -> Result<Self, Fault> {
        const NAMES: [&str; 3] = ["blob_payload_hex", "hex", "string"];
        let at = at.of(DataType::REGEX);
        let mut object = Object::new(node, &at, &NAMES)?;
        let payload: Option<Digits<'_>> = object.member("blob_payload_hex")?;
        let digits: Option<Digits<'_>> = object.member("hex")?;
        let text: Option<Text<'_>> = object.member("string")?;
        match (payload, digits, text) {
            (Some(payload), None, None) => {
                let payload = crate::Bytes::from(payload);
                let len = payload.len().to_string();
                let bytes = [FRAME, len.as_bytes(), FRAME_END, &payload].concat();
                Ok(Self(bytes.into()))
            }
            (None, Some(digits), None) => Ok(Self(digits.into())),
            (None, None, Some(text)) => Ok(Self(text.into_bytes())),
            (None, None, None) => Ok(Self::default()),
            _ => Err(at.fault(format_args!(
                "only one of {} may be given",
                NAMES.join(", ")
            ))),
        }
    }
}
