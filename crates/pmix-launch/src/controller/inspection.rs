// SPDX-License-Identifier: MIT OR Apache-2.0
//! The inspection of processes of all nodes: their pending operations, states and usage, for reports, notices and
//! queries.
//!
//! The agents of other nodes are asked first ([`Inquiries`](super::inquiries::Inquiries)). At the end of an inquiry the
//! controller adds what this node knows, and goes on with its purpose.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use pmix_server::Completion;
use pmix_types::{DataArray, Info, Nspace, Proc, Status, Text, Value};

use super::diagnosis::{MAX_SUBJECTS, examine, subject_form};
use super::inquiries::EndedInquiry;
use super::purpose::{LISTING, Purpose, SubjectsOfNodes};
use super::{Controller, Cx};
use crate::agent::{Answers, Recipient, Report};
use crate::nodes::{ToNode, unpack_infos, unpack_lines};
use crate::pending::{NodeWaits, PendingOperations, merge};
use crate::stacks::QUERY_STACKS;

/// The time for examinations, and for those with stacks.
const EXAMINATION: Duration = Duration::from_secs(3);
const EXAMINATION_WITH_STACKS: Duration = Duration::from_secs(25);

/// The largest number of lines that a node adds to a report.
const MOST_LINES: usize = 4096;

impl Controller {
    /// Asks the agents of other nodes for the pending operations of jobs, or of all jobs.
    ///
    /// # Errors
    /// Returns the purpose if too many inquiries are open.
    pub(super) fn ask_waits(
        &mut self,
        cx: &mut Cx<'_>,
        jobs: Vec<Option<Nspace<'static>>>,
        purpose: Purpose,
    ) -> Result<(), Box<Purpose>> {
        let names = jobs
            .iter()
            .map(|job| job.as_ref().map(|job| job.as_bytes().to_vec()));
        let names: Vec<_> = names.collect();
        let message = |place| {
            let jobs = names.clone();
            (place, move |call| ToNode::Waits {
                call,
                jobs: jobs.clone(),
            })
        };
        let nodes = cx.agent.open_nodes().into_iter().map(message);
        self.inquiries.begin(&mut cx.agent, nodes, LISTING, purpose)
    }

    /// Asks the agents of other nodes to examine processes for a report.
    ///
    /// # Errors
    /// Returns the report if too many inquiries are open.
    pub(super) fn ask_examinations(
        &mut self,
        cx: &mut Cx<'_>,
        others: SubjectsOfNodes,
        report: Report,
    ) -> Result<(), Report> {
        let has_stacks = report.has_stacks;
        let purpose = Purpose::Examination(report);
        let begun = self.examine_at_nodes(cx, others, has_stacks, purpose);
        begun.map_err(|purpose| match *purpose {
            Purpose::Examination(report) => report,
            // The inquiry returns the purpose that it got.
            _ => Report {
                recipient: Recipient::User,
                subjects: Vec::new(),
                has_stacks,
            },
        })
    }

    fn examine_at_nodes(
        &mut self,
        cx: &mut Cx<'_>,
        others: SubjectsOfNodes,
        has_stacks: bool,
        purpose: Purpose,
    ) -> Result<(), Box<Purpose>> {
        let limit = match has_stacks {
            true => EXAMINATION_WITH_STACKS,
            false => EXAMINATION,
        };
        let messages = others.into_iter().map(|(place, subjects)| {
            let message = move |call| ToNode::Examine {
                call,
                subjects: subjects.clone(),
                has_stacks,
            };
            (place, message)
        });
        (self.inquiries).begin(&mut cx.agent, messages, limit, purpose)
    }

    /// Asks the agents of other nodes for the stacks of processes. Those of this node are left out.
    pub(super) fn ask_stacks(
        &mut self,
        cx: &mut Cx<'_>,
        procs: &[Proc<'static>],
        done: Completion<Vec<Info<'static>>>,
    ) {
        let mut others = SubjectsOfNodes::new();
        for proc in procs.iter().take(MAX_SUBJECTS) {
            let Some(process) = cx.agent.jobs().process(proc) else {
                continue;
            };
            let form = subject_form(cx, proc, process);
            if let Some(node) = process.node.filter(|_| process.ended.is_none()) {
                others.entry(node).or_default().push(form);
            }
        }
        let purpose = Purpose::QueryStacks(done);
        if let Err(purpose) = self.examine_at_nodes(cx, others, true, purpose)
            && let Purpose::QueryStacks(done) = *purpose
        {
            done.fail(Status::ERR_OUT_OF_RESOURCE);
        }
    }

    /// Goes on with the purposes of inquiries that have ended.
    pub(crate) fn tick_inquiries(&mut self, cx: &mut Cx<'_>, now: Instant) {
        for ended in self.inquiries.tick(now) {
            let EndedInquiry {
                purpose,
                answers,
                silent,
            } = ended;
            match purpose {
                Purpose::Notice(limit) => {
                    let waits = Waits::of(cx, &answers, silent);
                    let pending = self.merged(cx, None, 0, &waits, now);
                    self.show_notices(cx, &pending, limit, now);
                }
                Purpose::Report(nspace, is_late) => {
                    let waits = Waits::of(cx, &answers, silent);
                    let pending = self.merged(cx, Some(&nspace), 0, &waits, now);
                    let index = self.jobs.place(&nspace);
                    let has_begun =
                        index.is_some_and(|index| self.report(cx, index, is_late, &pending));
                    if is_late && !has_begun {
                        self.end_report(cx, &Recipient::Late(nspace), now);
                    }
                }
                Purpose::Examination(report) => self.show_examined(cx, report, &answers, &silent),
                Purpose::QueryStacks(done) => {
                    let lines = examined(cx, &answers, &silent);
                    let lines = lines.into_iter();
                    let lines = lines.map(|line| Some(Text::new(line.into_bytes())));
                    let lines = Value::DataArray(DataArray::String(lines.collect()));
                    done.succeed(vec![Info::new(QUERY_STACKS, lines)]);
                }
                Purpose::QueryWaits {
                    mut query,
                    jobs,
                    questions,
                    others,
                } => {
                    let waits = Waits::of(cx, &answers, silent);
                    for (place, job) in jobs.into_iter().enumerate() {
                        let pending = self.merged(cx, job.as_ref(), place, &waits, now);
                        query.waits.push((job, pending));
                    }
                    self.ask_usage(cx, query, questions, others);
                }
                Purpose::QueryUsage {
                    mut query,
                    questions,
                    places,
                } => {
                    for (node, answer) in &answers {
                        let places = places.get(node).into_iter().flatten().copied();
                        let answers = infos_of(cx, *node, answer);
                        query.remote.extend(places.zip(answers));
                    }
                    self.measure_here(cx, *query, questions);
                }
            }
        }
    }

    /// Shows the examinations of other nodes, and begins those of this node.
    fn show_examined(
        &mut self,
        cx: &mut Cx<'_>,
        report: Report,
        answers: &BTreeMap<usize, Vec<u8>>,
        silent: &BTreeSet<usize>,
    ) {
        for line in examined(cx, answers, silent) {
            cx.say(&line);
        }
        let recipient = report.recipient.clone();
        if !examine(cx, report) {
            self.end_report(cx, &recipient, Instant::now());
        }
    }

    /// Returns the pending operations of all nodes. `place` is the place of the list in the answers.
    fn merged(
        &self,
        cx: &Cx<'_>,
        job: Option<&Nspace<'_>>,
        place: usize,
        waits: &Waits,
        now: Instant,
    ) -> PendingOperations {
        let name = |node: usize| cx.agent.name_of_node(node).to_owned();
        let here = NodeWaits {
            node: 0,
            name: String::from_utf8_lossy(cx.plan.layout.host()).into_owned(),
            pending: Some(cx.agent.pending(job)),
        };
        let answered = waits.answers.iter().map(|(node, lists)| NodeWaits {
            node: node + 1,
            name: name(*node),
            pending: Some(lists.get(place).cloned().unwrap_or_default()),
        });
        let silent = waits.silent.iter().map(|node| NodeWaits {
            node: node + 1,
            name: name(*node),
            pending: None,
        });
        let nodes = std::iter::once(here).chain(answered).chain(silent);
        let gathered = self.gathering.waits(job, now);
        merge(nodes.collect(), gathered, &cx.agent.places())
    }
}

/// The lists of pending operations of other nodes.
struct Waits {
    /// For each node the lists that were asked for.
    answers: BTreeMap<usize, Vec<PendingOperations>>,
    silent: BTreeSet<usize>,
}

impl Waits {
    /// Reads the answers of nodes. A node with a damaged answer counts as silent.
    fn of(
        cx: &mut Cx<'_>,
        answers: &BTreeMap<usize, Vec<u8>>,
        mut silent: BTreeSet<usize>,
    ) -> Self {
        let mut lists = BTreeMap::new();
        for (node, answer) in answers {
            match unpack_infos(answer) {
                Ok(infos) => {
                    let infos = infos.iter();
                    let read = infos.map(|info| PendingOperations::of_value(&info.value));
                    lists.insert(*node, read.collect());
                }
                Err(error) => {
                    warn_damaged(cx, *node, &error);
                    silent.insert(*node);
                }
            }
        }
        Self {
            answers: lists,
            silent,
        }
    }
}

/// Returns the lines of examinations of other nodes.
fn examined(
    cx: &mut Cx<'_>,
    answers: &BTreeMap<usize, Vec<u8>>,
    silent: &BTreeSet<usize>,
) -> Vec<String> {
    let mut all = Vec::new();
    for (node, answer) in answers {
        match unpack_lines(answer) {
            Ok(lines) => all.extend(lines.into_iter().take(MOST_LINES)),
            Err(error) => warn_damaged(cx, *node, &error),
        }
    }
    let missing = silent.iter().map(|node| {
        let name = cx.agent.name_of_node(*node);
        format!("node {name} has not answered in time, so its processes are not examined")
    });
    all.extend(missing);
    all
}

fn infos_of(cx: &mut Cx<'_>, node: usize, answer: &[u8]) -> Vec<Info<'static>> {
    match unpack_infos(answer) {
        Ok(infos) => infos,
        Err(error) => {
            warn_damaged(cx, node, &error);
            Vec::new()
        }
    }
}

fn warn_damaged(cx: &mut Cx<'_>, node: usize, error: &crate::Error) {
    let name = cx.agent.name_of_node(node).to_owned();
    cx.warn(format!("node {name}: {error}"));
}

/// Returns the results of a query: the arrays of this node, each with the elements of other nodes.
pub(super) fn join_measured(
    here: Answers,
    remote: Vec<(usize, Info<'static>)>,
) -> Vec<Info<'static>> {
    let mut joined = here;
    for (place, info) in remote {
        let Ok(elements) = info.value.as_infos() else {
            // The node does not report the figures.
            continue;
        };
        match joined.get_mut(place) {
            Some(Some(Info {
                value: Value::DataArray(DataArray::Info(known)),
                ..
            })) => known.extend(elements.iter().cloned()),
            Some(empty @ None) => *empty = Some(info),
            _ => {}
        }
    }
    joined.into_iter().flatten().collect()
}
