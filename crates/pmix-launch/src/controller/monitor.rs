// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests to monitor processes, files and the node, and queries for the resource usage of processes.
//!
//! | query | answer |
//! | --- | --- |
//! | `PMIX_QUERY_PROC_RESOURCE_USAGE` | an array with `PMIX_PROC_RESOURCE_USAGE` of each running process; qualifiers with the names of figures (`PMIX_PROC_RSS`) select these |
//! | `PMIX_QUERY_NODE_RESOURCE_USAGE` | an array with `PMIX_NODE_RESOURCE_USAGE` of this node |
//! | [`QUERY_STACKS`] | the lines of a report about the processes of other nodes that the qualifiers name (`PMIX_PROCID`), with their stacks |
//! | `PMIX_QUERY_MEMORY_USAGE` | an array with `PMIX_HOSTNAME`, `PMIX_DAEMON_MEMORY`, `PMIX_CLIENT_AVG_MEMORY`, and `PMIX_PROC_RESOURCE_USAGE` of each process; with `PMIX_QUERY_REPORT_MINMAX` only of the processes with the least and the most memory; with `PMIX_QUERY_REPORT_AVG` alone of no process |
//!
//! The processes are those of the job in question, or the rank of it that the qualifiers name. On several nodes, the arrays
//! have the elements of the node of the launcher first, then those of the others.

use std::collections::BTreeMap;
use std::time::Instant;

use pmix_host::usage::{Detail, MOST_PSS, Wanted};
use pmix_server::upcall::Query;
use pmix_server::{Completion, EventSource};
use pmix_types::{DataArray, Info, IntoOwned, Proc, Rank, Status, Text, Value, keys};
use rustix::process::geteuid;

use super::inspection::join_measured;
use super::purpose::{LISTING, Purpose, QuestionsOfNodes};
use super::support;
use super::{Controller, Cx};
use crate::agent::{Measured, MeasuredQuery, Question};
use crate::host::AtNode;
use crate::nodes::{QuestionForm, QuestionKind, ToNode, pack_infos};
use crate::service;
use crate::stacks::QUERY_STACKS;

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
                // The controller has no other controller.
                Measured::Asked(..) => {}
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
        &mut self,
        cx: &mut Cx<'_>,
        node: AtNode,
        call: Query,
        done: Completion<Vec<Info<'static>>>,
    ) {
        if let Some(procs) = stacks_of(&call) {
            return self.ask_stacks(cx, &procs, done);
        }
        let (mut questions, mut room) = (Asked::default(), Room::default());
        let mut answer = MeasuredQuery {
            node,
            others: call,
            found: Vec::new(),
            measured: Vec::new(),
            remote: Vec::new(),
            waits: Vec::new(),
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
                    let asked = self.question(
                        cx,
                        asker,
                        own,
                        &query.qualifiers,
                        (&mut questions, &mut room),
                    );
                    if let Err(status) = asked {
                        answer.refused = Some(status);
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
        let jobs = match cx.agent.open_nodes().is_empty() {
            true => Vec::new(),
            false => self.pending_jobs(cx, node, &answer.others),
        };
        let Asked { here, others } = questions;
        if jobs.is_empty() {
            return self.ask_usage(cx, Box::new(answer), here, others);
        }
        let purpose = Purpose::QueryWaits {
            query: Box::new(answer),
            jobs: jobs.clone(),
            questions: here,
            others,
        };
        if let Err(purpose) = self.ask_waits(cx, jobs, purpose)
            && let Purpose::QueryWaits { query, .. } = *purpose
        {
            query.done.fail(Status::ERR_OUT_OF_RESOURCE);
        }
    }

    /// Asks the agents of other nodes for the measurements of a query, before those of this node.
    pub(super) fn ask_usage(
        &mut self,
        cx: &mut Cx<'_>,
        query: Box<MeasuredQuery>,
        questions: Vec<Question>,
        others: QuestionsOfNodes,
    ) {
        if others.is_empty() {
            return self.measure_here(cx, *query, questions);
        }
        let (mut places, mut messages) = (BTreeMap::new(), Vec::new());
        for (node, asked) in others {
            let (of_node, forms): (Vec<_>, Vec<_>) = asked.into_iter().unzip();
            places.insert(node, of_node);
            let message = move |call| ToNode::Measure {
                call,
                questions: forms.clone(),
            };
            messages.push((node, message));
        }
        let purpose = Purpose::QueryUsage {
            query,
            questions,
            places,
        };
        let begun = (self.inquiries).begin(&mut cx.agent, messages, LISTING, purpose);
        if let Err(purpose) = begun
            && let Purpose::QueryUsage { query, .. } = *purpose
        {
            query.done.fail(Status::ERR_OUT_OF_RESOURCE);
        }
    }

    /// Lets the thread measure for a query, or completes the query if nothing is to be measured.
    pub(super) fn measure_here(
        &self,
        cx: &mut Cx<'_>,
        query: MeasuredQuery,
        questions: Vec<Question>,
    ) {
        match questions.is_empty() {
            true => self.finish_query(cx, query),
            false => {
                let node = cx.agent.node_alone();
                cx.agent.monitors().query(query, questions, node);
            }
        }
    }

    /// Completes a query whose measurements are available.
    fn finish_query(&self, cx: &mut Cx<'_>, query: MeasuredQuery) {
        let MeasuredQuery {
            node,
            others,
            mut found,
            measured,
            remote,
            waits,
            num_asked,
            refused,
            done,
        } = query;
        found.extend(join_measured(measured, remote));
        if others.queries.is_empty() {
            let status = match found.len() {
                0 => refused.unwrap_or(Status::ERR_NOT_FOUND),
                some if some < num_asked => Status::ERR_PARTIAL_SUCCESS,
                _ => Status::SUCCESS,
            };
            return done.partly(status, found);
        }
        let (status, mut more) = self.query(cx, node, &others, &waits);
        let has_all = found.len() == num_asked;
        more.extend(found);
        match (status, more.is_empty()) {
            (Status::SUCCESS, _) if has_all => done.partly(status, more),
            (_, true) => done.partly(status, more),
            _ => done.partly(Status::ERR_PARTIAL_SUCCESS, more),
        }
    }

    /// Adds the measurement for one key of a query. Adds none if no job matches, or if the requester may not see the
    /// usage.
    ///
    /// # Errors
    /// Returns `PMIX_ERR_OUT_OF_RESOURCE` if the request exceeds the limit.
    fn question(
        &self,
        cx: &Cx<'_>,
        asker: &Proc<'static>,
        key: &'static str,
        qualifiers: &[Info<'_>],
        (asked, room): (&mut Asked, &mut Room),
    ) -> Result<(), Status> {
        if !is_own_user(qualifiers) {
            return Ok(());
        }
        if key == keys::QUERY_NODE_RESOURCE_USAGE {
            let nodes = cx.agent.open_nodes();
            room.take(1 + nodes.len())?;
            let figures = wanted(qualifiers, "pmix.node.");
            for node in nodes {
                asked.add_form(node, QuestionKind::Node, &[], &figures);
            }
            asked.here.push(Question::Node(figures));
            return Ok(());
        }
        let Some(procs) = self.processes_of(cx, asker, qualifiers) else {
            return Ok(());
        };
        room.take(procs.len().max(1))?;
        let (kind, infos) = match key == keys::QUERY_PROC_RESOURCE_USAGE {
            true => {
                let figures = wanted(qualifiers, "pmix.proc.");
                let keys_of_figures =
                    Wanted::of_value(&Value::DataArray(DataArray::Info(figures.clone())));
                let detail = match Detail::of(&keys_of_figures) {
                    // The proportional set size is expensive. Beyond its limit it is left out, unless the query names it.
                    Detail::Proportional => match room.take_pss(procs.len()) {
                        Err(status) if keys_of_figures.names(keys::PROC_PSS) => return Err(status),
                        Err(_) => Detail::Memory,
                        Ok(()) => Detail::Proportional,
                    },
                    detail => detail,
                };
                (QuestionKind::Processes(detail.into()), figures)
            }
            false => {
                let qualifiers = qualifiers.iter().map(|info| info.clone().into_owned());
                (QuestionKind::Memory, qualifiers.collect())
            }
        };
        let (mut here, mut others) = (Vec::new(), BTreeMap::<usize, Vec<_>>::new());
        for (proc, pid, node) in procs {
            match node {
                None => here.push((proc, pid)),
                Some(node) => others.entry(node).or_default().push(proc),
            }
        }
        for (node, procs) in others {
            asked.add_form(node, kind, &procs, &infos);
        }
        asked.here.push(match kind {
            QuestionKind::Processes(detail) => Question::Processes(here, detail.into(), infos),
            _ => Question::Memory(here, infos),
        });
        Ok(())
    }

    /// Returns the running processes in question on all nodes, with the numbers of other nodes, or `None` if the job does
    /// not exist.
    fn processes_of(
        &self,
        cx: &Cx<'_>,
        asker: &Proc<'static>,
        qualifiers: &[Info<'_>],
    ) -> Option<Vec<(Proc<'static>, i32, AtNode)>> {
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
        let running = cx.agent.job(&job.nspace)?.running_everywhere();
        let meant = running.filter(|(proc, ..)| rank.matches(proc.rank));
        Some(meant.collect())
    }
}

/// The measurements for a query, of this node and of other nodes.
#[derive(Default)]
struct Asked {
    here: Vec<Question>,
    others: QuestionsOfNodes,
}

impl Asked {
    /// Adds the measurement of another node for the question that is added next.
    fn add_form(
        &mut self,
        node: usize,
        kind: QuestionKind,
        procs: &[Proc<'_>],
        infos: &[Info<'_>],
    ) {
        let infos = match pack_infos(infos) {
            Ok(infos) => infos,
            Err(error) => return tracing::warn!("cannot pass on a query: {error}"),
        };
        let nspace = procs.first().map(|proc| proc.nspace.as_bytes().to_vec());
        let form = QuestionForm {
            kind,
            nspace: nspace.unwrap_or_default(),
            ranks: procs.iter().map(|proc| proc.rank.as_raw()).collect(),
            infos,
        };
        let place = self.here.len();
        self.others.entry(node).or_default().push((place, form));
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

/// Returns the processes whose stacks a query asks for. Such a query has no other key.
fn stacks_of(call: &Query) -> Option<Vec<Proc<'static>>> {
    let [query] = &call.queries[..] else {
        return None;
    };
    let [key] = &query.keys[..] else {
        return None;
    };
    if key.as_bytes() != QUERY_STACKS.as_bytes() || !is_own_user(&query.qualifiers) {
        return None;
    }
    let named = query
        .qualifiers
        .iter()
        .filter_map(|info| match &info.value {
            Value::Proc(proc) if info.key.is(keys::PROCID) => Some(proc.clone()),
            _ => None,
        });
    Some(named.collect())
}

/// Returns `true` if the requester is the launcher's user or root.
fn is_own_user(qualifiers: &[Info<'_>]) -> bool {
    let user = qualifiers.iter().find(|info| info.key.is(keys::USERID));
    let user: Option<u32> = user.and_then(|info| info.value.to_number().ok());
    user.is_some_and(|user| user == 0 || user == geteuid().as_raw())
}

/// Returns the figures that the qualifiers name: keys with this prefix, and the command line.
fn wanted(qualifiers: &[Info<'_>], family: &str) -> Vec<Info<'static>> {
    let is_figure = |info: &&Info<'_>| {
        info.key.is(keys::CMD_LINE) || info.key.as_bytes().starts_with(family.as_bytes())
    };
    let named = qualifiers.iter().filter(is_figure);
    named.map(|info| info.clone().into_owned()).collect()
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
