// SPDX-License-Identifier: MIT OR Apache-2.0
//! One bracket's worth of folding: consecutive heads that differ in one number.

use pmix_map::Progression;

use super::group::{Group, Numbers, field, number_between};
use super::numbers;
use crate::notation::Notation;

/// A folded name: what a further bracket may fold on, and what follows it.
pub(super) struct Item {
    pub(super) head: Vec<u8>,
    pub(super) tail: Vec<u8>,
}

/// Folds heads that have the same tail.
pub(super) struct Level {
    notation: Notation,
    tail: Vec<u8>,
    /// The head that the next one may fold with.
    single: Option<Vec<u8>>,
    group: Option<Group>,
}

impl Level {
    pub(super) fn new(notation: Notation) -> Self {
        Self {
            notation,
            tail: Vec::new(),
            single: None,
            group: None,
        }
    }

    /// Takes a head; returns what it could not be folded with.
    pub(super) fn push(&mut self, head: &[u8], tail: &[u8]) -> Option<Item> {
        if self.tail == tail && self.takes(head) {
            return None;
        }
        let closed = self.close();
        self.tail = tail.to_vec();
        self.single = Some(head.to_vec());
        closed
    }

    fn takes(&mut self, head: &[u8]) -> bool {
        if let Some(group) = &mut self.group {
            let digits = number_between(head, &group.prefix, &group.suffix);
            return digits.is_some_and(|digits| {
                group.add(Numbers::of(&head[digits]));
                true
            });
        }
        let Some(single) = &self.single else {
            return false;
        };
        let Some((old, new)) = field(single, head) else {
            return false;
        };
        // With a tail the name ends with the tail's bracket, whatever stands between.
        if self.tail.is_empty() && !self.notation.ends_with(&head[new.end..]) {
            return false;
        }
        let mut group = Group {
            prefix: head[..new.start].to_vec(),
            suffix: head[new.end..].to_vec(),
            ranges: vec![Numbers::of(&single[old])],
        };
        group.add(Numbers::of(&head[new]));
        (self.single, self.group) = (None, Some(group));
        true
    }

    /// Takes names that are a progression already and have no tail.
    pub(super) fn progression(&mut self, run: &Progression<'_>) -> Option<Item> {
        let (closed, mut group) = self.open(run);
        if run.step == 1 {
            group.add(Numbers {
                first: run.first,
                last: run.first + (run.count - 1),
                width: run.width,
            });
        } else {
            for number in numbers(run) {
                group.add(Numbers {
                    first: number,
                    last: number,
                    width: run.width,
                });
            }
        }
        self.group = Some(group);
        closed
    }

    /// The group that takes this run's names, and what had to make room for it.
    fn open(&mut self, run: &Progression<'_>) -> (Option<Item>, Group) {
        match self.group.take() {
            Some(group) if group.prefix == run.prefix && group.suffix == run.suffix => {
                return (None, group);
            }
            other => self.group = other,
        }
        let mut group = Group {
            prefix: run.prefix.to_vec(),
            suffix: run.suffix.to_vec(),
            ranges: Vec::new(),
        };
        if let Some(single) = &self.single
            && let Some(digits) = number_between(single, run.prefix, run.suffix)
        {
            group.add(Numbers::of(&single[digits]));
            self.single = None;
            return (None, group);
        }
        (self.close(), group)
    }

    /// What is open.
    pub(super) fn close(&mut self) -> Option<Item> {
        let tail = std::mem::take(&mut self.tail);
        if let Some(head) = self.single.take() {
            return Some(Item { head, tail });
        }
        let group = self.group.take()?;
        let mut item = Item {
            head: Vec::new(),
            tail: Vec::new(),
        };
        let steps = self.notation == Notation::ClusterShell;
        group.write(steps, &mut item.head, &mut item.tail);
        item.tail.extend_from_slice(&tail);
        Some(item)
    }
}
