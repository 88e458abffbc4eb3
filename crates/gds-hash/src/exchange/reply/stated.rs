// SPDX-License-Identifier: MIT OR Apache-2.0
//! The values that the host registered for processes, packed column by column, and the keys that
//! each release needs.

use bfrops::{MessageTemplate, Slot};
use pmix_types::{Key, Rank, Release, Value, keys};

use super::{Writer, knows};
use crate::job::Reader;

/// A set of the keys of a process whose values can be derived, as one bit each.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Keys(u8);

/// A key whose value can be derived, and the set of only this key.
pub(super) type Followed = (&'static str, Keys);

pub(super) const LOCAL_RANK: Followed = (keys::LOCAL_RANK, Keys(1));

pub(super) const NODE_RANK: Followed = (keys::NODE_RANK, Keys(1 << 1));

pub(super) const HOSTNAME: Followed = (keys::HOSTNAME, Keys(1 << 2));

pub(super) const NODEID: Followed = (keys::NODEID, Keys(1 << 3));

pub(super) const APPNUM: Followed = (keys::APPNUM, Keys(1 << 4));

pub(super) const APP_RANK: Followed = (keys::APP_RANK, Keys(1 << 5));

pub(super) const GLOBAL_RANK: Followed = (keys::GLOBAL_RANK, Keys(1 << 6));

/// All derivable keys, in the order of their bits.
pub(super) const ALL: [Followed; 7] = [
    LOCAL_RANK,
    NODE_RANK,
    HOSTNAME,
    NODEID,
    APPNUM,
    APP_RANK,
    GLOBAL_RANK,
];

impl Keys {
    /// Returns the set of this key, or the empty set if its value cannot be derived.
    fn of(key: &Key<'_>) -> Self {
        let known = ALL.iter().find(|(name, _)| key.is(name));
        known.map_or_else(Self::default, |(_, bit)| *bit)
    }

    /// Returns the index in [`ALL`] of the only key in the set.
    pub(super) const fn place(self) -> usize {
        self.0.trailing_zeros() as usize
    }

    /// Returns `true` if the set contains a key.
    pub(super) const fn has(self, (_, key): Followed) -> bool {
        self.0 & key.0 != 0
    }
}

/// The values of a key that have one type.
struct Column<'r> {
    reader: Reader<'r>,
    key: Keys,
    /// `true` if a client continues after the key.
    is_sent: bool,
    /// `true` if the values are numbers that a template accepts directly.
    is_plain: bool,
    field: Option<Slot>,
}

/// The values that the host registered for processes.
pub(super) struct Stated<'r> {
    columns: Vec<Column<'r>>,
}

impl<'r> Stated<'r> {
    /// Creates the columns of the keys for which `is_wanted` returns `true`.
    pub(super) fn new(writer: &Writer<'r, '_>, is_wanted: impl Fn(&Key<'_>) -> bool) -> Self {
        let readers = writer.job.procs.readers().into_iter();
        let readers = readers.filter(|reader| is_wanted(reader.key()));
        let columns = readers.map(|reader| Column {
            key: Keys::of(reader.key()),
            is_sent: knows(writer.release, reader.key()),
            is_plain: reader.is_unsigned(),
            field: None,
            reader,
        });
        Self {
            columns: columns.collect(),
        }
    }

    /// Puts all registered values of a process. Returns those of their keys that can also be
    /// derived.
    pub(super) fn put(&mut self, rank: Rank, template: &mut MessageTemplate<'_>) -> Keys {
        let mut stated = Keys::default();
        for column in &mut self.columns {
            if let Some(number) = column.reader.number(rank.as_raw()) {
                stated.0 |= column.key.0;
                if column.is_sent {
                    column.put(number, template);
                }
            }
        }
        stated
    }
}

impl Column<'_> {
    #[inline]
    fn put(&mut self, number: u64, template: &mut MessageTemplate<'_>) {
        // Values that this client cannot unpack are omitted.
        let Some(field) = self.field.or_else(|| self.first(number, template)) else {
            return;
        };
        let _ = match self.is_plain {
            true => template.put_number(field, number),
            false => template.put(field, number, || {
                self.reader.value(number).unwrap_or(Value::Undef)
            }),
        };
    }

    #[cold]
    fn first(&mut self, number: u64, template: &mut MessageTemplate<'_>) -> Option<Slot> {
        let like = self.reader.value(number)?;
        self.field = template.kval(self.reader.key(), &like).ok();
        self.field
    }
}

// The amount of data about remote processes and nodes in the job info of a client.
//
// A client requests missing data when it needs them, except for the following, which it only looks
// up locally:
//
// | release | of a process | of a node |
// | --- | --- | --- |
// | 4.2 | `pmix.hname` | everything: it looks up keys of the node of a process as optional ones |
// | 5.0 and later | `pmix.hname`, `pmix.nodeid`, `pmix.appnum` | nothing |
//
// Source: this project; the decision is `docs/decisions/0011-large-jobs-are-told-in-part.md`.

/// The amount of data about remote processes and nodes in the job info of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Remote {
    /// All data.
    #[default]
    Whole,
    /// The node of each process, and all other data that clients do not request later. Every get
    /// finds the same value as with `Whole`.
    Places,
    /// No data. A client receives the node of a process only when it requests another value of the
    /// process. Before that, it must not look up keys of the node.
    Nothing,
}

/// The keys that a client never requests, even if it has no value for them.
#[derive(Clone, Copy, Debug)]
pub(super) struct NeverAsked {
    /// The keys of processes.
    pub(super) of_procs: &'static [Followed],
    /// `true` if the client does not request keys of nodes.
    pub(super) of_nodes: bool,
}

impl NeverAsked {
    pub(super) const fn by(release: Release) -> Self {
        match release {
            Release::V4_2_2 => Self {
                of_procs: &[HOSTNAME],
                of_nodes: true,
            },
            _ => Self {
                of_procs: &[HOSTNAME, NODEID, APPNUM],
                of_nodes: false,
            },
        }
    }
}
