// SPDX-License-Identifier: MIT OR Apache-2.0
//! Node maps and process maps, folded.
//!
//! A [`NodeList`] is an ordered list of host names, a [`ProcMap`] the ranks of each node in node
//! order. Both are kept folded and answer every question without expanding:
//!
//! | question | cost |
//! | --- | --- |
//! | how many names, nodes, ranks, bytes of text | none |
//! | [`NodeList::nth`], [`ProcMap::ranks_of`] | a binary search over blocks |
//! | [`NodeList::position`], [`ProcMap::node_of`] | a hash and a few binary searches, after an index that the first question builds from the blocks |
//! | [`NodeListBuilder::progression`] of any count | that of one name |
//! | expanding to text | a few nanoseconds a name or rank |
//!
//! A million names of one run are one block, and so are a million Cray x-names or a block or
//! cyclic map of any size. What follows no rule costs about as much as its text.
//!
//! Names are bytes, not text: any byte but the separator is allowed; order, duplicates and empty
//! names are kept. Equality means the same names or ranks in the same order, however folded.
//! [`Limits`] are checked before anything is stored. All reads go through `&self` and may run on
//! any number of threads at once.
//!
//! [`rank_faults`] and [`duplicate_names`] say what is wrong with maps: ranks that are missing or there twice,
//! names that occur again. Lists of names as people write them, `n[1-4]`, are read by `pmix-hostlist`.
//!
//! The crate knows nothing of encodings: schemes build maps through [`NodeListBuilder`] and
//! [`ProcMapBuilder`], read them through [`NodeList::for_each_run`] and [`ProcMap::blocks`], and
//! share the inner loops of [`scan`]. What a map costs is measured by `cargo bench -p pmix-map`.
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
mod faults;
mod lattice;
mod lattice_index;
mod limits;
mod node_list;
mod parser;
mod proc_map;
pub mod scan;

pub use error::Error;
pub use faults::{DuplicateName, RankFault, RankPlace, RankSpan, duplicate_names, rank_faults};
pub use limits::Limits;
pub use node_list::{NodeList, NodeListBuilder, NodeRun, Progression};
pub use parser::MapParser;
pub use proc_map::{ProcBlock, ProcMap, ProcMapBuilder, RankRun, Ranks};
