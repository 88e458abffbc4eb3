// SPDX-License-Identifier: MIT OR Apache-2.0
//! The processes of a reply, streamed node by node from the folded map.

use std::borrow::Cow;
use std::ops::Range;

use bfrops::{CallStencil, KvalStencil, kind};
use pmix_types::{Bytes, Key, Kval, Rank, Value, keys};

use super::stated::{
    APP_RANK, APPNUM, Followed, GLOBAL_RANK, HOSTNAME, Keys, LOCAL_RANK, NODE_RANK, NODEID, Stated,
};
use super::{Remote, Writer, ranks_of};
use crate::{Job, Wire};

/// What follows for a process and has nothing to do with its node.
const OF_PROC: [Followed; 3] = [APPNUM, APP_RANK, GLOBAL_RANK];

/// What follows for a process from its node.
const OF_PLACE: [Followed; 4] = [LOCAL_RANK, NODE_RANK, HOSTNAME, NODEID];

impl Writer<'_, '_> {
    /// Every process of the job: those of the map, and those that only a description names.
    pub(super) fn procs(&mut self) {
        let job = self.job;
        let (layout, key) = (self.wire.layout(), Key::new(keys::PROC_BLOB));
        let stencil = KvalStencil::new(layout, &key, &Value::ByteObject(Cow::Borrowed(&[])));
        let (Ok(stencil), Ok(rank)) = (stencil, CallStencil::new(layout)) else {
            return;
        };
        let (mut blob, mut node) = (Blob::new(self, rank), Pair::default());
        let mut placed = Vec::new();
        let slots = self.told_slots();
        for slot in slots.filter(|slot| job.nodes.first(*slot) == *slot) {
            let is_elsewhere = self.is_elsewhere(Some(slot));
            blob.pack_node(slot, &mut node);
            ranks_of(job, slot).for_each(|(place, rank)| {
                match is_elsewhere {
                    true => blob.elsewhere(rank, Some(&node)),
                    false => blob.placed(rank, place, &node),
                }
                self.blob(&stencil, &mut blob);
                if blob.has_stated {
                    placed.push(rank);
                }
            });
        }
        let told = self.elsewhere.map(|elsewhere| elsewhere.remote);
        for rank in only_described(job, placed) {
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
        let bytes = Bytes::Borrowed(&blob.bytes);
        // Bytes can always be sent.
        let _ = self.encoder.fill_datum::<kind::ByteObject>(stencil, &bytes);
        blob.bytes.clear();
    }
}

/// The processes that the host describes, but for those that were told with their node.
fn only_described(job: &Job, mut told: Vec<Rank>) -> impl Iterator<Item = Rank> + use<> {
    told.sort_unstable();
    let mut told = told.into_iter().peekable();
    let described = job.procs.spans().into_iter().flatten().map(Rank::new);
    described.filter(move |rank| {
        while told.next_if(|told| told < rank).is_some() {}
        told.next_if_eq(rank).is_none()
    })
}

/// Two data packed one behind the other, and how long the first one is.
#[derive(Default)]
struct Pair {
    bytes: Vec<u8>,
    first: usize,
}

impl Pair {
    /// Packs what there is of two data.
    fn pack(&mut self, wire: &Wire<'_>, heads: &Heads, values: [Option<Value<'_>>; 2]) {
        self.bytes.clear();
        for (place, (head, value)) in heads.iter().zip(values).enumerate() {
            if place == 1 {
                self.first = self.bytes.len();
            }
            if let (Some(head), Some(value)) = (head, value) {
                let _ = wire.encoder(&mut self.bytes).fill(head, &value);
            }
        }
    }

    /// The parts that are wanted.
    fn parts(&self, first: bool, second: bool) -> &[u8] {
        let range = match (first, second) {
            (true, true) => 0..self.bytes.len(),
            (true, false) => 0..self.first,
            (false, true) => self.first..self.bytes.len(),
            (false, false) => 0..0,
        };
        self.bytes.get(range).unwrap_or_default()
    }
}

/// What stands in front of each of two data.
type Heads = [Option<KvalStencil>; 2];

/// The heads of two keys with values like these.
fn heads(wire: &Wire<'_>, keys: [(Followed, Value<'_>); 2]) -> Heads {
    keys.map(|((key, _), like)| KvalStencil::new(wire.layout(), &Key::new(key), &like).ok())
}

/// What is known of one process.
struct Blob<'r> {
    job: &'r Job,
    wire: &'r Wire<'r>,
    rank: CallStencil<kind::Rank>,
    has_stated: bool,
    stated: Stated<'r>,
    /// The keys that are told of a process elsewhere.
    of_elsewhere: &'static [Followed],
    /// What the host states under them.
    stated_elsewhere: Stated<'r>,
    /// What can follow in this job, apart from the node.
    derived: [Option<Followed>; 3],
    node_heads: Heads,
    place_heads: Heads,
    /// Local rank and node rank of each place on a node, packed for all processes that have it.
    places: Vec<Pair>,
    bytes: Vec<u8>,
}

impl<'r> Blob<'r> {
    fn new(writer: &Writer<'r, '_>, rank: CallStencil<kind::Rank>) -> Self {
        let job = writer.job;
        let possible = |(key, _): &Followed| match *key {
            keys::GLOBAL_RANK => job.job.plain(keys::NPROC_OFFSET.as_bytes()).is_some(),
            _ => !job.apps.is_empty(),
        };
        let of_elsewhere = writer.elsewhere.map_or(&[][..], |e| e.never_asked.of_procs);
        Self {
            job,
            wire: writer.wire,
            rank,
            has_stated: !job.procs.is_empty(),
            stated: Stated::new(writer, |_| true),
            of_elsewhere,
            stated_elsewhere: Stated::new(writer, |key| {
                of_elsewhere.iter().any(|(of, _)| key.is(of))
            }),
            derived: OF_PROC.map(|followed| possible(&followed).then_some(followed)),
            node_heads: heads(writer.wire, [(HOSTNAME, "".into()), (NODEID, 0_u32.into())]),
            place_heads: heads(
                writer.wire,
                [LOCAL_RANK, NODE_RANK].map(|followed| (followed, Value::Uint16(0))),
            ),
            places: Vec::new(),
            bytes: Vec::with_capacity(256),
        }
    }

    /// Name and number of a node, packed for all its processes.
    fn pack_node(&self, slot: u32, node: &mut Pair) {
        let values = [HOSTNAME, NODEID].map(|(key, _)| self.job.place_of(slot, key));
        node.pack(self.wire, &self.node_heads, values);
    }

    /// A process that has a place on a node.
    fn placed(&mut self, rank: Rank, place: usize, node: &Pair) {
        let stated = self.stated(rank);
        self.place(place, stated);
        self.follow_everywhere(rank, stated);
        if stated.has(HOSTNAME) {
            // The host says that it is elsewhere.
            return self.follow(rank, stated, &[NODEID]);
        }
        let parts = node.parts(true, !stated.has(NODEID));
        self.bytes.extend_from_slice(parts);
    }

    /// A process of which not all is told.
    fn elsewhere(&mut self, rank: Rank, node: Option<&Pair>) {
        self.rank(rank);
        let stated = self.stated_elsewhere.pack(rank, self.wire, &mut self.bytes);
        // The host may say that it is not where the map has it.
        let node = node.filter(|_| !stated.has(HOSTNAME));
        for followed in self.of_elsewhere.iter().filter(|key| !stated.has(**key)) {
            match (followed.0, node) {
                (keys::HOSTNAME, Some(node)) => {
                    self.bytes.extend_from_slice(node.parts(true, false))
                }
                (keys::NODEID, Some(node)) => self.bytes.extend_from_slice(node.parts(false, true)),
                (keys::APPNUM, _) if self.job.apps.is_empty() => {}
                _ => self.follow(rank, stated, &[*followed]),
            }
        }
    }

    /// The place on the node, as local rank and node rank.
    fn place(&mut self, place: usize, stated: Keys) {
        while self.places.len() <= place {
            let Ok(next) = u16::try_from(self.places.len()) else {
                return;
            };
            let mut pair = Pair::default();
            let values = [(); 2].map(|()| Some(Value::Uint16(next)));
            pair.pack(self.wire, &self.place_heads, values);
            self.places.push(pair);
        }
        if let Some(pair) = self.places.get(place) {
            let parts = pair.parts(!stated.has(LOCAL_RANK), !stated.has(NODE_RANK));
            self.bytes.extend_from_slice(parts);
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
        let _ = encoder.fill_call(&self.rank, &rank);
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
        for followed in self.derived.into_iter().flatten() {
            self.follow(rank, stated, &[followed]);
        }
    }

    /// What follows of these keys where the host states nothing.
    fn follow(&mut self, rank: Rank, stated: Keys, keys: &[Followed]) {
        for (key, _) in keys.iter().filter(|key| !stated.has(**key)) {
            if let Some(value) = self.job.about_proc(rank, key) {
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
