// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one error type of this crate.

use std::fmt;
use std::io;

use pmix_types::{ErrorDetail, Status};

/// Says why a job could not be started.
///
/// What happens to a job once it runs is no error of the launcher: the
/// [`Outcome`](crate::Outcome) says it.
pub struct Error(Box<Fault>);

struct Fault {
    kind: Kind,
    detail: ErrorDetail,
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
    /// The time that the job had to start.
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
    /// What was asked for cannot be done.
    #[cold]
    pub(crate) fn request(message: impl Into<String>) -> Self {
        let kind = Kind::Request;
        Self::new(kind, ErrorDetail::new(kind.status(), message))
    }

    /// The processes of a job cannot be placed as is asked for.
    #[cold]
    pub(crate) fn unmapped(message: impl Into<String>) -> Self {
        let detail = ErrorDetail::new(Status::ERR_JOB_FAILED_TO_MAP, message);
        Self::new(Kind::Request, detail)
    }

    /// What was asked for is more than there is room for.
    #[cold]
    pub(crate) fn no_room(message: impl Into<String>) -> Self {
        let status = Status::ERR_JOB_INSUFFICIENT_RESOURCES;
        Self::new(Kind::Request, ErrorDetail::new(status, message))
    }

    /// What was asked for cannot be done, because of the system.
    #[cold]
    pub(crate) fn unusable(what: impl fmt::Display, cause: impl Into<io::Error>) -> Self {
        let kind = Kind::Request;
        Self::new(kind, ErrorDetail::caused(kind.status(), what, cause.into()))
    }

    /// The system refused something that the launcher needs.
    #[cold]
    pub(crate) fn system(what: impl fmt::Display, cause: impl Into<io::Error>) -> Self {
        let cause = cause.into();
        let status = of_system(&cause);
        Self::new(Kind::System, ErrorDetail::caused(status, what, cause))
    }

    /// The server refused something that the launcher needs.
    #[cold]
    pub(crate) fn server(what: &str, cause: pmix_server::Error) -> Self {
        let detail = ErrorDetail::caused(cause.status(), what, cause);
        Self::new(Kind::System, detail)
    }

    /// A place that was asked for cannot be had by the server.
    #[cold]
    pub(crate) fn taken(what: &str, cause: pmix_server::Error) -> Self {
        let detail = ErrorDetail::caused(cause.status(), what, cause);
        Self::new(Kind::Request, detail)
    }

    /// What a tool wants of the launcher that it had started cannot be done.
    #[cold]
    pub(crate) fn refused(status: Status, why: String) -> Self {
        Self::new(Kind::Request, ErrorDetail::new(status, why))
    }

    /// The launcher was to wait for its release, and that did not come.
    #[cold]
    pub(crate) fn unreleased(why: impl fmt::Display) -> Self {
        let message = format!("the launcher started no job: {why}");
        let detail = ErrorDetail::new(Status::ERR_JOB_CANCELED, message);
        Self::new(Kind::System, detail)
    }

    /// A job was not started in the time that who asked for it gave.
    #[cold]
    pub(crate) fn late() -> Self {
        let kind = Kind::Late;
        let why = "the time limit of the spawn passed before the job was started";
        Self::new(kind, ErrorDetail::new(kind.status(), why))
    }

    /// The preparation of a job ended because nothing waits for it.
    #[cold]
    pub(crate) fn cancelled() -> Self {
        let detail = ErrorDetail::new(Status::ERR_JOB_CANCELED, "the spawn was cancelled");
        Self::new(Kind::System, detail)
    }

    /// A program cannot be started in the directory that is asked for.
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
        let status = match kind {
            Kind::System => of_system(&cause),
            kind => kind.status(),
        };
        Self::new(kind, ErrorDetail::caused(status, what, cause))
    }

    fn new(kind: Kind, detail: ErrorDetail) -> Self {
        Self(Box::new(Fault { kind, detail }))
    }

    /// The PMIx status of this error.
    #[must_use]
    pub fn status(&self) -> Status {
        self.0.detail.status()
    }

    /// The exit code by which a shell would report it: 127 for a program that is not there, 126
    /// for one that cannot be run, 2 for a request that makes no sense, 1 for the rest.
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

/// The status of what the system did not do: whether it had too little of something.
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

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.detail.source()
    }
}
