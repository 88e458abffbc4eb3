// SPDX-License-Identifier: MIT OR Apache-2.0
//! Jobs that are debugged: which processes have come to the point where they stop, and who is told.
//!
//! When the last process that is to stop at a point has come there, `PMIX_READY_FOR_DEBUG` is told to whoever
//! registered for it, with `PMIX_NSPACE`, the processes (`PMIX_EVENT_AFFECTED_PROC`, with the wildcard rank
//! for all), `PMIX_BREAKPOINT` and `PMIX_EVENT_TIMESTAMP`. It is kept for who comes later.
//!
//! Source: PMIx Standard, chapter "Tools and Debuggers", "Debugger Support".

mod asked;

use std::collections::BTreeSet;

use pmix_server::upcall::NotifyEvent;
use pmix_types::{Info, Proc, Rank, Status, Text, Value, keys};

pub(super) use asked::{DebugRequest, Wish, without_daemons};

use super::events::timestamp;
use super::job::Job;
use super::session::Session;
use super::stopped::IN_INIT;
use crate::stops::StopPoint;

/// How many processes a message names.
const NAMED: usize = 8;

impl Session<'_> {
    /// A process waits for a debugger, or one lets processes go on.
    pub(super) fn debugger_event(&mut self, call: &NotifyEvent) {
        if call.status != Status::READY_FOR_DEBUG {
            return;
        }
        let breakpoint = call.infos.iter().find_map(|info| match &info.value {
            Value::String(Some(text)) if info.key.is(keys::BREAKPOINT) => Some(text.clone()),
            _ => None,
        });
        let breakpoint = breakpoint.unwrap_or_default();
        let Proc { nspace, rank } = &call.source;
        tracing::info!("rank {rank} of {nspace} waits for a debugger at {breakpoint}");
        let Some(index) = self.jobs.place(nspace) else {
            return;
        };
        let job = self.jobs.get_mut(index);
        let ready = job.and_then(|job| job.debugging.said(*rank, breakpoint.as_bytes()));
        if let Some(point) = ready {
            self.tell_ready(index, point, breakpoint);
        }
    }

    /// Who ended will not stop any more, so that the others may be all there are.
    pub(super) fn debugged_ended(&mut self, index: usize, rank: Rank) {
        for point in StopPoint::ALL {
            let job = self.jobs.get_mut(index);
            if job.is_some_and(|job| job.debugging.at(point).ended(rank)) {
                let breakpoint = match point {
                    StopPoint::InInit => Text::from(IN_INIT),
                    StopPoint::InApp => Text::default(),
                };
                self.tell_ready(index, point, breakpoint);
            }
        }
    }

    /// Tells that all processes of a job that are to stop at a point have.
    fn tell_ready(&mut self, index: usize, point: StopPoint, breakpoint: Text<'static>) {
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
        if job.origin.is_none() {
            let text = notice(job, point);
            self.forward.write_error(text.as_bytes());
        }
    }
}

/// The processes that stop at a point, as an event names them.
fn stopped(job: &Job<'_>, point: StopPoint) -> Info<'static> {
    let ranks = job.plan.stops.at(point);
    if is_all(job, ranks) {
        return Info::new(keys::EVENT_AFFECTED_PROC, job.proc(Rank::WILDCARD));
    }
    let procs: Vec<_> = ranks.iter().map(|rank| job.proc(*rank)).collect();
    Info::new(keys::EVENT_AFFECTED_PROCS, procs)
}

fn is_all(job: &Job<'_>, ranks: &BTreeSet<Rank>) -> bool {
    ranks.len() == job.plan.layout.here().len()
}

/// What the user is told who asked for the stop.
fn notice(job: &Job<'_>, point: StopPoint) -> String {
    let ranks = job.plan.stops.at(point);
    let place = match point {
        StopPoint::InInit => "in PMIx_Init",
        StopPoint::InApp => "in their program",
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
        "pmix run: job {nspace} waits {place} for a debugger: {named}; `pmix release {nspace}` lets it go on\n"
    )
}
