// SPDX-License-Identifier: MIT OR Apache-2.0
//! What processes and tools want watched, and what the processes of the jobs use.
//!
//! | query | answer |
//! | --- | --- |
//! | `PMIX_QUERY_PROC_RESOURCE_USAGE` | an array with `PMIX_PROC_RESOURCE_USAGE` of each process that runs; qualifiers named like figures (`PMIX_PROC_RSS`) choose them |
//! | `PMIX_QUERY_NODE_RESOURCE_USAGE` | an array with `PMIX_NODE_RESOURCE_USAGE` of this node |
//! | `PMIX_QUERY_MEMORY_USAGE` | an array with `PMIX_HOSTNAME`, `PMIX_DAEMON_MEMORY`, `PMIX_CLIENT_AVG_MEMORY`, and `PMIX_PROC_RESOURCE_USAGE` of each process, or with `PMIX_QUERY_REPORT_MINMAX` of the one that has the least and the one that has the most; with `PMIX_QUERY_REPORT_AVG` alone of none |
//!
//! The processes are those of the job that is asked about, or the rank of it that the qualifiers name.

use std::time::Instant;

use pmix_host::monitor::LocalNode;
use pmix_host::usage::{self, Detail, MOST_PSS, Wanted};
use pmix_server::Completion;
use pmix_server::upcall::{Monitor, Query};
use pmix_types::{DataArray, Info, IntoOwned, Proc, ProcStats, Rank, Status, Text, Value, keys};
use rustix::process::{geteuid, getpid};

use super::job::Job;
use super::session::Session;
use super::support;
use crate::service;

/// The queries that are answered here.
const QUERIES: [&str; 3] = [
    keys::QUERY_PROC_RESOURCE_USAGE,
    keys::QUERY_NODE_RESOURCE_USAGE,
    keys::QUERY_MEMORY_USAGE,
];

/// Of how many processes one request is told, each counted as often as it is asked about, or of one job
/// that has more.
const MOST_ROWS: usize = 4096;

impl Session<'_> {
    /// Serves a request to monitor something.
    pub(super) fn monitor(&mut self, call: &Monitor, done: Completion<Vec<Info<'static>>>) {
        let (user, now) = (geteuid().as_raw(), Instant::now());
        let node = self.local_node();
        match self.monitors.monitor(call, user, &node, now) {
            Ok(found) => done.succeed(found),
            Err(error) => {
                let who = self.called(&call.proc);
                let line =
                    format!("{who} asked to watch something (PMIx_Process_monitor): {error}");
                self.missing.warn_of(line, now);
                done.fail(error.status());
            }
        }
    }

    /// Looks at what is to be looked at by now, and tells what was seen.
    pub(super) fn tick_monitors(&mut self, now: Instant) {
        if self.monitors.deadline().is_none_or(|due| due > now) {
            return;
        }
        let node = self.local_node();
        let server = service::name(&self.plan.nspace);
        for event in self.monitors.tick(&node, now) {
            let told = (self.server).notify(event.status, &server, event.range, &event.infos);
            if let Err(e) = told {
                tracing::warn!("what a monitor saw is not told: {e}");
            }
        }
    }

    /// Answers a query, with what is used.
    pub(super) fn answer_query(&mut self, call: Query) -> (Status, Vec<Info<'static>>) {
        let (mut found, mut num_asked) = (Vec::new(), 0);
        let mut room = Room::default();
        let mut refused = None;
        let mut others = call;
        for mut query in std::mem::take(&mut others.queries) {
            let asks_qualifiers = |info: &Info<'_>| {
                info.key.is(keys::QUERY_SUPPORTED_QUALIFIERS) && info.truth().is_true()
            };
            if query.qualifiers.iter().any(asks_qualifiers) {
                num_asked += query.keys.len();
                found.extend(support::query_qualifiers(&query));
                continue;
            }
            let is = |key: &Text<'_>, own: &str| key.as_bytes() == own.as_bytes();
            for own in QUERIES {
                // What is asked twice is answered once.
                if query.keys.iter().any(|key| is(key, own)) {
                    num_asked += 1;
                    match self.used(&others.proc, own, &query.qualifiers, &mut room) {
                        Ok(used) => found.extend(used),
                        Err(status) => refused = Some(status),
                    }
                }
            }
            query
                .keys
                .retain(|key| !QUERIES.iter().any(|own| is(key, own)));
            if !query.keys.is_empty() {
                others.queries.push(query);
            }
        }
        if others.queries.is_empty() {
            let status = match found.len() {
                0 => refused.unwrap_or(Status::ERR_NOT_FOUND),
                some if some < num_asked => Status::ERR_PARTIAL_SUCCESS,
                _ => Status::SUCCESS,
            };
            return (status, found);
        }
        let (status, mut more) = self.query(&others);
        let has_all = found.len() == num_asked;
        more.extend(found);
        match (status, more.is_empty()) {
            (Status::SUCCESS, _) if has_all => (status, more),
            (_, true) => (status, more),
            _ => (Status::ERR_PARTIAL_SUCCESS, more),
        }
    }

    /// What is used, as the answer to one key of a query; none if nothing is meant, or may be told.
    ///
    /// # Errors
    /// `PMIX_ERR_OUT_OF_RESOURCE` if that would be more than one request is told.
    fn used(
        &mut self,
        asker: &Proc<'static>,
        key: &'static str,
        qualifiers: &[Info<'_>],
        room: &mut Room,
    ) -> Result<Option<Info<'static>>, Status> {
        if !is_own_user(qualifiers) {
            return Ok(None);
        }
        let node = self.node_alone();
        let now = Instant::now();
        if key == keys::QUERY_NODE_RESOURCE_USAGE {
            room.take(1)?;
            let stats = self.monitors.measure_node(&node, now);
            let told = stats.map(|stats| usage::of_node(&stats, &wanted(qualifiers, "pmix.node.")));
            let told = told.ok();
            return Ok(told.map(|told| Info::new(keys::QUERY_NODE_RESOURCE_USAGE, vec![told])));
        }
        let Some(procs) = self.meant_processes(asker, qualifiers) else {
            return Ok(None);
        };
        room.take(procs.len().max(1))?;
        if key == keys::QUERY_PROC_RESOURCE_USAGE {
            let wanted = wanted(qualifiers, "pmix.proc.");
            let detail = match Detail::of(&wanted) {
                Detail::Proportional => match room.take_pss(procs.len()) {
                    Err(status) if wanted.names(keys::PROC_PSS) => return Err(status),
                    Err(_) => Detail::Memory,
                    Ok(()) => Detail::Proportional,
                },
                detail => detail,
            };
            let stats = self.monitors.measure(&procs, &node, detail, now);
            let told: Vec<_> = stats
                .iter()
                .map(|stats| usage::of_process(stats, &wanted))
                .collect();
            return Ok(Some(Info::new(keys::QUERY_PROC_RESOURCE_USAGE, told)));
        }
        let stats = self.monitors.measure(&procs, &node, Detail::Memory, now);
        let Some(own) = room.own() else {
            return Ok(None);
        };
        let told = memory(&node.name, own, &stats, qualifiers);
        Ok(Some(Info::new(keys::QUERY_MEMORY_USAGE, told)))
    }

    /// The processes that a query is about: none if there is no such job.
    fn meant_processes(
        &self,
        asker: &Proc<'static>,
        qualifiers: &[Info<'_>],
    ) -> Option<Vec<(Proc<'static>, i32)>> {
        let (mut nspace, mut rank) = (None, Rank::WILDCARD);
        for info in qualifiers {
            match &info.value {
                Value::String(Some(text)) if info.key.is(keys::NSPACE) => {
                    nspace = Some(text.as_bytes());
                }
                Value::Rank(of) if info.key.is(keys::RANK) => rank = *of,
                Value::Proc(proc) if info.key.is(keys::PROCID) => {
                    nspace = Some(proc.nspace.as_bytes());
                    rank = proc.rank;
                }
                _ => {}
            }
        }
        let job = match nspace {
            Some(name) => self.jobs.iter().find(|job| job.nspace.as_bytes() == name),
            None => self.jobs.named(&asker.nspace).or_else(|| self.jobs.get(0)),
        }?;
        let running = running(job);
        Some(
            running
                .filter(|(proc, _)| rank.matches(proc.rank))
                .collect(),
        )
    }

    /// The node and the processes of the jobs that run on it.
    fn local_node(&self) -> LocalNode {
        LocalNode {
            processes: self.jobs.iter().flat_map(running).collect(),
            ..self.node_alone()
        }
    }

    fn node_alone(&self) -> LocalNode {
        LocalNode {
            name: Text::new(self.plan.layout.host().to_vec()),
            ..LocalNode::default()
        }
    }
}

/// How much more one request may ask for, and what was measured for it.
struct Room {
    rows: usize,
    pss: usize,
    /// What the launcher uses itself, or that the system does not tell.
    own: Option<Option<ProcStats<'static>>>,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            rows: MOST_ROWS,
            pss: MOST_PSS,
            own: None,
        }
    }
}

impl Room {
    /// Takes room for so many processes: for all of them, if there is any.
    fn take(&mut self, rows: usize) -> Result<(), Status> {
        if self.rows == 0 {
            return Err(Status::ERR_OUT_OF_RESOURCE);
        }
        self.rows = self.rows.saturating_sub(rows);
        Ok(())
    }

    /// Takes room for the proportional set size of so many processes.
    fn take_pss(&mut self, num: usize) -> Result<(), Status> {
        let left = self.pss.checked_sub(num);
        self.pss = left.ok_or(Status::ERR_OUT_OF_RESOURCE)?;
        Ok(())
    }

    /// What the launcher uses itself, measured once.
    fn own(&mut self) -> Option<&ProcStats<'static>> {
        let measure = || usage::process(getpid().as_raw_nonzero().get(), Detail::Memory).ok();
        self.own.get_or_insert_with(measure).as_ref()
    }
}

/// The processes of a job that have not ended.
fn running<'j>(job: &'j Job<'_>) -> impl Iterator<Item = (Proc<'static>, i32)> + 'j {
    let running = job.table.iter().filter(|process| process.ended.is_none());
    running.map(|process| (job.proc(process.rank), process.pid.as_raw_nonzero().get()))
}

/// Whether the launcher's own user asks, or the superuser.
fn is_own_user(qualifiers: &[Info<'_>]) -> bool {
    let user = qualifiers.iter().find(|info| info.key.is(keys::USERID));
    let user: Option<u32> = user.and_then(|info| info.value.to_number().ok());
    user.is_some_and(|user| user == 0 || user == geteuid().as_raw())
}

/// The figures that the qualifiers name: those whose keys begin like this, and the command line.
fn wanted(qualifiers: &[Info<'_>], family: &str) -> Wanted {
    let is_figure = |info: &&Info<'_>| {
        info.key.is(keys::CMD_LINE) || info.key.as_bytes().starts_with(family.as_bytes())
    };
    let named = qualifiers.iter().filter(is_figure);
    let named = named.map(|info| info.clone().into_owned());
    Wanted::of_value(&Value::DataArray(DataArray::Info(named.collect())))
}

/// The memory of the launcher and of processes.
fn memory(
    node: &Text<'static>,
    own: &ProcStats<'_>,
    stats: &[ProcStats<'static>],
    qualifiers: &[Info<'_>],
) -> Vec<Info<'static>> {
    let asks = |key| {
        qualifiers
            .iter()
            .any(|info| info.key.is(key) && info.truth().is_true())
    };
    let (is_average, is_ends) = (
        asks(keys::QUERY_REPORT_AVG),
        asks(keys::QUERY_REPORT_MINMAX),
    );
    let num: f32 = stats.iter().map(|_| 1.0).sum();
    let sum: f32 = stats.iter().map(|stats| stats.rss).sum();
    let mut infos = vec![
        Info::new(keys::HOSTNAME, Value::String(Some(node.clone()))),
        Info::new(keys::DAEMON_MEMORY, Value::Float(own.rss)),
        Info::new(keys::CLIENT_AVG_MEMORY, Value::Float(sum / num.max(1.0))),
    ];
    let by_memory = |a: &&ProcStats<'_>, b: &&ProcStats<'_>| a.rss.total_cmp(&b.rss);
    let told: Vec<_> = match (is_ends, is_average) {
        (true, _) => {
            let ends = [
                stats.iter().min_by(by_memory),
                stats.iter().max_by(by_memory),
            ];
            ends.into_iter().flatten().collect()
        }
        (false, true) => Vec::new(),
        (false, false) => stats.iter().collect(),
    };
    let wanted = [Info::new(keys::PROC_RSS, true)].to_vec();
    let wanted = Wanted::of_value(&Value::DataArray(DataArray::Info(wanted)));
    infos.extend(
        told.into_iter()
            .map(|stats| usage::of_process(stats, &wanted)),
    );
    infos
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_request_asks_for_so_much_and_is_refused_more() {
        let mut room = Room::default();
        // One job may have more than there is room for.
        assert_eq!(room.take(MOST_ROWS + 1), Ok(()));
        assert_eq!(room.take(1), Err(Status::ERR_OUT_OF_RESOURCE));
        assert_eq!(room.take_pss(MOST_PSS), Ok(()));
        assert_eq!(room.take_pss(1), Err(Status::ERR_OUT_OF_RESOURCE));
        let mut room = Room::default();
        let refused = Err(Status::ERR_OUT_OF_RESOURCE);
        assert_eq!(room.take_pss(MOST_PSS + 1), refused);
    }

    #[test]
    fn the_launcher_is_measured_once_for_a_request() {
        let mut room = Room::default();
        let first = room.own().map(|own| own.sample_time);
        assert!(first.is_some());
        assert_eq!(room.own().map(|own| own.sample_time), first);
    }
}
