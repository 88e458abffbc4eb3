// SPDX-License-Identifier: MIT OR Apache-2.0
//! The compress scheme: deflated list text.
//!
//! It is best for long lists and has the highest priority. It compresses the plain list of node and
//! process maps, never the range notation. It always writes a zlib stream, which every release
//! since 5.0 parses. It decodes zlib and zstd streams and distinguishes them by their first bytes.
//!
//! # Layout of a value (frozen: append only)
//!
//! The string form (since OpenPMIx 4.0; 4.2.2 writes the form but cannot parse it):
//!
//! | field | bytes | meaning |
//! | --- | --- | --- |
//! | tag | `blob:` NUL | |
//! | label | `component=zlib:` NUL | fixed; newer releases write it for every compressor |
//! | size | `size=` decimal digits `:` NUL | bytes of the payload, including its length field |
//! | payload | as the size field says | see below; no terminator follows |
//!
//! The payload, which alone is the [`Regex2`](preg_core::Regex2) form of type `compress` (since the
//! release that introduced `pmix_regex2_t`):
//!
//! | field | type | byte order | meaning |
//! | --- | --- | --- | --- |
//! | length | u32 | the writer's; read and written here as little endian | bytes of the list text, without a terminator |
//! | stream | bytes | RFC 1950 | one complete zlib stream of the text, Adler-32 included |
//!
//! A value is rejected if bytes are missing or left over, or if a length does not match: a list is
//! restored exactly or not at all. Memory grows with the decoded bytes, not with a length in the
//! value.
//!
//! ```
//! use preg_compress::COMPONENT;
//! use preg_core::{Limits, Params};
//!
//! let list = (0..10_000).map(|n| format!("node{n:05}")).collect::<Vec<_>>().join(",");
//! if let Some(scheme) = (COMPONENT.query)(&Params::default())? {
//!     let value = scheme.generate_node_regex(list.as_bytes())?.expect("it shrinks");
//!     assert!(value.starts_with(b"blob:\0component=zlib:\0size="));
//!     assert!(value.len() < list.len() / 8);
//!     let nodes = scheme.parse_nodes(&value, &Limits::default())?.expect("its own value");
//!     assert_eq!(nodes.len(), 10_000);
//! }
//! # Ok::<(), preg_core::Error>(())
//! ```
#![forbid(unsafe_code)]

#[cfg(feature = "zlib")]
mod deflate;
mod framing;
mod payload;
mod pcompress;
mod scheme;

pub use scheme::COMPONENT;
