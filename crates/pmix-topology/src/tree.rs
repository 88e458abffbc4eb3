// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts of a machine as a tree, its levels and its devices.
//!
//! Source: hwloc documentation, "Hierarchy, Tree and Levels": memories and devices are attached to
//! objects of the tree, and every level consists of objects of one kind. `testdata/topology` has
//! the numbering of hwloc 2.9.

use std::collections::{BTreeMap, BTreeSet};

use pmix_types::DeviceType;

use crate::{Cpuset, Error, Level};

/// A kind of object in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A level that PMIx defines, except for memories, which are attached to the tree.
    Known(Level),
    /// A cache of level 4 or 5.
    FarCache(u8),
    /// A die of a package.
    Die,
    /// A group of objects that belong together for another reason. The number is the depth of
    /// nested groups.
    Group(u8),
}

impl Kind {
    /// Returns a distinct number below 64 for each kind.
    pub(crate) fn place(self) -> u8 {
        match self {
            Self::Known(level) => level as u8,
            Self::FarCache(level) => 8 + level % 8,
            Self::Die => 16,
            Self::Group(depth) => 17 + depth.min(40),
        }
    }

    fn bit(self) -> u64 {
        1 << self.place()
    }

    fn is_thread(self) -> bool {
        self == Self::Known(Level::HwThread)
    }
}

/// A part of the machine: an object of hwloc's tree.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) kind: Kind,
    pub(crate) cpus: Cpuset,
    /// `true` for a group that is kept although it adds no structure.
    pub(crate) is_kept: bool,
    /// The index of the enclosing object; `None` for the machine.
    pub(crate) parent: Option<usize>,
    /// The indices of the objects directly inside, in order.
    pub(crate) children: Vec<usize>,
    /// The memories attached to the object.
    pub(crate) memories: Vec<Bank>,
    /// The devices attached to the object.
    pub(crate) devices: Vec<Device>,
    /// The number of levels above the object.
    pub(crate) depth: usize,
}

impl Part {
    pub(crate) fn new(kind: Kind, cpus: Cpuset, parent: Option<usize>) -> Self {
        Self {
            kind,
            cpus,
            is_kept: false,
            parent,
            children: Vec::new(),
            memories: Vec::new(),
            devices: Vec::new(),
            depth: 0,
        }
    }
}

/// A memory as the system or the XML describes it.
#[derive(Clone, Debug)]
pub(crate) struct Bank {
    /// The number of the memory in the operating system.
    pub(crate) index: u32,
    /// The processors near the memory; empty if there are none.
    pub(crate) near: Cpuset,
}

/// A memory, and the processors near it.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    /// The processors of the object to which the memory is attached.
    pub(crate) around: Cpuset,
    /// The processors near the memory by its own description; empty if there are none.
    pub(crate) near: Cpuset,
}

/// All objects of a machine.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    parts: Vec<Part>,
    /// The indices of the objects of each level, starting with the machine.
    levels: Vec<Vec<usize>>,
    /// The memories, in the order of hwloc's numbers.
    memories: Vec<Memory>,
    /// The devices, each with the index of the object to which it is attached, in the order of
    /// hwloc.
    devices: Vec<(Device, usize)>,
}

/// The maximum number of levels of a machine. hwloc has 13 kinds, and nested groups.
const MAX_LEVELS: usize = 64;

impl Tree {
    /// Creates a tree of these objects. The first is the machine, and every other object follows
    /// its enclosing object.
    ///
    /// # Errors
    /// There are too many levels, or no hardware thread.
    pub(crate) fn new(mut parts: Vec<Part>) -> Result<Self, Error> {
        let mut levels = levels(&parts)?;
        while let Some(place) = level_to_drop(&parts, &levels) {
            take_away(&mut parts, &levels.remove(place));
        }
        let threads = levels
            .iter()
            .flatten()
            .filter_map(|index| parts.get(*index));
        if !threads.into_iter().any(|part| part.kind.is_thread()) {
            return Err(Error::malformed("a machine without a hardware thread"));
        }
        for (depth, level) in levels.iter().enumerate() {
            for index in level {
                if let Some(part) = parts.get_mut(*index) {
                    part.depth = depth;
                }
            }
        }
        let mut tree = Self {
            parts,
            levels,
            memories: Vec::new(),
            devices: Vec::new(),
        };
        tree.list_beside();
        Ok(tree)
    }

    /// Returns the object that contains all others.
    pub(crate) fn machine(&self) -> Option<&Part> {
        self.parts.first()
    }

    /// Returns the objects directly inside an object.
    pub(crate) fn inside(&self, part: &Part) -> impl Iterator<Item = (usize, &Part)> {
        let inside = part.children.iter();
        inside.filter_map(|index| Some((*index, self.parts.get(*index)?)))
    }

    /// Lists memories and devices in the order of hwloc: those of inner objects first.
    fn list_beside(&mut self) {
        // The index of an object, and `true` if its inner objects have been listed.
        let mut stack = vec![(0, false)];
        while let Some((index, is_done)) = stack.pop() {
            let Some(part) = self.parts.get(index) else {
                continue;
            };
            if !is_done {
                stack.push((index, true));
                stack.extend(part.children.iter().rev().map(|child| (*child, false)));
                continue;
            }
            self.memories
                .extend(part.memories.iter().map(|bank| Memory {
                    around: part.cpus.clone(),
                    near: bank.near.clone(),
                }));
            let devices = part.devices.iter().cloned();
            self.devices.extend(devices.map(|device| (device, index)));
        }
    }

    /// Returns the kind and the objects of each level, starting with the machine.
    pub(crate) fn levels(&self) -> impl Iterator<Item = (Kind, impl Iterator<Item = &Part>)> {
        self.levels.iter().filter_map(|level| {
            let parts = level.iter().filter_map(|index| self.parts.get(*index));
            let kind = self.parts.get(*level.first()?)?.kind;
            Some((kind, parts))
        })
    }

    /// Returns the memories in the order of their numbers.
    pub(crate) fn memories(&self) -> &[Memory] {
        &self.memories
    }

    /// Returns each device, and the object to which it is attached.
    pub(crate) fn devices(&self) -> impl Iterator<Item = (&Device, &Part)> {
        let devices = self.devices.iter();
        devices.filter_map(|(device, index)| Some((device, self.parts.get(*index)?)))
    }

    /// Returns the numbers of the memories attached to each object or to objects inside it, in the
    /// original order of the objects.
    pub(crate) fn inner_memories(&self) -> Vec<Cpuset> {
        let own = self
            .parts
            .iter()
            .map(|part| part.memories.iter().map(|bank| bank.index).collect());
        let mut all: Vec<Cpuset> = own.collect();
        for (index, part) in self.parts.iter().enumerate().rev() {
            // Removed objects have no memories.
            let below = all.get(index).cloned().unwrap_or_default();
            if let Some(around) = part.parent.and_then(|parent| all.get_mut(parent)) {
                around.extend(&below);
            }
        }
        all
    }

    /// Returns the number of levels.
    pub(crate) fn depth(&self) -> usize {
        self.levels.len()
    }

    /// Returns the lowest object below the machine that contains all of these processors.
    pub(crate) fn around(&self, cpus: &Cpuset) -> Option<&Part> {
        let mut found = None;
        for (_, mut parts) in self.levels().skip(1) {
            match parts.find(|part| cpus.is_subset(&part.cpus)) {
                Some(part) => found = Some(part),
                None => break,
            }
        }
        found
    }

    /// Returns the lowest object that contains or equals both objects.
    pub(crate) fn common<'a>(&'a self, one: &'a Part, other: &'a Part) -> Option<&'a Part> {
        let up = |part: &Part| part.parent.and_then(|index| self.parts.get(index));
        let (mut one, mut other) = (one, other);
        while !std::ptr::eq(one, other) {
            match one.depth < other.depth {
                true => other = up(other)?,
                false if one.depth > other.depth => one = up(one)?,
                false => (one, other) = (up(one)?, up(other)?),
            }
        }
        Some(one)
    }
}

/// Returns the levels of a tree. Each level has all objects of one kind that are below the previous
/// levels and not inside another object of this kind.
fn levels(parts: &[Part]) -> Result<Vec<Vec<usize>>, Error> {
    // The kinds of each object and of all objects inside it, which follow it in the list.
    let mut inside: Vec<u64> = parts.iter().map(|part| part.kind.bit()).collect();
    for (index, part) in parts.iter().enumerate().rev() {
        let below = inside.get(index).copied().unwrap_or_default();
        if let Some(around) = part.parent.and_then(|parent| inside.get_mut(parent)) {
            *around |= below;
        }
    }
    let kind = |index: &usize| parts.get(*index).map(|part| part.kind);
    let mut levels: Vec<Vec<usize>> = Vec::new();
    let mut due = vec![0];
    while !due.is_empty() {
        if levels.len() == MAX_LEVELS {
            return Err(Error::malformed(format!("more than {MAX_LEVELS} levels")));
        }
        // Threads are the last level.
        let other = due
            .iter()
            .find(|index| kind(index).is_some_and(|kind| !kind.is_thread()));
        let first = other.or_else(|| due.first()).and_then(kind);
        // An object that contains objects of this kind comes before them.
        let top = due.iter().fold(first, |top, index| {
            let has = top
                .zip(inside.get(*index))
                .is_some_and(|(top, inside)| inside & top.bit() != 0);
            if has { kind(index) } else { top }
        });
        let (level, rest): (Vec<_>, Vec<_>) = due.iter().partition(|index| kind(index) == top);
        let mut next = Vec::with_capacity(rest.len());
        for index in &due {
            match parts.get(*index) {
                Some(part) if Some(part.kind) == top => next.extend(&part.children),
                _ => next.push(*index),
            }
        }
        levels.push(level);
        due = next;
    }
    Ok(levels)
}

/// Returns the index of a level whose groups equal their enclosing or inner objects. hwloc keeps
/// only groups that add structure.
fn level_to_drop(parts: &[Part], levels: &[Vec<usize>]) -> Option<usize> {
    let is_group = |level: &[usize]| {
        let mut level = level.iter().filter_map(|index| parts.get(*index));
        level.all(|part| matches!(part.kind, Kind::Group(_)) && !part.is_kept)
    };
    let pairs = levels.windows(2).enumerate().rev();
    let mut found = pairs.filter_map(|(place, pair)| {
        let [upper, lower] = pair else { return None };
        let has_one = |(above, below): (&usize, &usize)| {
            let above = parts.get(*above);
            above.is_some_and(|part| part.children == [*below])
        };
        let is_alike = upper.len() == lower.len() && upper.iter().zip(lower).all(has_one);
        match is_alike {
            true if is_group(upper) => Some(place),
            true if is_group(lower) => Some(place + 1),
            _ => None,
        }
    });
    found.next()
}

/// Removes the objects of a level, and moves their contents to the enclosing objects.
fn take_away(parts: &mut [Part], level: &[usize]) {
    let mut emptied: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut parents = BTreeSet::new();
    for index in level {
        let Some(part) = parts.get_mut(*index) else {
            continue;
        };
        let (inside, parent) = (std::mem::take(&mut part.children), part.parent);
        let memories = std::mem::take(&mut part.memories);
        let devices = std::mem::take(&mut part.devices);
        for child in &inside {
            if let Some(child) = parts.get_mut(*child) {
                child.parent = parent;
            }
        }
        emptied.insert(*index, inside);
        parents.extend(parent);
        if let Some(around) = parent.and_then(|parent| parts.get_mut(parent)) {
            around.memories.extend(memories);
            around.devices.extend(devices);
        }
    }
    // Each parent is handled once, because a machine may have very many objects.
    for parent in parents {
        if let Some(around) = parts.get_mut(parent) {
            let before = std::mem::take(&mut around.children).into_iter();
            let after =
                before.flat_map(|child| emptied.remove(&child).unwrap_or_else(|| vec![child]));
            around.children = after.collect();
        }
    }
}

// The devices of a machine, and their unique names.
//
// Source: the names are those of OpenPMIx 4.2.2, recorded in `testdata/topology`.

/// A device whose distance PMIx reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Device {
    /// The name of the device in the operating system.
    pub(crate) name: String,
    pub(crate) kind: DeviceKind,
}

/// The kind of a device, with the identifiers that make it unique.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DeviceKind {
    /// A graphics processor.
    Gpu,
    /// A network interface with its hardware address.
    Network { address: String },
    /// An OpenFabrics adapter, with its node GUID and its system image GUID.
    Fabric { node: String, system: String },
}

impl DeviceKind {
    pub(crate) fn device_type(&self) -> DeviceType {
        match self {
            Self::Gpu => DeviceType::GPU,
            Self::Network { .. } => DeviceType::NETWORK,
            Self::Fabric { .. } => DeviceType::OPENFABRICS,
        }
    }
}

impl Device {
    /// Creates a device. Like OpenPMIx, returns `None` for a name that is an alias of another
    /// device.
    pub(crate) fn new(name: &str, kind: DeviceKind) -> Option<Self> {
        let start = name.as_bytes().get(..4);
        let is_card = start.is_some_and(|start| start.eq_ignore_ascii_case(b"card"));
        (kind != DeviceKind::Gpu || !is_card).then(|| Self {
            name: name.to_owned(),
            kind,
        })
    }

    /// Returns the name of the device that is unique in the cluster, or `None` if the device has no
    /// address.
    pub(crate) fn uuid(&self, hostname: &str) -> Option<String> {
        match &self.kind {
            DeviceKind::Gpu => Some(format!("gpu://{hostname}::{}", self.name)),
            DeviceKind::Network { address } => match address.matches(':').count() {
                5 => Some(format!("ipv4://{address}")),
                19 => Some(format!("ipv6://{address}")),
                _ => None,
            },
            DeviceKind::Fabric { node, system } => Some(format!("fab://{node}::{system}")),
        }
    }
}
