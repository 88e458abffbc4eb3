// SPDX-License-Identifier: MIT OR Apache-2.0
//! The preparation of a job before it starts: its programs, their environments, and where its processes are bound; then,
//! once the job has a name, its directory and the files of its output.
//!
//! Disks decide how long that takes, and so does hwloc. A helper thread does it for a job that a process asks for.

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
    /// The processors that are dealt out, if they are named.
    pub(crate) cpus: Option<&'a Cpuset>,
    /// The processors that the launcher may use, if the system tells.
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
    /// The files of its processes here, in the order of their places; each is opened when its process starts if there
    /// are none.
    pub(crate) files: Option<Vec<RankFiles>>,
}

impl JobPlace {
    /// Makes the directory of a job in that of the session, and the directory of its output, and opens its files if
    /// `opens_files` says so. Nothing is left in the session if that fails.
    ///
    /// # Errors
    /// A directory or file cannot be made; the job is cancelled.
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
                dir.remove_empty();
                Err(result.err().unwrap_or_else(Error::cancelled))
            }
        }
    }
}

impl<'a> Preparation<'a> {
    /// Takes what a plan says.
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
    /// The policy asks for parts that the node does not have, or a program cannot be started; the preparation was cancelled.
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
