// SPDX-License-Identifier: MIT OR Apache-2.0
//! The error type of this crate.
//!
//! Source: PMIx Standard, chapter "Data Structures and Types", for the statuses.

use std::io;

use pmix_types::{ErrorDetail, Status};

pmix_types::error_type! {
    /// The reason why a server could not do something.
    pub struct Error;
    passes on pmix_engine::Error, pmix_mca::Error, preg_core::Error;
}

impl Error {
    /// Creates an error with its status.
    #[cold]
    pub(crate) fn new(status: Status, message: impl Into<String>) -> Self {
        ErrorDetail::new(status, message).into()
    }

    /// Creates an error for a failed system call and its purpose.
    #[cold]
    pub(crate) fn io(what: &str, error: io::Error) -> Self {
        ErrorDetail::caused(status_of(&error), what, error).into()
    }

    /// Adds the name of the object.
    #[cold]
    pub(crate) fn of(self, what: &str) -> Self {
        ErrorDetail::caused(self.status(), what, self).into()
    }
}

/// Returns the status closest to an error of the system.
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
