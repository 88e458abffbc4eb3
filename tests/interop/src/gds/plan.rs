// SPDX-License-Identifier: MIT OR Apache-2.0
//! A job as a host plans it, and how it is told to a server.

use serde_json::{Value, json};

use super::entry::{Entry, Given, entry, qualifier, text};
use super::keys;
use super::node::Node;
use crate::harness::hex;

/// How the two maps are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// As the library encodes the lists.
    Library,
    /// `raw:` and the list.
    Raw,
    /// `pmix[...]` with neighbours folded.
    Native,
    /// The lists as plain strings.
    Text,
    /// A structure with a scheme and bytes.
    Regex2,
    /// The process map in the notation of PMI-1 and PMI-2.
    Anl,
}

/// An application: consecutive ranks.
#[derive(Clone, Debug)]
pub(super) struct App {
    pub(super) first: u32,
    pub(super) size: u32,
    pub(super) values: Vec<Entry>,
    /// What it states about nodes, by their place in the map.
    pub(super) nodes: Vec<(usize, Vec<Entry>)>,
}

/// Values of one key of the job or of a process, told apart by colour.
#[derive(Clone, Debug)]
pub(super) struct Shades {
    pub(super) rank: Option<u32>,
    pub(super) colours: Vec<&'static str>,
}

/// A session and what is stated about it.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) id: u32,
    pub(super) values: Vec<Entry>,
}

/// A job.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) nspace: String,
    pub(super) form: Form,
    pub(super) nodes: Vec<Node>,
    /// Job-level values, and whether they and the maps stand in an array.
    pub(super) job: Vec<Entry>,
    pub(super) in_array: bool,
    /// Values of this node given without an array.
    pub(super) own: Vec<Entry>,
    pub(super) apps: Vec<App>,
    pub(super) procs: Vec<(u32, Vec<Entry>)>,
    pub(super) session: Option<Session>,
    pub(super) shades: Vec<Shades>,
    /// A node that the maps name again behind all others, there with its ranks from this place on.
    pub(super) again: Option<(usize, usize)>,
    /// Which entries stand in a first registration only; those that do not are other ones there.
    pub(super) kept: Option<Vec<bool>>,
    /// The order of the top level, as places in the natural one.
    pub(super) order: Vec<u64>,
}

impl Plan {
    /// How many processes there are.
    pub(super) fn size(&self) -> u32 {
        let ranks: usize = self.nodes.iter().map(|n| n.ranks.len()).sum();
        u32::try_from(ranks).unwrap_or(u32::MAX)
    }

    /// The places in the map of the node of a rank, and of the rank on it.
    pub(super) fn place(&self, rank: u32) -> Option<(usize, usize)> {
        let on = |node: &Node| node.ranks.iter().position(|r| *r == rank);
        let mut nodes = self.nodes.iter().enumerate();
        nodes.find_map(|(index, node)| Some((index, on(node)?)))
    }

    /// The list of names.
    pub(super) fn names(&self) -> String {
        let names: Vec<_> = self.mapped().into_iter().map(|n| n.name).collect();
        names.join(",")
    }

    /// The nodes as the maps have them.
    pub(super) fn mapped(&self) -> Vec<Node> {
        let mut mapped = self.nodes.clone();
        if let Some((place, from)) = self.again
            && let Some(mut node) = mapped.get(place).cloned()
        {
            let behind = mapped[place].ranks.split_off(from);
            node.ranks = behind;
            mapped.push(node);
        }
        mapped
    }

    fn maps(&self) -> [Entry; 2] {
        let mapped = self.mapped();
        let nodes = self.names();
        let procs: Vec<_> = mapped.iter().map(|n| listed(&n.ranks)).collect();
        let procs = procs.join(";");
        if self.form == Form::Anl {
            let nodes = Given::Regex(format!("raw:{nodes}"));
            let procs = text(keys::ANL_MAP, &super::anl::blocks(&mapped));
            return [entry(keys::NODE_MAP, nodes), procs];
        }
        let (nodes, procs) = match self.form {
            Form::Regex2 => (Given::Regex2(nodes), Given::Regex2(procs)),
            Form::Library => (Given::Nodes(nodes), Given::Procs(procs)),
            Form::Raw => (
                Given::Regex(format!("raw:{nodes}")),
                Given::Regex(format!("raw:{procs}")),
            ),
            Form::Native => (
                Given::Regex(format!("pmix[{}]", super::fold::names(&mapped))),
                Given::Regex(format!("pmix[{}]", super::fold::ranks(&mapped))),
            ),
            Form::Text | Form::Anl => (Given::Text(nodes), Given::Text(procs)),
        };
        [entry(keys::NODE_MAP, nodes), entry(keys::PROC_MAP, procs)]
    }

    /// Everything that is told to the server.
    pub(super) fn entries(&self) -> Vec<Entry> {
        let mut all = Vec::new();
        let mut job = self.job.clone();
        job.extend(self.maps());
        if self.in_array {
            all.push(entry(keys::JOB_ARRAY, Given::Infos(job)));
        } else {
            all.append(&mut job);
        }
        all.extend(self.session.iter().map(Session::array));
        for (number, app) in (0..).zip(&self.apps) {
            all.push(self.app_array(number, app));
        }
        for node in self.nodes.iter().filter(|n| n.has_array()) {
            let mut values = node.values.clone();
            if !node.aliases.is_empty() {
                values.push(text(keys::ALIASES, &node.aliases.join(",")));
            }
            all.push(node.array(&values));
        }
        for (rank, values) in &self.procs {
            let mut infos = vec![entry(keys::RANK, Given::Rank(*rank))];
            infos.extend_from_slice(values);
            let shades = self.shades.iter().filter(|s| s.rank == Some(*rank));
            infos.extend(shades.flat_map(Shades::entries));
            all.push(entry(keys::PROC_ARRAY, Given::Infos(infos)));
        }
        all.extend(self.own.iter().cloned());
        let shades = self.shades.iter().filter(|s| s.rank.is_none());
        all.extend(shades.flat_map(Shades::entries));
        let mut ordered: Vec<_> = all.into_iter().enumerate().collect();
        ordered.sort_by_key(|(place, _)| self.order.get(*place).copied().unwrap_or(u64::MAX));
        ordered.into_iter().map(|(_, entry)| entry).collect()
    }

    /// The registrations that lead to this job: of two, the second states what the first stated
    /// otherwise, and not what it need not state again.
    pub(super) fn registrations(&self) -> Vec<Vec<Entry>> {
        let all = self.entries();
        let Some(kept) = &self.kept else {
            return vec![all];
        };
        let is_kept = |(place, _): &(usize, &Entry)| kept.get(*place).copied().unwrap_or(true);
        let first = all.iter().enumerate();
        let first = first.map(|pair| match is_kept(&pair) {
            true => pair.1.clone(),
            false => pair.1.otherwise(),
        });
        let second = all.iter().enumerate().filter(|pair| !is_kept(pair));
        vec![first.collect(), second.map(|(_, e)| e.clone()).collect()]
    }

    fn app_array(&self, number: u32, app: &App) -> Entry {
        let mut infos = vec![
            entry(keys::APP_NUM, Given::Number(number)),
            entry(keys::APP_SIZE, Given::Number(app.size)),
            entry(keys::APP_LEADER, Given::Rank(app.first)),
        ];
        infos.extend_from_slice(&app.values);
        for (place, values) in &app.nodes {
            infos.extend(self.nodes.get(*place).map(|node| node.array(values)));
        }
        entry(keys::APP_ARRAY, Given::Infos(infos))
    }

    /// The job as the vectors have it.
    pub(super) fn json(&self) -> Value {
        let infos: Vec<_> = self.entries().iter().map(Entry::json).collect();
        json!({"nspace": self.nspace, "nlocalprocs": 1, "info": infos})
    }

    /// The registrations as the peer takes them.
    pub(super) fn requests(&self, host: &str) -> Vec<String> {
        let nspace = hex(self.nspace.as_bytes());
        let whats = ["job", "update"].into_iter();
        let requests = whats.zip(self.registrations()).map(|(what, entries)| {
            let infos: Vec<_> = entries.iter().map(|e| e.words(host)).collect();
            format!("{what} {nspace} 1 {}", infos.join(" "))
        });
        requests.collect()
    }
}

impl Shades {
    /// The value that has a colour.
    pub(super) fn value(&self, colour: &str) -> Given {
        let of = self
            .rank
            .map_or_else(|| "job".to_owned(), |r| r.to_string());
        Given::Text(format!("{colour} of {of}"))
    }

    fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        self.colours.iter().map(|colour| {
            let value = entry(keys::MY_SHADE, self.value(colour));
            let infos = vec![value, qualifier(keys::MY_COLOUR, colour)];
            entry(keys::QUALIFIED, Given::Infos(infos))
        })
    }
}

impl Session {
    fn array(&self) -> Entry {
        let mut infos = vec![entry(keys::SESSION_ID, Given::Number(self.id))];
        infos.extend_from_slice(&self.values);
        entry(keys::SESSION_ARRAY, Given::Infos(infos))
    }
}

/// Ranks separated by commas.
pub(super) fn listed(ranks: &[u32]) -> String {
    let words: Vec<_> = ranks.iter().map(u32::to_string).collect();
    words.join(",")
}
