// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one error type of this crate.

use std::{fmt, io};

use pmix_types::Status;

/// Reports what a server could not do, and why.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<Fault>);

#[derive(Clone, PartialEq, Eq)]
struct Fault {
    status: Status,
    message: String,
}

impl Error {
    /// A fault with its status.
    #[cold]
    pub(crate) fn new(status: Status, message: impl Into<String>) -> Self {
        Self(Box::new(Fault {
            status,
            message: message.into(),
        }))
    }

    /// A system call that failed, and what it was for.
    #[cold]
    pub(crate) fn io(what: &str, error: &io::Error) -> Self {
        Self::new(status_of(error), format!("{what}: {error}"))
    }

    /// The same fault, of something that is named.
    #[cold]
    pub(crate) fn of(mut self, what: &str) -> Self {
        self.0.message = format!("{what}: {}", self.0.message);
        self
    }

    /// Returns the PMIx status of this error.
    #[must_use]
    pub fn status(&self) -> Status {
        self.0.status
    }
}

/// The status that comes closest to an error of the system.
fn status_of(error: &io::Error) -> Status {
    use io::ErrorKind as Kind;
    match error.kind() {
        Kind::NotFound => Status::ERR_NOT_FOUND,
        Kind::PermissionDenied => Status::ERR_NO_PERMISSIONS,
        Kind::AlreadyExists | Kind::AddrInUse => Status::ERR_EXISTS,
        Kind::OutOfMemory => Status::ERR_NOMEM,
        Kind::StorageFull | Kind::QuotaExceeded | Kind::ReadOnlyFilesystem => {
            Status::ERR_FILE_WRITE_FAILURE
        }
        _ => match rustix::io::Errno::from_io_error(error) {
            Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE) => {
                Status::ERR_SYS_LIMITS_FILES
            }
            _ => Status::ERR_IN_ERRNO,
        },
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} ({})", self.status())
    }
}

impl std::error::Error for Error {}

impl From<pmix_mca::Error> for Error {
    fn from(error: pmix_mca::Error) -> Self {
        Self::new(error.status(), error.to_string())
    }
}

impl From<pmix_engine::Error> for Error {
    fn from(error: pmix_engine::Error) -> Self {
        Self::new(error.status(), error.message())
    }
}

impl From<preg_core::Error> for Error {
    fn from(error: preg_core::Error) -> Self {
        Self::new(error.status(), error.to_string())
    }
}
