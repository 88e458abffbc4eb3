// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists of the nodes, applications and ranks of a job, and lists of all their values.
//!
//! Source: PMIx Standard, chapter "Reserved Keys".

use pmix_types::{DataArray, Info, Rank, Value, keys, memory};

use super::derive::{check_node, check_text};
use super::get::Request;
use super::nodes::{Maps, Nodes};
use super::qualified::Table;
use crate::{Error, Job, Realm};

/// The derived keys of a job, in the order of the list.
pub(super) const OF_JOB: &[&str] = &[
    keys::JOB_SIZE,
    keys::JOB_NUM_APPS,
    keys::NUM_NODES,
    keys::MAX_PROCS,
    keys::NODE_LIST,
    keys::PROC_MAP_RAW,
    keys::ANL_MAP,
];

pub(super) const OF_SESSION: &[&str] = &[keys::SESSION_ID, keys::NUM_NODES, keys::NODE_LIST];

pub(super) const OF_APP: &[&str] = &[
    keys::APPNUM,
    keys::APP_SIZE,
    keys::APPLDR,
    keys::NUM_NODES,
    keys::NODE_LIST,
];

pub(super) const OF_NODE: &[&str] = &[
    keys::HOSTNAME,
    keys::NODEID,
    keys::LOCAL_SIZE,
    keys::LOCALLDR,
    keys::LOCAL_PEERS,
];

pub(super) const OF_PROC: &[&str] = &[
    keys::HOSTNAME,
    keys::NODEID,
    keys::LOCAL_RANK,
    keys::NODE_RANK,
    keys::APPNUM,
    keys::APP_RANK,
    keys::GLOBAL_RANK,
];

/// A node of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownNode {
    /// The name of the node; `None` if the host described the node only by its number.
    pub name: Option<Vec<u8>>,
    /// The number of the node; `None` if the node is not in the map and the host registered no
    /// number.
    pub id: Option<u32>,
}

impl Job {
    /// Returns the nodes of the job: those of the map in its order, then those that the host
    /// described without a map. A node that occurs twice in the map is listed once.
    pub fn nodes(&self) -> impl Iterator<Item = KnownNode> + '_ {
        let nodes = &self.nodes;
        let first = |slot: &u32| nodes.maps.as_ref().is_none_or(|m| m.is_first(*slot));
        (0..nodes.num_slots()).filter(first).map(|slot| KnownNode {
            name: nodes.name(slot),
            id: nodes.id(slot),
        })
    }

    /// Returns the numbers of the described applications, in ascending order.
    pub fn apps(&self) -> impl Iterator<Item = u32> + '_ {
        self.apps.keys().copied()
    }

    /// Returns the ranks of the job. First come the ranks of the map, node by node, then the ranks
    /// that the host described without a map.
    pub fn ranks(&self) -> impl Iterator<Item = Rank> + '_ {
        let mapped = self
            .nodes
            .maps
            .iter()
            .flat_map(|m| m.procs.iter().flatten());
        let described = (self.procs.spans().into_iter().flatten()).map(Rank::new);
        mapped.chain(described.filter(|rank| self.nodes.of_rank(*rank).is_none()))
    }

    /// Returns all values of the realm that a request names, or of its process. Registered values
    /// precede derived ones. The key of the request is ignored.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_NOT_FOUND` if there are no values; `PMIX_ERR_BAD_PARAM` if a qualifier has an
    /// invalid type.
    pub fn known(&self, request: &Request<'_>) -> Result<Vec<Info<'static>>, Error> {
        let rank = request.rank();
        let infos = match request.realm() {
            Some(Realm::Session) => self.all_of_session(request)?,
            Some(Realm::App) => self.all_of_app(request)?,
            Some(Realm::Node) => match self.node_asked(request, &self.nodes)? {
                Some(slot) => self.all_of_node(&self.nodes, slot)?,
                None => Vec::new(),
            },
            None | Some(Realm::Proc) if rank.is_valid() => self.all_of_proc(rank)?,
            _ => stated_and(&self.job, &self.nodes, OF_JOB, |key| {
                self.derived_of_job(key)
            })?,
        };
        if infos.is_empty() {
            let nspace = &self.nspace;
            let message = format!("nothing is known of rank {rank} of {nspace}");
            return Err(Error::not_found(message));
        }
        Ok(infos)
    }

    /// Returns the result of a get without a key.
    pub(crate) fn of_rank(&self, rank: Rank) -> Result<Value<'static>, Error> {
        if !rank.is_valid() {
            let message = "all values can be requested only for a single process";
            return Err(Error::bad(message));
        }
        let infos = self.known(&Request::all(rank))?;
        Ok(Value::DataArray(DataArray::Info(infos)))
    }

    fn all_of_session(&self, request: &Request<'_>) -> Result<Vec<Info<'static>>, Error> {
        if !self.is_session(request)? {
            return Ok(Vec::new());
        }
        let derived = |key: &str| self.derived_of_session(key);
        let session = &self.session;
        stated_and(&session.values, &session.nodes, OF_SESSION, derived)
    }

    fn all_of_app(&self, request: &Request<'_>) -> Result<Vec<Info<'static>>, Error> {
        let number = self.app_asked(request)?;
        let Some((number, app)) = number.and_then(|n| self.apps.get_key_value(&n)) else {
            return Ok(Vec::new());
        };
        if let Some(named) = self.node_named(request, &app.nodes)? {
            return match named {
                Some(slot) => self.all_of_node(&app.nodes, slot),
                None => Ok(Vec::new()),
            };
        }
        let derived = |key: &str| self.derived_of_app(*number, key);
        stated_and(&app.values, &app.nodes, OF_APP, derived)
    }

    fn all_of_node(&self, nodes: &Nodes, slot: u32) -> Result<Vec<Info<'static>>, Error> {
        check_node(self, nodes, slot, None)?;
        let stated = nodes.all(slot).collect();
        let derived = |key: &str| self.about_node(nodes, slot, key);
        Ok(with_derived(stated, OF_NODE, derived))
    }

    /// Returns registered values in the order in which the host first gave their keys, then derived
    /// values.
    fn all_of_proc(&self, rank: Rank) -> Result<Vec<Info<'static>>, Error> {
        memory::check(self.procs.measure_all(rank.as_raw()))?;
        self.nodes.maps.as_ref().map_or(Ok(()), Maps::prepare)?;
        let stated = self.procs.all(rank.as_raw());
        let stated = stated.map(|(key, value)| Info::new(key.as_text().clone(), value));
        let derived = |key: &str| self.about_proc(rank, key);
        Ok(with_derived(stated.collect(), OF_PROC, derived))
    }
}

/// Returns the registered values of a table, then the values derived from the maps of its nodes.
fn stated_and(
    table: &Table,
    nodes: &Nodes,
    keys: &[&'static str],
    derive: impl Fn(&str) -> Option<Value<'static>>,
) -> Result<Vec<Info<'static>>, Error> {
    memory::check(table.measure())?;
    for key in keys {
        check_text(nodes, key)?;
    }
    let stated = table.iter();
    let stated = stated.map(|(key, value)| Info::new(key.as_text().clone(), value.clone()));
    Ok(with_derived(stated.collect(), keys, derive))
}

fn with_derived(
    mut infos: Vec<Info<'static>>,
    keys: &[&'static str],
    derive: impl Fn(&str) -> Option<Value<'static>>,
) -> Vec<Info<'static>> {
    let stated = infos.len();
    for key in keys {
        if !infos[..stated].iter().any(|info| info.key.is(key))
            && let Some(value) = derive(key)
        {
            infos.push(Info::new(*key, value));
        }
    }
    infos
}
