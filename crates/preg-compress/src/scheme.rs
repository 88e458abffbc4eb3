// SPDX-License-Identifier: MIT OR Apache-2.0
//! The component and its scheme: accepted lists, values as maps, and the fields of a value for people.

use std::ops::Range;

use preg_core::{
    Component, Error, Explanation, Extent, Limits, NodeList, ParamSpec, Params, ProcMap, Regex2,
    Regex2Ref, Registration, Scheme, Terminator,
};

use crate::framing::{self, Frame, TAG};
use crate::payload::{self, LENGTH_BYTES, Parts};
use crate::pcompress::{Format, Pcompress};

/// The name of the component and the type of its `Regex2` form.
pub(crate) const NAME: &str = "compress";

/// The compress scheme with the active back ends.
pub(crate) struct Compress {
    pcompress: Pcompress,
}

impl Compress {
    pub(crate) fn new(pcompress: Pcompress) -> Self {
        Self { pcompress }
    }

    fn string_form(&self, list: &[u8]) -> Option<Vec<u8>> {
        payload::encode(list, &self.pcompress).map(|payload| framing::write(&payload))
    }

    /// Calls `read` with the payload of a value in string form. Returns `None` for other bytes.
    fn read<T>(
        &self,
        regex: &[u8],
        read: impl Fn(&Parts<'_>) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        if !framing::is_ours(regex) {
            return Ok(None);
        }
        let frame = Frame::read(regex)?;
        let parts = Parts::split(frame.payload_of(regex)?, &self.pcompress);
        parts
            .and_then(|parts| read(&parts))
            .map(Some)
            .map_err(|e| e.shifted(frame.header_len))
    }
}

impl Scheme for Compress {
    fn name(&self) -> &str {
        NAME
    }

    fn tag(&self) -> &[u8] {
        TAG
    }

    fn framing(&self) -> &str {
        "blob"
    }

    fn kind(&self) -> Option<&str> {
        Some(NAME)
    }

    fn generate_regex(&self, list: &[u8]) -> Result<Option<Regex2>, Error> {
        Ok(payload::encode(list, &self.pcompress).map(|bytes| Regex2::new(NAME, bytes)))
    }

    fn parse_regex(&self, regex: Regex2Ref<'_>, limits: &Limits) -> Result<Option<Vec<u8>>, Error> {
        if regex.kind != NAME {
            return Ok(None);
        }
        payload::decode(regex.bytes, &self.pcompress, limits).map(Some)
    }

    fn writes_text(&self) -> bool {
        false
    }

    fn generate_node_regex(&self, list: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.string_form(list))
    }

    fn generate_ppn(&self, list: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.string_form(list))
    }

    fn parse_nodes(&self, regex: &[u8], limits: &Limits) -> Result<Option<NodeList>, Error> {
        self.read(regex, |parts| parts.nodes(limits))
    }

    fn parse_procs(&self, regex: &[u8], limits: &Limits) -> Result<Option<ProcMap>, Error> {
        self.read(regex, |parts| parts.procs(limits))
    }

    fn legacy_len(&self, bytes: &[u8]) -> Result<Option<Extent>, Error> {
        if !framing::is_ours(bytes) {
            return Ok(None);
        }
        Ok(Some(Extent {
            len: Frame::read(bytes)?.len(),
            terminator: Terminator::None,
        }))
    }

    fn explain(&self, value: &[u8]) -> Option<Explanation> {
        framing::is_ours(value).then(|| explain_string_form(value, &self.pcompress))
    }

    fn explain_regex(&self, regex: Regex2Ref<'_>) -> Option<Explanation> {
        (regex.kind == NAME).then(|| explain_regex2(regex.bytes, &self.pcompress))
    }
}

/// The length in bytes of the header of a zlib stream, and of its checksum.
const ZLIB_HEADER: usize = 2;

const ADLER: usize = 4;

/// Explains a value that has the tag.
pub(crate) fn explain_string_form(value: &[u8], pcompress: &Pcompress) -> Explanation {
    let mut explanation = Explanation::default();
    let frame = Frame::read_fields(value, |name, range| {
        let meaning = match name {
            "tag" => "scheme compress: a framed, compressed list follows".to_owned(),
            "label" => "fixed; it does not tell which compressor ran".to_owned(),
            _ => format!("{} bytes of payload", decimal(value, &range)),
        };
        explanation.field(range, name, meaning);
    });
    let read = frame.and_then(|frame| {
        let there = value.get(frame.header_len..).unwrap_or_default();
        let own = there.get(..frame.size).unwrap_or(there);
        let decoded = explain_payload(own, frame.header_len, pcompress, &mut explanation);
        // A wrong size may be the cause of a truncated stream, so it is reported first.
        frame.payload_of(value)?;
        decoded
    });
    explanation.fault = read.err();
    explanation
}

/// Explains the bytes of a `Regex2` of this scheme's type.
pub(crate) fn explain_regex2(bytes: &[u8], pcompress: &Pcompress) -> Explanation {
    let mut explanation = Explanation::default();
    explanation.fault = explain_payload(bytes, 0, pcompress, &mut explanation).err();
    explanation
}

fn explain_payload(
    payload: &[u8],
    base: usize,
    pcompress: &Pcompress,
    explanation: &mut Explanation,
) -> Result<(), Error> {
    let parts = Parts::split(payload, pcompress);
    if let Some(length) = payload.first_chunk::<LENGTH_BYTES>() {
        explanation.field(
            base..base + LENGTH_BYTES,
            "length",
            format!("{} bytes of list text", u32::from_le_bytes(*length)),
        );
    }
    let parts = parts.map_err(|e| e.shifted(base))?;
    let decoded = parts.inflate(&Limits::default());
    let stream = base + LENGTH_BYTES..base + payload.len();
    match parts.backend.format() {
        Format::Zlib => zlib_fields(parts.stream, stream, decoded.is_ok(), explanation),
        Format::Zstd => explanation.field(stream, "stream", "one zstd frame (RFC 8878)"),
    }
    decoded.map(|_| ()).map_err(|e| e.shifted(base))
}

/// Explains the parts of a stream that begins with a zlib header. The checksum is at the end, so it
/// is explained only if the stream is complete.
fn zlib_fields(stream: &[u8], at: Range<usize>, whole: bool, explanation: &mut Explanation) {
    let header = at.start..at.start + ZLIB_HEADER;
    explanation.field(header.clone(), "header", zlib_header(stream));
    let checksum = stream.last_chunk::<ADLER>().filter(|_| whole);
    let data_end = at.end - checksum.map_or(0, |c| c.len());
    explanation.field(
        header.end..data_end,
        "deflate",
        "the list, deflated (RFC 1951)",
    );
    if let Some(checksum) = checksum {
        explanation.field(
            data_end..at.end,
            "adler32",
            format!("{:#010x}, matches the list", u32::from_be_bytes(*checksum)),
        );
    }
}

fn zlib_header(stream: &[u8]) -> String {
    let [cmf, flg] = *stream.first_chunk::<ZLIB_HEADER>().unwrap_or(&[0, 0]);
    format!(
        "zlib stream (RFC 1950), window {} bytes, written with effort {} of 3",
        1_u32 << (u32::from(cmf >> 4) + 8),
        flg >> 6
    )
}

fn decimal(value: &[u8], field: &Range<usize>) -> String {
    let digits = value.get(field.clone()).unwrap_or_default();
    let digits = digits.iter().filter(|b| b.is_ascii_digit());
    digits.map(|b| char::from(*b)).collect()
}

/// The description of the component.
pub static COMPONENT: Component = Component {
    name: NAME,
    priority: 100,
    enabled: true,
    tag: TAG,
    about: "the list text, deflated; pays for long lists",
    params: PARAMS,
    query,
};

preg_core::inventory::submit! { Registration(&COMPONENT) }

const PARAMS: &[ParamSpec] = &[
    ParamSpec {
        name: "pcompress",
        default: "",
        help: "compression back ends to use (zlib, zstd, none), or with a leading ^ those not to use",
    },
    ParamSpec {
        name: "pcompress_base_limit",
        default: "4096",
        help: "compress lists of at least this many bytes; -1 never compresses and still reads",
    },
    ParamSpec {
        name: "pcompress_base_silence_warning",
        default: "false",
        help: "say nothing when there is no compression back end",
    },
    ParamSpec {
        name: "pcompress_zlib_enabled",
        default: "true",
        help: "whether the back end zlib is used, for reading too",
    },
    ParamSpec {
        name: "pcompress_zlib_priority",
        default: "50",
        help: "of the back ends that may write, the one with the highest priority does",
    },
    ParamSpec {
        name: "pcompress_zstd_enabled",
        default: "true",
        help: "whether the back end zstd is used, for reading too",
    },
    ParamSpec {
        name: "pcompress_zstd_priority",
        default: "90",
        help: "of the back ends that may write, the one with the highest priority does",
    },
    ParamSpec {
        name: "pcompress_zlib_level",
        default: "auto",
        help: "auto: chosen for lists; 1 to 9: the level of a general deflate encoder",
    },
    ParamSpec {
        name: "pcompress_zstd_write",
        default: "false",
        help: "write zstd instead of zlib; only peers built with zstd can read it",
    },
];

/// Creates the scheme, or returns `None` if there is no back end.
fn query(params: &Params) -> Result<Option<Box<dyn Scheme>>, Error> {
    let pcompress = Pcompress::select(params)?;
    if let Some(pcompress) = pcompress {
        return Ok(Some(Box::new(Compress::new(pcompress))));
    }
    if !params.flag("pcompress_base_silence_warning", false)? {
        tracing::warn!(
            "no compression back end is active (parameter pcompress, or built without one): \
             long lists are sent uncompressed and compressed values of peers cannot be read; \
             pcompress_base_silence_warning = true silences this"
        );
    }
    Ok(None)
}

#[cfg(all(test, feature = "zlib"))]
mod tests;
