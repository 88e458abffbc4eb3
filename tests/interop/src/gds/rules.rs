// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules for wrong answers of real releases.

use serde_json::Value;

use super::entry::{Entry, Given, THIS_HOST, stated};
use super::node::{Named, Node};
use super::plan::{Form, Plan};
use super::questions::{By, Level, Question};
use super::{Answer, NOT_FOUND, Theirs, keys, model};

/// A wrong answer.
pub(super) struct Case<'a> {
    pub(super) release: &'a str,
    pub(super) plan: &'a Plan,
    pub(super) question: &'a Question,
    pub(super) theirs: &'a Theirs,
}

/// A reason for wrong answers.
pub(super) struct Rule {
    pub(super) name: &'static str,
    pub(super) explains: fn(&Case<'_>) -> bool,
}

impl Case<'_> {
    fn is(&self, release: &str) -> bool {
        self.release.starts_with(release)
    }

    fn asks(&self, keys: &[&str]) -> bool {
        keys.contains(&self.question.key)
    }

    /// Returns `true` if the question is about values of one process.
    fn is_of_rank(&self) -> bool {
        matches!(self.question.level, Level::Rank | Level::Whole)
    }

    /// Returns both places in the maps of the node in question, with the ranks there, if the maps name it twice.
    fn places(&self) -> Option<[(usize, Node); 2]> {
        let (place, _) = self.plan.again.filter(|(p, _)| self.place() == Some(*p))?;
        let mapped = self.plan.mapped();
        let last = mapped.len() - 1;
        let at = |place: usize| Some((place, mapped.get(place)?.clone()));
        Some([at(place)?, at(last)?])
    }

    /// Returns `true` if the release found no value.
    fn not_found(&self) -> bool {
        matches!(self.theirs, Theirs::Answer(answer) if answer.status == NOT_FOUND)
    }

    /// Returns `true` if the server crashed.
    fn crashed(&self) -> bool {
        *self.theirs == Theirs::Crashed("signal 11".to_owned())
    }

    /// Returns `true` if the release answered with the value of the first of two registrations.
    fn says_before(&self, right: Option<&Value>) -> bool {
        let Some(mut value) = right.filter(|_| self.plan.kept.is_some()).cloned() else {
            return false;
        };
        let before = match value["data"].as_u64() {
            Some(number) => Given::number_before(number).into(),
            None => Given::TEXT_BEFORE.into(),
        };
        value["data"] = before;
        self.says(&value)
    }

    /// Returns `true` if the release answered with this value.
    fn says(&self, value: &Value) -> bool {
        matches!(self.theirs, Theirs::Answer(a) if a.status == 0 && a.value == *value)
    }

    /// Returns the node in question.
    fn node(&self) -> Option<&Node> {
        self.plan.nodes.get(self.place()?)
    }

    fn place(&self) -> Option<usize> {
        match self.question.level {
            Level::Node { place, .. }
            | Level::NodeOfRank { place }
            | Level::NodeBesideRank { place }
            | Level::AppNode { place } => Some(place),
            Level::OwnNode => self.plan.nodes.iter().position(|n| n.name == THIS_HOST),
            Level::Rank | Level::Whole => {
                self.plan.place(self.question.rank).map(|(place, _)| place)
            }
            _ => None,
        }
    }

    /// Returns the place of the node in the map as a value.
    fn place_as_number(&self) -> Option<Value> {
        let place = u32::try_from(self.place()?).ok()?;
        Some(Given::Number(place).answer())
    }

    /// Returns `true` if the host has an array for the process in question.
    fn has_proc_array(&self) -> bool {
        self.plan
            .procs
            .iter()
            .any(|(r, _)| *r == self.question.rank)
    }

    /// Returns `true` if the host states this key for the process in question.
    fn is_stated_of_proc(&self, key: &str) -> bool {
        let mut procs = self.plan.procs.iter();
        procs.any(|(r, values)| *r == self.question.rank && stated(values, key).is_some())
    }
}

const MAPPED: &[&str] = &[keys::LOCAL_PEERS, keys::LOCAL_LEADER, keys::LOCAL_SIZE];

impl Case<'_> {
    /// Formats the case in one line.
    pub(super) fn shown(&self, right: &Answer) -> String {
        let theirs = match self.theirs {
            Theirs::Answer(answer) => answer.shown(),
            Theirs::Crashed(how) => how.clone(),
        };
        format!(
            "{:?} {}: {theirs}, not {}; {} in {}",
            self.question.level,
            self.question.key,
            right.shown(),
            self.question.json(self.plan),
            self.plan.json()
        )
    }
}

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "PMIX_ANL_MAP is no process map",
        explains: |case| case.plan.form == Form::Anl && case.not_found(),
    },
    Rule {
        name: "of a node that the maps name twice the last place counts",
        explains: |case| {
            case.asks(MAPPED)
                && case.places().is_some_and(|[_, (_, last)]| {
                    let value = model::derived_of_node(case.plan, &last, case.question.key);
                    value.is_some_and(|value| case.says(&value))
                })
        },
    },
    Rule {
        name: "and its processes count from their own place",
        explains: |case| {
            let own = |(_, node): &(usize, Node)| node.ranks.contains(&case.question.rank);
            case.is_of_rank()
                && case.asks(&[keys::LOCAL_RANK, keys::NODE_RANK, keys::NODE_ID])
                && case
                    .places()
                    .into_iter()
                    .flatten()
                    .find(own)
                    .is_some_and(|(place, node)| {
                        let on = node.ranks.iter().position(|r| *r == case.question.rank);
                        let on = u16::try_from(on.unwrap_or(0)).unwrap_or(0);
                        let number = u32::try_from(place).unwrap_or(0);
                        match case.question.key {
                            keys::NODE_ID => case.says(&Given::Number(number).answer()),
                            _ => case.says(&Given::Short(on).answer()),
                        }
                    })
        },
    },
    Rule {
        name: "the maps outrank the host name of a process array",
        explains: |case| {
            let named = |node: &Node| Given::Text(node.name.clone()).answer();
            case.is_of_rank()
                && case.asks(&[keys::HOST_NAME])
                && case.is_stated_of_proc(keys::HOST_NAME)
                && case.node().is_some_and(|node| case.says(&named(node)))
        },
    },
    Rule {
        name: "a key of the node of a rank that no map has ends a 5.0 server",
        explains: |case| {
            let of_rank = matches!(case.question.level, Level::NodeOfRank { .. });
            (case.question.level == Level::Outside || of_rank && case.plan.form == Form::Anl)
                && case.is("5.0")
                && case.crashed()
        },
    },
    Rule {
        name: "without maps a node array without a name ends a server that looks for one",
        explains: |case| {
            let nameless = |node: &Node| node.has_array() && node.named == Named::Id;
            case.plan.form == Form::Anl && case.plan.nodes.iter().any(nameless) && case.crashed()
        },
    },
    Rule {
        name: "an update of a session, application or node is appended to the earlier data",
        explains: |case| {
            let replaced = [
                Level::Job,
                Level::Rank,
                Level::Whole,
                Level::AnyRank,
                Level::Shade,
            ];
            let right = case.question.right.as_ref();
            !replaced.contains(&case.question.level) && case.says_before(right)
        },
    },
    Rule {
        name: "the maps of an update outrank what was stated before",
        explains: |case| {
            let (plan, key, rank) = (case.plan, case.question.key, case.question.rank);
            let derived = match case.question.level {
                Level::Job => model::derived_of_job(plan, key),
                Level::Rank | Level::Whole => model::derived_of_rank(plan, rank, key),
                _ => None,
            };
            plan.kept.is_some() && derived.is_some_and(|value| case.says(&value))
        },
    },
    Rule {
        name: "PMIX_LOCAL_PROCS is not derived",
        explains: |case| case.asks(&[keys::LOCAL_PROCS]) && case.not_found(),
    },
    Rule {
        name: "name and number of a node do not lead to each other",
        explains: |case| {
            matches!(case.question.level, Level::Node { .. })
                && case.asks(&[keys::HOST_NAME, keys::NODE_ID])
                && case.not_found()
        },
    },
    Rule {
        name: "4.2 keeps the node id of a process but does not answer it",
        explains: |case| {
            case.is_of_rank() && case.asks(&[keys::NODE_ID]) && case.is("4.2") && case.not_found()
        },
    },
    Rule {
        name: "5.0 does not look at other nodes when a process is named",
        explains: |case| {
            matches!(case.question.level, Level::NodeBesideRank { .. })
                && case.is("5.0")
                && case.not_found()
        },
    },
    Rule {
        name: "application number and rank are not derived from application arrays",
        explains: |case| {
            case.is_of_rank()
                && case.asks(&[keys::APP_NUM, keys::APP_RANK])
                && !case.is_stated_of_proc(case.question.key)
                && case.not_found()
        },
    },
    Rule {
        name: "the global rank is not derived from the offset",
        explains: |case| {
            case.is_of_rank()
                && case.asks(&[keys::GLOBAL_RANK])
                && !case.is_stated_of_proc(keys::GLOBAL_RANK)
                && case.not_found()
        },
    },
    Rule {
        name: "a process with an array that has no application number gets number 0",
        explains: |case| {
            case.is_of_rank()
                && case.asks(&[keys::APP_NUM])
                && case.has_proc_array()
                && !case.is_stated_of_proc(keys::APP_NUM)
                && case.says(&Given::Number(0).answer())
        },
    },
    Rule {
        name: "and then the values of application 0 are its own",
        explains: |case| {
            case.question.level == Level::AppOfRank
                && case.is("5.0")
                && case.has_proc_array()
                && !case.is_stated_of_proc(keys::APP_NUM)
                && match model::app(case.plan, 0, case.question.key) {
                    Some(value) => case.says(&value) || case.says_before(Some(&value)),
                    None => case.not_found(),
                }
        },
    },
    Rule {
        name: "keys of its application are not found by a process that states none",
        explains: |case| {
            case.question.level == Level::AppOfRank
                && (case.is("4.2") || !case.has_proc_array())
                && case.not_found()
        },
    },
    Rule {
        name: "one process array takes the derived ranks and node ids of all processes",
        explains: |case| {
            case.is_of_rank()
                && case.asks(&[keys::LOCAL_RANK, keys::NODE_RANK, keys::NODE_ID])
                && !case.plan.procs.is_empty()
                && !case.is_stated_of_proc(case.question.key)
                && case.not_found()
        },
    },
    Rule {
        name: "4.2 does not answer the number of a session",
        explains: |case| case.asks(&[keys::SESSION_ID]) && case.is("4.2") && case.not_found(),
    },
    Rule {
        name: "5.0 answers the highest number for every session",
        explains: |case| {
            case.asks(&[keys::SESSION_ID])
                && case.is("5.0")
                && case.says(&Given::Number(u32::MAX).answer())
        },
    },
    Rule {
        name: "the node list is always the node map",
        explains: |case| {
            case.question.level == Level::Job
                && case.asks(&[keys::NODE_LIST])
                && case.says(&Given::Text(case.plan.names()).answer())
        },
    },
    Rule {
        name: "data in a job array are not found",
        explains: |case| {
            case.plan.in_array
                && stated(&case.plan.job, case.question.key).is_some()
                && match model::derived_of_job(case.plan, case.question.key) {
                    Some(value) => case.says(&value) || case.not_found(),
                    None => case.not_found(),
                }
        },
    },
    Rule {
        name: "a node whose array has no number is not found by number",
        explains: |case| {
            case.node()
                .is_some_and(|n| n.named == Named::Name && n.has_array())
                && matches!(
                    case.question.level,
                    Level::Node { by: By::Id, .. }
                        | Level::NodeBesideRank { .. }
                        | Level::AppNode { .. }
                )
                && case.not_found()
        },
    },
    Rule {
        name: "the maps outrank the peers, leader and size of node arrays",
        explains: |case| {
            case.asks(MAPPED)
                && case
                    .node()
                    .is_some_and(|n| stated(&n.values, case.question.key).is_some())
                && case.place().is_some_and(|p| {
                    model::derived(case.plan, p, case.question.key).is_some_and(|v| case.says(&v))
                })
        },
    },
    Rule {
        name: "the application arrays are not counted",
        explains: |case| {
            case.question.level == Level::Job && case.asks(&[keys::NUM_APPS]) && case.not_found()
        },
    },
    Rule {
        name: "a session-level value beside a session array is not found",
        explains: |case| {
            case.asks(&[keys::UNIVERSE_SIZE])
                && case.plan.session.is_some()
                && stated(&case.plan.job, keys::UNIVERSE_SIZE).is_some()
                && case.not_found()
        },
    },
    Rule {
        name: "the node of a process is numbered by its place in the map",
        explains: |case| {
            case.is_of_rank()
                && case.asks(&[keys::NODE_ID])
                && case.place_as_number().is_some_and(|v| case.says(&v))
        },
    },
    Rule {
        name: "4.2 finds the node of a process by number, not by name",
        explains: |case| {
            let renumbered =
                |node: &Node| case.place_as_number() != Some(Given::Number(node.id).answer());
            let numberless = !case.plan.procs.is_empty() && !case.is_stated_of_proc(keys::NODE_ID);
            matches!(case.question.level, Level::NodeOfRank { .. })
                && case.is("4.2")
                && (numberless || case.node().is_some_and(renumbered))
                && case.not_found()
        },
    },
    Rule {
        name: "values of this node without an array give it an entry without a number",
        explains: |case| {
            !case.plan.own.is_empty()
                && case
                    .node()
                    .is_some_and(|n| n.name == THIS_HOST && !n.has_array())
                && matches!(
                    case.question.level,
                    Level::Node { by: By::Id, .. } | Level::NodeBesideRank { .. }
                )
                && case.not_found()
        },
    },
    Rule {
        name: "4.2 loses an application that states something about this node",
        explains: |case| {
            let about_this = |(place, _): &(usize, Vec<Entry>)| {
                case.plan
                    .nodes
                    .get(*place)
                    .is_some_and(|n| n.name == THIS_HOST)
            };
            case.is("4.2")
                && matches!(
                    case.question.level,
                    Level::App { .. } | Level::FirstApp | Level::AppNode { .. }
                )
                && case
                    .plan
                    .apps
                    .iter()
                    .any(|app| app.nodes.iter().any(about_this))
                && case.not_found()
        },
    },
    Rule {
        name: "any process means one whose rank is below the size of the job",
        explains: |case| {
            let beyond = |rank: u32| rank >= case.plan.size();
            let states = |values: &[Entry]| stated(values, case.question.key).is_some();
            let mut procs = case.plan.procs.iter();
            case.question.level == Level::AnyRank
                && procs.any(|(rank, values)| beyond(*rank) && states(values))
                && case.not_found()
        },
    },
    Rule {
        name: "4.2 does not find the node of a process that is on this node",
        explains: |case| {
            matches!(case.question.level, Level::NodeOfRank { .. })
                && case.is("4.2")
                && case.node().is_some_and(|n| n.name == THIS_HOST)
                && case.not_found()
        },
    },
];
