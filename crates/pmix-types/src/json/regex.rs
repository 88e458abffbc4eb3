// SPDX-License-Identifier: MIT OR Apache-2.0
//! Encoded maps of the string form.
//!
//! | form | meaning |
//! | --- | --- |
//! | `{"string": "…"}` | a form that is text |
//! | `{"blob_payload_hex": "…"}` | the compressed form without the frame that its payload implies |
//! | `{"hex": "…"}` | any other bytes |

use data_encoding::HEXLOWER;
use serde::ser::{SerializeMap, Serializer};

use super::form::Form;
use super::node::Node;
use super::object::Object;
use super::path::{At, Fault};
use super::text::{Digits, write_hex};
use crate::{DataType, RegexBytes, Text};

/// The start of the frame of a compressed payload. The payload's length in decimal, `:` and NUL
/// follow.
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
