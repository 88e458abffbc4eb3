// SPDX-License-Identifier: MIT OR Apache-2.0
//! Jobs that are debugged: tracks the processes that stop, and notifies debuggers.
//!
//! When the last process that stops at a point has reached it, the launcher raises `PMIX_READY_FOR_DEBUG`. Its infos
//! are `PMIX_NSPACE`, the processes (`PMIX_EVENT_AFFECTED_PROC` with the wildcard rank for all of the job, else
//! `PMIX_EVENT_AFFECTED_PROCS`), `PMIX_BREAKPOINT` and `PMIX_EVENT_TIMESTAMP`. The server keeps the event for
//! processes and tools that register later.
//!
//! Source: PMIx Standard, chapter "Tools and Debuggers", "Debugger Support".

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;

use pmix_mpir::ProcDesc;
use pmix_server::upcall::NotifyEvent;
use pmix_types::{
    BREAKPOINT_IN_INIT, DataArray, DataRange, Info, Proc, Rank, Status, Text, Value, keys,
};

use super::debugging::ON_EXEC;
use super::events::timestamp;
use super::job::Job;
use super::{Controller, Cx};
use crate::agent::Agent;
use crate::named::Named;
use crate::stops::StopPoint;

/// The largest number of processes that a message lists.
const NAMED: usize = 8;

impl Controller {
    /// Handles the event of a process that waits for a debugger, or of a debugger that releases processes.
    pub(crate) fn handle_debugger_event(&mut self, cx: &mut Cx<'_>, call: &NotifyEvent) {
        if call.status != Status::READY_FOR_DEBUG {
            return self.release(cx, call);
        }
        let breakpoint = call.infos.iter().find_map(|info| match &info.value {
            Value::String(Some(text)) if info.key.is(keys::BREAKPOINT) => Some(text.clone()),
            _ => None,
        });
        let breakpoint = breakpoint.unwrap_or_default();
        let Proc { nspace, rank } = &call.source;
        tracing::info!("rank {rank} of {nspace} is waiting for a debugger at {breakpoint}");
        let process = cx.agent.jobs().process(&call.source);
        let is_running = process.is_some_and(|process| process.ended.is_none());
        let Some(job) = self.jobs.named_mut(nspace) else {
            return;
        };
        // Recorded even if the process has ended meanwhile: the others of the job wait for the last one.
        let ready = job.debugging.add_stopped(*rank, breakpoint.as_bytes());
        if is_running {
            job.debugging.add_waiting(*rank, breakpoint.as_bytes());
        }
        if let Some(point) = ready {
            notify_ready(&mut cx.agent, job, point, breakpoint);
        }
    }

    /// Continues processes that were stopped on exec. Processes that wait in PMIx receive the event itself. The event
    /// is also consumed for the processes stopped on exec, so that it does not release their next stop.
    fn release(&mut self, cx: &mut Cx<'_>, call: &NotifyEvent) {
        let named = call
            .infos
            .iter()
            .filter(|info| info.key.is(keys::EVENT_CUSTOM_RANGE));
        let named: Vec<&Proc<'_>> = named.flat_map(|info| procs(&info.value)).collect();
        let (all, named) = (named.is_empty(), Named::of(named));
        self.release_waiting_launcher(cx, call, &named, all);
        let is_of_job = call.range == DataRange::NAMESPACE;
        for job in self.jobs.iter_mut() {
            let nspace = job.nspace.clone();
            let Some(local) = cx.agent.job(&nspace) else {
                continue;
            };
            if is_of_job && nspace != call.source.nspace {
                continue;
            }
            let is_meant = |rank: Rank| all || named.has(&nspace, rank);
            let meant = local.processes().filter(|process| is_meant(process.rank));
            let (mut stopped, mut waiting) = (Vec::new(), Vec::new());
            for process in meant {
                // A process stopped on exec is released from that stop alone.
                match process.is_stopped_on_exec {
                    true => stopped.push(job.proc(process.rank)),
                    false => waiting.push(process.rank),
                }
            }
            for rank in waiting {
                job.debugging.release(rank);
            }
            // Before they continue, so that the server does not keep the release for their stop in init.
            cx.agent.release_stopped(&stopped);
            cx.agent.continue_stopped(&nspace, is_meant);
        }
    }

    /// Records the stops on exec of a job whose processes were started.
    pub(crate) fn register_stops_on_exec(&mut self, cx: &mut Cx<'_>, index: usize) {
        let Some(job) = self.jobs.get_mut(index) else {
            return;
        };
        let local = cx.agent.job(&job.nspace);
        let processes = local.iter().flat_map(|local| local.processes());
        let stopped = processes.filter(|process| process.is_stopped_on_exec);
        let stopped: Vec<_> = stopped.map(|process| process.rank).collect();
        let awaited = job.debugging.at(StopPoint::OnExec);
        // Each of them is recorded, so the first that completes the stop does not end the loop.
        let mut is_ready = false;
        for rank in stopped {
            is_ready |= awaited.add(rank);
        }
        if is_ready {
            notify_ready(&mut cx.agent, job, StopPoint::OnExec, Text::from(ON_EXEC));
        }
    }

    /// Passes the processes of the first job to debuggers that use MPIR. If such a debugger is attached, continues
    /// the processes that were stopped on exec once it has seen them.
    pub(crate) fn publish_to_mpir(&self, cx: &mut Cx<'_>, index: usize) {
        let job = self.jobs.get(index).filter(|job| job.origin.is_none());
        let Some(local) = job.and_then(|job| cx.agent.job(&job.nspace)) else {
            return;
        };
        let nspace = local.nspace().clone();
        let host = CString::new(local.plan().layout.host()).unwrap_or_default();
        let mut programs: BTreeMap<usize, CString> = BTreeMap::new();
        let rows = local.processes().map(|process| {
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
            cx.agent.continue_stopped(&nspace, |_| true);
        }
    }

    /// Records that a process ended. It can no longer stop, so the stop of the others may be complete.
    pub(crate) fn debugged_process_ended(&mut self, cx: &mut Cx<'_>, proc: &Proc<'_>) {
        let Some(job) = self.jobs.named_mut(&proc.nspace) else {
            return;
        };
        job.debugging.remove(proc.rank);
        for point in StopPoint::ALL {
            if job.debugging.at(point).remove(proc.rank) {
                let breakpoint = match point {
                    StopPoint::OnExec => Text::from(ON_EXEC),
                    StopPoint::InInit => Text::from(BREAKPOINT_IN_INIT),
                    StopPoint::InApp => Text::default(),
                };
                notify_ready(&mut cx.agent, job, point, breakpoint);
            }
        }
    }
}

/// Notifies debuggers that all processes that stop at a point have reached it.
fn notify_ready(agent: &mut Agent<'_>, job: &Job, point: StopPoint, breakpoint: Text<'static>) {
    let name = Text::new(job.nspace.as_bytes().to_vec());
    let infos = [
        Info::new(keys::EVENT_NON_DEFAULT, true),
        Info::new(keys::NSPACE, Value::String(Some(name))),
        stopped(job, point),
        Info::new(keys::BREAKPOINT, Value::String(Some(breakpoint))),
        timestamp(),
    ];
    agent.notify(Status::READY_FOR_DEBUG, &job.proc(Rank::new(0)), &infos);
    // The notice is for the user of the command, who does not need it with a debugger attached.
    if job.origin.is_none() && !pmix_mpir::is_being_debugged() {
        let text = notice(agent, job, point);
        agent.write_error(&text);
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
fn notice(agent: &Agent<'_>, job: &Job, point: StopPoint) -> String {
    let ranks = job.plan.stops.at(point);
    let place = match point {
        StopPoint::OnExec => "before its first instruction",
        StopPoint::InInit => "in PMIx_Init",
        StopPoint::InApp => "in its program",
    };
    let local = agent.job(&job.nspace);
    let processes = local.iter().flat_map(|local| local.processes());
    let waiting = processes.filter(|process| ranks.contains(&process.rank));
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
