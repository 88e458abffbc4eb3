// SPDX-License-Identifier: MIT OR Apache-2.0
//! A random job, and its registration with a server.

use serde_json::{Value, json};

use super::entry::{Entry, Given, entry, qualifier, text};
use super::keys;
use super::node::{Named, Node};
use crate::harness::hex;

/// The encoding of the two maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The library encodes the lists.
    Library,
    /// `raw:` and the list.
    Raw,
    /// `pmix[...]` with adjacent elements folded.
    Native,
    /// The lists as plain strings.
    Text,
    /// A structure with a scheme and bytes.
    Regex2,
    /// The process map in the notation of PMI-1 and PMI-2.
    Anl,
}

/// An application of consecutive ranks.
#[derive(Clone, Debug)]
pub(super) struct App {
    pub(super) first: u32,
    pub(super) size: u32,
    pub(super) values: Vec<Entry>,
    /// The values that it states about nodes, by their place in the map.
    pub(super) nodes: Vec<(usize, Vec<Entry>)>,
}

/// Values of one key of the job or of a process, with a color as qualifier.
#[derive(Clone, Debug)]
pub(super) struct Shades {
    pub(super) rank: Option<u32>,
    pub(super) colours: Vec<&'static str>,
}

/// A session and its values.
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
    /// Job-level values; `in_array` puts these and the maps into a job array.
    pub(super) job: Vec<Entry>,
    pub(super) in_array: bool,
    /// Values of this node outside of an array.
    pub(super) own: Vec<Entry>,
    pub(super) apps: Vec<App>,
    pub(super) procs: Vec<(u32, Vec<Entry>)>,
    pub(super) session: Option<Session>,
    pub(super) shades: Vec<Shades>,
    /// A node that the maps name again after all others, with the place of the first rank that is listed there.
    pub(super) again: Option<(usize, usize)>,
    /// For two registrations: `true` for each entry that is the same in the first one.
    pub(super) kept: Option<Vec<bool>>,
    /// The order of the top-level entries, as places in the natural order.
    pub(super) order: Vec<u64>,
}

impl Plan {
    /// Returns the number of processes.
    pub(super) fn size(&self) -> u32 {
        let ranks: usize = self.nodes.iter().map(|n| n.ranks.len()).sum();
        u32::try_from(ranks).unwrap_or(u32::MAX)
    }

    /// Returns the place of a rank's node in the map, and the place of the rank on that node.
    pub(super) fn place(&self, rank: u32) -> Option<(usize, usize)> {
        let on = |node: &Node| node.ranks.iter().position(|r| *r == rank);
        let mut nodes = self.nodes.iter().enumerate();
        nodes.find_map(|(index, node)| Some((index, on(node)?)))
    }

    /// Returns the list of names.
    pub(super) fn names(&self) -> String {
        let names: Vec<_> = self.mapped().into_iter().map(|n| n.name).collect();
        names.join(",")
    }

    /// Returns the nodes as the maps list them.
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
            let procs = text(keys::ANL_MAP, &super::node::blocks(&mapped));
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
                Given::Regex(format!("pmix[{}]", super::node::names(&mapped))),
                Given::Regex(format!("pmix[{}]", super::node::ranks(&mapped))),
            ),
            Form::Text | Form::Anl => (Given::Text(nodes), Given::Text(procs)),
        };
        [entry(keys::NODE_MAP, nodes), entry(keys::PROC_MAP, procs)]
    }

    /// Returns all entries of the registration.
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

    /// Returns the registrations that result in this job. Of two, the second changes values of the first and does not
    /// repeat the others.
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

    /// Returns the job in the form of the vectors.
    pub(super) fn json(&self) -> Value {
        let infos: Vec<_> = self.entries().iter().map(Entry::json).collect();
        json!({"nspace": self.nspace, "nlocalprocs": 1, "info": infos})
    }

    /// Returns the registrations in the form of the peer program.
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
    /// Returns the value with a color.
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

/// Returns ranks separated by commas.
pub(super) fn listed(ranks: &[u32]) -> String {
    let words: Vec<_> = ranks.iter().map(u32::to_string).collect();
    words.join(",")
}

/// A reason why a release rejects a job.
pub(super) struct Refusal {
    pub(super) name: &'static str,
    /// Returns `true` if this reason explains the status, or the crash of the server.
    pub(super) explains: fn(&Plan, &Result<i64, String>) -> bool,
}

const BAD_PARAM: i64 = -27;

const TYPE_MISMATCH: i64 = -18;

pub(super) const REFUSALS: &[Refusal] = &[
    Refusal {
        name: "a node array without a name ends the server when there are maps",
        explains: |plan, outcome| {
            let of_apps = plan.apps.iter().flat_map(|app| &app.nodes);
            let stated = of_apps.filter_map(|(place, _)| plan.nodes.get(*place));
            let of_job = plan.nodes.iter().filter(|node| node.has_array());
            outcome.is_err() && of_job.chain(stated).any(|node| node.named == Named::Id)
        },
    },
    Refusal {
        name: "no release has the type PMIX_REGEX2",
        explains: |plan, outcome| plan.form == Form::Regex2 && *outcome == Ok(TYPE_MISMATCH),
    },
    Refusal {
        name: "the type of a map in a job array is not looked at",
        explains: |plan, outcome| plan.form == Form::Regex2 && plan.in_array && outcome.is_err(),
    },
    Refusal {
        name: "a node without processes is dropped from one map only",
        explains: |plan, outcome| {
            plan.nodes.iter().any(|node| node.ranks.is_empty()) && *outcome == Ok(BAD_PARAM)
        },
    },
];
