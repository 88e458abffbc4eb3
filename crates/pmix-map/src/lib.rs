// SPDX-License-Identifier: MIT OR Apache-2.0
//! Folded node maps and process maps.
//!
//! A [`NodeList`] is an ordered list of host names. A [`ProcMap`] has the ranks of each node, in
//! node order. Both are stored folded, and no query expands them:
//!
//! | query | cost |
//! | --- | --- |
//! | how many names, nodes, ranks, bytes of text | constant |
//! | [`NodeList::nth`], [`ProcMap::ranks_of`] | a binary search over blocks |
//! | [`NodeList::position`], [`ProcMap::node_of`] | a hash and a few binary searches; the first query builds the index from the blocks |
//! | [`NodeListBuilder::progression`] of any count | as for one name |
//! | expansion to text | a few nanoseconds a name or rank |
//!
//! A million consecutive names are one block. So are a million Cray xnames, and a block or cyclic
//! map of any size. Irregular lists take about as much memory as their text.
//!
//! Names are bytes, not text: any byte but the separator is allowed. Order, duplicates and empty
//! names are kept. Two maps are equal if they have the same names or ranks in the same order, even
//! if their blocks differ. [`Limits`] are checked before anything is stored. All reads take `&self`
//! and may run on any number of threads at once.
//!
//! [`rank_faults`] and [`duplicate_names`] find faults in maps: missing and doubled ranks, repeated
//! names. The crate `pmix-hostlist` reads lists of names in users' notations, such as `n[1-4]`.
//!
//! The crate contains no encodings: schemes build maps through [`NodeListBuilder`] and
//! [`ProcMapBuilder`], read them through [`NodeList::for_each_run`] and [`ProcMap::blocks`], and
//! share the inner loops of [`scan`]. `cargo bench -p pmix-map` measures the cost of maps.
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
mod node_list;
mod parser;
mod proc_map;
pub mod scan;

pub use error::{Error, Limits};
pub use faults::{DuplicateName, RankFault, RankPlace, RankSpan, duplicate_names, rank_faults};
pub use node_list::{NodeList, NodeListBuilder, NodeRun, Progression};
pub use parser::MapParser;
pub use proc_map::{ProcBlock, ProcMap, ProcMapBuilder, RankRun, Ranks};
