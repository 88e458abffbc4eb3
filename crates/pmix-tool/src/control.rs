// SPDX-License-Identifier: MIT OR Apache-2.0
//! Control of the processes of jobs by a tool.
//!
//! Source: PMIx Standard, chapter "Process Management", "Job control".

use pmix_types::{DataRange, Info, Proc, Status, keys};

use crate::{Error, Tool};

/// A directive of job control (`PMIx_Job_control`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Control {
    /// The host requests the processes to terminate (`PMIX_JOB_CTRL_TERMINATE`).
    Terminate,
    /// The host kills the processes (`PMIX_JOB_CTRL_KILL`).
    Kill,
    /// The host stops the processes (`PMIX_JOB_CTRL_PAUSE`).
    Pause,
    /// The host continues the processes (`PMIX_JOB_CTRL_RESUME`).
    Resume,
    /// The host sends the processes this signal (`PMIX_JOB_CTRL_SIGNAL`).
    Signal(i32),
}

impl Control {
    /// Returns the info of the directive.
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
    /// Controls processes through the primary server ([`job_control`](pmix_client::Client::job_control)); the wildcard
    /// rank selects all processes of a job.
    ///
    /// # Errors
    ///
    /// Returns the status of the server, `PMIX_ERR_UNREACH` if it is lost, or `PMIX_ERR_TIMEOUT`. A server of this
    /// project returns `PMIX_ERR_NOT_FOUND` if none of the processes runs.
    pub fn control(&self, targets: Vec<Proc<'_>>, control: Control) -> Result<(), Error> {
        let (status, _) = self.job_control(targets, [control.info()]).wait()?;
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
    /// Returns the status of the server, `PMIX_ERR_UNREACH` if it is lost, or `PMIX_ERR_TIMEOUT`. It is not an error if
    /// no process is waiting.
    pub fn release(&self, targets: Vec<Proc<'_>>) -> Result<(), Error> {
        let infos = vec![
            Info::new(keys::EVENT_NON_DEFAULT, true),
            Info::new(keys::EVENT_CUSTOM_RANGE, targets),
        ];
        let release = Status::DEBUGGER_RELEASE;
        Ok(self.notify(release, DataRange::CUSTOM, infos).wait()?)
    }
}
