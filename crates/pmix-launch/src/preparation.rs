// SPDX-License-Identifier: MIT OR Apache-2.0
//! The preparation of a job before it starts. It finds the programs, builds their environments and binds the
//! processes. Once the job has a name, it creates the directory of the job and the files of its output.
//!
//! All of this can take as long as the disks and hwloc need, so a helper thread does it for spawned jobs.

use std::ffi::OsString;
use std::path::Path;

use pmix_host::helpers::Cancel;
use pmix_topology::Cpuset;

use crate::job_info::{self, Bound};
use crate::output::{Files, RankFiles};
use crate::process::{CommandForm, Programs};
use crate::session_dir::JobDir;
use crate::{App, Error, Plan, Policy};

/// The input of the preparation of a job.
pub(crate) struct Preparation<'a> {
    /// The environment of the launcher.
    pub(crate) environment: &'a [(OsString, OsString)],
    pub(crate) apps: &'a [App],
    pub(crate) form: &'a CommandForm,
    pub(crate) policy: Policy,
    /// The processors to use, if they are named.
    pub(crate) cpus: Option<&'a Cpuset>,
    /// The processors that are available to the launcher, if the system reports them.
    pub(crate) allowed: Option<Cpuset>,
    /// The number of processes on this node.
    pub(crate) num_here: usize,
}

/// A job that is ready to start.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) bound: Bound,
    pub(crate) programs: Programs,
}

/// The directories and files of a job.
#[derive(Debug)]
pub(crate) struct JobPlace {
    pub(crate) dir: JobDir,
    /// The output files of the local processes, in the order of their ranks. If `None`, each is opened when its
    /// process starts.
    pub(crate) files: Option<Vec<RankFiles>>,
}

impl JobPlace {
    /// Creates the directory of a job in that of the session and the directory of its output, and opens its files if
    /// `opens_files` is `true`. On an error the directory of the job is removed again.
    ///
    /// # Errors
    /// Returns [`Error`] if a directory or file cannot be created, or if the job was canceled.
    pub(crate) fn make(
        plan: &Plan,
        session: &Path,
        number: Option<u64>,
        opens_files: bool,
        cancel: &Cancel,
    ) -> Result<Self, Error> {
        let dir = JobDir::create(session, number)?;
        let files = Files::of_plan(plan).map(|files| {
            files.make_dir()?;
            match opens_files {
                true => files.open_all(plan.layout.here(), cancel).map(Some),
                false => Ok(None),
            }
        });
        match files.transpose() {
            Ok(files) if !cancel.is_cancelled() => Ok(Self {
                dir,
                files: files.flatten(),
            }),
            result => {
                // The job does not enter any list, so nothing else would remove its directory before the end of the
                // session.
                dir.remove_empty();
                Err(result.err().unwrap_or_else(Error::cancelled))
            }
        }
    }
}

impl<'a> Preparation<'a> {
    /// Returns the preparation for a plan.
    pub(crate) fn of(plan: &'a Plan, form: &'a CommandForm, allowed: Option<Cpuset>) -> Self {
        Self {
            environment: &plan.environment,
            apps: &plan.apps,
            form,
            policy: plan.policy,
            cpus: plan.cpus.as_ref(),
            allowed,
            num_here: plan.layout.here().len(),
        }
    }

    /// Binds the processes and finds the programs.
    ///
    /// # Errors
    /// Returns [`Error`] if the policy requires parts that the node does not have, if a program cannot be started, or
    /// if the preparation was canceled.
    pub(crate) fn prepare(self, cancel: &Cancel) -> Result<Prepared, Error> {
        let Self {
            environment,
            apps,
            form,
            policy,
            cpus,
            allowed,
            num_here,
        } = self;
        let bound = job_info::bind(environment, policy, cpus, allowed, num_here)?;
        let programs = Programs::find(apps, environment, bound.oversubscribed, form, cancel)?;
        Ok(Prepared { bound, programs })
    }
}
