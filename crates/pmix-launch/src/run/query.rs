// SPDX-License-Identifier: MIT OR Apache-2.0
//! What only the launcher knows of a job: its processes as the system has them, and its time.

use std::collections::HashSet;
use std::time::Instant;

use pmix_server::upcall::Query;
use pmix_types::{DataArray, Info, ProcInfo, ProcState, Status, Text, Value, keys};

use super::directives::Directive;
use super::job::Job;
use super::session::Session;
use crate::process::{Ending, Link, Process};

impl Session<'_> {
    /// What there is of the keys that are asked, and whether that is all of them.
    pub(super) fn query(&self, call: &Query) -> (Status, Vec<Info<'static>>) {
        let mut found = Vec::new();
        let mut num_asked = 0;
        // A table of all processes is long; one is enough.
        let mut seen = HashSet::new();
        for query in &call.queries {
            let job = self.meant(call, &query.qualifiers);
            let name = job.map(|job| job.nspace.as_bytes());
            for key in &query.keys {
                if seen.insert((name, key.as_bytes())) {
                    num_asked += 1;
                    found.extend(job.and_then(|job| self.known(job, key.as_bytes())));
                }
            }
        }
        let status = match found.len() {
            0 => Status::ERR_NOT_FOUND,
            some if some < num_asked => Status::ERR_PARTIAL_SUCCESS,
            _ => Status::SUCCESS,
        };
        (status, found)
    }

    /// The job that is asked about: that of the qualifiers, else that of who asks, else the first.
    fn meant(&self, call: &Query, qualifiers: &[Info<'_>]) -> Option<&Job<'_>> {
        let named = qualifiers.iter().find_map(|info| match &info.value {
            Value::String(Some(text)) if info.key.is(keys::NSPACE) => Some(text),
            _ => None,
        });
        match named {
            Some(text) => (self.jobs.iter()).find(|job| job.nspace.as_bytes() == text.as_bytes()),
            None => self
                .jobs
                .named(&call.proc.nspace)
                .or_else(|| self.jobs.get(0)),
        }
    }

    fn known(&self, job: &Job<'_>, key: &[u8]) -> Option<Info<'static>> {
        let is = |known: &str| key == known.as_bytes();
        let table = [keys::QUERY_PROC_TABLE, keys::QUERY_LOCAL_PROC_TABLE];
        if let Some(key) = table.into_iter().find(|key| is(key)) {
            let processes = job.table.iter().map(|process| about(job, process));
            let array = DataArray::ProcInfo(processes.collect());
            return Some(Info::new(key, Value::DataArray(array)));
        }
        if is(keys::TIME_REMAINING) {
            let left = job.stop.time_left(Instant::now())?.as_secs();
            return Some(Info::new(keys::TIME_REMAINING, u32::try_from(left).ok()?));
        }
        is(keys::QUERY_SPAWN_SUPPORT)
            .then(|| Info::new(keys::QUERY_SPAWN_SUPPORT, Directive::supported()))
    }
}

fn about(job: &Job<'_>, process: &Process) -> ProcInfo<'static> {
    let program = job.plan.apps.get(process.app).map(|app| &app.program);
    let text = |bytes: &[u8]| Some(Text::new(bytes.to_vec()));
    ProcInfo {
        proc: job.proc(process.rank),
        hostname: text(job.plan.layout.host()),
        executable_name: program.and_then(|name| text(name.as_encoded_bytes())),
        pid: process.pid.as_raw_nonzero().get(),
        exit_code: process
            .ended
            .map_or(0, |(ending, _)| ending.exit_code().into()),
        state: state(process),
    }
}

/// The state of a process in the words of the Standard.
fn state(process: &Process) -> ProcState {
    match (process.ended, process.link) {
        (None, Link::Connected) => ProcState::CONNECTED,
        (None, Link::None | Link::Finalized) => ProcState::RUNNING,
        (Some((Ending::Exited(0), _)), Link::Connected) => ProcState::TERM_WO_SYNC,
        (Some((Ending::Exited(0), _)), _) => ProcState::TERMINATED,
        (Some((Ending::Exited(_), _)), _) => ProcState::TERM_NON_ZERO,
        (Some((Ending::Signalled { .. }, _)), _) if process.was_killed_by_command() => {
            ProcState::KILLED_BY_CMD
        }
        (Some((Ending::Signalled { .. }, _)), _) => ProcState::ABORTED_BY_SIG,
    }
}
