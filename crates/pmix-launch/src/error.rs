// SPDX-License-Identifier: MIT OR Apache-2.0
//! The error type of this crate.

use std::fmt;
use std::io;

use pmix_types::{ErrorDetail, Status};

/// The reason why a job could not be started.
///
/// A failure of a running job is not an error of the launcher; it is part of the [`Outcome`](crate::Outcome).
pub struct Error(Box<Fault>);

struct Fault {
    kind: Kind,
    detail: ErrorDetail,
}

/// The origin of an error. It determines the exit code.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The request itself.
    Request,
    /// A program that does not exist.
    Missing,
    /// A program that cannot be executed.
    Refused,
    /// The operating system or the server.
    System,
    /// The time limit of the spawn, which passed.
    Late,
}

impl Kind {
    const fn status(self) -> Status {
        match self {
            Self::Request => Status::ERR_BAD_PARAM,
            Self::Missing => Status::ERR_JOB_EXE_NOT_FOUND,
            Self::Refused => Status::ERR_JOB_APP_NOT_EXECUTABLE,
            Self::System => Status::ERR_JOB_FAILED_TO_LAUNCH,
            Self::Late => Status::ERR_TIMEOUT,
        }
    }
}

impl Error {
    /// Returns an error for a request that cannot be served.
    #[cold]
    pub(crate) fn request(message: impl Into<String>) -> Self {
        let kind = Kind::Request;
        Self::new(kind, ErrorDetail::new(kind.status(), message))
    }

    /// Returns an error for processes that cannot be placed as requested.
    #[cold]
    pub(crate) fn unmapped(message: impl Into<String>) -> Self {
        let detail = ErrorDetail::new(Status::ERR_JOB_FAILED_TO_MAP, message);
        Self::new(Kind::Request, detail)
    }

    /// Returns an error for a request that exceeds a limit.
    #[cold]
    pub(crate) fn no_room(message: impl Into<String>) -> Self {
        let status = Status::ERR_JOB_INSUFFICIENT_RESOURCES;
        Self::new(Kind::Request, ErrorDetail::new(status, message))
    }

    /// Returns an error for a request that the system cannot serve.
    #[cold]
    pub(crate) fn unusable(what: impl fmt::Display, cause: impl Into<io::Error>) -> Self {
        let kind = Kind::Request;
        Self::new(kind, ErrorDetail::caused(kind.status(), what, cause.into()))
    }

    /// Returns an error for a system call that failed and that the launcher depends on.
    #[cold]
    pub(crate) fn system(what: impl fmt::Display, cause: impl Into<io::Error>) -> Self {
        let cause = cause.into();
        let status = of_system(&cause);
        Self::new(Kind::System, ErrorDetail::caused(status, what, cause))
    }

    /// Returns an error for a call to the server that failed and that the launcher depends on.
    #[cold]
    pub(crate) fn server(what: &str, cause: pmix_server::Error) -> Self {
        let detail = ErrorDetail::caused(cause.status(), what, cause);
        Self::new(Kind::System, detail)
    }

    /// Returns an error for a requested place (for example the system server) that the server cannot take.
    #[cold]
    pub(crate) fn taken(what: &str, cause: pmix_server::Error) -> Self {
        let detail = ErrorDetail::caused(cause.status(), what, cause);
        Self::new(Kind::Request, detail)
    }

    /// Returns an error for a request of the tool that started this launcher.
    #[cold]
    pub(crate) fn refused(status: Status, why: String) -> Self {
        Self::new(Kind::Request, ErrorDetail::new(status, why))
    }

    /// Returns an error for a launcher that waited for its release and did not receive it.
    #[cold]
    pub(crate) fn unreleased(why: impl fmt::Display) -> Self {
        let message = format!("the launcher started no job: {why}");
        let detail = ErrorDetail::new(Status::ERR_JOB_CANCELED, message);
        Self::new(Kind::System, detail)
    }

    /// Returns an error for a job that was not started within the time limit of its spawn request.
    #[cold]
    pub(crate) fn late() -> Self {
        let kind = Kind::Late;
        let why = "the time limit of the spawn passed before the job was started";
        Self::new(kind, ErrorDetail::new(kind.status(), why))
    }

    /// Returns an error that the agent of another node reported.
    #[cold]
    pub(crate) fn of_node(status: Status, exit_code: u8, message: String) -> Self {
        let kind = match exit_code {
            2 => Kind::Request,
            126 => Kind::Refused,
            127 => Kind::Missing,
            _ => Kind::System,
        };
        Self::new(kind, ErrorDetail::new(status, message))
    }

    /// Returns an error for a preparation that stopped because its requester no longer waits for it.
    #[cold]
    pub(crate) fn cancelled() -> Self {
        let detail = ErrorDetail::new(Status::ERR_JOB_CANCELED, "the spawn was cancelled");
        Self::new(Kind::System, detail)
    }

    /// Returns an error for a working directory in which a program cannot be started.
    #[cold]
    pub(crate) fn wdir(what: impl fmt::Display, cause: io::Error) -> Self {
        let status = match cause.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                Status::ERR_JOB_WDIR_NOT_FOUND
            }
            _ => Status::ERR_JOB_WDIR_NOT_ACCESSIBLE,
        };
        Self::new(Kind::Request, ErrorDetail::caused(status, what, cause))
    }

    /// Returns an error for a program that could not be started.
    #[cold]
    pub(crate) fn program(what: impl fmt::Display, cause: io::Error) -> Self {
        let kind = match cause.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Kind::Missing,
            io::ErrorKind::PermissionDenied => Kind::Refused,
            // `ENOEXEC` has no [`io::ErrorKind`].
            _ if cause.raw_os_error() == Some(8) => Kind::Refused,
            _ => Kind::System,
        };
        let status = match kind {
            Kind::System => of_system(&cause),
            kind => kind.status(),
        };
        Self::new(kind, ErrorDetail::caused(status, what, cause))
    }

    fn new(kind: Kind, detail: ErrorDetail) -> Self {
        Self(Box::new(Fault { kind, detail }))
    }

    /// Returns the PMIx status of this error.
    #[must_use]
    pub fn status(&self) -> Status {
        self.0.detail.status()
    }

    /// Returns the cause with its original type. The text of this error includes the text of the cause.
    #[must_use]
    pub fn cause(&self) -> Option<&(dyn std::error::Error + Send + Sync + 'static)> {
        self.0.detail.cause()
    }

    /// Returns the exit code that a shell would give: 127 for a program that does not exist, 126 for one that cannot
    /// be executed, 2 for an invalid request, 1 for everything else.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self.0.kind {
            Kind::Request => 2,
            Kind::Missing => 127,
            Kind::Refused => 126,
            Kind::System | Kind::Late => 1,
        }
    }
}

/// Returns the status for a failed system call, which tells a shortage of resources from other failures.
fn of_system(cause: &io::Error) -> Status {
    use rustix::io::Errno;
    let lacks = [Errno::AGAIN, Errno::NOMEM, Errno::MFILE, Errno::NFILE];
    match Errno::from_io_error(cause) {
        Some(errno) if lacks.contains(&errno) => Status::ERR_JOB_INSUFFICIENT_RESOURCES,
        _ => Kind::System.status(),
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.detail, f)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0.detail, f)
    }
}

/// The text includes the cause, so there is no `source`.
impl std::error::Error for Error {}
