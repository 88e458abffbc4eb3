// SPDX-License-Identifier: MIT OR Apache-2.0
//! The construction of the tree from the processors of each object: an object with fewer processors
//! is inside one with more.

use crate::tree::{Bank, Device, Kind, Part, Tree};
use crate::{Cpuset, Error, Level};

/// The objects of a machine, in no particular order.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    /// The objects of the tree, except for the machine and the hardware threads.
    pub(crate) parts: Vec<(Kind, Cpuset)>,
    pub(crate) memories: Vec<Bank>,
    /// The devices, each with its nearest processors.
    pub(crate) devices: Vec<(Device, Cpuset)>,
}

/// Returns the tree of a machine with these processors.
///
/// # Errors
/// There is no processor.
pub(crate) fn tree(online: &Cpuset, mut pieces: Pieces) -> Result<Tree, Error> {
    // As in hwloc, the processors near a memory form a group, unless another object has the same
    // processors.
    let mut groups: Vec<&Cpuset> = Vec::new();
    let near = pieces.memories.iter().map(|bank| &bank.near);
    for near in near.filter(|near| !near.is_empty()) {
        let mut known = pieces.parts.iter().map(|(_, cpus)| cpus).chain([online]);
        if !known.any(|cpus| cpus == near) && !groups.contains(&near) {
            groups.push(near);
        }
    }
    let groups = groups
        .into_iter()
        .map(|cpus| (Kind::Group(0), cpus.clone()));
    let groups: Vec<_> = groups.collect();
    pieces.parts.extend(groups);
    let threads = online
        .iter()
        .map(|cpu| (Kind::Known(Level::HwThread), Cpuset::from_iter([cpu])));
    pieces.parts.extend(threads);
    // Objects with more processors come first. Objects with equal processors are in the order of
    // `rank`. Objects of one kind are ordered by their lowest processor, which gives hwloc's
    // numbering.
    pieces.parts.sort_by_cached_key(|(kind, cpus)| {
        (std::cmp::Reverse(cpus.len()), rank(*kind), cpus.first())
    });
    let mut parts = vec![Part::new(Kind::Known(Level::Node), online.clone(), None)];
    // The lowest object so far that contains each processor.
    let mut around = vec![0; online.iter().last().map_or(0, |last| last as usize + 1)];
    for (kind, cpus) in pieces.parts {
        let at = cpus
            .first()
            .and_then(|cpu| around.get(cpu as usize).copied());
        let fits = |index: usize| {
            parts
                .get(index)
                .is_some_and(|part: &Part| cpus.is_subset(&part.cpus))
        };
        // An object that overlaps another without being inside cannot be in a tree, so it is
        // omitted.
        let Some(parent) = at.filter(|index| fits(*index)) else {
            continue;
        };
        let index = parts.len();
        for cpu in cpus.iter() {
            if let Some(place) = around.get_mut(cpu as usize) {
                *place = index;
            }
        }
        parts.push(Part::new(kind, cpus, Some(parent)));
    }
    for index in 1..parts.len() {
        let parent = parts.get(index).and_then(|part| part.parent);
        if let Some(part) = parent.and_then(|parent| parts.get_mut(parent)) {
            part.children.push(index);
        }
    }
    let first: Vec<_> = parts.iter().map(|part| part.cpus.first()).collect();
    for part in &mut parts {
        part.children
            .sort_by_key(|child| first.get(*child).copied().flatten());
    }
    for bank in pieces.memories {
        let index = place(&parts, &around, &bank.near);
        if let Some(part) = parts.get_mut(index) {
            part.memories.push(bank);
        }
    }
    for (device, near) in pieces.devices {
        let index = place(&parts, &around, &near);
        if let Some(part) = parts.get_mut(index) {
            part.devices.push(device);
        }
    }
    Tree::new(parts)
}

/// Returns the object to which a memory or device near these processors is attached. If objects
/// have exactly these processors, it is the lowest one that is not a core or thread. Otherwise it
/// is the enclosing object. Without processors it is the machine.
fn place(parts: &[Part], around: &[usize], near: &Cpuset) -> usize {
    let lowest = near
        .first()
        .and_then(|cpu| around.get(cpu as usize).copied());
    let mut at = lowest.unwrap_or(0);
    let mut found = None;
    while let Some(part) = parts.get(at) {
        if near.is_subset(&part.cpus) {
            // Finds the highest of several objects with equal processors.
            match found {
                None => found = Some(at),
                Some(known) if parts.get(known).is_some_and(|k| k.cpus == part.cpus) => {
                    found = Some(at)
                }
                Some(_) => break,
            }
        }
        match part.parent {
            Some(parent) => at = parent,
            None => break,
        }
    }
    match near.is_empty() {
        true => 0,
        false => found.unwrap_or(0),
    }
}

/// Returns the order of a kind among objects with equal processors: enclosing kinds are lower.
fn rank(kind: Kind) -> u8 {
    match kind {
        Kind::Known(Level::Node) => 0,
        Kind::Known(Level::Package) => 1,
        Kind::Die => 2,
        Kind::Group(_) => 3,
        Kind::Known(Level::Numa) => 4,
        Kind::FarCache(level) => 10u8.saturating_sub(level),
        Kind::Known(Level::L3Cache) => 11,
        Kind::Known(Level::L2Cache) => 12,
        Kind::Known(Level::L1Cache) => 13,
        Kind::Known(Level::Core) => 14,
        Kind::Known(Level::HwThread) => 15,
    }
}
