// SPDX-License-Identifier: MIT OR Apache-2.0
//! The subject of a get (a job, node, application or process), and the node of the simulated
//! server.

use gds_hash::{Job, LocalNode, Request};
use pmix_types::{Info, Rank, Value, keys};
use serde_json::{Map, Value as Json, json};

use crate::args::Get;

/// The subject of a get: a job, node, application or process.
#[derive(Clone, Debug)]
pub(super) enum Subject {
    /// The job, or the default object of the key.
    Job,
    /// The session.
    Session,
    /// An application.
    App(u32),
    /// A node, as the job or an application describes it.
    Node(Option<u32>, NodeRef),
    /// A process, or a special rank.
    Rank(Rank),
}

/// A node by name or number.
#[derive(Clone, Debug)]
pub(super) enum NodeRef {
    Name(Vec<u8>),
    Id(u32),
}

impl Subject {
    /// Returns the subject that the command line selects in a job.
    pub(super) fn of(args: &Get, job: &Job) -> Self {
        match (&args.node, args.app, args.rank) {
            (Some(node), app, _) => Self::Node(app, NodeRef::of(job, app, node)),
            (None, Some(app), _) => Self::App(app),
            (None, None, Some(rank)) => Self::Rank(rank),
            (None, None, None) => Self::Job,
        }
    }

    /// Returns the rank for the request.
    pub(super) const fn rank(&self) -> Rank {
        match self {
            Self::Rank(rank) => *rank,
            _ => Rank::WILDCARD,
        }
    }

    /// Returns the qualifiers for the request.
    pub(super) fn qualifiers(&self) -> Vec<Info<'static>> {
        let yes = |key: &'static str| Info::new(key, Value::Bool(true));
        match self {
            Self::Job | Self::Rank(_) => Vec::new(),
            Self::Session => vec![yes(keys::SESSION_INFO)],
            Self::App(number) => vec![
                yes(keys::APP_INFO),
                Info::new(keys::APPNUM, Value::Uint32(*number)),
            ],
            Self::Node(None, node) => vec![yes(keys::NODE_INFO), node.qualifier()],
            Self::Node(Some(app), node) => vec![
                yes(keys::APP_INFO),
                Info::new(keys::APPNUM, Value::Uint32(*app)),
                node.qualifier(),
            ],
        }
    }

    /// Returns the name of a node that was selected by number, or the number of a node that was
    /// selected by name. Servers do not return these values, but users see them.
    pub(super) fn name_of_node(&self, job: &Job, key: &str) -> Option<Value<'static>> {
        if !matches!(self, Self::Node(..)) || ![keys::HOSTNAME, keys::NODEID].contains(&key) {
            return None;
        }
        let qualifiers = self.qualifiers();
        let known = job
            .known(&Request::all(self.rank()).with(&qualifiers))
            .ok()?;
        let found = known.into_iter().find(|info| info.key.is(key));
        found.map(|info| info.value)
    }

    /// Returns the label of the subject in text output.
    pub(super) fn label(&self) -> Vec<u8> {
        match self {
            Self::Job => b"job".to_vec(),
            Self::Session => b"session".to_vec(),
            Self::App(number) => format!("app {number}").into_bytes(),
            Self::Rank(rank) => format!("rank {rank}").into_bytes(),
            Self::Node(_, NodeRef::Name(name)) => [b"node ", name.as_slice()].concat(),
            Self::Node(_, NodeRef::Id(id)) => format!("node {id}").into_bytes(),
        }
    }

    /// Adds the members of the subject in JSON.
    pub(super) fn members(&self, line: &mut Map<String, Json>) {
        let mut set = |key: &str, value: Json| line.insert(key.to_owned(), value);
        match self {
            Self::Job => set("level", json!("job")),
            Self::Session => set("level", json!("session")),
            Self::App(number) => {
                set("level", json!("app"));
                set("app", json!(number))
            }
            Self::Node(app, node) => {
                set("level", json!("node"));
                if let Some(app) = app {
                    set("app", json!(app));
                }
                set("node", node.to_json())
            }
            Self::Rank(rank) => {
                set("level", json!("rank"));
                set("rank", json!(rank.as_raw()))
            }
        };
    }
}

impl NodeRef {
    /// Parses a node: a name, or a number if no node has this name.
    fn of(job: &Job, app: Option<u32>, word: &str) -> Self {
        let by_name = Self::Name(word.as_bytes().to_vec());
        let Ok(id) = word.parse() else {
            return by_name;
        };
        let subject = Subject::Node(app, by_name.clone());
        let qualifiers = subject.qualifiers();
        let known = job.known(&Request::all(Rank::WILDCARD).with(&qualifiers));
        match known {
            Ok(_) => by_name,
            Err(_) => Self::Id(id),
        }
    }

    fn qualifier(&self) -> Info<'static> {
        match self {
            Self::Name(name) => {
                let text = pmix_types::Text::new(name.clone());
                Info::new(keys::HOSTNAME, Value::String(Some(text)))
            }
            Self::Id(id) => Info::new(keys::NODEID, Value::Uint32(*id)),
        }
    }

    fn to_json(&self) -> Json {
        match self {
            Self::Name(name) => json!(String::from_utf8_lossy(name)),
            Self::Id(id) => json!(id),
        }
    }
}

/// The placeholder for the name of this node, in jobs for any node.
const THIS_HOST: &str = "THISHOST";

/// Returns the host name of this node.
pub(crate) fn host_name() -> Option<String> {
    let paths = ["/proc/sys/kernel/hostname", "/etc/hostname"];
    let text = paths.iter().find_map(|p| std::fs::read_to_string(p).ok())?;
    let name = text.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

/// Returns the node for an interactive user: the named one, or this node.
pub(super) fn host_for_people(named: Option<&str>) -> LocalNode {
    match named.map(str::to_owned).or_else(host_name) {
        Some(name) => LocalNode::new(name).alias(THIS_HOST),
        None => LocalNode::new(THIS_HOST),
    }
}

/// Returns the node for a program that replays jobs, with the name that the jobs use.
pub(super) fn host_for_programs(named: Option<&str>) -> LocalNode {
    let host = LocalNode::new(THIS_HOST);
    match named.map(str::to_owned).or_else(host_name) {
        Some(name) => host.alias(name),
        None => host,
    }
}
