// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one error type of this crate.

use std::fmt;
use std::io;

use pmix_types::Status;

/// Why a job could not be started.
///
/// What happens to a job once it runs is no error of the launcher: the
/// [`Outcome`](crate::Outcome) says it.
pub struct Error(Box<Fault>);

struct Fault {
    kind: Kind,
    message: String,
    cause: Option<io::Error>,
    /// What the server says of it.
    status: Option<Status>,
}

/// What is at fault.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// What was asked for.
    Request,
    /// A program that is not there.
    Missing,
    /// A program that cannot be run.
    Refused,
    /// The system.
    System,
}

impl Error {
    /// What was asked for cannot be done.
    #[cold]
    pub(crate) fn request(message: impl Into<String>) -> Self {
        Self::new(Kind::Request, message.into(), None)
    }

    /// What was asked for cannot be done, because of the system.
    #[cold]
    pub(crate) fn unusable(what: impl fmt::Display, cause: impl Into<io::Error>) -> Self {
        Self::new(Kind::Request, what.to_string(), Some(cause.into()))
    }

    /// The system refused something that the launcher needs.
    #[cold]
    pub(crate) fn system(what: impl fmt::Display, cause: impl Into<io::Error>) -> Self {
        Self::new(Kind::System, what.to_string(), Some(cause.into()))
    }

    /// The server refused something that the launcher needs.
    #[cold]
    pub(crate) fn server(what: &str, cause: pmix_server::Error) -> Self {
        let message = format!("{what}: {cause}");
        let mut error = Self::new(Kind::System, message, None);
        error.0.status = Some(cause.status());
        error
    }

    /// A program could not be started.
    #[cold]
    pub(crate) fn program(what: impl fmt::Display, cause: io::Error) -> Self {
        let kind = match cause.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Kind::Missing,
            io::ErrorKind::PermissionDenied => Kind::Refused,
            // `ENOEXEC` has no kind of its own.
            _ if cause.raw_os_error() == Some(8) => Kind::Refused,
            _ => Kind::System,
        };
        Self::new(kind, what.to_string(), Some(cause))
    }

    fn new(kind: Kind, message: String, cause: Option<io::Error>) -> Self {
        Self(Box::new(Fault {
            kind,
            message,
            cause,
            status: None,
        }))
    }

    /// The PMIx status of this error.
    #[must_use]
    pub fn status(&self) -> Status {
        if let Some(status) = self.0.status {
            return status;
        }
        match self.0.kind {
            Kind::Request => Status::ERR_BAD_PARAM,
            Kind::Missing => Status::ERR_JOB_EXE_NOT_FOUND,
            Kind::Refused => Status::ERR_NO_PERMISSIONS,
            Kind::System => Status::ERR_JOB_FAILED_TO_LAUNCH,
        }
    }

    /// The exit code by which a shell would report it: 127 for a program that is not there, 126
    /// for one that cannot be run, 2 for a request that makes no sense, 1 for the rest.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self.0.kind {
            Kind::Request => 2,
            Kind::Missing => 127,
            Kind::Refused => 126,
            Kind::System => 1,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        match &self.0.cause {
            Some(cause) => write!(f, ": {cause}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} ({})", self.status())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let cause = self.0.cause.as_ref()?;
        Some(cause)
    }
}
