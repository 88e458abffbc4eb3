// SPDX-License-Identifier: MIT OR Apache-2.0
//! The processes of a reply, streamed node by node from the folded map.

use std::borrow::Cow;
use std::ops::Range;

use bfrops::{KvalStencil, kind};
use pmix_types::{Key, Kval, Rank, Value, keys};

use super::stated::{Keys, Stated};
use super::{Remote, Writer, ranks_of};
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
        let (key, empty) = (
            Key::new(keys::PROC_BLOB),
            Value::ByteObject(Cow::Borrowed(&[])),
        );
        let Ok(stencil) = KvalStencil::new(self.wire.layout(), &key, &empty) else {
            return;
        };
        let mut blob = Blob::new(self);
        let told = self.elsewhere.map(|elsewhere| elsewhere.remote);
        for slot in self
            .told_slots()
            .filter(|slot| job.nodes.first(*slot) == *slot)
        {
            let is_elsewhere = self.is_elsewhere(Some(slot));
            let mut node = None;
            for (place, rank) in ranks_of(job, slot) {
                let node = node.get_or_insert_with(|| Node::new(&blob, slot));
                match is_elsewhere {
                    true => blob.elsewhere(rank, Some(node)),
                    false => blob.placed(rank, place, node),
                }
                self.blob(&stencil, &mut blob);
            }
        }
        for rank in only_described(job) {
            match self.is_elsewhere(job.node_of(rank)) {
                true if told == Some(Remote::Nothing) => continue,
                true => blob.elsewhere(rank, None),
                false => blob.described(rank),
            }
            self.blob(&stencil, &mut blob);
        }
    }

    /// The slots whose processes are told.
    fn told_slots(&self) -> Range<u32> {
        match &self.elsewhere {
            Some(elsewhere) if elsewhere.remote == Remote::Nothing => {
                elsewhere.here..elsewhere.here + 1
            }
            _ => 0..self.job.nodes.num_slots(),
        }
    }

    /// Whether a process on this node is one of which not all is told.
    fn is_elsewhere(&self, slot: Option<u32>) -> bool {
        (self.elsewhere.as_ref()).is_some_and(|elsewhere| slot != Some(elsewhere.here))
    }

    fn blob(&mut self, stencil: &KvalStencil, blob: &mut Blob<'_>) {
        let bytes = Value::ByteObject(Cow::Borrowed(&blob.bytes));
        // Bytes can always be sent.
        let _ = self.encoder.fill(stencil, &bytes);
        blob.bytes.clear();
    }
}

/// The processes that no map has.
fn only_described(job: &Job) -> impl Iterator<Item = Rank> + use<'_> {
    let described = job.procs.spans().into_iter().flatten().map(Rank::new);
    described.filter(|rank| job.nodes.of_rank(*rank).is_none())
}

/// Name and number of a node, packed once for all its processes.
struct Node {
    name: Vec<u8>,
    id: Vec<u8>,
}

impl Node {
    fn new(blob: &Blob<'_>, slot: u32) -> Self {
        let packed = |key: &'static str| {
            let mut bytes = Vec::new();
            if let Some(value) = blob.job.place_of(slot, key) {
                let kval = Kval {
                    key: key.into(),
                    value,
                };
                let _ = blob.wire.encoder(&mut bytes).one::<kind::Kval>(&kval);
            }
            bytes
        };
        Self {
            name: packed(keys::HOSTNAME),
            id: packed(keys::NODEID),
        }
    }
}

/// What is known of one process.
struct Blob<'r> {
    job: &'r Job,
    wire: &'r crate::Wire<'r>,
    has_stated: bool,
    stated: Stated<'r>,
    /// The keys that are told of a process elsewhere.
    of_elsewhere: &'static [&'static str],
    /// What the host states under them.
    stated_elsewhere: Stated<'r>,
    /// What can follow in this job, apart from the node.
    derived: Vec<&'static str>,
    /// The places on a node, packed for all processes that have them.
    places: Vec<[Vec<u8>; 2]>,
    bytes: Vec<u8>,
}

impl<'r> Blob<'r> {
    fn new(writer: &Writer<'r, '_>) -> Self {
        let job = writer.job;
        let possible = |key: &&str| match *key {
            keys::GLOBAL_RANK => job.job.plain(keys::NPROC_OFFSET.as_bytes()).is_some(),
            _ => !job.apps.is_empty(),
        };
        let of_elsewhere = writer.elsewhere.map_or(&[][..], |e| e.never_asked.of_procs);
        Self {
            job,
            wire: writer.wire,
            has_stated: !job.procs.is_empty(),
            stated: Stated::new(writer, |_| true),
            of_elsewhere,
            stated_elsewhere: Stated::new(writer, |key| of_elsewhere.iter().any(|of| key.is(of))),
            derived: OF_PROC.into_iter().filter(possible).collect(),
            places: Vec::new(),
            bytes: Vec::with_capacity(256),
        }
    }

    /// A process that has a place on a node.
    fn placed(&mut self, rank: Rank, place: usize, node: &Node) {
        let stated = self.stated(rank);
        self.place(place, stated);
        self.follow_everywhere(rank, stated);
        if stated.has(keys::HOSTNAME) {
            // The host says that it is elsewhere.
            return self.follow(rank, stated, &[keys::NODEID]);
        }
        self.bytes.extend_from_slice(&node.name);
        if !stated.has(keys::NODEID) {
            self.bytes.extend_from_slice(&node.id);
        }
    }

    /// A process of which not all is told.
    fn elsewhere(&mut self, rank: Rank, node: Option<&Node>) {
        self.rank(rank);
        let stated = self.stated_elsewhere.pack(rank, self.wire, &mut self.bytes);
        // The host may say that it is not where the map has it.
        let node = node.filter(|_| !stated.has(keys::HOSTNAME));
        for key in self.of_elsewhere.iter().filter(|key| !stated.has(key)) {
            match (*key, node) {
                (keys::HOSTNAME, Some(node)) => self.bytes.extend_from_slice(&node.name),
                (keys::NODEID, Some(node)) => self.bytes.extend_from_slice(&node.id),
                (keys::APPNUM, _) if !self.derived.contains(key) => {}
                _ => self.follow(rank, stated, &[key]),
            }
        }
    }

    /// The place on the node, as local rank and node rank.
    fn place(&mut self, place: usize, stated: Keys) {
        while self.places.len() <= place {
            let Ok(next) = u16::try_from(self.places.len()) else {
                return;
            };
            let packed = [keys::LOCAL_RANK, keys::NODE_RANK].map(|key| {
                let mut bytes = Vec::new();
                let value = Value::Uint16(next);
                let kval = Kval {
                    key: key.into(),
                    value,
                };
                let _ = self.wire.encoder(&mut bytes).one::<kind::Kval>(&kval);
                bytes
            });
            self.places.push(packed);
        }
        if let Some([local, on_node]) = self.places.get(place) {
            if !stated.has(keys::LOCAL_RANK) {
                self.bytes.extend_from_slice(local);
            }
            if !stated.has(keys::NODE_RANK) {
                self.bytes.extend_from_slice(on_node);
            }
        }
    }

    /// A process that no map has.
    fn described(&mut self, rank: Rank) {
        let stated = self.stated(rank);
        self.follow_everywhere(rank, stated);
        self.follow(rank, stated, &OF_PLACE);
    }

    fn rank(&mut self, rank: Rank) {
        let mut encoder = self.wire.encoder(&mut self.bytes);
        let _ = encoder.one::<kind::Rank>(&rank);
    }

    /// What the host stated, and its keys.
    fn stated(&mut self, rank: Rank) -> Keys {
        self.rank(rank);
        if !self.has_stated {
            return Keys::default();
        }
        let stated = self.stated.pack(rank, self.wire, &mut self.bytes);
        for info in self.job.procs.all_qualified(rank.as_raw()) {
            self.value(info.key, info.value);
        }
        stated
    }

    /// What follows from more than the node.
    fn follow_everywhere(&mut self, rank: Rank, stated: Keys) {
        for key in OF_PROC {
            if self.derived.contains(&key) {
                self.follow(rank, stated, &[key]);
            }
        }
    }

    /// What follows of these keys where the host states nothing.
    fn follow(&mut self, rank: Rank, stated: Keys, keys: &[&'static str]) {
        for key in keys {
            if !stated.has(key)
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
