// SPDX-License-Identifier: MIT OR Apache-2.0
//! The error type of this crate.
//!
//! Source: PMIx Standard, chapter "Data Structures and Types", for the statuses.

use std::fmt::Display;
use std::path::Path;

use pmix_files::Fault;
use pmix_types::{ErrorDetail, Status};

pmix_types::error_type! {
    /// The reason for which a description of hardware cannot be used.
    pub struct Error;
}

impl Error {
    /// Creates an error for malformed input (`PMIX_ERR_BAD_PARAM`).
    pub(crate) fn malformed(message: impl Display) -> Self {
        ErrorDetail::new(Status::ERR_BAD_PARAM, message.to_string()).into()
    }

    /// Creates an error for input of a source other than hwloc (`PMIX_ERR_NOT_SUPPORTED`).
    pub(crate) fn foreign(message: impl Display) -> Self {
        ErrorDetail::new(Status::ERR_NOT_SUPPORTED, message.to_string()).into()
    }

    /// Creates an error for processors to which no thread of this process can be bound (`PMIX_ERR_NOT_SUPPORTED`).
    pub(crate) fn unbindable(message: impl Display) -> Self {
        ErrorDetail::new(Status::ERR_NOT_SUPPORTED, message.to_string()).into()
    }

    /// Creates an error for a missing object (`PMIX_ERR_NOT_FOUND`).
    pub(crate) fn missing(message: impl Display) -> Self {
        ErrorDetail::new(Status::ERR_NOT_FOUND, message.to_string()).into()
    }

    /// Creates an error for a rejected file. Its status depends on the fault.
    pub(crate) fn of_file(path: &Path, fault: Fault) -> Self {
        let status = match &fault {
            Fault::TooLarge { .. } => Status::ERR_OUT_OF_RESOURCE,
            Fault::NotRegular { .. } => Status::ERR_BAD_PARAM,
            _ => Status::ERR_NOT_FOUND,
        };
        ErrorDetail::caused(status, path.display(), fault).into()
    }

    /// Creates an error for information that this machine cannot provide
    /// (`PMIX_ERR_NOT_AVAILABLE`).
    pub(crate) fn unavailable(message: impl Display) -> Self {
        ErrorDetail::new(Status::ERR_NOT_AVAILABLE, message.to_string()).into()
    }

    /// Creates an error for input beyond a limit (`PMIX_ERR_OUT_OF_RESOURCE`).
    pub(crate) fn too_large(message: impl Display) -> Self {
        ErrorDetail::new(Status::ERR_OUT_OF_RESOURCE, message.to_string()).into()
    }
}
