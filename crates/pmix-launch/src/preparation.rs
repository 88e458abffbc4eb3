// SPDX-License-Identifier: MIT OR Apache-2.0
//! The preparation of a job before it starts: its programs, their environments, and where its processes are bound.
//!
//! Disks decide how long that takes, and so does hwloc. A helper thread does it for a job that a process asks for.

use std::ffi::OsString;

use pmix_host::helpers::Cancel;
use pmix_topology::Cpuset;

use crate::job_info::{self, Bound};
use crate::process::{CommandForm, Programs};
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
