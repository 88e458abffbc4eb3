// SPDX-License-Identifier: MIT OR Apache-2.0
//! The input of a registration, and checks for contradictions in it.
//!
//! Source: PMIx Standard, chapter "Server-Specific Interfaces", `PMIx_server_register_nspace`.

use pmix_map::{NodeList, NodeRun, ProcMap, duplicate_names};
use pmix_types::{Info, Rank, keys};

use crate::{Error, Job};

/// The input of a registration: infos, and the node map and process map if the host has them
/// folded.
///
/// A host with text or encoded maps passes them as `PMIX_NODE_MAP` and `PMIX_PROC_MAP` among the
/// infos. A list of infos converts into a registration. A host with a [`NodeList`] and a
/// [`ProcMap`] passes them directly, so that no text is generated. The cost then depends on their
/// number of runs, not on the number of nodes or processes.
///
/// ```
/// use gds_hash::{Job, LocalNode, Registration, Request};
/// use pmix_map::{Limits, NodeList, ProcMap};
/// use pmix_types::{Info, Rank, Value, keys};
/// # let preg = pmix_builtin::open_preg(&preg_core::Params::default())?;
/// let nodes = NodeList::parse_text(b"n00,n01", &Limits::default())?;
/// let procs = ProcMap::parse_text(b"0,1;2,3", &Limits::default())?;
/// let infos = [Info::new(keys::UNIV_SIZE, 8_u32)];
/// let registration = Registration::new(&infos).with_maps(nodes, procs);
/// let job = Job::register(&preg, &LocalNode::new("n00"), "job@1", registration)?;
/// assert_eq!(*job.get(&Request::new(Rank::new(2), keys::HOSTNAME))?, Value::from("n01"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Source: PMIx Standard, `PMIx_server_register_nspace`.
#[derive(Clone, Debug, Default)]
pub struct Registration<'i> {
    pub(crate) infos: &'i [Info<'i>],
    pub(crate) maps: Option<(NodeList, ProcMap)>,
    pub(crate) refuses_contradictions: bool,
}

impl<'i> Registration<'i> {
    /// Creates a registration of infos, possibly with maps among them.
    #[must_use]
    pub const fn new(infos: &'i [Info<'i>]) -> Self {
        Self {
            infos,
            maps: None,
            refuses_contradictions: false,
        }
    }

    /// Returns the infos.
    #[must_use]
    pub const fn infos(&self) -> &'i [Info<'i>] {
        self.infos
    }

    /// Replaces the infos.
    #[must_use]
    pub fn with_infos<'j>(self, infos: &'j [Info<'j>]) -> Registration<'j> {
        Registration {
            infos,
            maps: self.maps,
            refuses_contradictions: self.refuses_contradictions,
        }
    }

    /// Adds the node map and the process map of the job. A map of the job among the infos is then
    /// rejected as a duplicate. Maps of the session and of applications are still allowed there.
    #[must_use]
    pub fn with_maps(mut self, nodes: NodeList, procs: ProcMap) -> Self {
        self.maps = Some((nodes, procs));
        self
    }

    /// Sets whether contradictions ([`Job::contradictions`]) reject the registration. By default
    /// the datastore accepts them with a warning, as OpenPMIx does.
    ///
    /// [`Job::contradictions`]: crate::Job::contradictions
    #[must_use]
    pub const fn refuse_contradictions(mut self, yes: bool) -> Self {
        self.refuses_contradictions = yes;
        self
    }

    /// Returns `true` if the host registers the namespace without data (`PMIX_REGISTER_NODATA`).
    pub(crate) fn has_no_data(&self) -> bool {
        let mut infos = self.infos.iter();
        infos.any(|info| info.key.is(keys::REGISTER_NODATA) && info.truth().is_true())
    }
}

impl<'i, 'a: 'i> From<&'i [Info<'a>]> for Registration<'i> {
    fn from(infos: &'i [Info<'a>]) -> Self {
        Self::new(infos)
    }
}

impl<'i, 'a: 'i> From<&'i Vec<Info<'a>>> for Registration<'i> {
    fn from(infos: &'i Vec<Info<'a>>) -> Self {
        Self::new(infos)
    }
}

impl<'i, 'a: 'i, const N: usize> From<&'i [Info<'a>; N]> for Registration<'i> {
    fn from(infos: &'i [Info<'a>; N]) -> Self {
        Self::new(infos)
    }
}

// Checks for contradictions in a registration.
//
// Source: PMIx Standard, chapter "Server-Specific Interfaces", `PMIx_server_register_nspace`.

/// The maximum length of a node map whose names are compared with each other.
const MOST_NAMES: usize = 1 << 16;

impl Job {
    /// Returns the contradictions in the registered values, each with its key. A contradiction is a
    /// job size that is not a number or that differs from the process map, or a node that occurs
    /// twice in the node map.
    ///
    /// Longer node maps than 65,536 names are not checked for duplicates, unless they are one run.
    #[must_use]
    pub fn contradictions(&self) -> Vec<Error> {
        let mut found = Vec::new();
        let maps = self.nodes.maps.as_ref();
        if let Some(size) = self.job.get(keys::JOB_SIZE.as_bytes(), &[]) {
            let key = keys::JOB_SIZE;
            match (size.to_number::<u64>(), maps) {
                (Err(_), _) => found.push(Error::bad(format!(
                    "{key} is of type {}, and has to be a number of processes",
                    size.data_type()
                ))),
                (Ok(size), Some(maps)) if size != maps.procs.num_ranks() => {
                    let ranks = maps.procs.num_ranks();
                    found.push(Error::bad(format!(
                        "{key} says {size} processes, and the process map has {ranks}"
                    )));
                }
                _ => {}
            }
        }
        if let Some(maps) = maps.filter(|maps| may_repeat(&maps.nodes))
            && let Some(name) = duplicate_names(&maps.nodes).first()
        {
            let (first, again) = (name.node, name.again);
            let name = maps.nodes.nth(first).unwrap_or_default();
            found.push(Error::bad(format!(
                "{} names the node {} twice, as number {first} and {again}",
                keys::NODE_MAP,
                name.escape_ascii()
            )));
        }
        found
    }

    /// Returns `true` if the job or one of its applications has a node map and a process map.
    #[must_use]
    pub fn has_maps(&self) -> bool {
        let mut apps = self.apps.values();
        self.nodes.maps.is_some() || apps.any(|app| app.nodes.maps.is_some())
    }

    /// Returns the name of the node on which the maps place a process. Returns `None` for the node
    /// of this server, and if the node of this server does not belong to the job.
    #[must_use]
    pub fn other_node(&self, rank: Rank) -> Option<Vec<u8>> {
        let own = self.own_node()?;
        let slot = self.nodes.of_rank(rank).filter(|slot| *slot != own)?;
        self.nodes.name(slot)
    }
}

/// Returns `true` if a node map may name a node twice. The names of a run are distinct, and maps of
/// more than [`MOST_NAMES`] names are not compared.
fn may_repeat(nodes: &NodeList) -> bool {
    let (mut runs, mut all_differ) = (0_usize, true);
    if nodes.len() > MOST_NAMES {
        return false;
    }
    nodes.for_each_run(|run| {
        runs += 1;
        all_differ &= matches!(run, NodeRun::Progression(run) if run.step != 0);
    });
    runs > 1 || (runs == 1 && nodes.len() > 1 && !all_differ)
}
