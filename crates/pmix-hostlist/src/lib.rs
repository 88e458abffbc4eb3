// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists of host names as people and resource managers write them, to and from folded node lists.
//!
//! | written | stands for |
//! | --- | --- |
//! | `n1,n2 n3` | three names: a comma, blanks or line ends separate them |
//! | `a,,b` | three names, the second one empty |
//! | `n[8-10]` | `n8`, `n9`, `n10` |
//! | `n[08-10,20]` | `n08`, `n09`, `n10`, `n20`: the first number of a range says how many digits |
//! | `n[0-10/5]` | `n0`, `n5`, `n10` |
//! | `r[1-2]n[1-2]` | `r1n1`, `r1n2`, `r2n1`, `r2n2`: the rightmost bracket counts fastest |
//!
//! Slurm counts three and more brackets in another order, which [`parse_notation`] knows.
//!
//! [`parse_hostfile`], [`parse_mcpu_hosts`] and [`parse_slurm`] read what tells slots besides nodes, and
//! [`lay_out`] gives the slots ranks.
//!
//! Order and duplicates are kept. [`parse`] folds while it reads, so that a range costs as much as one
//! name, and every number is checked against [`Limits`] before anything is made of it. [`write()`] writes
//! a list in the dialect of a reader ([`Notation`]); what it writes is read back as the same list.
//!
//! ```
//! use pmix_hostlist::{Notation, parse, write};
//! use pmix_map::Limits;
//!
//! let list = parse(b"n[0001-1000],login", &Limits::default())?;
//! assert_eq!(list.len(), 1001);
//! assert_eq!(list.position(b"n0777"), Some(776));
//! assert_eq!(write(&list, Notation::Slurm)?, b"n[0001-1000],login");
//! let error = parse(b"n[1-x]", &Limits::default()).unwrap_err();
//! assert_eq!(error.offset(), Some(4));
//! # Ok::<(), pmix_hostlist::Error>(())
//! ```
//!
//! Source: `scontrol show hostnames` of Slurm 22.05 and NodeSet of ClusterShell for what is written; both
//! are read, and steps as ClusterShell has them.
#![forbid(unsafe_code)]

mod allocation;
mod brackets;
mod error;
mod notation;
mod procs;
mod range;
mod separators;
mod slots;
mod write;

pub use allocation::{Allocation, has_slots, parse_hostfile, parse_mcpu_hosts, parse_slurm};
pub use error::Error;
pub use notation::Notation;
pub use pmix_map::{Limits, NodeList};
pub use procs::{write_procs, write_ranks};
pub use separators::normalise;
pub use slots::{Layout, Slots, lay_out};
pub use write::write;

/// Returns whether a byte separates names as a blank does: ASCII white space and the vertical tab.
#[must_use]
pub const fn is_blank(byte: u8) -> bool {
    byte == b'\x0b' || byte.is_ascii_whitespace()
}

/// Reads a list, in which every byte belongs to a name or separates names.
///
/// # Errors
/// `PMIX_ERR_BAD_PARAM` with the byte for a bracket that is not closed, not opened or holds no numbers;
/// `PMIX_ERR_OUT_OF_RESOURCE` beyond the limits.
pub fn parse(text: &[u8], limits: &Limits) -> Result<NodeList, Error> {
    read(text, false, Notation::ClusterShell, limits)
}

/// Reads a list from a file, in which `#` at the front of a line or behind a blank begins a comment that
/// ends with its line.
///
/// # Errors
/// As [`parse`].
pub fn parse_file(text: &[u8], limits: &Limits) -> Result<NodeList, Error> {
    read(text, true, Notation::ClusterShell, limits)
}

/// Reads a list as [`parse`], or as [`parse_file`] where it has comments, with the names of three and more
/// brackets in the order in which the writer of that notation counts them.
///
/// # Errors
/// As [`parse`].
pub fn parse_notation(
    text: &[u8],
    comments: bool,
    notation: Notation,
    limits: &Limits,
) -> Result<NodeList, Error> {
    read(text, comments, notation, limits)
}

fn read(
    text: &[u8],
    comments: bool,
    notation: Notation,
    limits: &Limits,
) -> Result<NodeList, Error> {
    if memchr::memchr2(b'[', b']', text).is_some() {
        return brackets::expand(text, comments, notation, limits);
    }
    let mut text = text.to_vec();
    normalise(&mut text, comments);
    NodeList::parse_text(&text, limits).map_err(Error::from)
}
