// SPDX-License-Identifier: MIT OR Apache-2.0
//! The nodes of a job: those of its map, and those that the host described without a map.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use pmix_map::{Limits, NodeList, NodeListBuilder, ProcMap};
use pmix_types::memory::{self, OutOfMemory};
use pmix_types::{Info, Rank, Value, keys};

use super::columns::{Columns, ColumnsBuilder};

/// The nodes of a job and their values.
///
/// A node has a *slot*: its index in the node map, or a number after all indices if it is not in
/// the map.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nodes {
    pub(crate) maps: Option<Maps>,
    /// The names of the slots after the map. A name is empty if only the number is known.
    extra: Vec<Vec<u8>>,
    /// The slots of these names and of all aliases.
    names: HashMap<Vec<u8>, u32>,
    /// The slots of the node numbers that the host registered.
    ids: HashMap<u32, u32>,
    values: Columns,
    /// `true` if names are stored without their domain. Requests may still name a node with its
    /// domain.
    pub(crate) short: bool,
}

/// The node map and the process map of a job, which have equal numbers of nodes.
#[derive(Clone, Debug)]
pub(crate) struct Maps {
    pub(crate) nodes: Arc<NodeList>,
    pub(crate) procs: ProcMap,
    /// All slots of each node that occurs more than once in the map, by its first slot.
    repeated: OnceLock<HashMap<u32, Vec<u32>>>,
    order: Order,
}

impl Maps {
    pub(crate) fn new(nodes: Arc<NodeList>, procs: ProcMap) -> Self {
        Self {
            nodes,
            procs,
            repeated: OnceLock::new(),
            order: Order::default(),
        }
    }

    /// Returns the lowest rank.
    pub(crate) fn lowest(&self) -> Option<Rank> {
        self.order.lowest(&self.procs)
    }

    /// Returns the number of ranks below a rank, if the map contains it.
    pub(crate) fn place(&self, rank: Rank) -> Option<u32> {
        self.order.place(&self.procs, rank)
    }

    /// Returns all slots of the node of a slot, if the node occurs more than once in the map.
    pub(crate) fn repeated(&self, slot: u32) -> Option<&[u32]> {
        let repeated = self.repeated_slots();
        if repeated.is_empty() {
            return None;
        }
        let first = self.first_slot(slot);
        repeated.get(&first).map(Vec::as_slice)
    }

    /// Builds the tables and indices for lookups by name and rank, unless they exist.
    ///
    /// # Errors
    ///
    /// The process has no memory for them.
    pub(crate) fn prepare(&self) -> Result<(), OutOfMemory> {
        if self.repeated.get().is_some() {
            return Ok(());
        }
        self.nodes.build_index()?;
        self.procs.build_index()?;
        let repeated = match counts_only(&self.nodes) {
            true => 0,
            false => self.nodes.len().saturating_mul(OF_REPEATED),
        };
        memory::check(repeated)?;
        self.repeated_slots();
        Ok(())
    }

    /// Returns the nodes that the map names more than once: all slots of each, by its first slot.
    fn repeated_slots(&self) -> &HashMap<u32, Vec<u32>> {
        self.repeated.get_or_init(|| repeated(&self.nodes))
    }

    /// Returns `true` if a slot is the first of its node.
    pub(crate) fn is_first(&self, slot: u32) -> bool {
        let slots = self.repeated(slot);
        slots.is_none_or(|slots| slots.first() == Some(&slot))
    }

    /// Returns the first slot with the name of a slot.
    pub(crate) fn first_slot(&self, slot: u32) -> u32 {
        let name = usize::try_from(slot).ok().and_then(|s| self.nodes.nth(s));
        let first = name.and_then(|name| self.nodes.position(&name));
        first.and_then(|f| u32::try_from(f).ok()).unwrap_or(slot)
    }
}

/// The maximum memory in bytes for each name in the table of repeated names.
const OF_REPEATED: usize = 64;

/// Returns the nodes that a list names more than once: all indices of each, by its first index.
fn repeated(list: &NodeList) -> HashMap<u32, Vec<u32>> {
    let mut repeated: HashMap<u32, Vec<u32>> = HashMap::new();
    if counts_only(list) {
        return repeated;
    }
    let mut place = 0_u32;
    list.for_each(|name| {
        let first = list.position(name).and_then(|f| u32::try_from(f).ok());
        if let Some(first) = first.filter(|first| *first != place) {
            repeated
                .entry(first)
                .or_insert_with(|| vec![first])
                .push(place);
        }
        place += 1;
    });
    repeated
}

/// Returns `true` if a list is one run of consecutive names, so that no name occurs twice.
fn counts_only(list: &NodeList) -> bool {
    let (mut runs, mut counts) = (0, true);
    list.for_each_run(|run| {
        runs += 1;
        counts &= matches!(run, pmix_map::NodeRun::Progression(p) if p.step != 0);
    });
    runs == 1 && counts
}

impl Nodes {
    /// Returns the number of nodes in the map.
    fn mapped(&self) -> u32 {
        let len = self.maps.as_ref().map_or(0, |maps| maps.nodes.len());
        u32::try_from(len).unwrap_or(u32::MAX)
    }

    /// Returns the slot of the node with a name or alias.
    pub(crate) fn by_name(&self, name: &[u8]) -> Option<u32> {
        let known = self.by_exact_name(name);
        known.or_else(|| self.short.then(|| self.by_exact_name(short(name)))?)
    }

    fn by_exact_name(&self, name: &[u8]) -> Option<u32> {
        let place = self.maps.as_ref().and_then(|m| m.nodes.position(name));
        place
            .and_then(|place| u32::try_from(place).ok())
            .or_else(|| self.names.get(name).copied())
    }

    /// Returns the slot of the node with a number: the registered number, or the index in the map.
    pub(crate) fn by_id(&self, id: u32) -> Option<u32> {
        if let Some(slot) = self.ids.get(&id) {
            return Some(*slot);
        }
        let slot = (id < self.mapped()).then(|| self.first(id))?;
        self.stated_id(slot).is_none().then_some(slot)
    }

    /// Returns the slot of the node on which a rank runs.
    pub(crate) fn of_rank(&self, rank: Rank) -> Option<u32> {
        let node = self.maps.as_ref()?.procs.node_of(rank)?;
        u32::try_from(node).ok().map(|slot| self.first(slot))
    }

    /// Returns the first slot of the node of a slot.
    pub(crate) fn first(&self, slot: u32) -> u32 {
        let maps = self.maps.as_ref().filter(|_| slot < self.mapped());
        let slots = maps.and_then(|maps| maps.repeated(slot));
        slots
            .and_then(|slots| slots.first().copied())
            .unwrap_or(slot)
    }

    /// Returns the name of a node, if it is known.
    pub(crate) fn name(&self, slot: u32) -> Option<Vec<u8>> {
        let mut name = Vec::new();
        self.write_name(slot, &mut name).then_some(name)
    }

    /// Appends the name of a node. Returns `false` if it is unknown.
    pub(crate) fn write_name(&self, slot: u32, out: &mut Vec<u8>) -> bool {
        let place = |slot: u32| usize::try_from(slot).ok();
        let mapped = self.mapped();
        if slot < mapped {
            let maps = self.maps.as_ref().zip(place(slot));
            return maps.is_some_and(|(maps, place)| maps.nodes.write_nth(place, out));
        }
        let extra = place(slot - mapped).and_then(|place| self.extra.get(place));
        out.extend(extra.into_iter().flatten());
        extra.is_some_and(|extra| !extra.is_empty())
    }

    /// Returns the number of a node: the registered one, or the index in the map.
    pub(crate) fn id(&self, slot: u32) -> Option<u32> {
        let mapped = slot < self.mapped();
        self.stated_id(slot).or_else(|| mapped.then_some(slot))
    }

    fn stated_id(&self, slot: u32) -> Option<u32> {
        match self.values.get(keys::NODEID.as_bytes(), slot)? {
            Value::Uint32(id) => Some(id),
            _ => None,
        }
    }

    /// Returns `true` if all nodes are in the map exactly once, and the host registered no values
    /// for nodes.
    pub(crate) fn is_plain(&self) -> bool {
        let is_once = |maps: &Maps| maps.repeated_slots().is_empty();
        self.extra.is_empty() && self.values.is_empty() && self.maps.as_ref().is_some_and(is_once)
    }

    /// Returns the number of slots.
    pub(crate) fn num_slots(&self) -> u32 {
        let behind = u32::try_from(self.extra.len()).unwrap_or(u32::MAX);
        self.mapped().saturating_add(behind)
    }

    /// Returns all values that the host registered for a node.
    pub(crate) fn all(&self, slot: u32) -> impl Iterator<Item = Info<'static>> + '_ {
        let stated = self.values.all(slot);
        stated.map(|(key, value)| Info::new(key.as_text().clone(), value))
    }

    /// Returns a value that the host registered for a node, with the requested qualifiers.
    pub(crate) fn qualified(
        &self,
        slot: u32,
        key: &[u8],
        asked: &[Info<'_>],
    ) -> Option<Value<'static>> {
        self.values.qualified(key, slot, asked)
    }

    /// Returns a value that the host registered for a node.
    pub(crate) fn stated(&self, slot: u32, key: &[u8]) -> Option<Value<'static>> {
        self.values.get(key, slot)
    }

    /// Returns the bytes of memory for a copy of the value that the host registered for a key of a
    /// node, or of all its values if `key` is `None`.
    pub(crate) fn measure(&self, slot: u32, key: Option<&str>) -> usize {
        match key {
            Some(key) => self.values.measure(key.as_bytes(), slot),
            None => self.values.measure_all(slot),
        }
    }

    /// Returns the bytes of memory for copies of all values that the host registered for nodes.
    pub(crate) fn values_bytes(&self) -> usize {
        let slots = 0..self.num_slots();
        match self.values.is_empty() {
            true => 0,
            false => slots.map(|slot| self.values.measure_all(slot)).sum(),
        }
    }

    /// Returns an upper bound of the bytes of memory for a copy of all registered values of any
    /// node.
    pub(crate) fn largest_bytes(&self) -> usize {
        self.values.largest_bytes()
    }

    /// Returns the bytes of heap memory of the nodes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let names = self.names.keys().map(|name| name.len() + 48).sum::<usize>();
        let maps = self.maps.as_ref();
        maps.map_or(0, |maps| {
            maps.nodes.memory_bytes() + maps.procs.memory_bytes()
        }) + names
            + self.ids.len() * 16
            + self.values.memory_bytes()
    }
}

/// A builder that collects descriptions of nodes.
#[derive(Debug, Default)]
pub(crate) struct NodesBuilder {
    nodes: Nodes,
    values: ColumnsBuilder,
}

impl NodesBuilder {
    /// Creates a builder with these maps; descriptions are added afterwards.
    pub(crate) fn new(maps: Option<Maps>, short: bool) -> Self {
        Self {
            nodes: Nodes {
                maps,
                short,
                ..Nodes::default()
            },
            values: ColumnsBuilder::default(),
        }
    }

    /// Copies the descriptions of an earlier registration. Nodes keep their names, but not their
    /// slots.
    pub(crate) fn keep(&mut self, known: &Nodes) {
        let mut slots: HashMap<u32, u32> = HashMap::new();
        let mut slot_of = |builder: &mut Self, old: u32| {
            *slots.entry(old).or_insert_with(|| {
                let name = known.name(old);
                builder.slot(name.as_deref(), known.stated_id(old))
            })
        };
        known.values.for_each(|key, old, value| {
            let slot = slot_of(self, old);
            self.values.set(key, slot, value);
        });
        for (name, old) in &known.names {
            let slot = slot_of(self, *old);
            self.alias(slot, name);
        }
    }

    /// Returns the slot of a node with a name, a number, or both. Creates the slot if the node is
    /// new.
    pub(crate) fn slot(&mut self, name: Option<&[u8]>, id: Option<u32>) -> u32 {
        let known = name.and_then(|name| self.nodes.by_name(name));
        let by_id = || {
            id.filter(|_| name.is_none())
                .and_then(|id| self.nodes.by_id(id))
        };
        let slot = known.or_else(by_id).unwrap_or_else(|| self.add(name));
        if let Some(id) = id {
            self.nodes.ids.insert(id, slot);
        }
        slot
    }

    /// Returns the slot of the node with a name, if it exists.
    pub(crate) fn find(&self, name: &[u8]) -> Option<u32> {
        self.nodes.by_name(name)
    }

    fn add(&mut self, name: Option<&[u8]>) -> u32 {
        let behind = u32::try_from(self.nodes.extra.len()).unwrap_or(u32::MAX);
        let slot = self.nodes.mapped().saturating_add(behind);
        self.nodes.extra.push(name.unwrap_or_default().to_vec());
        if let Some(name) = name {
            self.nodes.names.insert(name.to_vec(), slot);
        }
        slot
    }

    /// Adds an alias of a node, unless the map has a node with that name.
    pub(crate) fn alias(&mut self, slot: u32, name: &[u8]) {
        if self.nodes.by_name(name).is_none() {
            self.nodes.names.insert(name.to_vec(), slot);
        }
    }

    /// Stores a value that the host registers for a node.
    pub(crate) fn set(&mut self, slot: u32, key: &pmix_types::Key<'_>, value: &Value<'_>) {
        self.values.set(key, slot, value);
    }

    /// Returns the nodes.
    pub(crate) fn finish(mut self) -> Nodes {
        self.nodes.values = self.values.finish();
        self.nodes
    }
}

/// The ascending order of the ranks of a map. No rank occurs twice in a map.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    span: OnceLock<Option<(i64, i64)>>,
    /// The sorted ranks, used only for a map with gaps between its ranks.
    sorted: OnceLock<Box<[Rank]>>,
}

impl Order {
    /// Returns the lowest rank.
    pub(crate) fn lowest(&self, procs: &ProcMap) -> Option<Rank> {
        let (lowest, _) = self.span(procs)?;
        u32::try_from(lowest).ok().map(Rank::new)
    }

    /// Returns the number of ranks below a rank, if the map contains it.
    pub(crate) fn place(&self, procs: &ProcMap, rank: Rank) -> Option<u32> {
        procs.node_of(rank)?;
        let (lowest, highest) = self.span(procs)?;
        if u64::try_from(highest - lowest + 1) == Ok(procs.num_ranks()) {
            return u32::try_from(i64::from(rank.as_raw()) - lowest).ok();
        }
        let place = match self.sorted(procs) {
            Ok(sorted) => sorted.binary_search(&rank).ok()?,
            // Without memory for the sorted ranks, counts the lower ranks.
            Err(_) => { procs.iter().flatten() }
                .filter(|other| *other < rank)
                .count(),
        };
        u32::try_from(place).ok()
    }

    /// Returns all ranks in ascending order.
    fn sorted(&self, procs: &ProcMap) -> Result<&[Rank], OutOfMemory> {
        if let Some(sorted) = self.sorted.get() {
            return Ok(sorted);
        }
        let mut ranks = memory::list(usize::try_from(procs.num_ranks()).unwrap_or(usize::MAX))?;
        ranks.extend(procs.iter().flatten());
        ranks.sort_unstable();
        Ok(self.sorted.get_or_init(|| ranks.into()))
    }

    fn span(&self, procs: &ProcMap) -> Option<(i64, i64)> {
        *self.span.get_or_init(|| {
            // Ranks change monotonically in a run and from node to node, so the lowest and highest
            // rank are among the ends.
            let ends = procs.blocks().flat_map(|block| {
                let more = i64::try_from(block.num_nodes).unwrap_or(i64::MAX) - 1;
                let shift = block.shift * more;
                block.runs.into_iter().flat_map(move |run| {
                    let first = i64::from(run.first.as_raw());
                    let last = first + run.step * (i64::from(run.count) - 1);
                    [first, last, first + shift, last + shift]
                })
            });
            ends.fold(None, |span, end| match span {
                None => Some((end, end)),
                Some((lowest, highest)) => Some((end.min(lowest), end.max(highest))),
            })
        })
    }
}

/// Returns a name up to its first dot. An IP address does not change.
pub(crate) fn short(name: &[u8]) -> &[u8] {
    let Some(dot) = name.iter().position(|byte| *byte == b'.') else {
        return name;
    };
    let text = std::str::from_utf8(name).ok();
    let is_address = text.is_some_and(|text| text.parse::<IpAddr>().is_ok());
    match name.get(..dot) {
        Some(short) if dot > 0 && !is_address => short,
        _ => name,
    }
}

/// Returns the list with short names.
pub(crate) fn short_names(list: &NodeList, limits: &Limits) -> Result<NodeList, pmix_map::Error> {
    let mut builder = NodeListBuilder::new(limits);
    let mut result = Ok(());
    list.for_each(|name| {
        if result.is_ok() {
            result = builder.name(short(name));
        }
    });
    result.map(|()| builder.finish())
}

#[cfg(test)]
mod tests {
    use pmix_map::Limits;

    use super::*;

    #[test]
    fn place_is_the_number_of_lower_ranks() {
        for map in ["0-3;4-7", "0,2,4;1,3,5", "7,6;5,4", "3,10;20;;4-6", "9"] {
            let procs = ProcMap::parse_text(map.as_bytes(), &Limits::default()).unwrap();
            let order = Order::default();
            let mut ranks: Vec<Rank> = procs.iter().flatten().collect();
            ranks.sort_unstable();
            assert_eq!(order.lowest(&procs), ranks.first().copied(), "{map}");
            for (place, rank) in (0..).zip(&ranks) {
                assert_eq!(order.place(&procs, *rank), Some(place), "{map}");
            }
            assert_eq!(order.place(&procs, Rank::new(1_000)), None);
        }
        let none = ProcMap::parse_text(b";", &Limits::default()).unwrap();
        assert_eq!(Order::default().lowest(&none), None);
    }

    #[test]
    fn removes_domains_and_keeps_addresses() {
        for (name, expected) in [
            ("n1.example.com", "n1"),
            ("n1", "n1"),
            ("10.0.0.1", "10.0.0.1"),
            ("::ffff:10.0.0.1", "::ffff:10.0.0.1"),
            ("10.0.0.1.example", "10"),
            (".x", ".x"),
        ] {
            assert_eq!(short(name.as_bytes()), expected.as_bytes());
        }
    }
}
