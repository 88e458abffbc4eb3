// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists of host names in the notations of users and resource managers, converted to and from
//! folded node lists.
//!
//! | text | names |
//! | --- | --- |
//! | `n1,n2 n3` | three names: a comma, blanks or line ends separate them |
//! | `a,,b` | three names, the second one empty |
//! | `n[8-10]` | `n8`, `n9`, `n10` |
//! | `n[08-10,20]` | `n08`, `n09`, `n10`, `n20`: the first number of a range determines the digits |
//! | `n[0-10/5]` | `n0`, `n5`, `n10` |
//! | `r[1-2]n[1-2]` | `r1n1`, `r1n2`, `r2n1`, `r2n2`: the rightmost bracket counts fastest |
//!
//! Slurm orders the names of three and more brackets differently; [`parse_notation`] supports it.
//!
//! [`terms`] splits lists with operators, like `n[1-9]!n3`, and with groups, like `@compute`.
//!
//! [`parse_hostfile`], [`parse_hosts`], [`parse_mcpu_hosts`] and [`parse_slurm`] parse formats with nodes and their
//! slots. [`lay_out`] assigns ranks to the slots.
//!
//! Order and duplicates are kept. [`parse`] folds while it parses, so that a range costs as much as
//! one name. Every number is compared with [`Limits`] before memory is allocated for it.
//! [`write()`] writes a list for a reader ([`Notation`]); parsing its output gives the same list.
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
//! Source: `scontrol show hostnames` of Slurm 22.05 and NodeSet of ClusterShell for the output. The
//! notations of both are parsed, including the steps of ClusterShell.
#![forbid(unsafe_code)]

mod allocation;
mod brackets;
mod error;
mod positions;
mod range;
mod separators;
mod slots;
mod terms;
mod write;

pub use allocation::{
    Allocation, has_slots, parse_hostfile, parse_hosts, parse_mcpu_hosts, parse_slurm,
};
pub use brackets::Notation;
pub use error::Error;
pub use pmix_map::{Limits, NodeList};
pub use positions::{Positions, parse_positions};
pub use separators::normalise;
pub use slots::{Layout, Slots, lay_out};
pub use terms::{Operator, Term, terms};
pub use write::{write, write_procs, write_ranks};

/// Returns `true` for a byte that separates names like a blank: ASCII white space or the vertical
/// tab.
#[must_use]
pub const fn is_blank(byte: u8) -> bool {
    byte == b'\x0b' || byte.is_ascii_whitespace()
}

/// Parses a list without comments.
///
/// # Errors
/// `PMIX_ERR_BAD_PARAM` with the offset of a bracket that is not closed, not opened or contains no
/// numbers; `PMIX_ERR_OUT_OF_RESOURCE` beyond the limits.
pub fn parse(text: &[u8], limits: &Limits) -> Result<NodeList, Error> {
    read(text, false, Notation::ClusterShell, limits)
}

/// Parses a list from a file, in which `#` at the start of a line or after a blank begins a comment
/// up to the end of the line.
///
/// # Errors
/// As for [`parse`].
pub fn parse_file(text: &[u8], limits: &Limits) -> Result<NodeList, Error> {
    read(text, true, Notation::ClusterShell, limits)
}

/// Parses a list like [`parse`], or like [`parse_file`] with `comments`. Names from three and more
/// brackets are in the order of the notation.
///
/// # Errors
/// As for [`parse`].
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
