// SPDX-License-Identifier: MIT OR Apache-2.0
//! The nodes of a reply: an array for each, with its names and what follows from them in front.

use bfrops::{InfosStencil, Layout};
use pmix_types::{Info, Key, Rank, Text, Value, keys};

use super::Writer;
use crate::Job;
use crate::job::{Maps, Nodes, num_ranks, ranks, write_peers};

/// What follows for a node.
const OF_NODE: [&str; 5] = [
    keys::HOSTNAME,
    keys::NODEID,
    keys::LOCAL_PEERS,
    keys::LOCALLDR,
    keys::LOCAL_SIZE,
];

impl Writer<'_, '_> {
    /// The nodes of the job, but for those that are not told.
    pub(super) fn nodes(&mut self) {
        let (job, elsewhere) = (self.job, self.elsewhere);
        let mut plain = Plain::new(job, self.wire.layout());
        let is_told = |slot: &u32| elsewhere.is_none_or(|elsewhere| elsewhere.tells_node(*slot));
        for slot in (0..job.nodes.num_slots()).filter(is_told) {
            let values = plain.as_mut().and_then(|plain| plain.values(slot));
            if let Some((stencil, values)) = values
                && self.encoder.fill_infos(stencil, &values).is_ok()
            {
                continue;
            }
            let infos = node(job, &job.nodes, slot);
            if !infos.is_empty() {
                self.array(keys::NODE_INFO_ARRAY, infos);
            }
        }
    }
}

/// Nodes of which the host states nothing beyond the maps: their arrays differ in the values alone.
struct Plain<'r> {
    maps: &'r Maps,
    stencil: InfosStencil,
    /// Name and peers of the node that is packed.
    texts: [Vec<u8>; 2],
}

impl<'r> Plain<'r> {
    /// None if the host states something of some node, or one stands in the map twice.
    fn new(job: &'r Job, layout: Layout) -> Option<Self> {
        let maps = job.nodes.maps.as_ref().filter(|_| job.nodes.is_plain())?;
        let like = OF_NODE.map(|key| match key {
            keys::HOSTNAME | keys::LOCAL_PEERS => Info::new(key, ""),
            keys::LOCALLDR => Info::new(key, Value::Rank(Rank::new(0))),
            _ => Info::new(key, 0_u32),
        });
        Some(Self {
            maps,
            stencil: InfosStencil::new(layout, &Key::new(keys::NODE_INFO_ARRAY), &like).ok()?,
            texts: Default::default(),
        })
    }

    /// The values of a node, in the order of their keys; none if it has no processes.
    fn values(&mut self, slot: u32) -> Option<(&InfosStencil, [Value<'_>; 5])> {
        let leader = ranks(self.maps, slot).next()?;
        let [name, peers] = &mut self.texts;
        *name = self.maps.nodes.nth(usize::try_from(slot).ok()?)?;
        peers.clear();
        write_peers(self.maps, slot, peers);
        let text = |bytes| Value::String(Some(Text::new(bytes)));
        let values = [
            text(&name[..]),
            Value::Uint32(slot),
            text(&peers[..]),
            Value::Rank(leader),
            Value::Uint32(u32::try_from(num_ranks(self.maps, slot)).ok()?),
        ];
        Some((&self.stencil, values))
    }
}

/// The nodes of a session or an application, as infos of its array.
pub(super) fn nested(job: &Job, nodes: &Nodes) -> impl Iterator<Item = Info<'static>> {
    let arrays = (0..nodes.num_slots()).map(|slot| node(job, nodes, slot));
    let told = arrays.filter(|infos| !infos.is_empty());
    told.map(|infos| Info::new(keys::NODE_INFO_ARRAY, infos))
}

/// What is known of a node.
pub(super) fn node(job: &Job, nodes: &Nodes, slot: u32) -> Vec<Info<'static>> {
    if nodes.first(slot) != slot {
        // Another place of a node that was sent.
        return Vec::new();
    }
    let derived = OF_NODE.iter().filter_map(|key| {
        let value = job.about_node(nodes, slot, key)?;
        Some(Info::new(*key, value))
    });
    let mut infos: Vec<_> = derived.collect();
    let sent = infos.len();
    for info in nodes.all(slot) {
        if !infos.iter().take(sent).any(|sent| sent.key == info.key) {
            infos.push(info);
        }
    }
    infos
}
