// SPDX-License-Identifier: MIT OR Apache-2.0
//! The index from names to places. The first query builds it. A query computes one hash and does a
//! few binary searches.
//!
//! Equal shapes form a class. Lattices are in a [`LatticeIndex`], single numbers in a hash table
//! with four bytes per slot. Hash tables use open addressing, and their entries are ids of data in
//! the list. The hash has a random key, so no peer can prepare names that collide.

use std::hash::{BuildHasher, RandomState};

use pmix_types::memory::{self, OutOfMemory};

use super::shape::{Shape, blank};
use super::{Kind, NodeList};
use crate::lattice;
use crate::lattice_index::{Item, LatticeIndex};

/// The mark of an empty slot.
const FREE: u32 = u32::MAX;

/// The index of a list.
#[derive(Clone, Debug)]
pub(super) struct Index {
    hasher: RandomState,
    /// The first shape id of each class, by shape.
    shapes: Table,
    /// The class of each shape.
    classes: Vec<u32>,
    /// The distinct windows of the shapes.
    tails: Vec<u32>,
    /// The first index into `NodeList::numbers`, by class and number.
    numbers: Table,
    /// The blocks that store single numbers, in order.
    scatters: Vec<u32>,
    lattices: LatticeIndex,
}

/// A hash table of ids with open addressing. The data of the ids are stored elsewhere.
#[derive(Clone, Debug)]
struct Table {
    slots: Vec<u32>,
}

impl Table {
    fn new(len: usize) -> Result<Self, OutOfMemory> {
        let num_slots = (len + len / 2 + 1).next_power_of_two();
        let mut slots = memory::list(num_slots)?;
        slots.resize(num_slots, FREE);
        Ok(Self { slots })
    }

    /// Returns the slot of an equal id, or a free slot.
    fn slot(&self, hash: u64, equal: impl Fn(u32) -> bool) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = usize::try_from(hash & mask as u64).unwrap_or(0);
        while self.slots[at] != FREE && !equal(self.slots[at]) {
            at = (at + 1) & mask;
        }
        at
    }

    fn get(&self, hash: u64, equal: impl Fn(u32) -> bool) -> Option<u32> {
        Some(self.slots[self.slot(hash, equal)]).filter(|id| *id != FREE)
    }

    /// Inserts an id unless the table has an equal one. Returns the id in the table.
    fn enter(&mut self, id: u32, hash: u64, equal: impl Fn(u32) -> bool) -> u32 {
        let slot = self.slot(hash, equal);
        if self.slots[slot] == FREE {
            self.slots[slot] = id;
        }
        self.slots[slot]
    }
}

impl Index {
    /// Indexes a list.
    ///
    /// # Errors
    ///
    /// The process has no memory for the index.
    pub(super) fn new(list: &NodeList) -> Result<Self, OutOfMemory> {
        let hasher = RandomState::new();
        let mut index = Self {
            shapes: Table::new(list.shapes.len())?,
            classes: memory::list(list.shapes.len())?,
            tails: vec![0],
            numbers: Table::new(list.numbers.len())?,
            scatters: Vec::new(),
            lattices: LatticeIndex::default(),
            hasher,
        };
        index.enter_shapes(list);
        let mut items = Vec::new();
        for (id, block) in (0u32..).zip(&list.blocks) {
            let class = index.classes[block.shape as usize];
            if block.kind == Kind::Scatter {
                memory::reserve(&mut index.scatters, 1)?;
                index.scatters.push(id);
                index.enter_numbers(list, id, class);
            } else {
                let (low, high) = lattice::bounds(block.first, list.dims_of(block));
                memory::reserve(&mut items, 1)?;
                items.push(Item {
                    class,
                    id,
                    low,
                    high,
                });
            }
        }
        index.lattices = LatticeIndex::new(items, |id, cut| {
            let block = &list.blocks[id as usize];
            cut(block.first, list.dims_of(block));
        })?;
        Ok(index)
    }

    fn enter_shapes(&mut self, list: &NodeList) {
        for id in (0u32..).take(list.shapes.len()) {
            let shape = list.shapes.get(id);
            // There are at most as many windows as a name has digits, so a linear search suffices.
            if !self.tails.contains(&shape.tail) {
                self.tails.push(shape.tail);
            }
            let hash = self.hasher.hash_one((shape.tail, shape.text));
            let class = self
                .shapes
                .enter(id, hash, |other| list.shapes.get(other).same(&shape));
            self.classes.push(class);
        }
    }

    fn enter_numbers(&mut self, list: &NodeList, block: u32, class: u32) {
        for at in list.scatter_of(block as usize) {
            let number = list.numbers[at];
            let hash = self.hasher.hash_one((class, number));
            let Ok(id) = u32::try_from(at) else { return };
            let mut numbers = std::mem::replace(&mut self.numbers, Table { slots: Vec::new() });
            numbers.enter(id, hash, |other| {
                list.numbers[other as usize] == number && self.class_of(list, other) == class
            });
            self.numbers = numbers;
        }
    }

    /// Returns the index of the block that contains the number with this index.
    fn scatter(&self, list: &NodeList, at: u32) -> u32 {
        let behind = self
            .scatters
            .partition_point(|b| list.blocks[*b as usize].data <= at);
        self.scatters[behind - 1]
    }

    fn class_of(&self, list: &NodeList, at: u32) -> u32 {
        let block = self.scatter(list, at);
        self.classes[list.blocks[block as usize].shape as usize]
    }

    /// Returns the place of the first occurrence of a name.
    pub(super) fn position(&self, list: &NodeList, name: &[u8]) -> Option<u64> {
        let mut text = Vec::with_capacity(name.len());
        let places = self.tails.iter().filter_map(|tail| {
            text.clear();
            text.extend_from_slice(name);
            let (window, number) = blank(&mut text, *tail);
            let wanted = Shape {
                text: &text,
                spans: window.as_slice(),
                tail: *tail,
            };
            let hash = self.hasher.hash_one((wanted.tail, wanted.text));
            let class = self
                .shapes
                .get(hash, |id| list.shapes.get(id).same(&wanted))?;
            self.place(list, class, number)
        });
        places.min()
    }

    fn place(&self, list: &NodeList, class: u32, number: i64) -> Option<u64> {
        let hash = self.hasher.hash_one((class, number));
        let kept = self.numbers.get(hash, |at| {
            list.numbers[at as usize] == number && self.class_of(list, at) == class
        });
        let kept = kept.map(|at| {
            let block = &list.blocks[self.scatter(list, at) as usize];
            block.start + u64::from(at - block.data)
        });
        let folded = self.lattices.find(class, number, |id| {
            let block = &list.blocks[id as usize];
            lattice::place(block.first, list.dims_of(block), number)
        });
        let folded = folded.map(|(id, place)| list.blocks[id as usize].start + place);
        kept.into_iter().chain(folded).min()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let slots = self.shapes.slots.capacity() + self.numbers.slots.capacity();
        let ids = self.classes.capacity() + self.tails.capacity() + self.scatters.capacity();
        (slots + ids) * size_of::<u32>() + self.lattices.memory_bytes()
    }
}

/// Returns the place of the first occurrence of a name. Searches one block after the other, without
/// an index.
pub(super) fn search(list: &NodeList, name: &[u8]) -> Option<u64> {
    let mut text = name.to_vec();
    list.blocks.iter().enumerate().find_map(|(at, block)| {
        let shape = list.shapes.get(block.shape);
        if shape.text.len() != name.len() {
            return None;
        }
        text.copy_from_slice(name);
        let (window, number) = blank(&mut text, shape.tail);
        let wanted = Shape {
            text: &text,
            spans: window.as_slice(),
            tail: shape.tail,
        };
        if !shape.same(&wanted) {
            return None;
        }
        let place = match block.kind {
            Kind::Lattice(_) => lattice::place(block.first, list.dims_of(block), number)?,
            Kind::Scatter => {
                let numbers = list.numbers.get(list.scatter_of(at))?;
                let place = numbers.iter().position(|one| *one == number)?;
                u64::try_from(place).ok()?
            }
        };
        Some(block.start + place)
    })
}
