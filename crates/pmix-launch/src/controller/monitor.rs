// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests to monitor processes, files and the node, and queries for the resource usage of processes.
//!
//! | query | answer |
//! | --- | --- |
//! | `PMIX_QUERY_PROC_RESOURCE_USAGE` | an array with `PMIX_PROC_RESOURCE_USAGE` of each running process; qualifiers with the names of figures (`PMIX_PROC_RSS`) select these |
//! | `PMIX_QUERY_NODE_RESOURCE_USAGE` | an array with `PMIX_NODE_RESOURCE_USAGE` of this node |
//! | `PMIX_QUERY_MEMORY_USAGE` | an array with `PMIX_HOSTNAME`, `PMIX_DAEMON_MEMORY`, `PMIX_CLIENT_AVG_MEMORY`, and `PMIX_PROC_RESOURCE_USAGE` of each process; with `PMIX_QUERY_REPORT_MINMAX` only of the processes with the least and the most memory; with `PMIX_QUERY_REPORT_AVG` alone of no process |
//!
//! The processes are those of the job in question, or the rank of it that the qualifiers name.

use std::time::Instant;

use pmix_host::usage::{Detail, MOST_PSS, Wanted};
use pmix_server::upcall::Query;
use pmix_server::{Completion, EventSource};
use pmix_types::{DataArray, Info, IntoOwned, Proc, Rank, Status, Text, Value, keys};
use rustix::process::geteuid;

use super::support;
use super::{Controller, Cx};
use crate::agent::{Measured, MeasuredQuery, Question};
use crate::service;

/// The keys that are answered here.
const QUERIES: [&str; 3] = [
    keys::QUERY_PROC_RESOURCE_USAGE,
    keys::QUERY_NODE_RESOURCE_USAGE,
    keys::QUERY_MEMORY_USAGE,
];

/// The limit of rows for one request. Each process counts once for each key, and a single job may exceed the limit.
const MOST_ROWS: usize = 4096;

impl Controller {
    /// Lets the thread sample the monitors that are due, and handles available results.
    pub(crate) fn tick_monitors(&self, cx: &mut Cx<'_>, now: Instant) {
        while let Some(measured) = cx.agent.monitors().next() {
            match measured {
                Measured::Monitor(Ok(found), _, done) => done.succeed(found),
                Measured::Monitor(Err(error), proc, done) => {
                    let who = cx.identify(&proc);
                    cx.warn(format!("PMIx_Process_monitor from {who} failed: {error}"));
                    done.fail(error.status());
                }
                Measured::Query(query) => self.finish_query(cx, *query),
                Measured::Events(events) => {
                    let server = service::name(&cx.plan);
                    for event in events {
                        let (status, range, infos) = (event.status, event.range, &event.infos);
                        let source = match &event.observed {
                            Some(proc) => EventSource::Observed(proc),
                            None => EventSource::Reporter(&server),
                        };
                        (cx.agent).notify_of_monitor(status, source, range, infos);
                    }
                }
            }
        }
        cx.agent.tick_monitors(now);
    }

    /// Answers a query, after the requested usage was measured.
    pub(crate) fn handle_query(
        &self,
        cx: &mut Cx<'_>,
        call: Query,
        done: Completion<Vec<Info<'static>>>,
    ) {
        let (mut questions, mut room) = (Vec::new(), Room::default());
        let mut answer = MeasuredQuery {
            others: call,
            found: Vec::new(),
            num_asked: 0,
            refused: None,
            done,
        };
        for mut query in std::mem::take(&mut answer.others.queries) {
            let asks_qualifiers = |info: &Info<'_>| {
                info.key.is(keys::QUERY_SUPPORTED_QUALIFIERS) && info.truth().is_true()
            };
            if query.qualifiers.iter().any(asks_qualifiers) {
                answer.num_asked += query.keys.len();
                answer.found.extend(support::query_qualifiers(&query));
                continue;
            }
            let is = |key: &Text<'_>, own: &str| key.as_bytes() == own.as_bytes();
            for own in QUERIES {
                // A repeated key is answered once.
                if query.keys.iter().any(|key| is(key, own)) {
                    answer.num_asked += 1;
                    let asker = &answer.others.proc;
                    match self.question(cx, asker, own, &query.qualifiers, &mut room) {
                        Ok(question) => questions.extend(question),
                        Err(status) => answer.refused = Some(status),
                    }
                }
            }
            query
                .keys
                .retain(|key| !QUERIES.iter().any(|own| is(key, own)));
            if !query.keys.is_empty() {
                answer.others.queries.push(query);
            }
        }
        match questions.is_empty() {
            true => self.finish_query(cx, answer),
            false => {
                let node = cx.agent.node_alone();
                cx.agent.monitors().query(answer, questions, node);
            }
        }
    }

    /// Completes a query whose measurements are available.
    fn finish_query(&self, cx: &mut Cx<'_>, query: MeasuredQuery) {
        let MeasuredQuery {
            others,
            found,
            num_asked,
            refused,
            done,
        } = query;
        if others.queries.is_empty() {
            let status = match found.len() {
                0 => refused.unwrap_or(Status::ERR_NOT_FOUND),
                some if some < num_asked => Status::ERR_PARTIAL_SUCCESS,
                _ => Status::SUCCESS,
            };
            return done.partly(status, found);
        }
        let (status, mut more) = self.query(cx, &others);
        let has_all = found.len() == num_asked;
        more.extend(found);
        match (status, more.is_empty()) {
            (Status::SUCCESS, _) if has_all => done.partly(status, more),
            (_, true) => done.partly(status, more),
            _ => done.partly(Status::ERR_PARTIAL_SUCCESS, more),
        }
    }

    /// Returns the measurement for one key of a query. Returns `None` if no process matches, or if the requester may
    /// not see the usage.
    ///
    /// # Errors
    /// Returns `PMIX_ERR_OUT_OF_RESOURCE` if the request exceeds the limit.
    fn question(
        &self,
        cx: &Cx<'_>,
        asker: &Proc<'static>,
        key: &'static str,
        qualifiers: &[Info<'_>],
        room: &mut Room,
    ) -> Result<Option<Question>, Status> {
        if !is_own_user(qualifiers) {
            return Ok(None);
        }
        if key == keys::QUERY_NODE_RESOURCE_USAGE {
            room.take(1)?;
            return Ok(Some(Question::Node(wanted(qualifiers, "pmix.node."))));
        }
        let Some(procs) = self.processes_of(cx, asker, qualifiers) else {
            return Ok(None);
        };
        room.take(procs.len().max(1))?;
        if key == keys::QUERY_PROC_RESOURCE_USAGE {
            let wanted = wanted(qualifiers, "pmix.proc.");
            let detail = match Detail::of(&wanted) {
                // The proportional set size is expensive. Beyond its limit it is left out, unless the query names it.
                Detail::Proportional => match room.take_pss(procs.len()) {
                    Err(status) if wanted.names(keys::PROC_PSS) => return Err(status),
                    Err(_) => Detail::Memory,
                    Ok(()) => Detail::Proportional,
                },
                detail => detail,
            };
            return Ok(Some(Question::Processes(procs, detail, wanted)));
        }
        let qualifiers = qualifiers.iter().map(|info| info.clone().into_owned());
        Ok(Some(Question::Memory(procs, qualifiers.collect())))
    }

    /// Returns the processes in question, or `None` if the job does not exist.
    fn processes_of(
        &self,
        cx: &Cx<'_>,
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
        let running = cx.agent.job(&job.nspace)?.running();
        let meant = running.filter(|(proc, _)| rank.matches(proc.rank));
        Some(meant.collect())
    }
}

/// The rest of what one request may measure.
struct Room {
    rows: usize,
    pss: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            rows: MOST_ROWS,
            pss: MOST_PSS,
        }
    }
}

impl Room {
    /// Subtracts this number of rows. Succeeds while at least one row is left.
    fn take(&mut self, rows: usize) -> Result<(), Status> {
        if self.rows == 0 {
            return Err(Status::ERR_OUT_OF_RESOURCE);
        }
        self.rows = self.rows.saturating_sub(rows);
        Ok(())
    }

    /// Subtracts this number of measurements of the proportional set size.
    fn take_pss(&mut self, num: usize) -> Result<(), Status> {
        let left = self.pss.checked_sub(num);
        self.pss = left.ok_or(Status::ERR_OUT_OF_RESOURCE)?;
        Ok(())
    }
}

/// Returns `true` if the requester is the launcher's user or root.
fn is_own_user(qualifiers: &[Info<'_>]) -> bool {
    let user = qualifiers.iter().find(|info| info.key.is(keys::USERID));
    let user: Option<u32> = user.and_then(|info| info.value.to_number().ok());
    user.is_some_and(|user| user == 0 || user == geteuid().as_raw())
}

/// Returns the figures that the qualifiers name: keys with this prefix, and the command line.
fn wanted(qualifiers: &[Info<'_>], family: &str) -> Wanted {
    let is_figure = |info: &&Info<'_>| {
        info.key.is(keys::CMD_LINE) || info.key.as_bytes().starts_with(family.as_bytes())
    };
    let named = qualifiers.iter().filter(is_figure);
    let named = named.map(|info| info.clone().into_owned());
    Wanted::of_value(&Value::DataArray(DataArray::Info(named.collect())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_request_asks_for_so_much_and_is_refused_more() {
        let mut room = Room::default();
        // A single job may exceed the limit.
        assert_eq!(room.take(MOST_ROWS + 1), Ok(()));
        assert_eq!(room.take(1), Err(Status::ERR_OUT_OF_RESOURCE));
        assert_eq!(room.take_pss(MOST_PSS), Ok(()));
        assert_eq!(room.take_pss(1), Err(Status::ERR_OUT_OF_RESOURCE));
        let mut room = Room::default();
        let refused = Err(Status::ERR_OUT_OF_RESOURCE);
        assert_eq!(room.take_pss(MOST_PSS + 1), refused);
    }
}
