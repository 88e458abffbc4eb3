// SPDX-License-Identifier: MIT OR Apache-2.0
//! The folding into one bracket. A *head* is the text of a name before its brackets; consecutive
//! heads that differ in one number are folded.

use pmix_map::Progression;

use super::group::{Group, Numbers, field, number_between};
use super::numbers;
use crate::brackets::Notation;

/// A folded name: the head, which may be folded into another bracket, and the tail after it.
pub(super) struct Item {
    pub(super) head: Vec<u8>,
    pub(super) tail: Vec<u8>,
}

/// A folder of heads with equal tails.
pub(super) struct Level {
    notation: Notation,
    tail: Vec<u8>,
    /// The last head, while no group is open. The next head may fold with it.
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

    /// Adds a head. Returns the previous item if the head could not be folded with it.
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
        // If there is a tail, the name ends with the bracket of the tail. Otherwise the text after
        // the new bracket ends the name.
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

    /// Adds a progression of names without a tail. Returns the previous item if it could not be
    /// folded with them.
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

    /// Returns the group to which the names of this run are added, and the item that the group
    /// replaces.
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

    /// Closes the open item, if any, and returns it.
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
