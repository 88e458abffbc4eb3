// SPDX-License-Identifier: MIT OR Apache-2.0
//! The processes of a reply, streamed node by node from the folded map.

use std::borrow::Cow;
use std::collections::BTreeSet;

use bfrops::kind;
use pmix_types::{Key, Kval, Rank, Value, keys};

use super::{Writer, knows, ranks_of};
use crate::Job;

/// What follows for a process and has nothing to do with its node.
const OF_PROC: [&str; 3] = [keys::APPNUM, keys::APP_RANK, keys::GLOBAL_RANK];

/// What follows for a process from its node.
const OF_PLACE: [&str; 4] = [
    keys::LOCAL_RANK,
    keys::NODE_RANK,
    keys::HOSTNAME,
    keys::NODEID,
];

impl Writer<'_, '_> {
    /// Every process of the job: those of the map, and those that only a description names.
    pub(super) fn procs(&mut self) {
        let job = self.job;
        let mut blob = Blob::new(self);
        for slot in 0..job.nodes.num_slots() {
            if job.nodes.first(slot) != slot {
                continue;
            }
            let mut node = None;
            for (place, rank) in ranks_of(job, slot) {
                let node = node.get_or_insert_with(|| Node::new(&blob, slot));
                blob.placed(rank, place, node);
                self.blob(&mut blob);
            }
        }
        for rank in only_described(job) {
            blob.described(rank);
            self.blob(&mut blob);
        }
    }

    fn blob(&mut self, blob: &mut Blob<'_>) {
        let kval = Kval {
            key: Key::new(keys::PROC_BLOB),
            value: Value::ByteObject(Cow::Borrowed(&blob.bytes)),
        };
        // Bytes can always be sent.
        let _ = self.encoder.one::<kind::Kval>(&kval);
        blob.bytes.clear();
    }
}

/// The processes that no map has.
fn only_described(job: &Job) -> BTreeSet<Rank> {
    let mut ranks = BTreeSet::new();
    job.procs.for_each(|_, rank, _| {
        let rank = Rank::new(rank);
        if job.nodes.of_rank(rank).is_none() {
            ranks.insert(rank);
        }
    });
    ranks
}

/// Name and number of a node, packed once for all its processes.
struct Node(Vec<u8>);

impl Node {
    fn new(blob: &Blob<'_>, slot: u32) -> Self {
        let mut bytes = Vec::new();
        let (job, mut encoder) = (blob.job, blob.wire.encoder(&mut bytes));
        for key in [keys::HOSTNAME, keys::NODEID] {
            if let Some(value) = job.place_of(slot, key) {
                let kval = Kval {
                    key: key.into(),
                    value,
                };
                let _ = encoder.one::<kind::Kval>(&kval);
            }
        }
        Self(bytes)
    }
}

/// What is known of one process.
struct Blob<'r> {
    job: &'r Job,
    wire: &'r crate::Wire<'r>,
    has_stated: bool,
    /// Keys that end what a client reads.
    unknown: Vec<&'r Key<'static>>,
    /// What can follow in this job, apart from the node.
    derived: Vec<&'static str>,
    bytes: Vec<u8>,
}

impl<'r> Blob<'r> {
    fn new(writer: &Writer<'r, '_>) -> Self {
        let job = writer.job;
        let possible = |key: &&str| match *key {
            keys::GLOBAL_RANK => job.job.plain(keys::NPROC_OFFSET.as_bytes()).is_some(),
            _ => !job.apps.is_empty(),
        };
        Self {
            job,
            wire: writer.wire,
            has_stated: !job.procs.is_empty(),
            unknown: (job.procs.keys())
                .filter(|key| !knows(writer.release, key))
                .collect(),
            derived: OF_PROC.into_iter().filter(possible).collect(),
            bytes: Vec::with_capacity(256),
        }
    }

    /// A process that has a place on a node.
    fn placed(&mut self, rank: Rank, place: usize, node: &Node) {
        let stated = self.stated(rank);
        let says = |key: &str| stated.iter().any(|stated| stated.is(key));
        let place = u16::try_from(place).ok();
        for key in [keys::LOCAL_RANK, keys::NODE_RANK] {
            if let Some(place) = place.filter(|_| stated.is_empty() || !says(key)) {
                self.value(key.into(), Value::Uint16(place));
            }
        }
        self.follow_everywhere(rank, &stated);
        match !stated.is_empty() && (says(keys::HOSTNAME) || says(keys::NODEID)) {
            // The host says that it is elsewhere.
            true => self.follow(rank, &stated, &[keys::HOSTNAME, keys::NODEID]),
            false => self.bytes.extend_from_slice(&node.0),
        }
    }

    /// A process that no map has.
    fn described(&mut self, rank: Rank) {
        let stated = self.stated(rank);
        self.follow_everywhere(rank, &stated);
        self.follow(rank, &stated, &OF_PLACE);
    }

    /// What the host stated, and its keys.
    fn stated(&mut self, rank: Rank) -> Vec<&'r Key<'static>> {
        let mut encoder = self.wire.encoder(&mut self.bytes);
        let _ = encoder.one::<kind::Rank>(&rank);
        let mut stated = Vec::new();
        if self.has_stated {
            for (key, value) in self.job.procs.all(rank.as_raw()) {
                stated.push(key);
                if !self.unknown.contains(&key) {
                    self.value(key.clone(), value);
                }
            }
        }
        stated
    }

    /// What follows from more than the node.
    fn follow_everywhere(&mut self, rank: Rank, stated: &[&Key<'static>]) {
        for key in OF_PROC {
            if self.derived.contains(&key) {
                self.follow(rank, stated, &[key]);
            }
        }
    }

    /// What follows of these keys where the host states nothing.
    fn follow(&mut self, rank: Rank, stated: &[&Key<'static>], keys: &[&'static str]) {
        for key in keys {
            if !stated.iter().any(|stated| stated.is(key))
                && let Some(value) = self.job.about_proc(rank, key)
            {
                self.value(Key::new(*key), value);
            }
        }
    }

    fn value(&mut self, key: Key<'_>, value: Value<'_>) {
        // What this client cannot read is left out.
        let mut encoder = self.wire.encoder(&mut self.bytes);
        let _ = encoder.one::<kind::Kval>(&Kval { key, value });
    }
}
