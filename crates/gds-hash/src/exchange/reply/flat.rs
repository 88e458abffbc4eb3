// SPDX-License-Identifier: MIT OR Apache-2.0
//! The values that clients before release 4 expect among those of the job.
//!
//! These clients accept the arrays of sessions, nodes and applications only in part or not at all,
//! and never request missing data from a server. The data are therefore repeated in the form that
//! they know:
//!
//! | part | call | content | module |
//! | --- | --- | --- | --- |
//! | values | `PMIX_KVAL` each | of the session, of the server's node, of the one application | v3 and before |
//! | nodes | `PMIX_KVAL` | `pmix.nmap`: the names of the nodes, separated by commas | v21 and before |
//! | map | `PMIX_KVAL` | `pmix.mblob`: a byte object with a call of `PMIX_SIZE`, the number of nodes, then for each node a `PMIX_KVAL`, its name and its ranks, separated by commas | v21 and before |

use std::borrow::Cow;

use bfrops::{Module, wire_type};
use pmix_types::{Info, Key, Kval, Value, keys};

use super::nodes::node;
use super::{OF_JOB, Writer, app};
use crate::Job;

/// The names of a node, which are not values of the job.
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
        // With several applications a client would mistake the values of another one for its own.
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
