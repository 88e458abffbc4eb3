// SPDX-License-Identifier: MIT OR Apache-2.0
//! Control of the processes of jobs by a tool.
//!
//! Source: PMIx Standard, chapter "Process Management", "Job control".

use pmix_client::Ask;
use pmix_types::{DataRange, Info, Proc, Status, keys};

use crate::{Error, Tool};

/// Says what is done to processes (`PMIx_Job_control`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Control {
    /// They are asked to end (`PMIX_JOB_CTRL_TERMINATE`).
    Terminate,
    /// They are ended (`PMIX_JOB_CTRL_KILL`).
    Kill,
    /// They stop (`PMIX_JOB_CTRL_PAUSE`).
    Pause,
    /// They go on (`PMIX_JOB_CTRL_RESUME`).
    Resume,
    /// They are sent this signal (`PMIX_JOB_CTRL_SIGNAL`).
    Signal(i32),
}

impl Control {
    /// Returns the directive for it.
    fn info(self) -> Info<'static> {
        match self {
            Self::Terminate => Info::new(keys::JOB_CTRL_TERMINATE, true),
            Self::Kill => Info::new(keys::JOB_CTRL_KILL, true),
            Self::Pause => Info::new(keys::JOB_CTRL_PAUSE, true),
            Self::Resume => Info::new(keys::JOB_CTRL_RESUME, true),
            Self::Signal(number) => Info::new(keys::JOB_CTRL_SIGNAL, number),
        }
    }
}

impl Tool {
    /// Has the primary server do something to processes; the wildcard rank means all of a job.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_NOT_FOUND` of a server of this project if none of them runs; what else the server
    /// answers, that it was lost, or `PMIX_ERR_TIMEOUT`.
    pub fn control(&self, targets: Vec<Proc<'_>>, control: Control) -> Result<(), Error> {
        let (status, _) = self.wait(Ask::job_control(targets, vec![control.info()]))?;
        match status.is_success() {
            true => Ok(()),
            false => Err(Error::new(
                status,
                "the server rejected the job control request",
            )),
        }
    }

    /// Requests the primary server to release processes that wait for a debugger (`PMIX_DEBUGGER_RELEASE`);
    /// the wildcard rank selects all processes of a job. Processes that begin to wait later are released too.
    ///
    /// # Errors
    ///
    /// The status that the server returns, the loss of the connection, or `PMIX_ERR_TIMEOUT`. It is not an
    /// error if no process is waiting.
    pub fn release(&self, targets: Vec<Proc<'_>>) -> Result<(), Error> {
        let infos = vec![
            Info::new(keys::EVENT_NON_DEFAULT, true),
            Info::new(keys::EVENT_CUSTOM_RANGE, targets),
        ];
        let release = Status::DEBUGGER_RELEASE;
        self.wait(Ask::notify(release, DataRange::CUSTOM, infos))
    }
}
