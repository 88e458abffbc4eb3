// SPDX-License-Identifier: MIT OR Apache-2.0
//! Node maps and process maps, folded.
//!
//! A [`NodeList`] is an ordered list of host names, a [`ProcMap`] the ranks of each node in node
//! order. Both are kept as runs, so a regular map of a million nodes costs a handful of bytes,
//! and both answer every question without expanding. Names are bytes, not text: any byte but the
//! separator is allowed, order, duplicates and empty names are kept.
//!
//! The crate knows nothing of encodings: schemes build maps through [`NodeListBuilder`] and
//! [`ProcMapBuilder`], and [`scan`] has the inner loops that they share.
//!
//! ```
//! use pmix_map::{Limits, NodeList};
//! let list = NodeList::parse_text(b"n8,n9,n10,login", &Limits::default())?;
//! assert_eq!(list.len(), 4);
//! assert_eq!(list.nth(2).as_deref(), Some(&b"n10"[..]));
//! assert_eq!(list.position(b"login"), Some(3));
//! # Ok::<(), pmix_map::Error>(())
//! ```
#![forbid(unsafe_code)]

mod error;
mod lattice;
mod limits;
mod node_list;
mod proc_map;
pub mod scan;
mod stab;

pub use error::Error;
pub use limits::Limits;
pub use node_list::{NodeList, NodeListBuilder, NodeRun, Progression};
pub use pmix_types::Rank;
pub use proc_map::{ProcBlock, ProcMap, ProcMapBuilder, RankRun, Ranks};
