// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operations on values, infos, names and lists of strings (the extension document of OpenPMIx,
//! headings "Utility APIs" to "PMIx Info List Functions").
//!
//! The functions that manage memory in C (`_construct`, `_create`, `_destruct`, `_free`,
//! `_release`) correspond to `Default`, `Vec` and ownership; `_xfer` and `_copy` correspond to
//! `Clone` or [`IntoOwned`](crate::IntoOwned).

mod argv;
mod compare;
mod info_list;
mod load;
mod names;
mod number;
mod qualified;
mod size;
mod truth;

use std::fmt;

use crate::{DataType, Status};

pub use argv::Argv;
pub use compare::ValueComparison;
pub use info_list::InfoList;
pub use load::Datum;
pub use number::Numeric;
pub use qualified::QualifiedValue;
pub use truth::Truth;

// The error of operations on values.
//
// Source: PMIx Standard, chapter "Data Structures and Types", for the statuses that the functions
// of `ops` return.

/// The reason for which an operation on a value, an info or an environment was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueError(ValueErrorKind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum ValueErrorKind {
    /// The datum has a type other than the requested one.
    Mismatch { expected: DataType, found: DataType },
    /// One of the types is not numeric, or both are numbers with a meaning of their own, such as
    /// ranks.
    NotConvertible { from: DataType, to: DataType },
    /// A negative number for an unsigned type.
    SignChanges { from: DataType, to: DataType },
    /// A number outside of the range of the type.
    OutOfRange { from: DataType, to: DataType },
    /// A datum of the type has no size.
    NoSize(DataType),
    /// The variable is set, and the caller does not overwrite it.
    VariableExists,
    /// The variable is not set.
    NoVariable,
    /// The info is not a qualified value, for the given reason.
    NotQualified(&'static str),
}

impl ValueError {
    /// Returns the status that the C function of the same operation returns.
    #[must_use]
    pub const fn status(&self) -> Status {
        match self.0 {
            ValueErrorKind::Mismatch { found, .. } if found.as_raw() == 0 => {
                Status::ERR_UNKNOWN_DATA_TYPE
            }
            ValueErrorKind::Mismatch { .. } => Status::ERR_TYPE_MISMATCH,
            ValueErrorKind::NotConvertible { .. } => Status::ERR_BAD_PARAM,
            ValueErrorKind::SignChanges { .. } => Status::ERR_CHANGE_SIGN,
            ValueErrorKind::OutOfRange { .. } => Status::ERR_LOST_PRECISION,
            ValueErrorKind::NoSize(_) => Status::ERR_UNKNOWN_DATA_TYPE,
            ValueErrorKind::VariableExists => Status::ERR_EXISTS,
            ValueErrorKind::NoVariable => Status::ERR_NOT_FOUND,
            ValueErrorKind::NotQualified(_) => Status::ERR_BAD_PARAM,
        }
    }

    const fn mismatch(expected: DataType, found: DataType) -> Self {
        Self(ValueErrorKind::Mismatch { expected, found })
    }
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            ValueErrorKind::Mismatch { expected, found } => {
                write!(f, "expected a datum of type {expected}, found {found}")
            }
            ValueErrorKind::NotConvertible { from, to } => {
                write!(f, "a datum of type {from} does not convert to {to}")
            }
            ValueErrorKind::SignChanges { from, to } => {
                write!(f, "the {from} is below zero, which {to} cannot hold")
            }
            ValueErrorKind::OutOfRange { from, to } => {
                write!(f, "the {from} is outside of what {to} holds")
            }
            ValueErrorKind::NoSize(data_type) => {
                write!(f, "a datum of type {data_type} has no size")
            }
            ValueErrorKind::VariableExists => {
                f.write_str("the variable is set and is not to be overwritten")
            }
            ValueErrorKind::NoVariable => f.write_str("the variable is not set"),
            ValueErrorKind::NotQualified(why) => write!(f, "not a qualified value: {why}"),
        }
    }
}

impl std::error::Error for ValueError {}
