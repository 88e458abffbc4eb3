// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the host answers.

use pmix_types::{Info, Nspace, Pdata, Proc, Status};

/// What the host answers to an [`Upcall`](super::Upcall).
///
/// Any upcall may be answered with [`Done`](Self::Done) and an error, or with
/// [`NotSupported`](Self::NotSupported); what else fits is said at the upcall.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// It is done, or it failed.
    Done(Status),
    /// The host does not do that.
    NotSupported,
    /// Bytes for a fence or a direct modex.
    Data(Result<Vec<u8>, Status>),
    /// What was found of published data.
    Found(Status, Vec<Pdata<'static>>),
    /// The job that was started.
    Spawned(Status, Nspace<'static>),
    /// Values, in no particular order.
    Infos(Status, Vec<Info<'static>>),
    /// A credential, and what is said about it.
    Credential(Result<Vec<u8>, Status>, Vec<Info<'static>>),
    /// The name that a tool has from now on.
    Tool(Result<Proc<'static>, Status>),
}

impl Answer {
    /// What a host answers whose call was dropped: it never will.
    pub const DROPPED: Self = Self::Done(Status::ERR_COMM_FAILURE);

    /// Whether it went well, in one status. That something was done at once
    /// (`PMIX_OPERATION_SUCCEEDED`) is success.
    #[must_use]
    pub fn status(&self) -> Status {
        let status = match self {
            Self::NotSupported => Status::ERR_NOT_SUPPORTED,
            Self::Done(status)
            | Self::Found(status, _)
            | Self::Spawned(status, _)
            | Self::Infos(status, _) => *status,
            Self::Data(answer) => failure(answer),
            Self::Credential(answer, _) => failure(answer),
            Self::Tool(answer) => failure(answer),
        };
        match status {
            Status::OPERATION_SUCCEEDED => Status::SUCCESS,
            other => other,
        }
    }
}

fn failure<T>(answer: &Result<T, Status>) -> Status {
    answer.as_ref().err().copied().unwrap_or(Status::SUCCESS)
}
