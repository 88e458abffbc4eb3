// SPDX-License-Identifier: MIT OR Apache-2.0
//! Job control: processes that signal or terminate others.

use std::collections::HashSet;

use pmix_server::upcall::JobControl;
use pmix_types::{Attribute, Info, Proc, Rank, Status, Value, keys};
use rustix::process::Signal;

use super::services::weight;
use super::{Controller, Cx};
use crate::named::Named;

impl Controller {
    /// Applies the directives of a job control request to its targets: those that amount to a signal, and definitions
    /// of process sets. Unsupported directives are reported.
    pub(crate) fn control(&mut self, cx: &mut Cx<'_>, call: &JobControl) -> Status {
        let refused = call.directives.iter().find(|info| is_refused(info));
        if let Some(info) = refused {
            let who = cx.identify(&call.proc);
            let key = info.key.to_string();
            let name = Attribute::name_of(&key);
            cx.warn(format!(
                "{who} requested {name} (PMIx_Job_control), which pmix run does not support"
            ));
            return Status::ERR_NOT_SUPPORTED;
        }
        let defined = self.define_sets(cx, call);
        if defined.is_some_and(|status| !status.is_success()) {
            return defined.unwrap_or_default();
        }
        let signals: Result<Vec<_>, Status> = call.directives.iter().map(signal_of).collect();
        let mut signals: Vec<_> = match signals {
            Ok(signals) => signals.into_iter().flatten().collect(),
            Err(status) => return status,
        };
        // A repeated directive sends its signal only once, in the order of the first occurrences.
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
        let mut num_signaled = 0;
        for (nspace, ranks) in Named::of(targets).iter() {
            for signal in &signals {
                num_signaled += cx.agent.signal_ranks(&nspace, ranks, *signal);
            }
        }
        match num_signaled {
            0 => Status::ERR_NOT_FOUND,
            _ => Status::SUCCESS,
        }
    }

    /// Defines the requested process sets (`PMIX_JOB_CTRL_DEFINE_PSET`) with the targets as members. Returns `None`
    /// if the request defines none.
    fn define_sets(&mut self, cx: &mut Cx<'_>, call: &JobControl) -> Option<Status> {
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
            if !self.services.add_set(name, of_targets) {
                let who = cx.identify(&call.proc);
                cx.warn(format!(
                    "PMIx_Job_control from {who} was rejected: too many process sets are defined"
                ));
                return Some(Status::ERR_OUT_OF_RESOURCE);
            }
            match cx.agent.define_process_set(name, &call.targets) {
                Ok(()) => status = Some(Status::SUCCESS),
                Err(refused) => return Some(refused),
            }
        }
        status
    }
}

/// Returns the signal that a directive amounts to, or `None` if it requests no signal.
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

/// Returns `true` if the launcher does not support a directive: checkpoints, restarts and provisioning.
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
    // A directive with the value `false` requests nothing.
    let is_unwanted = matches!(info.value, Value::Bool(false));
    is_about_control && !is_unwanted && !tells(info) && !is_done.iter().any(|key| info.key.is(key))
}

/// Returns `true` if the call cancels an earlier request. There is never one to cancel: requests complete at once.
fn cancels_one(call: &JobControl) -> bool {
    call.directives.iter().any(|info| {
        info.key.is(keys::JOB_CTRL_CANCEL) && matches!(info.value, Value::String(Some(_)))
    })
}

/// Returns `true` if a directive only announces something: that the process may be preempted, its checkpoint method,
/// the id of the request, or a cancellation of all requests.
fn tells(info: &Info<'_>) -> bool {
    let keys = [
        keys::JOB_CTRL_PREEMPTIBLE,
        keys::JOB_CTRL_CHECKPOINT_METHOD,
        keys::JOB_CTRL_ID,
        keys::JOB_CTRL_CANCEL,
    ];
    keys.iter().any(|key| info.key.is(key))
}
