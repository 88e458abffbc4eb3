// SPDX-License-Identifier: MIT OR Apache-2.0
//! The maps of a registration, at any depth.

use std::collections::BTreeMap;
use std::sync::Arc;

use pmix_map::{MapParser, NodeList, ProcMap, ProcMapBuilder};
use pmix_types::{Info, Nspace, Value, keys};

use super::duplicates;
use super::entry::{Target, array, is_container, number, of_other_job, target, within, wrong_type};
use crate::job::anl::AnlMap;
use crate::job::nodes::{Maps, short_names};
use crate::{Error, Job};

/// The maps of a session, a job or an application.
#[derive(Default)]
struct Pair {
    /// The node map. Applications without their own node map share that of the job.
    nodes: Option<Arc<NodeList>>,
    procs: Option<ProcMap>,
    anl: Option<AnlMap>,
    /// The number of processes, if the host registers it.
    size: Option<u32>,
}

/// The collector of the maps.
pub(super) struct MapFinder<'p> {
    parser: &'p dyn MapParser,
    nspace: &'p Nspace<'p>,
    found: BTreeMap<Target, Pair>,
    /// The value of `PMIX_HOSTNAME_KEEP_FQDN` inverted, if this or an earlier registration has it.
    strip_fqdn: Option<bool>,
    /// An error about both maps of a subject. It is reported for the entry with the process map.
    fault: Option<(Target, Error)>,
}

impl<'p> MapFinder<'p> {
    pub(super) fn new(parser: &'p dyn MapParser, nspace: &'p Nspace<'p>) -> Self {
        Self {
            parser,
            nspace,
            found: BTreeMap::new(),
            strip_fqdn: None,
            fault: None,
        }
    }

    /// Adds folded maps of the job.
    pub(super) fn take(&mut self, nodes: NodeList, procs: ProcMap) -> Result<(), Error> {
        each_rank_once(&procs)?;
        let pair = self.found.entry(Target::Job).or_default();
        (pair.nodes, pair.procs) = (Some(nodes.into()), Some(procs));
        Ok(())
    }

    pub(super) fn walk(
        &mut self,
        infos: &[Info<'_>],
        about: Target,
        depth: usize,
    ) -> Result<(), Error> {
        for (place, info) in infos.iter().enumerate() {
            within(depth, place, info, || self.entry(info, about, depth))?;
        }
        Ok(())
    }

    pub(super) fn entry(
        &mut self,
        info: &Info<'_>,
        about: Target,
        depth: usize,
    ) -> Result<(), Error> {
        if is_container(&info.key) {
            let infos = array(info)?;
            let inner = target(info, infos)?;
            if of_other_job(self.nspace, about, inner, infos)? {
                return Ok(());
            }
            return self.walk(infos, inner, depth + 1);
        }
        if info.key.is(keys::HOSTNAME_KEEP_FQDN) {
            self.strip_fqdn = Some(info.truth().as_bool() == Some(false));
        }
        if !matches!(about, Target::Session | Target::Job | Target::App(_)) {
            return Ok(());
        }
        match &self.fault {
            Some((of, fault)) => {
                let is_procs = info.key.is(keys::PROC_MAP) || info.key.is(keys::ANL_MAP);
                let is_meant = is_procs && *of == about;
                if is_meant { Err(fault.clone()) } else { Ok(()) }
            }
            None => self.given(info, about),
        }
    }

    /// Handles an info with a map, or with the number of processes of a map.
    fn given(&mut self, info: &Info<'_>, about: Target) -> Result<(), Error> {
        let size = match about {
            Target::Job => keys::JOB_SIZE,
            _ => keys::APP_SIZE,
        };
        if info.key.is(size) {
            self.found.entry(about).or_default().size = number(&info.value).ok();
        } else if info.key.is(keys::ANL_MAP) {
            if let Value::String(Some(text)) = &info.value {
                self.found.entry(about).or_default().anl = AnlMap::parse(text.as_bytes())?;
            }
        } else if info.key.is(keys::NODE_MAP) {
            let nodes = self.node_map(&info.value)?;
            once(
                &mut self.found.entry(about).or_default().nodes,
                nodes.into(),
            )?;
        } else if info.key.is(keys::PROC_MAP) {
            let procs = self.proc_map(&info.value)?;
            each_rank_once(&procs)?;
            once(&mut self.found.entry(about).or_default().procs, procs)?;
        }
        Ok(())
    }

    fn node_map(&self, value: &Value<'_>) -> Result<NodeList, Error> {
        let parsed = match value {
            Value::Regex(regex) => self.parser.parse_nodes(&regex.0),
            Value::String(Some(text)) => self.parser.parse_nodes(text.as_bytes()),
            Value::Regex2(regex) => match regex.as_view() {
                Some(view) => self.parser.resolve_nodes(view),
                None => return Err(Error::bad("an encoded map without its type")),
            },
            other => return Err(no_map(other)),
        };
        Ok(parsed?)
    }

    fn proc_map(&self, value: &Value<'_>) -> Result<ProcMap, Error> {
        let parsed = match value {
            Value::Regex(regex) => self.parser.parse_procs(&regex.0),
            Value::String(Some(text)) => self.parser.parse_procs(text.as_bytes()),
            Value::Regex2(regex) => match regex.as_view() {
                Some(view) => self.parser.resolve_procs(view),
                None => return Err(Error::bad("an encoded map without its type")),
            },
            other => return Err(no_map(other)),
        };
        Ok(parsed?)
    }

    /// Copies the maps of an earlier registration that this one does not have.
    pub(super) fn keep(&mut self, known: &Job) {
        self.strip_fqdn.get_or_insert(known.nodes.short);
        let apps = known
            .apps
            .iter()
            .map(|(n, app)| (Target::App(*n), &app.nodes));
        let others = [
            (Target::Session, &known.session.nodes),
            (Target::Job, &known.nodes),
        ];
        for (about, nodes) in others.into_iter().chain(apps) {
            if let Some(maps) = &nodes.maps {
                let pair = self.found.entry(about).or_default();
                pair.nodes.get_or_insert_with(|| maps.nodes.clone());
                // A session has a node map only.
                if about != Target::Session {
                    pair.procs.get_or_insert_with(|| maps.procs.clone());
                }
            }
        }
    }

    /// Returns the maps of each session, job or application, and `true` if host names are short.
    /// `infos` are those that were visited.
    ///
    /// If errors are collected, maps that do not match are omitted.
    pub(super) fn finish(
        mut self,
        infos: &[Info<'_>],
        mut refused: Option<&mut Vec<Error>>,
    ) -> Result<Found, Error> {
        let mut maps = BTreeMap::new();
        let found = std::mem::take(&mut self.found);
        let nodes_of_job = found.get(&Target::Job).and_then(|pair| pair.nodes.clone());
        for (about, mut pair) in found {
            // The process map of an application may use the nodes of its job.
            let has_procs = pair.procs.is_some() || pair.anl.is_some();
            if matches!(about, Target::App(_)) && pair.nodes.is_none() && has_procs {
                pair.nodes.clone_from(&nodes_of_job);
            }
            match self.pair(about, pair) {
                Ok(Some(pair)) => drop(maps.insert(about, pair)),
                Ok(None) => {}
                Err(error) if refused.is_some() => refused.iter_mut().for_each(|all| {
                    all.push(error.clone());
                }),
                Err(error) => {
                    self.fault = Some((about, error.clone()));
                    return Err(self.walk(infos, Target::Job, 0).err().unwrap_or(error));
                }
            }
        }
        Ok(Found {
            maps,
            strip_fqdn: self.strip_fqdn == Some(true),
        })
    }

    fn pair(&self, about: Target, pair: Pair) -> Result<Option<Maps>, Error> {
        let limits = self.parser.limits();
        let Some(mut nodes) = pair.nodes else {
            return Ok(None);
        };
        if self.strip_fqdn == Some(true) {
            nodes = short_names(&nodes, limits)?.into();
        }
        let procs = match (pair.procs, pair.anl) {
            (Some(procs), _) => procs,
            (None, Some(anl)) => anl.to_procs(nodes.len(), pair.size, limits)?,
            (None, None) if about == Target::Session => {
                let mut none = ProcMapBuilder::new(limits);
                for _ in 0..nodes.len() {
                    none.end_node()?;
                }
                none.finish()
            }
            (None, None) => return Ok(None),
        };
        paired(nodes, procs).map(Some)
    }
}

/// The maps of a registration.
#[derive(Default)]
pub(super) struct Found {
    pub(super) maps: BTreeMap<Target, Maps>,
    pub(super) strip_fqdn: bool,
}

/// The number of names that are searched for a bracket, to explain an error about maps of different
/// lengths.
const LOOKED_AT: usize = 64;

/// Combines two maps of equal length.
pub(super) fn paired(nodes: impl Into<Arc<NodeList>>, procs: ProcMap) -> Result<Maps, Error> {
    let nodes = nodes.into();
    if nodes.len() != procs.num_nodes() {
        let (names, groups) = (nodes.len(), procs.num_nodes());
        let mut message = format!("the node map has {names} nodes, the process map {groups}");
        if let Some(name) = nodes
            .iter()
            .take(LOOKED_AT)
            .find(|name| name.contains(&b'['))
        {
            let name = String::from_utf8_lossy(&name);
            message.push_str(&format!(
                "; a list names every node: {name:.64} is one node, not a bracket list"
            ));
        }
        return Err(Error::bad(message));
    }
    Ok(Maps::new(nodes, procs))
}

/// Rejects a process map that names a rank twice.
fn each_rank_once(procs: &ProcMap) -> Result<(), Error> {
    match duplicates::in_map(procs)? {
        Some(rank) => Err(Error::bad(format!("rank {rank} occurs twice in the map"))),
        None => Ok(()),
    }
}

pub(super) fn no_map(value: &Value<'_>) -> Error {
    wrong_type(format!("expected a map, found {}", value.data_type()))
}

pub(super) fn once<T>(place: &mut Option<T>, map: T) -> Result<(), Error> {
    if place.is_some() {
        return Err(Error::bad("the map is given twice"));
    }
    *place = Some(map);
    Ok(())
}
