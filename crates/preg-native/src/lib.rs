// SPDX-License-Identifier: MIT OR Apache-2.0
//! The native scheme: node maps as `pmix[prefix[width:ranges]suffix,...]`, process maps as
//! `pmix[0-3;4-7]`.
//!
//! The scheme parses all values that OpenPMIx 4.2.2, 5.0.11 and their successors write in this
//! form. Text outside of the grammar is an error with an offset, so damaged values never become
//! names.
//!
//! The scheme writes the shortest text of the grammar for a list in its order: verbatim names, and
//! groups on one numeric field each. OpenPMIx parses this text correctly, although its own
//! generator only folds on the first number. The scheme declines lists that OpenPMIx could not
//! parse. These are lists with empty names, with brackets or NULs in names, and process maps with
//! empty nodes.
//!
//! ```text
//! map     := "pmix[" element ("," element)* "]"          node map
//!          | "pmix[" node (";" node)* "]"                process map
//! element := name                                        verbatim, without "["
//!          | prefix "[" width ":" range ("," range)* "]" suffix
//! node    := [ranks ("," ranks)*]
//! range, ranks := number | number "-" number
//! ```
//!
//! `width` is the number of digits to which a number is padded with zeros. Specification: OpenPMIx
//! `regex.rst`, "native".
//!
//! # Compatibility with peers
//! OpenPMIx up to and including 6.1 parses the string form. Later releases have no parser for it
//! and split it at commas. OpenPMIx 4.2.2 parses this form, `raw` and plain lists, but no
//! compressed values. A job with such peers therefore needs one of two settings. With
//! `PMIX_MCA_preg=^compress`, values are `raw`, which has the higher priority. With
//! `PMIX_MCA_preg=native`, values have this form, or are plain lists if this scheme declines. No
//! OpenPMIx parses a regex2 of type `pmix`: it is only written if `preg_native_regex2` is true, but
//! it is always parsed.
//!
//! ```
//! use preg_core::{Limits, Params};
//! let scheme = (preg_native::COMPONENT.query)(&Params::default())?.expect("always available");
//! let map = scheme.generate_node_regex(b"odin009,odin010,odin011,odin017,thor176")?;
//! assert_eq!(map.as_deref(), Some(&b"pmix[odin[3:9-11,17],thor176]"[..]));
//! let nodes = scheme.parse_nodes(b"pmix[n[7:1-1000000]]", &Limits::default())?;
//! assert_eq!(nodes.map(|n| n.len()), Some(1_000_000));
//! # Ok::<(), preg_core::Error>(())
//! ```
#![forbid(unsafe_code)]

mod block;
mod explain;
mod fold;
mod grammar;
mod groups;
mod parse;
mod procs;
mod scheme;
mod settled;

pub use scheme::COMPONENT;
