// SPDX-License-Identifier: MIT OR Apache-2.0
//! Questions about a job, with the right answers.

use std::slice::from_ref;

use serde_json::{Value, json};

use super::entry::{Entry, Given, THIS_HOST, entry, qualifier, text};
use super::plan::{Form, Plan};
use super::{Answer, Theirs, keys, model};
use crate::harness::hex;
use crate::random::Random;

/// `PMIX_RANK_WILDCARD`: the whole job.
pub(super) const WILDCARD: u32 = 4_294_967_294;
/// `PMIX_RANK_UNDEF`: any process.
pub(super) const UNDEFINED: u32 = 4_294_967_295;
/// A rank beyond every job.
pub(super) const OUTSIDE: u32 = 9999;

/// The way in which a question names a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Id,
    Name,
    Alias,
}

/// The level and the target of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Job,
    /// A job-level key of one process, which has no such value.
    JobOfRank,
    Rank,
    /// A rank beyond the job.
    Outside,
    /// All values of a process.
    Whole,
    /// A key with qualified values, of the job or of a process.
    Shade,
    /// Any rank that has the key.
    AnyRank,
    /// A named node, with or without `PMIX_NODE_INFO`.
    Node {
        place: usize,
        by: By,
        flag: bool,
    },
    /// An unknown node.
    NoNode,
    /// The node of a process.
    NodeOfRank {
        place: usize,
    },
    /// Another node in a question about a process.
    NodeBesideRank {
        place: usize,
    },
    /// The node of the server.
    OwnNode,
    App {
        number: u32,
    },
    /// The first application, as none is named.
    FirstApp,
    AppOfRank,
    AppNode {
        place: usize,
    },
    /// The session, with or without its number.
    Session {
        named: bool,
    },
    /// A session with another number.
    OtherSession,
    /// A session-level key without `PMIX_SESSION_INFO`.
    SessionOfJob,
    SessionOfRank,
    /// A namespace that is not registered.
    OtherJob,
}

/// A get and the right value; `None` means "not found".
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) level: Level,
    pub(super) rank: u32,
    pub(super) key: &'static str,
    pub(super) qualifiers: Vec<Entry>,
    pub(super) right: Option<Value>,
}

impl Question {
    /// Returns the namespace of the get.
    fn nspace<'a>(&self, plan: &'a Plan) -> &'a str {
        if self.level == Level::OtherJob {
            "nobody@1"
        } else {
            &plan.nspace
        }
    }

    /// Returns the get in the form of the vectors.
    pub(super) fn json(&self, plan: &Plan) -> Value {
        let qualifiers: Vec<_> = self.qualifiers.iter().map(Entry::json).collect();
        let proc = json!({"nspace": self.nspace(plan), "rank": self.rank});
        let key = Some(self.key).filter(|_| self.level != Level::Whole);
        json!({"key": key, "proc": proc, "qualifiers": qualifiers})
    }

    /// Returns the get in the form of the peer program.
    pub(super) fn request(&self, plan: &Plan, host: &str) -> String {
        let infos: Vec<_> = self.qualifiers.iter().map(|e| e.words(host)).collect();
        let nspace = hex(self.nspace(plan).as_bytes());
        format!(
            "get {nspace} {} {} {}",
            self.rank,
            self.key,
            infos.join(" ")
        )
    }
}

impl Question {
    /// Splits a question about all values of a process and its answer into one per key. Other questions are returned
    /// unchanged.
    pub(super) fn parts(&self, theirs: Theirs, right: &Answer) -> Vec<(Self, Theirs)> {
        let items = |answer: &Answer| answer.value["data"]["items"].as_array().cloned();
        let (Level::Whole, Theirs::Answer(answer)) = (self.level, &theirs) else {
            return vec![(self.clone(), theirs)];
        };
        let (Some(theirs_all), Some(right)) = (items(answer), items(right)) else {
            return vec![(self.clone(), theirs)];
        };
        let value = |all: &[Value], key: &str| {
            let found = all.iter().find(|item| item["key"] == key);
            found.map(|item| item["value"].clone())
        };
        let known = WHOLE_KEYS.iter().map(|key| {
            let question = Self {
                key,
                right: value(&right, key),
                ..self.clone()
            };
            let theirs = Answer::of(value(&theirs_all, key));
            (question, Theirs::Answer(theirs))
        });
        let is_known = |item: &&Value| WHOLE_KEYS.iter().any(|key| item["key"] == *key);
        let strange = theirs_all
            .iter()
            .filter(|item| !is_known(item))
            .map(|item| {
                let question = Self {
                    right: None,
                    ..self.clone()
                };
                (question, Theirs::Answer(Answer::of(Some(item.clone()))))
            });
        known.chain(strange).collect()
    }
}

fn flag(key: &'static str) -> Entry {
    entry(key, Given::Flag(true))
}

fn number(key: &'static str, value: u32) -> Entry {
    entry(key, Given::Number(value))
}

/// A list of questions under construction.
#[derive(Default)]
struct List(Vec<Question>);

impl List {
    fn ask(
        &mut self,
        level: Level,
        rank: u32,
        key: &'static str,
        qualifiers: &[Entry],
        right: Option<Value>,
    ) {
        self.0.push(Question {
            level,
            rank,
            key,
            qualifiers: qualifiers.to_vec(),
            right,
        });
    }
}

/// Returns the questions about a job.
pub(super) fn about(plan: &Plan, random: &mut Random) -> Vec<Question> {
    let mut list = List::default();
    let ranks: Vec<u32> = plan.nodes.iter().flat_map(|n| n.ranks.clone()).collect();
    let mut some = ranks.clone();
    random.shuffle(&mut some);
    some.truncate(4);
    of_job(plan, &some, &mut list);
    for rank in &some {
        of_rank(plan, *rank, &mut list);
    }
    of_whole(plan, &some, &mut list);
    of_shades(plan, &mut list);
    of_nobody(plan, &mut list);
    let mut places: Vec<usize> = (0..plan.nodes.len()).collect();
    random.shuffle(&mut places);
    places.truncate(3);
    for place in places {
        of_node(plan, place, &some, &mut list);
    }
    of_apps(plan, &some, &mut list);
    of_session(plan, &some, &mut list);
    list.0
}

const JOB_KEYS: &[&str] = &[
    keys::JOB_SIZE,
    keys::NUM_NODES,
    keys::NODE_LIST,
    keys::MAX_PROCS,
    keys::NUM_APPS,
    keys::JOB_ID,
    keys::MAP_BY,
    keys::OFFSET,
    keys::MY_JOB,
    keys::NOBODY,
];

/// The key of a question without a key.
const NO_KEY: &str = "-";

/// Asks for all values of processes, as an array of infos sorted by key.
fn of_whole(plan: &Plan, some: &[u32], list: &mut List) {
    let has_shades = |rank: u32| plan.shades.iter().any(|s| s.rank == Some(rank));
    for rank in some.iter().filter(|rank| !has_shades(**rank)).take(2) {
        let infos = model::whole(plan, *rank).into_iter();
        let infos: Vec<_> = infos
            .map(|(key, value)| json!({"key": key, "value": value}))
            .collect();
        let array = json!({"array_of": "PMIX_INFO", "items": infos});
        let right = json!({"data": array, "type": "PMIX_DATA_ARRAY", "type_id": 39});
        list.ask(Level::Whole, *rank, NO_KEY, &[], Some(right));
    }
}

/// Asks for values with a color as qualifier. Without a color, or with another one, there is no
/// value.
fn of_shades(plan: &Plan, list: &mut List) {
    for shades in &plan.shades {
        let rank = shades.rank.unwrap_or(WILDCARD);
        for colour in &shades.colours {
            let how = [qualifier(keys::MY_COLOUR, colour)];
            let right = Some(shades.value(colour).answer());
            list.ask(Level::Shade, rank, keys::MY_SHADE, &how, right);
        }
        let other = [qualifier(keys::MY_COLOUR, "octarine")];
        list.ask(Level::Shade, rank, keys::MY_SHADE, &other, None);
        list.ask(Level::Shade, rank, keys::MY_SHADE, &[], None);
    }
}

fn of_job(plan: &Plan, some: &[u32], list: &mut List) {
    let anl = (plan.form == Form::Anl).then_some(&keys::ANL_MAP);
    for key in JOB_KEYS.iter().chain(anl) {
        let right = model::job(plan, key);
        list.ask(Level::Job, WILDCARD, key, &[], right);
    }
    for rank in some.iter().take(1) {
        for key in [keys::JOB_SIZE, keys::NUM_NODES, keys::JOB_ID, keys::MY_JOB] {
            list.ask(Level::JobOfRank, *rank, key, &[], None);
        }
    }
    list.ask(Level::OtherJob, WILDCARD, keys::JOB_SIZE, &[], None);
    // A value that only one process has is found without naming the process.
    let has = |values: &[Entry]| values.iter().any(|e| e.key == keys::MY_PROC);
    let mut with = plan.procs.iter().filter(|(_, values)| has(values));
    if let (Some((rank, _)), None) = (with.next(), with.next()) {
        let right = model::rank(plan, *rank, keys::MY_PROC);
        list.ask(Level::AnyRank, UNDEFINED, keys::MY_PROC, &[], right);
    }
}

/// The keys that processes may have.
const WHOLE_KEYS: &[&str] = &[
    keys::HOST_NAME,
    keys::NODE_ID,
    keys::LOCAL_RANK,
    keys::NODE_RANK,
    keys::APP_NUM,
    keys::GLOBAL_RANK,
    keys::APP_RANK,
    keys::MY_PROC,
];

const RANK_KEYS: &[&str] = &[
    keys::HOST_NAME,
    keys::NODE_ID,
    keys::LOCAL_RANK,
    keys::NODE_RANK,
    keys::APP_NUM,
    keys::GLOBAL_RANK,
    keys::APP_RANK,
    keys::MY_PROC,
    keys::NOBODY,
];

const NODE_KEYS: &[&str] = &[
    keys::LOCAL_PEERS,
    keys::LOCAL_LEADER,
    keys::LOCAL_SIZE,
    keys::NODE_SIZE,
    keys::MEMORY,
    keys::ALIASES,
    keys::LOCAL_PROCS,
];

fn of_rank(plan: &Plan, rank: u32, list: &mut List) {
    for key in RANK_KEYS {
        list.ask(Level::Rank, rank, key, &[], model::rank(plan, rank, key));
    }
    let Some((place, _)) = plan.place(rank) else {
        return;
    };
    for key in NODE_KEYS {
        let right = model::node(plan, place, key);
        list.ask(Level::NodeOfRank { place }, rank, key, &[], right);
    }
}

fn of_nobody(plan: &Plan, list: &mut List) {
    for key in [keys::HOST_NAME, keys::LOCAL_RANK, keys::LOCAL_PEERS] {
        list.ask(Level::Outside, OUTSIDE, key, &[], None);
    }
    let unknown = [
        number(keys::NODE_ID, 99_999),
        text(keys::HOST_NAME, "nosuchhost"),
    ];
    for qualifier in unknown {
        let how = [flag(keys::NODE_INFO), qualifier];
        list.ask(Level::NoNode, WILDCARD, keys::LOCAL_PEERS, &how, None);
    }
    let own = plan.nodes.iter().position(|n| n.name == THIS_HOST);
    for key in [keys::LOCAL_PEERS, keys::LOCAL_SIZE, keys::MEMORY] {
        let right = own.and_then(|place| model::node(plan, place, key));
        list.ask(Level::OwnNode, WILDCARD, key, &[], right.clone());
        list.ask(
            Level::OwnNode,
            WILDCARD,
            key,
            &[flag(keys::NODE_INFO)],
            right,
        );
    }
}

fn of_node(plan: &Plan, place: usize, some: &[u32], list: &mut List) {
    let Some(node) = plan.nodes.get(place) else {
        return;
    };
    let mut named = vec![
        (By::Id, number(keys::NODE_ID, node.id)),
        (By::Name, text(keys::HOST_NAME, &node.name)),
    ];
    named.extend(
        node.aliases
            .iter()
            .map(|a| (By::Alias, text(keys::HOST_NAME, a))),
    );
    for (by, qualifier) in named {
        let how = [flag(keys::NODE_INFO), qualifier.clone()];
        let told = Level::Node {
            place,
            by,
            flag: true,
        };
        for key in NODE_KEYS.iter().chain(&[keys::MY_NODE, keys::NOBODY]) {
            list.ask(told, WILDCARD, key, &how, model::node(plan, place, key));
        }
        let other = if by == By::Id {
            keys::HOST_NAME
        } else {
            keys::NODE_ID
        };
        list.ask(told, WILDCARD, other, &how, model::node(plan, place, other));
        let silent = Level::Node {
            place,
            by,
            flag: false,
        };
        for key in [keys::LOCAL_PEERS, keys::LOCAL_SIZE] {
            let right = model::node(plan, place, key);
            list.ask(silent, WILDCARD, key, from_ref(&qualifier), right);
        }
        if by == By::Id {
            for rank in some.iter().take(1) {
                let right = model::node(plan, place, keys::LOCAL_PEERS);
                let beside = Level::NodeBesideRank { place };
                list.ask(beside, *rank, keys::LOCAL_PEERS, &how, right);
            }
        }
    }
}

const APP_KEYS: &[&str] = &[
    keys::APP_SIZE,
    keys::APP_LEADER,
    keys::WORKING_DIR,
    keys::ARGUMENTS,
];

fn of_apps(plan: &Plan, some: &[u32], list: &mut List) {
    let count = u32::try_from(plan.apps.len()).unwrap_or(0);
    // Include one number beyond the last application.
    for n in 0..=count {
        let how = [flag(keys::APP_INFO), number(keys::APP_NUM, n)];
        for key in APP_KEYS {
            let right = model::app(plan, n, key);
            list.ask(Level::App { number: n }, WILDCARD, key, &how, right);
        }
    }
    let how = [flag(keys::APP_INFO)];
    for key in APP_KEYS {
        let right = model::app(plan, 0, key);
        list.ask(Level::FirstApp, WILDCARD, key, &how, right);
        for rank in some {
            let right = model::app_of(plan, *rank).and_then(|n| model::app(plan, n, key));
            list.ask(Level::AppOfRank, *rank, key, &[], right);
        }
    }
    for (n, app) in (0..).zip(&plan.apps) {
        for (place, _) in &app.nodes {
            let Some(node) = plan.nodes.get(*place) else {
                continue;
            };
            let how = [
                flag(keys::APP_INFO),
                number(keys::APP_NUM, n),
                number(keys::NODE_ID, node.id),
            ];
            let right = model::app_node(plan, n, *place, keys::MY_NODE);
            let level = Level::AppNode { place: *place };
            list.ask(level, WILDCARD, keys::MY_NODE, &how, right);
        }
    }
}

const SESSION_KEYS: &[&str] = &[
    keys::SESSION_ID,
    keys::CLUSTER_ID,
    keys::UNIVERSE_SIZE,
    keys::ALLOCATED,
];

fn of_session(plan: &Plan, some: &[u32], list: &mut List) {
    for key in SESSION_KEYS {
        let right = model::session(plan, key);
        let told = [flag(keys::SESSION_INFO)];
        list.ask(
            Level::Session { named: false },
            WILDCARD,
            key,
            &told,
            right.clone(),
        );
        if let Some(session) = &plan.session {
            let mine = [told[0].clone(), number(keys::SESSION_ID, session.id)];
            let other = [told[0].clone(), number(keys::SESSION_ID, session.id + 1)];
            // Values of the job must not be returned for another session.
            if plan.job.iter().all(|e| e.key != *key) {
                list.ask(
                    Level::Session { named: true },
                    WILDCARD,
                    key,
                    &mine,
                    right.clone(),
                );
            }
            list.ask(Level::OtherSession, WILDCARD, key, &other, None);
        }
    }
    for key in [keys::CLUSTER_ID, keys::UNIVERSE_SIZE] {
        let right = model::session(plan, key);
        list.ask(Level::SessionOfJob, WILDCARD, key, &[], right.clone());
        for rank in some.iter().take(1) {
            list.ask(Level::SessionOfRank, *rank, key, &[], right.clone());
        }
    }
}
