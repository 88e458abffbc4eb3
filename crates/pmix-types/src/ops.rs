// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operations on values, infos, names and lists of strings (the extension document of OpenPMIx,
//! headings "Utility APIs" to "PMIx Info List Functions").
//!
//! The functions that manage memory in C (`_construct`, `_create`, `_destruct`, `_free`,
//! `_release`) correspond to `Default`, `Vec` and ownership; `_xfer` and `_copy` correspond to
//! `Clone` or [`IntoOwned`](crate::IntoOwned).

mod argv;
mod cluster;
mod compare;
mod directives;
mod environ;
mod error;
mod info_list;
mod load;
mod names;
mod number;
mod qualified;
mod size;
mod truth;
mod unload;

pub use argv::Argv;
pub use compare::ValueComparison;
pub use error::ValueError;
pub use info_list::InfoList;
pub use number::Numeric;
pub use qualified::QualifiedValue;
pub use truth::Truth;
pub use unload::Datum;
