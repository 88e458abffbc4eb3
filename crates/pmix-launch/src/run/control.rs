// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes that control others of their job, or end it.

use std::collections::HashSet;
use std::time::Instant;

use pmix_server::upcall::JobControl;
use pmix_types::{Attribute, Info, Proc, Rank, Status, Value, keys};
use rustix::process::Signal;

use super::job::Named;
use super::session::Session;
use super::sets::weight;

impl Session<'_> {
    /// Does to the processes that are meant what is asked for: whatever comes down to a signal, and
    /// definitions of process sets. What is not done is said.
    pub(super) fn control(&mut self, call: &JobControl) -> Status {
        let refused = call.directives.iter().find(|info| is_refused(info));
        if let Some(info) = refused {
            let who = self.called(&call.proc);
            let key = info.key.to_string();
            let name = Attribute::name_of(&key);
            let line = format!(
                "{who} requested {name} (PMIx_Job_control), which pmix run does not support"
            );
            self.missing.warn_of(line, Instant::now());
            return Status::ERR_NOT_SUPPORTED;
        }
        let defined = self.define_sets(call);
        if defined.is_some_and(|status| !status.is_success()) {
            return defined.unwrap_or_default();
        }
        let signals: Result<Vec<_>, Status> = call.directives.iter().map(signal_of).collect();
        let mut signals: Vec<_> = match signals {
            Ok(signals) => signals.into_iter().flatten().collect(),
            Err(status) => return status,
        };
        // Each once, in the order of their first, so that nobody pays for what is said again.
        let mut seen = HashSet::new();
        signals.retain(|signal| seen.insert(signal.as_raw()));
        if signals.is_empty() {
            return match defined.is_some() || call.directives.iter().any(tells) {
                _ if cancels_one(call) => Status::ERR_NOT_FOUND,
                true => Status::SUCCESS,
                false => Status::ERR_NOT_SUPPORTED,
            };
        }
        let own_job = [Proc::new(call.proc.nspace.clone(), Rank::WILDCARD)];
        let targets = match call.targets.is_empty() {
            true => &own_job[..],
            false => &call.targets,
        };
        let mut num_told = 0;
        let named = Named::of(targets);
        for job in self.jobs.iter_mut() {
            if let Some(ranks) = named.ranks(&job.nspace) {
                let told = { signals.iter() }.map(|signal| job.table.signal_some(ranks, *signal));
                num_told += told.sum::<usize>();
            }
        }
        match num_told {
            0 => Status::ERR_NOT_FOUND,
            _ => Status::SUCCESS,
        }
    }

    /// Defines the process sets that are asked for (`PMIX_JOB_CTRL_DEFINE_PSET`), of the targets, each once. None
    /// if there are none.
    fn define_sets(&mut self, call: &JobControl) -> Option<Status> {
        let (mut status, mut seen) = (None, HashSet::new());
        let of_targets = call.targets.iter().map(weight).sum();
        let is_one = |info: &&Info<'_>| info.key.is(keys::JOB_CTRL_DEFINE_PSET);
        for info in call.directives.iter().filter(is_one) {
            let name = match &info.value {
                Value::String(Some(name)) if !call.targets.is_empty() => name,
                _ => return Some(Status::ERR_BAD_PARAM),
            };
            if !seen.insert(name) {
                continue;
            }
            if !self.sets.add(name, of_targets) {
                let who = self.called(&call.proc);
                let line = format!(
                    "PMIx_Job_control from {who} was rejected: too many process sets are defined"
                );
                self.missing.warn_of(line, Instant::now());
                return Some(Status::ERR_OUT_OF_RESOURCE);
            }
            match self.server.define_process_set(name, &call.targets) {
                Ok(()) => status = Some(Status::SUCCESS),
                Err(error) => return Some(error.status()),
            }
        }
        status
    }
}

/// The signal that a directive comes down to; none for one that says how, not what.
fn signal_of(info: &Info<'_>) -> Result<Option<Signal>, Status> {
    let wanted = |signal| Ok(info.truth().is_true().then_some(signal));
    match () {
        () if info.key.is(keys::JOB_CTRL_KILL) => wanted(Signal::KILL),
        () if info.key.is(keys::JOB_CTRL_TERMINATE) => wanted(Signal::TERM),
        () if info.key.is(keys::JOB_CTRL_PAUSE) => wanted(Signal::STOP),
        () if info.key.is(keys::JOB_CTRL_RESUME) => wanted(Signal::CONT),
        () if info.key.is(keys::JOB_CTRL_SIGNAL) => {
            let number: Option<i32> = info.value.to_number().ok();
            let signal = number.and_then(Signal::from_named_raw);
            signal.map(Some).ok_or(Status::ERR_BAD_PARAM)
        }
        () if tells(info) => Ok(None),
        () => Ok(None),
    }
}

/// Whether the launcher does not do what a directive asks for: checkpoints, restarts and provisioning.
fn is_refused(info: &Info<'_>) -> bool {
    let is_done = [
        keys::JOB_CTRL_KILL,
        keys::JOB_CTRL_TERMINATE,
        keys::JOB_CTRL_PAUSE,
        keys::JOB_CTRL_RESUME,
        keys::JOB_CTRL_SIGNAL,
        keys::JOB_CTRL_DEFINE_PSET,
    ];
    let is_about_control = info.key.as_bytes().starts_with(b"pmix.jctrl.");
    // What is said not to be wanted is not.
    let is_unwanted = matches!(info.value, Value::Bool(false));
    is_about_control && !is_unwanted && !tells(info) && !is_done.iter().any(|key| info.key.is(key))
}

/// Whether a request that goes on is to be cancelled: none does, each is done at once.
fn cancels_one(call: &JobControl) -> bool {
    call.directives.iter().any(|info| {
        info.key.is(keys::JOB_CTRL_CANCEL) && matches!(info.value, Value::String(Some(_)))
    })
}

/// Whether a process says something of itself and asks for nothing: that it may be preempted, how
/// it takes a checkpoint, what it calls a request, or that it wants none to go on.
fn tells(info: &Info<'_>) -> bool {
    let keys = [
        keys::JOB_CTRL_PREEMPTIBLE,
        keys::JOB_CTRL_CHECKPOINT_METHOD,
        keys::JOB_CTRL_ID,
        keys::JOB_CTRL_CANCEL,
    ];
    keys.iter().any(|key| info.key.is(key))
}
