// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the host registers of no job in particular, and what nodes are made of.
//!
//! Both are the host's, which bounds them; a peer adds nothing here.
//!
//! Source: OpenPMIx, `PMIx_server_register_resources`, `PMIx_server_deliver_inventory`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use gds_hash::{KnownNode, Subject};
use pmix_types::{DataArray, Info, IntoOwned as _, Text, Value, keys};

use crate::Error;
use crate::infos::value;

/// The keys of arrays that describe a part of something, of which there may be several.
const ARRAYS: [&str; 4] = [
    keys::APP_INFO_ARRAY,
    keys::JOB_INFO_ARRAY,
    keys::NODE_INFO_ARRAY,
    keys::SESSION_INFO_ARRAY,
];

/// Keys of `PMIx_server_register_resources` that are about groups, which this server learns of in the calls that
/// form them.
const OF_GROUPS: [&str; 4] = [
    keys::GROUP_CONTEXT_ID,
    keys::GROUP_ENDPT_DATA,
    keys::GROUP_INFO,
    keys::GROUP_INFO_ARRAY,
];

/// What the host registered for all jobs, and the nodes that were described to it.
#[derive(Debug, Default)]
pub(crate) struct Resources {
    /// In the order of registration; a key once, unless it is that of an array.
    registered: Vec<Info<'static>>,
    /// What is known of each node, by its name.
    nodes: BTreeMap<Text<'static>, Vec<Info<'static>>>,
}

impl Resources {
    /// Registers infos, each in place of what was registered under its key, or as that array. Answers the
    /// packed information of jobs among them, which is for the datastore.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_NOT_SUPPORTED` for what is about groups, `PMIX_ERR_BAD_PARAM` for job information that is no byte
    /// object; nothing is registered then.
    pub(crate) fn register<'i>(&mut self, infos: &'i [Info<'_>]) -> Result<Vec<&'i [u8]>, Error> {
        let mut jobs = Vec::new();
        for info in infos {
            if OF_GROUPS.iter().any(|key| info.key.is(key)) {
                let why = format!(
                    "{} is taken where a group is formed, not as a resource",
                    info.key
                );
                return Err(Error::new(pmix_types::Status::ERR_NOT_SUPPORTED, why));
            }
            if info.key.is(keys::GROUP_JOB_INFO) {
                let Value::ByteObject(bytes) = &info.value else {
                    let found = info.value.data_type();
                    return Err(Error::bad(format!(
                        "{} has type {found}, expected PMIX_BYTE_OBJECT",
                        info.key
                    )));
                };
                jobs.push(&**bytes);
            }
        }
        for info in infos
            .iter()
            .filter(|info| !info.key.is(keys::GROUP_JOB_INFO))
        {
            self.registered.retain(|known| !replaces(info, known));
            self.registered.push(info.clone().into_owned());
        }
        Ok(jobs)
    }

    /// Forgets what was registered under the keys of the infos. An array that names a node forgets only what
    /// describes that node.
    pub(crate) fn deregister(&mut self, infos: &[Info<'_>]) {
        for info in infos {
            let node = node_of(info);
            self.registered.retain(|known| {
                let is_meant = known.key == info.key && (node.is_none() || node_of(known) == node);
                !is_meant
            });
        }
    }

    /// The infos of a job with what is registered for all jobs, which outranks what the host says of the one,
    /// as it does in OpenPMIx; none if nothing is registered.
    pub(crate) fn with_registered<'i>(&self, infos: &[Info<'i>]) -> Option<Vec<Info<'i>>> {
        if self.registered.is_empty() {
            return None;
        }
        let is_stated =
            |info: &&Info<'i>| !self.registered.iter().any(|known| replaces(known, info));
        let mut all: Vec<_> = infos.iter().filter(is_stated).cloned().collect();
        all.extend(self.registered.iter().cloned());
        Some(all)
    }

    /// Keeps what describes nodes (`PMIX_NODE_INFO_ARRAY` with a `PMIX_HOSTNAME`): of each node what was said
    /// last under each key. Answers how many nodes are described; other infos are for others.
    pub(crate) fn deliver(&mut self, infos: &[Info<'_>]) -> usize {
        let mut num_nodes = 0;
        for info in infos
            .iter()
            .filter(|info| info.key.is(keys::NODE_INFO_ARRAY))
        {
            let (Some(about), Some(name)) = (entries(info), name_of(info)) else {
                tracing::debug!("an inventory of a node without a name is left aside");
                continue;
            };
            num_nodes += 1;
            let node = self.nodes.entry(name.clone().into_owned()).or_default();
            let about = about.to_vec().into_owned();
            node.retain(|known| !about.iter().any(|new| new.key == known.key));
            node.extend(about);
        }
        num_nodes
    }

    /// What is known of a key where no job states it: of the node that the qualifiers name, or of all jobs.
    pub(crate) fn find(
        &self,
        key: &str,
        qualifiers: &[Info<'_>],
    ) -> Option<(Subject, Cow<'_, Value<'static>>)> {
        let Some(Value::String(Some(name))) = value(qualifiers, keys::HOSTNAME) else {
            let is_plain = !ARRAYS.contains(&key);
            let found = value_of(&self.registered, key).filter(|_| is_plain)?;
            return Some((Subject::Job, Cow::Borrowed(found)));
        };
        let (name, node) = self.nodes.get_key_value(name.as_bytes())?;
        let id = value(node, keys::NODEID).and_then(|id| id.to_number().ok());
        let known = KnownNode {
            name: Some(name.as_bytes().to_vec()),
            id,
        };
        Some((Subject::Node(known), Cow::Borrowed(value_of(node, key)?)))
    }
}

fn value_of<'i>(infos: &'i [Info<'static>], key: &str) -> Option<&'i Value<'static>> {
    let found = infos.iter().find(|info| info.key.is(key));
    found.map(|info| &info.value)
}

/// Whether an info stands in place of another: it has its key and, as an array, describes the same.
fn replaces(new: &Info<'_>, known: &Info<'_>) -> bool {
    let is_array = ARRAYS.iter().any(|key| new.key.is(key));
    new.key == known.key
        && (!is_array || (node_of(new).is_some() && node_of(new) == node_of(known)))
}

/// The infos of an array.
fn entries<'i>(info: &'i Info<'_>) -> Option<&'i [Info<'i>]> {
    match &info.value {
        Value::DataArray(DataArray::Info(entries)) => Some(entries),
        _ => None,
    }
}

/// The name or number of the node that an array describes.
fn node_of<'i>(info: &'i Info<'_>) -> Option<&'i Value<'i>> {
    let about = entries(info)?;
    value(about, keys::HOSTNAME).or_else(|| value(about, keys::NODEID))
}

fn name_of<'i>(info: &'i Info<'_>) -> Option<&'i Text<'i>> {
    match value(entries(info)?, keys::HOSTNAME) {
        Some(Value::String(Some(name))) if !name.is_empty() => Some(name),
        _ => None,
    }
}
