// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the error types of all crates hold.
//!
//! Source: PMIx Standard, chapter "Data Structures and Types", for the statuses; what stands
//! beside them is this project's own.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use crate::Status;

/// Holds what every error says: a status, what is wrong, where, and what caused it.
///
/// Each crate has an error type of its own, declared by [`error_type!`](crate::error_type), which
/// is a pointer to one of these. `Display` says all of it in a line, the cause included; `source()`
/// gives the cause as the type it was. Two errors are equal if they say the same.
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
    /// Says what is wrong: a lower-case fragment that also says what to do.
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

    /// Says what could not be done, and keeps why.
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

    /// Says what the cause says: the error of a lower layer, passed on.
    #[cold]
    pub fn passed_on(status: Status, cause: impl Error + Send + Sync + 'static) -> Self {
        let what = cause.to_string();
        Self {
            cause: Some(Arc::new(cause)),
            ..Self::new(status, what)
        }
    }

    /// Says the same with another status.
    #[must_use]
    pub fn with_status(mut self, status: Status) -> Self {
        self.status = status;
        self
    }

    /// Says the same, at a byte of what was read.
    #[must_use]
    pub fn at(mut self, offset: usize) -> Self {
        self.offset = Some(offset);
        self
    }

    /// Says the same of bytes in front of which so many others stand.
    #[must_use]
    pub fn behind(mut self, start: usize) -> Self {
        self.offset = self.offset.map(|offset| offset.saturating_add(start));
        self
    }

    /// Says the same of this part.
    #[must_use]
    pub fn with_place(mut self, place: impl Into<String>) -> Self {
        self.place = place.into();
        self
    }

    /// Says the same of a part of something larger: the outer part stands first.
    #[must_use]
    pub fn inside(mut self, outer: impl fmt::Display) -> Self {
        self.place = match self.place.is_empty() {
            true => outer.to_string(),
            false => format!("{outer} {}", self.place),
        };
        self
    }

    /// Names the setting that raises the limit that was exceeded.
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

    /// Returns the part that is at fault, from the outermost inwards; empty where none is meant.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Returns the name of the limit that was exceeded, if it was one that can be raised.
    #[must_use]
    pub const fn exceeded(&self) -> Option<&'static str> {
        self.exceeded
    }

    /// Returns what is wrong, without the place, the limit and the offset.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.what
    }

    /// Returns the byte at fault in what was read; none where nothing was.
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

impl Error for ErrorDetail {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.cause {
            Some(cause) => Some(cause.as_ref()),
            None => None,
        }
    }
}

/// Declares the error type of a crate: a pointer to an [`ErrorDetail`], which its module fills.
///
/// Errors of lower layers that are named behind `passes on` convert into it: their status and text
/// stay, and they are its source.
///
/// ```
/// use std::error::Error as _;
/// use pmix_types::{ErrorDetail, Status};
///
/// pmix_types::error_type! {
///     /// Says why a file of this crate was not read.
///     pub struct Error;
///     passes on pmix_types::ValueError;
/// }
///
/// let cause = std::io::Error::from(std::io::ErrorKind::NotFound);
/// let error = Error::from(ErrorDetail::caused(Status::ERR_NOT_FOUND, "job.json", cause));
/// assert_eq!(error.status(), Status::ERR_NOT_FOUND);
/// assert_eq!(error.to_string(), "job.json: entity not found");
/// assert!(error.source().unwrap().is::<std::io::Error>());
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

            /// Returns the byte at fault in what was read; none where nothing was.
            #[must_use]
            pub fn offset(&self) -> ::core::option::Option<usize> {
                self.0.offset()
            }

            /// Returns what is wrong, without its place and the offset.
            #[must_use]
            pub fn message(&self) -> &str {
                self.0.message()
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

        impl ::std::error::Error for $name {
            fn source(&self) -> ::core::option::Option<&(dyn ::std::error::Error + 'static)> {
                ::std::error::Error::source(&*self.0)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_where_what_and_at_which_byte() {
        let error = ErrorDetail::new(Status::ERR_BAD_PARAM, "a rank is missing");
        assert_eq!(error.to_string(), "a rank is missing");
        let error = error.at(3).behind(10).inside("procs").inside("FENCENB");
        assert_eq!(
            error.to_string(),
            "FENCENB procs: a rank is missing at byte 13"
        );
        assert_eq!((error.place(), error.offset()), ("FENCENB procs", Some(13)));
        assert_eq!(
            format!("{error:?}"),
            "FENCENB procs: a rank is missing at byte 13 (PMIX_ERR_BAD_PARAM (-27))"
        );
        assert!(error.source().is_none());
        let error = ErrorDetail::new(Status::ERR_OUT_OF_RESOURCE, "more than 8 nodes");
        let error = error.exceeding("max_nodes").at(4);
        assert_eq!(
            error.to_string(),
            "more than 8 nodes; raise max_nodes if this is meant at byte 4"
        );
        assert_eq!(error.message(), "more than 8 nodes");
    }

    #[test]
    fn a_cause_stays_what_it_was() {
        let cause = ErrorDetail::new(Status::ERR_NOMEM, "no room").at(7);
        let passed = ErrorDetail::passed_on(cause.status(), cause.clone());
        assert_eq!(passed.to_string(), "no room at byte 7");
        assert_eq!(passed.offset(), None);
        let source = passed
            .source()
            .and_then(|s| s.downcast_ref::<ErrorDetail>());
        assert_eq!(source, Some(&cause));
        let caused = ErrorDetail::caused(Status::ERR_IN_ERRNO, "the map", passed);
        assert_eq!(caused.to_string(), "the map: no room at byte 7");
        let innermost = caused.source().and_then(Error::source).unwrap();
        assert_eq!(innermost.to_string(), "no room at byte 7");
    }
}
