// SPDX-License-Identifier: MIT OR Apache-2.0
//! The nodes of a reply: an array for each, starting with its names and derived values.

use std::borrow::Cow;

use bfrops::{MessageTemplate, Module, Slot, wire_type};
use pmix_types::{Info, Key, Kval, Rank, Text, Value, keys};

use super::{OF_JOB, Writer, app};
use crate::job::{Maps, Nodes};
use crate::{Codec, Job};

/// The derived keys of a node.
const OF_NODE: [&str; 5] = [
    keys::HOSTNAME,
    keys::NODEID,
    keys::LOCAL_PEERS,
    keys::LOCALLDR,
    keys::LOCAL_SIZE,
];

impl Writer<'_, '_> {
    /// Packs the nodes of the job, except for those that are not sent.
    pub(super) fn nodes(&mut self) {
        let (job, elsewhere) = (self.job, self.elsewhere);
        let mut plain = Plain::new(job, self.codec);
        let is_told = |slot: &u32| elsewhere.is_none_or(|elsewhere| elsewhere.tells_node(*slot));
        for slot in (0..job.nodes.num_slots()).filter(is_told) {
            if let Some(plain) = &mut plain
                && plain.put(slot).is_some()
                && plain.template.write(&mut self.encoder).is_ok()
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

/// A packer for nodes for which the host registered no values: their arrays differ only in derived
/// values.
struct Plain<'r> {
    maps: &'r Maps,
    template: MessageTemplate<'r>,
    fields: Vec<Slot>,
    /// Buffers for the name and the peers of the current node.
    texts: [Vec<u8>; 2],
}

impl<'r> Plain<'r> {
    /// Creates the packer, or returns `None` if the host registered values for a node or if the map
    /// contains a node twice.
    fn new(job: &'r Job, codec: &Codec<'r>) -> Option<Self> {
        let maps = job.nodes.maps.as_ref().filter(|_| job.nodes.is_plain())?;
        let like = OF_NODE.map(|key| match key {
            keys::HOSTNAME | keys::LOCAL_PEERS => Info::new(key, ""),
            keys::LOCALLDR => Info::new(key, Value::Rank(Rank::new(0))),
            _ => Info::new(key, 0_u32),
        });
        let mut template = codec.template();
        let fields = template.infos(&Key::new(keys::NODE_INFO_ARRAY), &like);
        Some(Self {
            maps,
            fields: fields.ok()?,
            template,
            texts: Default::default(),
        })
    }

    /// Puts the data of a node into the template. Returns `None` if the node has no processes or
    /// cannot be packed.
    fn put(&mut self, slot: u32) -> Option<()> {
        self.template.start_again();
        let Maps { nodes, procs, .. } = self.maps;
        let place = usize::try_from(slot).ok()?;
        let mut ranks = procs.ranks_of(place)?;
        let num_ranks = ranks.size_hint().0 as u64;
        let leader = ranks.next()?;
        let [name, peers] = &mut self.texts;
        name.clear();
        nodes.write_nth(place, name).then_some(())?;
        peers.clear();
        procs.write_node(place, peers);
        let slot = u64::from(slot);
        for (field, key) in self.fields.iter().zip(OF_NODE) {
            let put = match key {
                keys::HOSTNAME => self
                    .template
                    .put_text(*field, slot, || Text::new(&name[..])),
                keys::LOCAL_PEERS => self
                    .template
                    .put_text(*field, slot, || Text::new(&peers[..])),
                keys::LOCALLDR => self.template.put_number(*field, leader.as_raw().into()),
                keys::LOCAL_SIZE => self.template.put_number(*field, num_ranks),
                _ => self.template.put_number(*field, slot),
            };
            put.ok()?;
        }
        Some(())
    }
}

/// Returns the nodes of a session or an application, as infos of its array.
pub(super) fn nested(job: &Job, nodes: &Nodes) -> impl Iterator<Item = Info<'static>> {
    let arrays = (0..nodes.num_slots()).map(|slot| node(job, nodes, slot));
    let told = arrays.filter(|infos| !infos.is_empty());
    told.map(|infos| Info::new(keys::NODE_INFO_ARRAY, infos))
}

/// Returns the names and values of a node.
pub(super) fn node(job: &Job, nodes: &Nodes, slot: u32) -> Vec<Info<'static>> {
    if nodes.first(slot) != slot {
        // The node of this slot was already sent with its first slot.
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

// The values that clients before release 4 expect among those of the job.
//
// These clients accept the arrays of sessions, nodes and applications only in part or not at all,
// and never request missing data from a server. The data are therefore repeated in the form that
// they know:
//
// | part | call | content | module |
// | --- | --- | --- | --- |
// | values | `PMIX_KVAL` each | of the session, of the server's node, of the one application | v3 and before |
// | nodes | `PMIX_KVAL` | `pmix.nmap`: the names of the nodes, separated by commas | v21 and before |
// | map | `PMIX_KVAL` | `pmix.mblob`: a byte object with a call of `PMIX_SIZE`, the number of nodes, then for each node a `PMIX_KVAL`, its name and its ranks, separated by commas | v21 and before |

/// The keys of the names of a node, which are not sent as job-level values.
const NAMES: [&str; 3] = [keys::HOSTNAME, keys::NODEID, keys::HOSTNAME_ALIASES];

impl Writer<'_, '_> {
    pub(super) fn flat(&mut self) {
        let module = self.codec.layout().module;
        if module <= Module::V3 {
            self.flat_values();
        }
        if module <= Module::V21 {
            self.node_names();
            self.map_blob();
        }
    }

    fn flat_values(&mut self) {
        let job = self.job;
        let mut infos: Vec<_> = job.session.values.infos().collect();
        if let Some(own) = job.own_node() {
            infos.extend(node(job, &job.nodes, own));
        }
        // With several applications, a client would mistake values of another application for
        // values of its own.
        if let (Some((number, about)), 1) = (job.apps.iter().next(), job.apps.len()) {
            infos.extend(app(job, *number, about));
        }
        let is_of_job = |key: &Key<'_>| {
            job.job.plain(key.as_bytes()).is_some() || OF_JOB.iter().any(|of| key.is(of))
        };
        for Info { key, value, .. } in infos {
            if !is_of_job(&key) && !NAMES.iter().any(|name| key.is(name)) {
                self.value(Kval { key, value });
            }
        }
    }

    fn node_names(&mut self) {
        if let Some(value) = self.job.derived_of_job(keys::NODE_LIST) {
            self.value(Kval {
                key: Key::new(keys::NODE_MAP),
                value,
            });
        }
    }

    fn map_blob(&mut self) {
        let job = self.job;
        let nodes = (0..job.nodes.num_slots()).filter(|slot| job.nodes.first(*slot) == *slot);
        let kvals: Vec<_> = nodes.filter_map(|slot| peers(job, slot)).collect();
        let packed = self.codec.pack(|encoder| {
            encoder.one::<wire_type::Size>(&u64::try_from(kvals.len()).unwrap_or(u64::MAX))?;
            kvals
                .iter()
                .try_for_each(|kval| encoder.one::<wire_type::Kval>(kval))
        });
        if let Ok(packed) = packed {
            self.value(Kval {
                key: Key::new(keys::MAP_BLOB),
                value: Value::ByteObject(Cow::Owned(packed)),
            });
        }
    }
}

/// Returns the name and the ranks of a node with processes. Nodes without processes are omitted,
/// because these clients treat an empty list as a missing one.
fn peers(job: &Job, slot: u32) -> Option<Kval<'static>> {
    let about = |key| match job.about_node(&job.nodes, slot, key) {
        Some(Value::String(Some(text))) if !text.is_empty() => Some(text),
        _ => None,
    };
    let key = Key::new(about(keys::HOSTNAME)?);
    let value = Value::String(Some(about(keys::LOCAL_PEERS)?));
    (key.as_bytes().len() <= Key::MAX_LEN).then_some(Kval { key, value })
}
