// SPDX-License-Identifier: MIT OR Apache-2.0
//! The maps of a registration, wherever they stand.

use std::collections::BTreeMap;

use pmix_types::{Info, Value, keys};
use preg_core::{NodeList, Preg, ProcMap};

use super::entry::{Target, array, is_container, target, within, wrong_type};
use crate::nodes::Maps;
use crate::{Error, Job};

/// Both maps of a session, a job or an application.
#[derive(Default)]
pub(super) struct Pair {
    nodes: Option<NodeList>,
    procs: Option<ProcMap>,
}

/// Finds the maps.
pub(super) struct MapFinder<'p> {
    preg: &'p Preg,
    found: BTreeMap<Target, Pair>,
}

impl<'p> MapFinder<'p> {
    pub(super) fn new(preg: &'p Preg) -> Self {
        Self {
            preg,
            found: BTreeMap::new(),
        }
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

    fn entry(&mut self, info: &Info<'_>, about: Target, depth: usize) -> Result<(), Error> {
        if is_container(&info.key) {
            let infos = array(info)?;
            let inner = target(info, infos)?;
            return self.walk(infos, inner, depth + 1);
        }
        let pair = || matches!(about, Target::Session | Target::Job | Target::App(_));
        if info.key.is(keys::NODE_MAP) && pair() {
            let nodes = self.node_map(&info.value)?;
            let place = &mut self.found.entry(about).or_default().nodes;
            return once(place, nodes);
        }
        if info.key.is(keys::PROC_MAP) && pair() {
            let procs = self.proc_map(&info.value)?;
            let place = &mut self.found.entry(about).or_default().procs;
            return once(place, procs);
        }
        Ok(())
    }

    fn node_map(&self, value: &Value<'_>) -> Result<NodeList, Error> {
        let parsed = match value {
            Value::Regex(regex) => self.preg.parse_nodes(&regex.0),
            Value::String(Some(text)) => self.preg.parse_nodes(text.as_bytes()),
            Value::Regex2(regex) => match regex.as_view() {
                Some(view) => self.preg.resolve_nodes(view),
                None => return Err(Error::bad("an encoded map without its type")),
            },
            other => return Err(no_map(other)),
        };
        parsed.map_err(|e| Error::new(e.status(), e.to_string()))
    }

    fn proc_map(&self, value: &Value<'_>) -> Result<ProcMap, Error> {
        let parsed = match value {
            Value::Regex(regex) => self.preg.parse_procs(&regex.0),
            Value::String(Some(text)) => self.preg.parse_procs(text.as_bytes()),
            Value::Regex2(regex) => match regex.as_view() {
                Some(view) => self.preg.resolve_procs(view),
                None => return Err(Error::bad("an encoded map without its type")),
            },
            other => return Err(no_map(other)),
        };
        parsed.map_err(|e| Error::new(e.status(), e.to_string()))
    }

    /// Takes the maps that were given before where none are given now.
    pub(super) fn keep(&mut self, known: &Job) {
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
                pair.procs.get_or_insert_with(|| maps.procs.clone());
            }
        }
    }

    /// The maps of each session, job or application that has both.
    pub(super) fn finish(self) -> Result<BTreeMap<Target, Maps>, Error> {
        let mut maps = BTreeMap::new();
        for (about, pair) in self.found {
            if let (Some(nodes), Some(procs)) = (pair.nodes, pair.procs) {
                maps.insert(about, paired(nodes, procs)?);
            }
        }
        Ok(maps)
    }
}

/// Two maps that belong together.
pub(super) fn paired(nodes: NodeList, procs: ProcMap) -> Result<Maps, Error> {
    if nodes.len() != procs.num_nodes() {
        let (names, groups) = (nodes.len(), procs.num_nodes());
        let message = format!("the node map has {names} nodes, the process map {groups}");
        return Err(Error::bad(message));
    }
    Ok(Maps::new(nodes, procs))
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
