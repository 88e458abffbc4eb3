// SPDX-License-Identifier: MIT OR Apache-2.0
//! What only the launcher knows of a job: its processes as the system has them, and its time.

use std::collections::HashSet;
use std::time::Instant;

use pmix_server::upcall::Query;
use pmix_types::{DataArray, Info, Proc, ProcInfo, ProcState, Status, Text, Value, keys};

use super::job::Job;
use crate::process::{Ending, Link, Process};

impl Job<'_> {
    /// What there is of the keys that are asked, and whether that is all of them.
    pub(super) fn query(&self, call: &Query) -> (Status, Vec<Info<'static>>) {
        let mut found = Vec::new();
        let mut num_asked = 0;
        // A table of all processes is long; one is enough.
        let mut seen = HashSet::new();
        for query in &call.queries {
            let own = query.qualifiers.iter().all(|info| self.concerns(info));
            for key in &query.keys {
                if seen.insert((own, key.as_bytes())) {
                    num_asked += 1;
                    found.extend(own.then(|| self.known(key.as_bytes())).flatten());
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

    /// Whether a qualifier does not mean another job.
    fn concerns(&self, info: &Info<'_>) -> bool {
        let nspace = match &info.value {
            Value::String(Some(text)) => text.as_bytes(),
            _ => return true,
        };
        !info.key.is(keys::NSPACE) || nspace == self.plan.nspace.as_bytes()
    }

    fn known(&self, key: &[u8]) -> Option<Info<'static>> {
        let is = |known: &str| key == known.as_bytes();
        let table = [keys::QUERY_PROC_TABLE, keys::QUERY_LOCAL_PROC_TABLE];
        if let Some(key) = table.into_iter().find(|key| is(key)) {
            let processes = self.table.iter().map(|process| self.about(process));
            let array = DataArray::ProcInfo(processes.collect());
            return Some(Info::new(key, Value::DataArray(array)));
        }
        if is(keys::TIME_REMAINING) {
            let left = self.stop.time_left(Instant::now())?.as_secs();
            return Some(Info::new(keys::TIME_REMAINING, u32::try_from(left).ok()?));
        }
        // No attribute of a spawn is supported, as no spawn is.
        is(keys::QUERY_SPAWN_SUPPORT).then(|| Info::new(keys::QUERY_SPAWN_SUPPORT, ""))
    }

    fn about(&self, process: &Process) -> ProcInfo<'static> {
        let program = self.plan.apps.get(process.app).map(|app| &app.program);
        let text = |bytes: &[u8]| Some(Text::new(bytes.to_vec()));
        ProcInfo {
            proc: Proc::new(self.plan.nspace.clone(), process.rank),
            hostname: text(self.plan.layout.host()),
            executable_name: program.and_then(|name| text(name.as_encoded_bytes())),
            pid: process.pid.as_raw_nonzero().get(),
            exit_code: process
                .ended
                .map_or(0, |(ending, _)| ending.exit_code().into()),
            state: state(process),
        }
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
        (Some((Ending::Signalled { .. }, _)), _) => ProcState::ABORTED_BY_SIG,
    }
}
