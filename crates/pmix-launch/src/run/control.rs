// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes that control others of their job, or end it.

use std::collections::{BTreeSet, HashSet};

use pmix_server::upcall::JobControl;
use pmix_types::{Info, Proc, Rank, Status, keys};
use rustix::process::Signal;

use super::session::Session;

impl Session<'_> {
    /// Does to the processes that are meant what is asked for: whatever comes down to a signal.
    pub(super) fn control(&mut self, call: &JobControl) -> Status {
        let signals: Result<Vec<_>, Status> = call.directives.iter().map(signal_of).collect();
        let mut signals: Vec<_> = match signals {
            Ok(signals) => signals.into_iter().flatten().collect(),
            Err(status) => return status,
        };
        // Each once, in the order of their first, so that nobody pays for what is said again.
        let mut seen = HashSet::new();
        signals.retain(|signal| seen.insert(signal.as_raw()));
        if signals.is_empty() {
            return match call.directives.iter().any(tells) {
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
        for job in self.jobs.iter_mut() {
            let meant = targets.iter().filter(|proc| proc.nspace == job.nspace);
            let ranks: BTreeSet<Rank> = meant.map(|proc| proc.rank).collect();
            if !ranks.is_empty() {
                let told = signals
                    .iter()
                    .map(|signal| job.table.signal_some(&ranks, *signal));
                num_told += told.sum::<usize>();
            }
        }
        match num_told {
            0 => Status::ERR_NOT_FOUND,
            _ => Status::SUCCESS,
        }
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
        () if info.key.as_bytes().starts_with(b"pmix.jctrl.") => Err(Status::ERR_NOT_SUPPORTED),
        () => Ok(None),
    }
}

/// Whether a process says something of itself and asks for nothing: that it may be preempted, how
/// it takes a checkpoint. The launcher does neither.
fn tells(info: &Info<'_>) -> bool {
    info.key.is(keys::JOB_CTRL_PREEMPTIBLE) || info.key.is(keys::JOB_CTRL_CHECKPOINT_METHOD)
}
