// SPDX-License-Identifier: MIT OR Apache-2.0
//! The processes of a reply, packed node by node from the folded map.

use std::ops::Range;

use bfrops::{Error, MessageTemplate, Slot, wire_type};
use pmix_types::{Key, Rank, Text, Value, keys};

use super::stated::{
    ALL, APP_RANK, APPNUM, Followed, GLOBAL_RANK, HOSTNAME, Keys, LOCAL_RANK, NODE_RANK, NODEID,
    Stated,
};
use super::{Remote, Writer, ranks_of};
use crate::{Codec, Job};

/// The derived keys of a process that do not depend on its node.
const OF_PROC: [Followed; 3] = [APPNUM, APP_RANK, GLOBAL_RANK];

/// The derived keys of a process that depend on its node.
const OF_PLACE: [Followed; 4] = [LOCAL_RANK, NODE_RANK, HOSTNAME, NODEID];

/// The packed form of the processes in a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProcForm {
    /// `pmix.pblob`: a byte object with the rank and a call of `PMIX_KVAL` for each datum, which
    /// clients accept when they connect.
    Blob,
    /// `pmix.pdata`: an array of infos with the rank first, which clients accept in the reply to a
    /// get.
    Array,
}

impl ProcForm {
    /// Returns a template for a process, and the slot of its rank.
    fn template<'w>(self, codec: &Codec<'w>) -> Result<(MessageTemplate<'w>, Slot), Error> {
        match self {
            Self::Blob => {
                let mut template = codec.template_in_object(&Key::new(keys::PROC_BLOB))?;
                let rank = template.call::<wire_type::Rank>()?;
                Ok((template, rank))
            }
            Self::Array => {
                let mut template = codec.template_in_info_array(&Key::new(keys::PROC_DATA))?;
                let rank = template.kval(&Key::new(keys::RANK), &Value::Rank(Rank::new(0)))?;
                Ok((template, rank))
            }
        }
    }
}

impl Writer<'_, '_> {
    /// Packs every process of the job: those in the map, and those that the host described without
    /// a map.
    pub(super) fn procs(&mut self) {
        let job = self.job;
        let Ok(mut blob) = Blob::new(self) else {
            // Every module has ranks and byte objects.
            return;
        };
        let (mut placed, mut node) = (Placed::default(), Node::default());
        let slots = self.told_slots();
        for slot in slots.filter(|slot| job.nodes.first(*slot) == *slot) {
            let is_elsewhere = self.is_elsewhere(Some(slot));
            node.is(job, slot);
            ranks_of(job, slot).for_each(|(place, rank)| {
                match is_elsewhere {
                    true => blob.elsewhere(rank, Some(&node)),
                    false => blob.placed(rank, place, &node),
                }
                self.blob(&mut blob);
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
            self.blob(&mut blob);
        }
    }

    /// Returns the range of slots whose processes are sent.
    fn told_slots(&self) -> Range<u32> {
        match &self.elsewhere {
            Some(elsewhere) if elsewhere.remote == Remote::Nothing => {
                elsewhere.here..elsewhere.here + 1
            }
            _ => 0..self.job.nodes.num_slots(),
        }
    }

    /// Returns `true` if data of processes on this node are sent only in part.
    fn is_elsewhere(&self, slot: Option<u32>) -> bool {
        (self.elsewhere.as_ref()).is_some_and(|elsewhere| slot != Some(elsewhere.here))
    }

    fn blob(&mut self, blob: &mut Blob<'_>) {
        // Every module can pack bytes.
        let _ = blob.template.write(&mut self.encoder);
    }
}

/// The ranks that were already packed with their node, as ranges in the order of packing.
#[derive(Default)]
struct Placed(Vec<Range<u64>>);

impl Placed {
    #[inline]
    fn push(&mut self, rank: Rank) {
        let rank = u64::from(rank.as_raw());
        match self.0.last_mut() {
            Some(run) if run.end == rank => run.end += 1,
            _ => self.0.push(rank..rank + 1),
        }
    }
}

/// Returns the processes that the host described, except those that were already packed with their
/// node.
fn only_described(job: &Job, Placed(mut told): Placed) -> impl Iterator<Item = Rank> + use<> {
    told.sort_unstable_by_key(|run| run.start);
    let mut told = told.iter().peekable();
    let mut only = Vec::new();
    for span in job.procs.spans() {
        let (mut next, end) = (u64::from(*span.start()), u64::from(*span.end()) + 1);
        // A range of packed ranks may extend beyond the span.
        while let Some(run) = told.peek().filter(|run| run.start < end) {
            only.extend((next < run.start).then_some(next..run.start));
            next = next.max(run.end.min(end));
            if run.end > end {
                break;
            }
            told.next();
        }
        only.extend((next < end).then_some(next..end));
    }
    let ranks = only.into_iter().flatten();
    ranks.filter_map(|rank| u32::try_from(rank).ok().map(Rank::new))
}

/// A node whose processes are being packed.
#[derive(Default)]
struct Node {
    slot: u32,
    id: Option<u32>,
    name: Vec<u8>,
}

impl Node {
    /// Switches to the next node, reusing the allocations.
    fn is(&mut self, job: &Job, slot: u32) {
        self.slot = slot;
        self.id = job.nodes.id(job.nodes.first(slot));
        self.name.clear();
        job.nodes.write_name(slot, &mut self.name);
    }
}

/// A packer for the values of processes.
struct Blob<'r> {
    job: &'r Job,
    template: MessageTemplate<'r>,
    rank: Slot,
    has_stated: bool,
    stated: Stated<'r>,
    qualified: Option<Slot>,
    /// The keys that are sent for a remote process.
    of_elsewhere: &'static [Followed],
    /// The values that the host registered for these keys.
    stated_elsewhere: Stated<'r>,
    /// The keys with derived values that do not depend on the node; `None` for those that this job
    /// does not have.
    derived: [Option<Followed>; 3],
    fields: Slots,
    /// The number of values so far that are probably different for each process.
    single: u64,
}

/// The template slots of derived keys, in the order of [`ALL`]; `None` for values that this client
/// cannot unpack.
struct Slots([Option<Slot>; 7]);

impl Slots {
    fn new(template: &mut MessageTemplate<'_>) -> Self {
        Self(ALL.map(|(key, _)| {
            let like = match key {
                keys::HOSTNAME => Value::from(""),
                keys::LOCAL_RANK | keys::NODE_RANK => Value::Uint16(0),
                keys::NODEID | keys::APPNUM => Value::Uint32(0),
                _ => Value::Rank(Rank::new(0)),
            };
            template.kval(&Key::new(key), &like).ok()
        }))
    }

    #[inline]
    fn of(&self, (_, key): Followed) -> Option<Slot> {
        self.0.get(key.place()).copied().flatten()
    }
}

impl<'r> Blob<'r> {
    fn new(writer: &Writer<'r, '_>) -> Result<Self, Error> {
        let job = writer.job;
        let possible = |(key, _): &Followed| match *key {
            keys::GLOBAL_RANK => job.job.plain(keys::NPROC_OFFSET.as_bytes()).is_some(),
            _ => !job.apps.is_empty(),
        };
        let (template, rank) = writer.proc_form.template(writer.codec)?;
        let mut template = template;
        let of_elsewhere = writer.elsewhere.map_or(&[][..], |e| e.never_asked.of_procs);
        Ok(Self {
            job,
            rank,
            has_stated: !job.procs.is_empty(),
            stated: Stated::new(writer, |_| true),
            qualified: None,
            of_elsewhere,
            stated_elsewhere: Stated::new(writer, |key| {
                of_elsewhere.iter().any(|(of, _)| key.is(of))
            }),
            derived: OF_PROC.map(|followed| possible(&followed).then_some(followed)),
            fields: Slots::new(&mut template),
            single: 0,
            template,
        })
    }

    /// Packs a process that the map places on a node.
    fn placed(&mut self, rank: Rank, place: usize, node: &Node) {
        let stated = self.stated(rank);
        if let Ok(place) = u16::try_from(place) {
            for followed in [LOCAL_RANK, NODE_RANK] {
                if !stated.has(followed) {
                    self.number(self.fields.of(followed), place.into());
                }
            }
        }
        self.follow_everywhere(rank, stated);
        if stated.has(HOSTNAME) {
            // The host registered another node for the process.
            return self.follow(rank, stated, &[NODEID]);
        }
        self.hostname(node);
        if !stated.has(NODEID) {
            self.nodeid(node);
        }
    }

    /// Packs a remote process with only some of its keys.
    fn elsewhere(&mut self, rank: Rank, node: Option<&Node>) {
        self.number(Some(self.rank), rank.as_raw().into());
        let stated = self.stated_elsewhere.put(rank, &mut self.template);
        // The host may have registered another node than that of the map.
        let node = node.filter(|_| !stated.has(HOSTNAME));
        for followed in self.of_elsewhere.iter().filter(|key| !stated.has(**key)) {
            match (followed.0, node) {
                (keys::HOSTNAME, Some(node)) => self.hostname(node),
                (keys::NODEID, Some(node)) => self.nodeid(node),
                (keys::APPNUM, _) if self.job.apps.is_empty() => {}
                _ => self.follow(rank, stated, &[*followed]),
            }
        }
    }

    /// Packs a process that no map contains.
    fn described(&mut self, rank: Rank) {
        let stated = self.stated(rank);
        self.follow_everywhere(rank, stated);
        self.follow(rank, stated, &OF_PLACE);
    }

    /// Puts the values that the host registered, and returns their keys.
    fn stated(&mut self, rank: Rank) -> Keys {
        self.number(Some(self.rank), rank.as_raw().into());
        if !self.has_stated {
            return Keys::default();
        }
        let stated = self.stated.put(rank, &mut self.template);
        for info in self.job.procs.all_qualified(rank.as_raw()) {
            if self.qualified.is_none() {
                self.qualified = self.template.kval(&info.key, &info.value).ok();
            }
            self.single(self.qualified, info.value);
        }
        stated
    }

    fn hostname(&mut self, node: &Node) {
        if let Some(field) = self.fields.of(HOSTNAME) {
            let name = || Text::new(&node.name[..]);
            let _ = self.template.put_text(field, node.slot.into(), name);
        }
    }

    fn nodeid(&mut self, node: &Node) {
        if let Some(id) = node.id {
            self.number(self.fields.of(NODEID), id.into());
        }
    }

    /// Puts the derived values that do not depend on the node.
    fn follow_everywhere(&mut self, rank: Rank, stated: Keys) {
        for followed in self.derived.into_iter().flatten() {
            self.follow(rank, stated, &[followed]);
        }
    }

    /// Puts the derived values of these keys, except those that the host registered.
    fn follow(&mut self, rank: Rank, stated: Keys, keys: &[Followed]) {
        for followed in keys.iter().filter(|key| !stated.has(**key)) {
            let field = self.fields.of(*followed);
            match self.job.about_proc(rank, followed.0) {
                Some(Value::Uint16(number)) => self.number(field, number.into()),
                Some(Value::Uint32(number)) => self.number(field, number.into()),
                Some(Value::Rank(number)) => self.number(field, number.as_raw().into()),
                Some(other) => self.single(field, other),
                None => {}
            }
        }
    }

    #[inline]
    fn number(&mut self, field: Option<Slot>, number: u64) {
        if let Some(field) = field {
            let _ = self.template.put_number(field, number);
        }
    }

    /// Puts a value that is probably different for each process.
    fn single(&mut self, field: Option<Slot>, value: Value<'_>) {
        if let Some(field) = field {
            // The mark must differ from all previous marks of the slot.
            self.single += 1;
            let _ = self.template.put(field, u64::MAX - self.single, || value);
        }
    }
}
