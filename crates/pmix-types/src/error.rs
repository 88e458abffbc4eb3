// SPDX-License-Identifier: MIT OR Apache-2.0
//! The content shared by the error types of all crates.
//!
//! Source: PMIx Standard, chapter "Data Structures and Types", for the statuses; the other fields
//! are this project's own.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use crate::Status;

/// The content of an error: status, message, place, offset and cause.
///
/// Each crate has its own error type, declared by [`error_type!`](crate::error_type), which is a
/// pointer to an `ErrorDetail`. `Display` prints the whole content in one line, including the
/// cause. [`cause`](Self::cause) returns the cause with its original type. `source()` returns
/// `None`, so that a program that prints the chain of an error prints each cause once. Two errors
/// are equal if their status and text are equal.
#[derive(Clone)]
pub struct ErrorDetail {
    status: Status,
    place: String,
    what: String,
    offset: Option<usize>,
    exceeded: Option<&'static str>,
    cause: Option<Arc<dyn Error + Send + Sync>>,
}

impl ErrorDetail {
    /// Creates an error from a message: a lower-case fragment that names the fault and what to do.
    #[cold]
    pub fn new(status: Status, what: impl Into<String>) -> Self {
        Self {
            status,
            place: String::new(),
            what: what.into(),
            offset: None,
            exceeded: None,
            cause: None,
        }
    }

    /// Creates an error for an operation that failed because of `cause`.
    #[cold]
    pub fn caused(
        status: Status,
        what: impl fmt::Display,
        cause: impl Error + Send + Sync + 'static,
    ) -> Self {
        let what = format!("{what}: {cause}");
        Self {
            cause: Some(Arc::new(cause)),
            ..Self::new(status, what)
        }
    }

    /// Creates an error that has the text of an error from a lower layer, and keeps that error as
    /// the cause.
    #[cold]
    pub fn passed_on(status: Status, cause: impl Error + Send + Sync + 'static) -> Self {
        let what = cause.to_string();
        Self {
            cause: Some(Arc::new(cause)),
            ..Self::new(status, what)
        }
    }

    /// Returns the cause with its original type.
    #[must_use]
    pub fn cause(&self) -> Option<&(dyn Error + Send + Sync + 'static)> {
        self.cause.as_deref()
    }

    /// Replaces the status.
    #[must_use]
    pub fn with_status(mut self, status: Status) -> Self {
        self.status = status;
        self
    }

    /// Sets the offset of the faulty byte in the input.
    #[must_use]
    pub fn at(mut self, offset: usize) -> Self {
        self.offset = Some(offset);
        self
    }

    /// Adds `start` to the offset: the error is about bytes that begin there in a larger input.
    #[must_use]
    pub fn shifted_by(mut self, start: usize) -> Self {
        self.offset = self.offset.map(|offset| offset.saturating_add(start));
        self
    }

    /// Sets the place: the path of the invalid part of the input.
    #[must_use]
    pub fn with_place(mut self, place: impl Into<String>) -> Self {
        self.place = place.into();
        self
    }

    /// Prefixes the place with an enclosing part of the input.
    #[must_use]
    pub fn inside(mut self, outer: impl fmt::Display) -> Self {
        self.place = match self.place.is_empty() {
            true => outer.to_string(),
            false => format!("{outer} {}", self.place),
        };
        self
    }

    /// Names the setting that raises the exceeded limit.
    #[must_use]
    pub fn exceeding(mut self, limit: &'static str) -> Self {
        self.exceeded = Some(limit);
        self
    }

    /// Returns the PMIx status.
    #[must_use]
    pub const fn status(&self) -> Status {
        self.status
    }

    /// Returns the path of the invalid part, outermost part first. It is empty if none was set.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Returns the name of the setting that raises the exceeded limit, if the error is about such a
    /// limit.
    #[must_use]
    pub const fn exceeded(&self) -> Option<&'static str> {
        self.exceeded
    }

    /// Returns the message without place, limit and offset.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.what
    }

    /// Returns the offset of the faulty byte in the input, or `None` if nothing was read.
    #[must_use]
    pub const fn offset(&self) -> Option<usize> {
        self.offset
    }
}

impl PartialEq for ErrorDetail {
    fn eq(&self, other: &Self) -> bool {
        let said = |one: &Self| (one.status, one.offset);
        said(self) == said(other)
            && self.place == other.place
            && self.what == other.what
            && self.exceeded == other.exceeded
    }
}

impl Eq for ErrorDetail {}

impl fmt::Display for ErrorDetail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.place.is_empty() {
            write!(f, "{}: ", self.place)?;
        }
        f.write_str(&self.what)?;
        if let Some(limit) = self.exceeded {
            write!(f, "; raise {limit} if this is meant")?;
        }
        match self.offset {
            Some(offset) => write!(f, " at byte {offset}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for ErrorDetail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} ({})", self.status)
    }
}

/// The text includes the cause, so there is no `source`.
impl Error for ErrorDetail {}

/// Declares the error type of a crate: a pointer to an [`ErrorDetail`].
///
/// The error types of lower layers that are listed after `passes on` convert into it: their status
/// and text are kept, and they become its cause.
///
/// ```
/// use pmix_types::{ErrorDetail, Status};
///
/// pmix_types::error_type! {
///     /// The reason that a file of this crate was not read.
///     pub struct Error;
///     passes on pmix_types::ValueError;
/// }
///
/// let cause = std::io::Error::from(std::io::ErrorKind::NotFound);
/// let error = Error::from(ErrorDetail::caused(Status::ERR_NOT_FOUND, "job.json", cause));
/// assert_eq!(error.status(), Status::ERR_NOT_FOUND);
/// assert_eq!(error.to_string(), "job.json: entity not found");
/// assert!(error.cause().unwrap().is::<std::io::Error>());
/// ```
#[macro_export]
macro_rules! error_type {
    (
        $(#[$about:meta])*
        $visible:vis struct $name:ident;
        $(passes on $($lower:ty),+;)?
    ) => {
        $(#[$about])*
        #[derive(Clone, PartialEq, Eq)]
        $visible struct $name(::std::boxed::Box<$crate::ErrorDetail>);

        impl $name {
            /// Returns the PMIx status of this error.
            #[must_use]
            pub fn status(&self) -> $crate::Status {
                self.0.status()
            }

            /// Returns the offset of the faulty byte in the input, or `None` if nothing was read.
            #[must_use]
            pub fn offset(&self) -> ::core::option::Option<usize> {
                self.0.offset()
            }

            /// Returns the message without its place and offset.
            #[must_use]
            pub fn message(&self) -> &str {
                self.0.message()
            }

            /// Returns the cause with its original type. The text of this error includes the text of the cause.
            #[must_use]
            pub fn cause(
                &self,
            ) -> ::core::option::Option<
                &(dyn ::std::error::Error + ::core::marker::Send + ::core::marker::Sync + 'static),
            > {
                self.0.cause()
            }
        }

        impl ::core::convert::From<$crate::ErrorDetail> for $name {
            #[cold]
            fn from(detail: $crate::ErrorDetail) -> Self {
                Self(::std::boxed::Box::new(detail))
            }
        }

        $($(
            impl ::core::convert::From<$lower> for $name {
                #[cold]
                fn from(error: $lower) -> Self {
                    $crate::ErrorDetail::passed_on(error.status(), error).into()
                }
            }
        )+)?

        impl ::core::convert::From<$name> for $crate::ErrorDetail {
            fn from(error: $name) -> Self {
                *error.0
            }
        }

        impl ::core::fmt::Display for $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::Display::fmt(&self.0, f)
            }
        }

        impl ::core::fmt::Debug for $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::Debug::fmt(&self.0, f)
            }
        }

        /// The text includes the cause, so there is no `source`.
        impl ::std::error::Error for $name {}
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_has_place_message_and_offset() {
        let error = ErrorDetail::new(Status::ERR_BAD_PARAM, "a rank is missing");
        assert_eq!(error.to_string(), "a rank is missing");
        let error = error.at(3).shifted_by(10).inside("procs").inside("FENCENB");
        assert_eq!(
            error.to_string(),
            "FENCENB procs: a rank is missing at byte 13"
        );
        assert_eq!((error.place(), error.offset()), ("FENCENB procs", Some(13)));
        assert_eq!(
            format!("{error:?}"),
            "FENCENB procs: a rank is missing at byte 13 (PMIX_ERR_BAD_PARAM (-27))"
        );
        assert!(error.cause().is_none());
        let error = ErrorDetail::new(Status::ERR_OUT_OF_RESOURCE, "more than 8 nodes");
        let error = error.exceeding("max_nodes").at(4);
        assert_eq!(
            error.to_string(),
            "more than 8 nodes; raise max_nodes if this is meant at byte 4"
        );
        assert_eq!(error.message(), "more than 8 nodes");
    }

    #[test]
    fn a_cause_keeps_its_type() {
        let cause = ErrorDetail::new(Status::ERR_NOMEM, "no room").at(7);
        let passed = ErrorDetail::passed_on(cause.status(), cause.clone());
        assert_eq!(passed.to_string(), "no room at byte 7");
        assert_eq!(passed.offset(), None);
        let known = passed
            .cause()
            .and_then(|cause| cause.downcast_ref::<ErrorDetail>());
        assert_eq!(known, Some(&cause));
        let caused = ErrorDetail::caused(Status::ERR_IN_ERRNO, "the map", passed);
        assert_eq!(caused.to_string(), "the map: no room at byte 7");
        // A program that prints an error and its sources prints each cause once.
        assert!(caused.source().is_none());
    }
}
