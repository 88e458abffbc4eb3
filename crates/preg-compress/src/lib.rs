// SPDX-License-Identifier: MIT OR Apache-2.0
//! The compress scheme: the list text, deflated.
//!
//! It pays for long lists and is the first that is asked. What is compressed is the plain list,
//! for node and process maps alike, never the range notation. The scheme does not choose between
//! peers' compressors: what it writes is always a zlib stream, which every release since 5.0
//! reads; only reading tells back ends apart, by content.
//!
//! # Layout of a value (frozen: append only)
//!
//! The string form (since OpenPMIx 4.0; 4.2.2 writes the form and cannot read it back):
//!
//! | field | bytes | what |
//! | --- | --- | --- |
//! | tag | `blob:` NUL | |
//! | label | `component=zlib:` NUL | fixed; newer releases write it whatever compressor ran |
//! | size | `size=` decimal digits `:` NUL | bytes of the payload, its length field included |
//! | payload | as the size field says | see below; no terminator follows |
//!
//! The payload, which alone is the [`Regex2`](preg_core::Regex2) form of type `compress` (since
//! the release that brought `pmix_regex2_t`):
//!
//! | field | type | byte order | what |
//! | --- | --- | --- | --- |
//! | length | u32 | the writer's; read and written here as little endian | bytes of the list text, no terminator counted |
//! | stream | bytes | RFC 1950 | one complete zlib stream of the text, Adler-32 included |
//!
//! Values are refused, with the byte offset, when anything is missing, left over, or other than
//! declared: a list is returned as it was written or not at all. Memory follows the bytes that
//! were really decoded, never a length that a peer claims.
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

mod component;
mod damage;
#[cfg(feature = "zlib")]
mod deflate;
mod explain;
mod framing;
mod payload;
mod pcompress;
mod scheme;

pub use component::COMPONENT;
