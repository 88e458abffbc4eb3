// SPDX-License-Identifier: MIT OR Apache-2.0
//! Jobs that are debugged: tracks the processes that stop, and notifies debuggers.
//!
//! When the last process that stops at a point has reached it, the launcher raises `PMIX_READY_FOR_DEBUG`. Its infos
//! are `PMIX_NSPACE`, the processes (`PMIX_EVENT_AFFECTED_PROC` with the wildcard rank for all of the job, else
//! `PMIX_EVENT_AFFECTED_PROCS`), `PMIX_BREAKPOINT` and `PMIX_EVENT_TIMESTAMP`. The server keeps the event for
//! processes and tools that register later.
//!
//! Source: PMIx Standard, chapter "Tools and Debuggers", "Debugger Support".

mod asked;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;

use pmix_mpir::ProcDesc;
use pmix_server::upcall::NotifyEvent;
use pmix_types::{
    BREAKPOINT_IN_INIT, DataArray, DataRange, Info, Proc, Rank, Status, Text, Value, keys,
};

pub(super) use asked::{DebugDirective, DebugRequest, without_daemons};

use super::events::timestamp;
use super::job::{Job, Named};
use super::session::Session;
use super::stopped::ON_EXEC;
use crate::stops::StopPoint;

/// The largest number of processes that a message lists.
const NAMED: usize = 8;

impl Session<'_> {
    /// Handles the event of a process that waits for a debugger, or of a debugger that releases processes.
    pub(super) fn debugger_event(&mut self, call: &NotifyEvent) {
        if call.status != Status::READY_FOR_DEBUG {
            return self.release(call);
        }
        let breakpoint = call.infos.iter().find_map(|info| match &info.value {
            Value::String(Some(text)) if info.key.is(keys::BREAKPOINT) => Some(text.clone()),
            _ => None,
        });
        let breakpoint = breakpoint.unwrap_or_default();
        let Proc { nspace, rank } = &call.source;
        tracing::info!("rank {rank} of {nspace} is waiting for a debugger at {breakpoint}");
        let Some(index) = self.jobs.place(nspace) else {
            return;
        };
        let job = self.jobs.get_mut(index);
        let ready = job.and_then(|job| {
            let runs = job
                .table
                .with_rank(*rank)
                .is_some_and(|it| it.ended.is_none());
            let ready = job.debugging.said(*rank, breakpoint.as_bytes());
            if runs {
                job.debugging.waits(*rank, breakpoint.as_bytes());
            }
            ready
        });
        if let Some(point) = ready {
            self.notify_ready(index, point, breakpoint);
        }
    }

    /// Continues processes that were stopped on exec. Processes that wait in PMIx receive the event itself. The event
    /// is also consumed for the processes stopped on exec, so that it does not release their next stop.
    fn release(&mut self, call: &NotifyEvent) {
        let named = call
            .infos
            .iter()
            .filter(|info| info.key.is(keys::EVENT_CUSTOM_RANGE));
        let named: Vec<&Proc<'_>> = named.flat_map(|info| procs(&info.value)).collect();
        let (all, named) = (named.is_empty(), Named::of(named));
        self.release_waiting_launcher(call, &named, all);
        let of_job = call.range == DataRange::NAMESPACE;
        for job in self.jobs.iter_mut() {
            let nspace = job.nspace.clone();
            if !of_job || nspace == call.source.nspace {
                let is_meant = |rank: Rank| all || named.has(&nspace, rank);
                // A process stopped on exec is released from that stop alone.
                let waiting = job
                    .table
                    .iter()
                    .filter(|process| !process.is_stopped_on_exec);
                let waiting = waiting.map(|process| process.rank);
                waiting
                    .filter(|rank| is_meant(*rank))
                    .for_each(|rank| job.debugging.release(rank));
                let stopped = job
                    .table
                    .iter()
                    .filter(|process| process.is_stopped_on_exec);
                let stopped = stopped.filter(|process| is_meant(process.rank));
                let stopped: Vec<_> = stopped.map(|process| job.proc(process.rank)).collect();
                if !stopped.is_empty()
                    && let Err(e) = self.server.debugger_released(&stopped)
                {
                    tracing::debug!("the release is kept until the next stop: {e}");
                }
                job.table.continue_stopped(is_meant);
            }
        }
    }

    /// Records the stops on exec of a job whose processes were started.
    pub(super) fn stopped_on_exec(&mut self, index: usize) {
        let Some(job) = self.jobs.get_mut(index) else {
            return;
        };
        let stopped = job
            .table
            .iter()
            .filter(|process| process.is_stopped_on_exec);
        let stopped: Vec<_> = stopped.map(|process| process.rank).collect();
        let awaited = job.debugging.at(StopPoint::OnExec);
        let come: Vec<_> = { stopped.into_iter() }
            .map(|rank| awaited.come(rank))
            .collect();
        if come.contains(&true) {
            self.notify_ready(index, StopPoint::OnExec, Text::from(ON_EXEC));
        }
    }

    /// Passes the processes of the first job to debuggers that use MPIR. If such a debugger is attached, continues
    /// the processes that were stopped on exec once it has seen them.
    pub(super) fn tell_mpir(&mut self, index: usize) {
        let Some(job) = self.jobs.get_mut(index).filter(|job| job.origin.is_none()) else {
            return;
        };
        let host = CString::new(job.plan.layout.host()).unwrap_or_default();
        let mut programs: BTreeMap<usize, CString> = BTreeMap::new();
        let rows = job.table.iter().map(|process| {
            let pid = process.pid.as_raw_nonzero().get();
            let program = programs.entry(process.app).or_insert_with(|| {
                // `/proc` has the name in memory; the link of an ended process cannot be read.
                let found = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
                CString::new(found.into_os_string().into_encoded_bytes()).unwrap_or_default()
            });
            ProcDesc {
                host: host.clone(),
                program: program.clone(),
                pid,
            }
        });
        pmix_mpir::set_table(rows.collect());
        if pmix_mpir::is_being_debugged() {
            pmix_mpir::spawned();
            job.table.continue_stopped(|_| true);
        }
    }

    /// Records that a process ended. It can no longer stop, so the stop of the others may be complete.
    pub(super) fn debugged_ended(&mut self, index: usize, rank: Rank) {
        if let Some(job) = self.jobs.get_mut(index) {
            job.debugging.gone(rank);
        }
        for point in StopPoint::ALL {
            let job = self.jobs.get_mut(index);
            if job.is_some_and(|job| job.debugging.at(point).ended(rank)) {
                let breakpoint = match point {
                    StopPoint::OnExec => Text::from(ON_EXEC),
                    StopPoint::InInit => Text::from(BREAKPOINT_IN_INIT),
                    StopPoint::InApp => Text::default(),
                };
                self.notify_ready(index, point, breakpoint);
            }
        }
    }

    /// Notifies debuggers that all processes that stop at a point have reached it.
    fn notify_ready(&mut self, index: usize, point: StopPoint, breakpoint: Text<'static>) {
        let Some(job) = self.jobs.get(index) else {
            return;
        };
        let name = Text::new(job.nspace.as_bytes().to_vec());
        let infos = [
            Info::new(keys::EVENT_NON_DEFAULT, true),
            Info::new(keys::NSPACE, Value::String(Some(name))),
            stopped(job, point),
            Info::new(keys::BREAKPOINT, Value::String(Some(breakpoint))),
            timestamp(),
        ];
        self.tell(Status::READY_FOR_DEBUG, &job.proc(Rank::new(0)), &infos);
        // The notice is for the user of the command, who does not need it with a debugger attached.
        if job.origin.is_none() && !pmix_mpir::is_being_debugged() {
            let text = notice(job, point);
            self.forward.write_error(text.as_bytes());
        }
    }
}

/// Returns the processes in a value.
fn procs<'v>(value: &'v Value<'static>) -> &'v [Proc<'static>] {
    match value {
        Value::Proc(proc) => std::slice::from_ref(proc),
        Value::DataArray(DataArray::Proc(procs)) => procs,
        _ => &[],
    }
}

/// Returns the info that names the processes that stop at a point.
fn stopped(job: &Job, point: StopPoint) -> Info<'static> {
    let ranks = job.plan.stops.at(point);
    if is_all(job, ranks) {
        return Info::new(keys::EVENT_AFFECTED_PROC, job.proc(Rank::WILDCARD));
    }
    let procs: Vec<_> = ranks.iter().map(|rank| job.proc(*rank)).collect();
    Info::new(keys::EVENT_AFFECTED_PROCS, procs)
}

fn is_all(job: &Job, ranks: &BTreeSet<Rank>) -> bool {
    ranks.len() == job.plan.layout.here().len()
}

/// Returns the notice for the user who requested the stop.
fn notice(job: &Job, point: StopPoint) -> String {
    let ranks = job.plan.stops.at(point);
    let place = match point {
        StopPoint::OnExec => "before its first instruction",
        StopPoint::InInit => "in PMIx_Init",
        StopPoint::InApp => "in its program",
    };
    let waiting = (job.table.iter()).filter(|process| ranks.contains(&process.rank));
    let named = waiting.take(NAMED).map(|process| {
        let (rank, pid) = (process.rank, process.pid.as_raw_nonzero());
        format!("rank {rank} is process {pid}")
    });
    let mut named = named.collect::<Vec<_>>().join(", ");
    if let Some(more @ 1..) = ranks.len().checked_sub(NAMED) {
        named.push_str(&format!(", and {more} more"));
    }
    let nspace = &job.nspace;
    format!(
        "pmix run: job {nspace} is waiting {place} for a debugger: {named}; `pmix release {nspace}` continues it\n"
    )
}
