// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one error type of this crate.

use std::fmt;

use pmix_types::Status;

/// Says why a list could not be read or written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The text is no list.
    Syntax {
        /// The byte at fault.
        offset: usize,
        /// What is wrong with it.
        message: String,
        /// What to write instead.
        hint: &'static str,
    },
    /// The list exceeds a limit, or holds something that no node list can.
    Map(pmix_map::Error),
    /// The list has a name that cannot be written so that it is read back.
    Unwritable {
        /// The name.
        name: Vec<u8>,
    },
}

impl Error {
    #[cold]
    pub(crate) fn syntax(offset: usize, message: impl Into<String>, hint: &'static str) -> Self {
        Self::Syntax {
            offset,
            message: message.into(),
            hint,
        }
    }

    /// The same fault, of a part in front of which so many bytes stand.
    pub(crate) fn behind(self, start: usize) -> Self {
        match self {
            Self::Syntax {
                offset,
                message,
                hint,
            } => Self::Syntax {
                offset: offset.saturating_add(start),
                message,
                hint,
            },
            other => other,
        }
    }

    /// Returns the PMIx status of this error: `PMIX_ERR_BAD_PARAM` for text that is no list,
    /// `PMIX_ERR_OUT_OF_RESOURCE` beyond a limit, `PMIX_ERR_NOT_SUPPORTED` for what cannot be written.
    #[must_use]
    pub fn status(&self) -> Status {
        match self {
            Self::Syntax { .. } => Status::ERR_BAD_PARAM,
            Self::Map(error) => error.status(),
            Self::Unwritable { .. } => Status::ERR_NOT_SUPPORTED,
        }
    }

    /// Returns the byte at fault in what was read, if it was one.
    #[must_use]
    pub fn offset(&self) -> Option<usize> {
        match self {
            Self::Syntax { offset, .. } => Some(*offset),
            Self::Map(error) => error.offset(),
            Self::Unwritable { .. } => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax {
                offset,
                message,
                hint,
            } => write!(f, "{message} (byte {offset}); {hint}"),
            Self::Map(error) => fmt::Display::fmt(error, f),
            Self::Unwritable { name } => {
                let name = name.escape_ascii();
                write!(f, "the name `{name}` cannot stand in a bracket list")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Map(error) => Some(error),
            _ => None,
        }
    }
}

impl From<pmix_map::Error> for Error {
    fn from(error: pmix_map::Error) -> Self {
        Self::Map(error)
    }
}
