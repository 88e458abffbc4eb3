// SPDX-License-Identifier: MIT OR Apache-2.0
//! The error type of this crate.

use std::fmt;

use pmix_types::{ErrorDetail, Status};

/// The reason for which a list could not be parsed or written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    detail: Box<ErrorDetail>,
    hint: Option<&'static str>,
    name: Option<Vec<u8>>,
}

impl Error {
    /// Creates an error for invalid text at an offset.
    #[cold]
    pub(crate) fn syntax(offset: usize, message: impl Into<String>, hint: &'static str) -> Self {
        let detail = ErrorDetail::new(Status::ERR_BAD_PARAM, message).at(offset);
        Self {
            detail: Box::new(detail),
            hint: Some(hint),
            name: None,
        }
    }

    /// Creates an error for a name that the notation cannot represent.
    #[cold]
    pub(crate) fn unwritable(name: &[u8]) -> Self {
        let message = format!(
            "the name `{}` cannot be written in a bracket list",
            name.escape_ascii()
        );
        Self {
            detail: Box::new(ErrorDetail::new(Status::ERR_NOT_SUPPORTED, message)),
            hint: None,
            name: Some(name.to_vec()),
        }
    }

    /// Adds `start` to the offset: the error is about a part of the input that begins at `start`.
    #[must_use]
    pub fn shifted_by(self, start: usize) -> Self {
        Self {
            detail: Box::new(self.detail.shifted_by(start)),
            ..self
        }
    }

    /// Returns the error of [`pmix_map`], if that is the cause.
    fn of_map(&self) -> Option<&pmix_map::Error> {
        self.cause()?.downcast_ref()
    }

    /// Returns the [`pmix_map::Error`] of a list that exceeds a limit or contains data that no node
    /// list can. The text of this error includes its text.
    #[must_use]
    pub fn cause(&self) -> Option<&(dyn std::error::Error + Send + Sync + 'static)> {
        self.detail.cause()
    }

    /// Returns the PMIx status of this error: `PMIX_ERR_BAD_PARAM` for invalid text,
    /// `PMIX_ERR_OUT_OF_RESOURCE` beyond a limit, `PMIX_ERR_NOT_SUPPORTED` for names that cannot be
    /// written.
    #[must_use]
    pub fn status(&self) -> Status {
        self.detail.status()
    }

    /// Returns the offset of the faulty byte in the input, if there is one.
    #[must_use]
    pub fn offset(&self) -> Option<usize> {
        let of_map = || self.of_map().and_then(pmix_map::Error::offset);
        self.detail.offset().or_else(of_map)
    }

    /// Returns the message without the offset and the hint.
    #[must_use]
    pub fn message(&self) -> &str {
        let of_map = self.of_map().map(pmix_map::Error::message);
        of_map.unwrap_or_else(|| self.detail.message())
    }

    /// Returns a hint about the correct notation, if the text is invalid.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        self.hint
    }

    /// Returns the name that cannot be written, if that is the error.
    #[must_use]
    pub fn name(&self) -> Option<&[u8]> {
        self.name.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.detail, f)?;
        match self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

/// The text includes the cause, so there is no `source`.
impl std::error::Error for Error {}

impl From<pmix_map::Error> for Error {
    #[cold]
    fn from(error: pmix_map::Error) -> Self {
        Self {
            detail: Box::new(ErrorDetail::passed_on(error.status(), error)),
            hint: None,
            name: None,
        }
    }
}

#[cfg(test)]
mod tests {

    use pmix_map::Limits;

    use super::*;
    use crate::{Notation, parse, write};

    #[test]
    fn display_has_message_offset_and_hint() {
        let error = parse(b"a,n[1-x]", &Limits::default()).unwrap_err();
        assert_eq!(
            (error.status(), error.offset()),
            (Status::ERR_BAD_PARAM, Some(6))
        );
        let (message, hint) = (error.message(), error.hint().unwrap());
        assert_eq!(error.to_string(), format!("{message} at byte 6; {hint}"));
        assert_eq!(error.name(), None);
    }

    #[test]
    fn an_exceeded_limit_is_the_cause() {
        let limits = Limits {
            max_nodes: 3,
            ..Limits::default()
        };
        let error = parse(b"n[1-9]", &limits).unwrap_err();
        let cause = error.cause().unwrap().downcast_ref::<pmix_map::Error>();
        assert_eq!(cause.unwrap().exceeded(), Some("max_nodes"));
        assert_eq!(error.status(), Status::ERR_OUT_OF_RESOURCE);
        assert_eq!(error.to_string(), cause.unwrap().to_string());
        assert_eq!(error.offset(), Some(0));
        assert_eq!(error.message(), cause.unwrap().message());
    }

    #[test]
    fn names_that_cannot_be_written_are_in_the_error() {
        let mut names = pmix_map::NodeListBuilder::new(&Limits::default());
        names.name(b"a[b").unwrap();
        let error = write(&names.finish(), Notation::Slurm).unwrap_err();
        assert_eq!(error.name(), Some(&b"a[b"[..]));
        assert_eq!(
            (error.status(), error.hint()),
            (Status::ERR_NOT_SUPPORTED, None)
        );
    }
}
