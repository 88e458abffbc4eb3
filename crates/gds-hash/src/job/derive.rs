// SPDX-License-Identifier: MIT OR Apache-2.0
//! Derived values, computed from the maps and from values that the host registered.

use pmix_map::{NodeList, ProcMap};
use pmix_types::memory::{self, OutOfMemory};
use pmix_types::{DataArray, Proc, Rank, Text, Value, keys};

use super::anl::AnlMap;
use super::nodes::{Maps, Nodes};
use crate::Job;

impl Job {
    /// Returns a derived value of the job for a key, or `None` if there is none.
    pub(crate) fn derived_of_job(&self, key: &str) -> Option<Value<'static>> {
        if key == keys::NSPACE {
            return Some(text(self.nspace.as_bytes()));
        }
        if key == keys::JOB_NUM_APPS {
            let apps = u32::try_from(self.apps.len()).ok()?;
            return (apps > 0).then_some(Value::Uint32(apps));
        }
        let maps = self.nodes.maps.as_ref()?;
        Some(match key {
            keys::JOB_SIZE | keys::MAX_PROCS => number(maps.procs.num_ranks())?,
            keys::NUM_NODES => number(u64::try_from(maps.nodes.len()).ok()?)?,
            keys::NODE_LIST | keys::NODE_MAP_RAW => names(&maps.nodes),
            keys::PROC_MAP_RAW => groups(&maps.procs),
            keys::ANL_MAP => anl(&maps.procs).ok()??,
            _ => return None,
        })
    }

    /// Returns a derived value of the session.
    pub(crate) fn derived_of_session(&self, key: &str) -> Option<Value<'static>> {
        if key == keys::SESSION_ID {
            return self.session.id.map(Value::Uint32);
        }
        let nodes = &self.session.nodes.maps.as_ref()?.nodes;
        match key {
            keys::NUM_NODES => number(u64::try_from(nodes.len()).ok()?),
            keys::NODE_LIST | keys::NODE_MAP_RAW => Some(names(nodes)),
            _ => None,
        }
    }

    /// Returns a derived value of an application.
    pub(crate) fn derived_of_app(&self, number: u32, key: &str) -> Option<Value<'static>> {
        let app = self.apps.get(&number);
        if key == keys::APPNUM {
            return app.map(|_| Value::Uint32(number));
        }
        let maps = app?.nodes.maps.as_ref()?;
        match key {
            keys::APP_SIZE => self::number(maps.procs.num_ranks()),
            keys::NUM_NODES => self::number(u64::try_from(maps.nodes.len()).ok()?),
            keys::APPLDR => maps.lowest().map(Value::Rank),
            keys::NODE_LIST | keys::NODE_MAP_RAW => Some(names(&maps.nodes)),
            keys::PROC_MAP_RAW => Some(groups(&maps.procs)),
            keys::ANL_MAP => anl(&maps.procs).ok()?,
            _ => None,
        }
    }

    /// Returns the application of a process: the one that the host registered, or the one whose
    /// range of ranks contains the process.
    pub(crate) fn app_of(&self, rank: Rank) -> Option<u32> {
        let stated = self.procs.get(keys::APPNUM.as_bytes(), rank.as_raw());
        if let Some(Value::Uint32(number)) = stated {
            return Some(number);
        }
        let described = self.apps.iter().find(|(number, app)| {
            let maps = app.nodes.maps.as_ref();
            maps.is_some_and(|maps| maps.procs.node_of(rank).is_some())
                || self.place_in_app(**number, rank).is_some()
        });
        match described {
            Some((number, _)) => Some(*number),
            // The only application of the job, which has number 0 unless the host numbered it.
            None if self.apps.len() <= 1 => Some(self.apps.keys().next().copied().unwrap_or(0)),
            None => None,
        }
    }

    /// Returns the slot of the node of a process: the node that the host registered, or the node in
    /// the map.
    pub(crate) fn node_of(&self, rank: Rank) -> Option<u32> {
        let stated = |key: &str| self.procs.get(key.as_bytes(), rank.as_raw());
        if let Some(Value::String(Some(name))) = stated(keys::HOSTNAME)
            && let Some(slot) = self.nodes.by_name(name.as_bytes())
        {
            return Some(slot);
        }
        if let Some(slot) = self.nodes.of_rank(rank) {
            return Some(slot);
        }
        match stated(keys::NODEID) {
            Some(Value::Uint32(id)) => self.nodes.by_id(id),
            _ => None,
        }
    }

    /// Returns a derived value of a process.
    pub(crate) fn about_proc(&self, rank: Rank, key: &str) -> Option<Value<'static>> {
        if let Some(stated) = self.procs.get(key.as_bytes(), rank.as_raw()) {
            return Some(stated);
        }
        match key {
            keys::APPNUM => {
                let known = !self.apps.is_empty() && self.has_rank(rank);
                known.then(|| self.app_of(rank).map(Value::Uint32))?
            }
            keys::APP_RANK => self.app_rank(rank).map(Value::Rank),
            keys::GLOBAL_RANK => self.global_rank(rank).map(Value::Rank),
            keys::RANK => self.has_rank(rank).then_some(Value::Rank(rank)),
            keys::NSPACE => self.has_rank(rank).then(|| text(self.nspace.as_bytes())),
            keys::PROCID => (self.has_rank(rank)).then(|| {
                Value::Proc(Proc {
                    nspace: self.nspace.clone(),
                    rank,
                })
            }),
            keys::HOSTNAME | keys::NODEID => self.place_of(self.node_of(rank)?, key),
            keys::LOCAL_RANK | keys::NODE_RANK => self.local_rank(rank).map(Value::Uint16),
            _ => None,
        }
    }

    /// Returns the name or number of the node of a process.
    pub(crate) fn place_of(&self, slot: u32, key: &str) -> Option<Value<'static>> {
        match key {
            keys::HOSTNAME => self.nodes.name(slot).map(text),
            _ => {
                let id = self.nodes.id(self.nodes.first(slot));
                id.map(Value::Uint32)
            }
        }
    }

    /// Returns the first rank with a value for a key.
    pub(crate) fn first_rank_with(&self, key: &str) -> Option<Rank> {
        if let Some(rank) = self.procs.first_with(key.as_bytes()) {
            return Some(Rank::new(rank));
        }
        let derived = matches!(key, keys::LOCAL_RANK | keys::NODE_RANK);
        self.nodes.maps.as_ref().filter(|_| derived)?.lowest()
    }

    /// Returns the rank of a process within its application.
    fn app_rank(&self, rank: Rank) -> Option<Rank> {
        let number = self.app_of(rank)?;
        let app = self.apps.get(&number)?;
        if let Some(maps) = &app.nodes.maps {
            return maps.place(rank).map(Rank::new);
        }
        self.place_in_app(number, rank).map(Rank::new)
    }

    /// Returns the index of a rank in an application. The ranks of an application are consecutive.
    fn place_in_app(&self, number: u32, rank: Rank) -> Option<u32> {
        let size = self.app_size(number)?;
        let place = rank.as_raw().checked_sub(self.app_leader(number)?)?;
        (place < size).then_some(place)
    }

    fn app_size(&self, number: u32) -> Option<u32> {
        let stated = self
            .apps
            .get(&number)?
            .values
            .plain(keys::APP_SIZE.as_bytes());
        stated.and_then(|size| size.to_number().ok())
    }

    /// Returns the first rank of an application: the one that the host registered, or the sum of
    /// the sizes of the previous applications.
    fn app_leader(&self, number: u32) -> Option<u32> {
        let stated = self
            .apps
            .get(&number)?
            .values
            .plain(keys::APPLDR.as_bytes());
        match stated {
            Some(Value::Rank(first)) => Some(first.as_raw()),
            Some(first) => first.to_number().ok(),
            None => (0..number).try_fold(0_u32, |first, before| {
                first.checked_add(self.app_size(before)?)
            }),
        }
    }

    fn global_rank(&self, rank: Rank) -> Option<Rank> {
        let offset = match self.job.plain(keys::NPROC_OFFSET.as_bytes())? {
            Value::Rank(offset) => offset.as_raw(),
            Value::Uint32(offset) => *offset,
            _ => return None,
        };
        let global = rank.as_raw().checked_add(offset)?;
        self.has_rank(rank).then(|| Rank::new(global))
    }

    fn local_rank(&self, rank: Rank) -> Option<u16> {
        let maps = self.nodes.maps.as_ref()?;
        let slot = self.nodes.of_rank(rank)?;
        let mut before = 0;
        for ranks in places(maps, slot).filter_map(|place| maps.procs.ranks_of(place)) {
            if let Some(place) = ranks.place(rank) {
                return u16::try_from(before + place).ok();
            }
            before += ranks.size_hint().0;
        }
        None
    }

    /// Returns the slot of the node of this server, if the job has that node.
    pub(crate) fn own_node(&self) -> Option<u32> {
        let slot = self.host.names().find_map(|name| self.nodes.by_name(name));
        slot.map(|slot| self.nodes.first(slot))
    }

    /// Returns the processes on the node of this server.
    pub(crate) fn local_procs(&self) -> Vec<Proc<'static>> {
        let value = self
            .own_node()
            .and_then(|slot| self.about_node(&self.nodes, slot, keys::LOCAL_PROCS));
        match value {
            Some(Value::DataArray(DataArray::Proc(procs))) => procs,
            _ => Vec::new(),
        }
    }

    /// Returns a derived value of a node.
    pub(crate) fn about_node(&self, nodes: &Nodes, slot: u32, key: &str) -> Option<Value<'static>> {
        if let Some(stated) = nodes.stated(slot, key.as_bytes()) {
            return Some(stated);
        }
        match key {
            keys::HOSTNAME => return nodes.name(slot).map(text),
            keys::NODEID => return nodes.id(nodes.first(slot)).map(Value::Uint32),
            _ => {}
        }
        let maps = nodes.maps.as_ref()?;
        let mut peers = ranks(maps, slot);
        match key {
            keys::LOCAL_SIZE => number(num_ranks(maps, slot)),
            keys::LOCALLDR => peers.next().map(Value::Rank),
            keys::LOCAL_PEERS => {
                let mut list = Vec::new();
                write_peers(maps, slot, &mut list);
                Some(text(list))
            }
            keys::LOCAL_PROCS => {
                let nspace = &self.nspace;
                let procs = peers.map(|rank| Proc {
                    nspace: nspace.clone(),
                    rank,
                });
                Some(Value::DataArray(DataArray::Proc(procs.collect())))
            }
            _ => None,
        }
    }
}

/// Checks that the process has memory for a derived value that is text, such as a list of all
/// nodes.
///
/// # Errors
///
/// The process has no memory. Values of other keys are small and are not checked.
pub(crate) fn check_text(nodes: &Nodes, key: &str) -> Result<(), OutOfMemory> {
    let Some(maps) = &nodes.maps else {
        return Ok(());
    };
    let bytes = match key {
        keys::NODE_LIST | keys::NODE_MAP_RAW => maps.nodes.text_len(),
        // The last rank is written as 16 bytes before the text is truncated.
        keys::PROC_MAP_RAW => maps.procs.text_len().saturating_add(16),
        keys::ANL_MAP => return anl(&maps.procs).map(drop),
        _ => return Ok(()),
    };
    memory::check(bytes)
}

/// Checks that the process has memory for the value of a key of a node, or for all its values if
/// `key` is `None`.
///
/// # Errors
///
/// The process has no memory.
pub(crate) fn check_node(
    job: &Job,
    nodes: &Nodes,
    slot: u32,
    key: Option<&str>,
) -> Result<(), OutOfMemory> {
    let proc = size_of::<Proc<'_>>() + memory::allocated(job.nspace.as_bytes().len());
    let each = match key {
        Some(keys::LOCAL_PEERS) => MAX_RANK,
        Some(keys::LOCAL_PROCS) => proc,
        Some(keys::LOCAL_SIZE | keys::LOCALLDR) => 1,
        Some(_) => 0,
        None => MAX_RANK + proc,
    };
    let mut derived = 0;
    if each > 0
        && let Some(maps) = &nodes.maps
    {
        maps.prepare()?;
        let num_ranks = usize::try_from(num_ranks(maps, slot)).unwrap_or(usize::MAX);
        derived = num_ranks.saturating_mul(each);
    }
    memory::check(derived.saturating_add(nodes.measure(slot, key)))
}

/// The maximum length in bytes of a rank in a list, with its comma.
const MAX_RANK: usize = 11;

/// Returns a text as a value.
pub(crate) fn text(text: impl Into<Vec<u8>>) -> Value<'static> {
    Value::String(Some(Text::new(text.into())))
}

/// Returns the names of a map, separated by commas.
fn names(nodes: &NodeList) -> Value<'static> {
    let mut list = Vec::with_capacity(nodes.text_len());
    nodes.write_text(b',', &mut list);
    Value::String(Some(Text::new(list)))
}

/// Returns the ranks of a map, node by node.
fn groups(procs: &ProcMap) -> Value<'static> {
    let mut list = Vec::with_capacity(procs.text_len());
    procs.write_text(&mut list);
    Value::String(Some(Text::new(list)))
}

/// Returns a process map in PMI-2 notation, or `None` if its ranks are not 0, 1, 2, ….
fn anl(procs: &ProcMap) -> Result<Option<Value<'static>>, OutOfMemory> {
    match AnlMap::of(procs)? {
        Some(blocks) => Ok(Some(text(blocks.to_text()?))),
        None => Ok(None),
    }
}

fn number(number: u64) -> Option<Value<'static>> {
    u32::try_from(number).ok().map(Value::Uint32)
}

/// Returns the ranks of a node, from all its slots.
///
/// DEVIATION: a node that the map names more than once is one node with the ranks of all its
/// places; `a_node_named_twice_has_the_ranks_of_both_places`.
pub(crate) fn ranks(maps: &Maps, slot: u32) -> impl Iterator<Item = Rank> {
    places(maps, slot).flat_map(|place| maps.procs.ranks_of(place).into_iter().flatten())
}

/// Returns the number of processes on a node.
fn num_ranks(maps: &Maps, slot: u32) -> u64 {
    let ranks = places(maps, slot).filter_map(|place| maps.procs.ranks_of(place));
    // The size hint of this iterator is exact.
    ranks.map(|ranks| ranks.size_hint().0 as u64).sum()
}

/// Returns all indices of a node in the node map.
fn places(maps: &Maps, slot: u32) -> impl Iterator<Item = usize> {
    let repeated = maps.repeated(slot).unwrap_or_default();
    let alone = repeated.is_empty().then_some(slot);
    let slots = alone.into_iter().chain(repeated.iter().copied());
    slots.filter_map(|slot| usize::try_from(slot).ok())
}

/// Writes the ranks of a node, separated by commas.
fn write_peers(maps: &Maps, slot: u32, list: &mut Vec<u8>) {
    for place in places(maps, slot) {
        let before = list.len();
        if before > 0 {
            list.push(b',');
        }
        maps.procs.write_node(place, list);
        if list.len() == before + 1 && before > 0 {
            // This slot has no ranks, so its separator is removed.
            list.pop();
        }
    }
}
