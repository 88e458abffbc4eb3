// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a tool does to the processes of jobs.
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
    /// The directive for it.
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
                "the server refused the control of processes",
            )),
        }
    }

    /// Has the primary server tell processes that wait for a debugger to go on (`PMIX_DEBUGGER_RELEASE`); the
    /// wildcard rank means all of a job. It tells those that begin to wait later, too.
    ///
    /// # Errors
    ///
    /// What the server answers, that it was lost, or `PMIX_ERR_TIMEOUT`. It is no error if none of them waits.
    pub fn release(&self, targets: Vec<Proc<'_>>) -> Result<(), Error> {
        let infos = vec![
            Info::new(keys::EVENT_NON_DEFAULT, true),
            Info::new(keys::EVENT_CUSTOM_RANGE, targets),
        ];
        let release = Status::DEBUGGER_RELEASE;
        self.wait(Ask::notify(release, DataRange::CUSTOM, infos))
    }
}
