// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values that the host registers for all jobs, and inventories of nodes.
//!
//! Only the host adds to them, so they have no limits here.
//!
//! Source: OpenPMIx, `PMIx_server_register_resources`, `PMIx_server_deliver_inventory`.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use gds_hash::{KnownNode, Subject};
use pmix_types::{DataArray, Info, IntoOwned as _, Key, Measure, Text, Value, keys, memory};

use crate::Error;
use crate::infos::{try_to_owned, value};

/// The keys of arrays that may occur more than once, each for another object.
const ARRAYS: [&str; 4] = [
    keys::APP_INFO_ARRAY,
    keys::JOB_INFO_ARRAY,
    keys::NODE_INFO_ARRAY,
    keys::SESSION_INFO_ARRAY,
];

/// The keys of `PMIx_server_register_resources` about groups, which belong to group construction in this server.
const OF_GROUPS: [&str; 4] = [
    keys::GROUP_CONTEXT_ID,
    keys::GROUP_ENDPT_DATA,
    keys::GROUP_INFO,
    keys::GROUP_INFO_ARRAY,
];

/// The values registered for all jobs, and the inventories of nodes.
#[derive(Debug, Default)]
pub(crate) struct Resources {
    registered: Registered,
    /// The inventory of each node, by node name.
    nodes: BTreeMap<Text<'static>, Vec<Info<'static>>>,
}

impl Resources {
    /// Registers infos. Each replaces an earlier info of its key, or the earlier array of the same node. Returns the
    /// packed job information among them, for the datastore.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NOT_SUPPORTED` for infos about groups, and `PMIX_ERR_BAD_PARAM` for job information that is
    /// not a byte object; `PMIX_ERR_NOMEM` if the process has no memory for the infos. Nothing is registered then.
    pub(crate) fn register<'i>(&mut self, infos: &'i [Info<'_>]) -> Result<Vec<&'i [u8]>, Error> {
        // All infos are checked before any is registered, so that an error registers nothing.
        let mut jobs = Vec::new();
        for info in infos {
            if OF_GROUPS.iter().any(|key| info.key.is(key)) {
                let why = format!(
                    "{} is supported only in group construction, not in resource requests",
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
        let bytes = infos.iter().map(|info| info.measure(Measure::All));
        memory::check(bytes.fold(0, usize::saturating_add))?;
        for info in infos
            .iter()
            .filter(|info| !info.key.is(keys::GROUP_JOB_INFO))
        {
            self.registered.add(info.clone().into_owned());
        }
        Ok(jobs)
    }

    /// Removes the values registered under the keys of the infos. An array that names a node selects the arrays of that
    /// node.
    pub(crate) fn deregister(&mut self, infos: &[Info<'_>]) {
        for info in infos {
            self.registered.remove(info);
        }
    }

    /// Returns the infos of a job together with the values for all jobs, which take precedence as in OpenPMIx; `None`
    /// if no values are registered.
    pub(crate) fn with_registered<'i>(&self, infos: &[Info<'i>]) -> Option<Vec<Info<'i>>> {
        if self.registered.infos.is_empty() {
            return None;
        }
        let is_stated = |info: &&Info<'i>| !self.registered.replaces(info);
        let mut all: Vec<_> = infos.iter().filter(is_stated).cloned().collect();
        all.extend(self.registered.infos.values().cloned());
        Some(all)
    }

    /// Stores the inventories of nodes (`PMIX_NODE_INFO_ARRAY` with a `PMIX_HOSTNAME`), with the last value of each
    /// key. Returns the number of nodes; other infos are ignored.
    pub(crate) fn deliver(&mut self, infos: &[Info<'_>]) -> usize {
        let mut num_nodes = 0;
        for info in infos
            .iter()
            .filter(|info| info.key.is(keys::NODE_INFO_ARRAY))
        {
            let (Some(about), Some(name)) = (entries(info), name_of(info)) else {
                tracing::debug!("ignoring an inventory without the name of its node");
                continue;
            };
            let about = match try_to_owned(about) {
                Ok(about) => about,
                Err(error) => {
                    tracing::error!(%error, node = %name, "cannot store the inventory of a node");
                    continue;
                }
            };
            num_nodes += 1;
            let node = self.nodes.entry(name.clone().into_owned()).or_default();
            let new: HashSet<_> = about.iter().map(|info| &info.key).collect();
            // A host may deliver the inventory of a node in parts, so other keys stay.
            node.retain(|known| !new.contains(&known.key));
            node.extend(about);
        }
        num_nodes
    }

    /// Returns the value of a key that the job does not have: from the inventory of the node in the qualifiers, or from
    /// the values for all jobs.
    pub(crate) fn find(
        &self,
        key: &str,
        qualifiers: &[Info<'_>],
    ) -> Option<(Subject, Cow<'_, Value<'static>>)> {
        let Some(Value::String(Some(name))) = value(qualifiers, keys::HOSTNAME) else {
            // These arrays describe other objects than the job, so none of them is a value of it.
            if ARRAYS.contains(&key) {
                return None;
            }
            let found = self.registered.first(key)?;
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

/// The values for all jobs, indexed by key. A key occurs once, unless it is that of an array.
#[derive(Debug, Default)]
struct Registered {
    last: u64,
    /// The infos in registration order.
    infos: BTreeMap<u64, Info<'static>>,
    by_key: HashMap<Key<'static>, InfosOfKey>,
}

/// The infos of one key, by the text of the node that an array describes.
type InfosOfKey = BTreeMap<Option<String>, BTreeSet<u64>>;

impl Registered {
    /// Adds an info and removes those that it replaces.
    fn add(&mut self, info: Info<'static>) {
        let same: Vec<_> = self.alike(&info).collect();
        let replaced = same.into_iter().filter(|name| {
            let known = self.infos.get(name);
            known.is_some_and(|known| replaces(&info, known))
        });
        for name in replaced.collect::<Vec<_>>() {
            self.take(name);
        }
        self.last += 1;
        let of_key = self.by_key.entry(info.key.clone()).or_default();
        of_key
            .entry(node_text(&info))
            .or_default()
            .insert(self.last);
        self.infos.insert(self.last, info);
    }

    /// Removes the infos with the key of an info, or only those of its node if it names one.
    fn remove(&mut self, info: &Info<'_>) {
        let node = node_of(info);
        let names: Vec<_> = match node {
            Some(_) => self.alike(info).collect(),
            None => {
                let of_key = self.by_key.get(info.key.as_bytes()).into_iter();
                of_key
                    .flat_map(BTreeMap::values)
                    .flatten()
                    .copied()
                    .collect()
            }
        };
        let is_meant = |name: &u64| {
            let known = self.infos.get(name);
            node.is_none() || known.and_then(node_of) == node
        };
        for name in names.into_iter().filter(is_meant).collect::<Vec<_>>() {
            self.take(name);
        }
    }

    fn take(&mut self, name: u64) {
        let Some(info) = self.infos.remove(&name) else {
            return;
        };
        let Some(of_key) = self.by_key.get_mut(&info.key) else {
            return;
        };
        let node = node_text(&info);
        if let Some(names) = of_key.get_mut(&node) {
            names.remove(&name);
            if names.is_empty() {
                of_key.remove(&node);
            }
        }
        if of_key.is_empty() {
            self.by_key.remove(&info.key);
        }
    }

    /// Returns the infos with the key of an info that describe the same node, if it is an array. Arrays without a node
    /// never replace each other, so they are not searched.
    fn alike(&self, info: &Info<'_>) -> impl Iterator<Item = u64> {
        let of_key = self.by_key.get(info.key.as_bytes());
        let of_key = of_key.filter(|_| !is_array(info) || node_of(info).is_some());
        let names = of_key.and_then(|of_key| of_key.get(&node_text(info)));
        names.into_iter().flatten().copied()
    }

    /// Returns `true` if a registered info replaces the given one.
    fn replaces(&self, info: &Info<'_>) -> bool {
        self.alike(info).any(|name| {
            let known = self.infos.get(&name);
            known.is_some_and(|known| replaces(known, info))
        })
    }

    /// Returns the value of a key; the first registered if there are several.
    fn first(&self, key: &str) -> Option<&Value<'static>> {
        let of_key = self.by_key.get(key.as_bytes())?;
        let first = of_key.values().filter_map(BTreeSet::first).min()?;
        self.infos.get(first).map(|info| &info.value)
    }
}

/// Returns the node that an info describes as text; equal nodes have equal texts.
fn node_text(info: &Info<'_>) -> Option<String> {
    let node = node_of(info).filter(|_| is_array(info))?;
    Some(format!("{node:?}"))
}

fn value_of<'i>(infos: &'i [Info<'static>], key: &str) -> Option<&'i Value<'static>> {
    let found = infos.iter().find(|info| info.key.is(key));
    found.map(|info| &info.value)
}

/// Returns `true` if an info replaces another: both have the same key and, as arrays, describe the same node.
fn replaces(new: &Info<'_>, known: &Info<'_>) -> bool {
    new.key == known.key
        && (!is_array(new) || (node_of(new).is_some() && node_of(new) == node_of(known)))
}

/// Returns `true` if the info is an array that may occur more than once.
fn is_array(info: &Info<'_>) -> bool {
    ARRAYS.iter().any(|key| info.key.is(key))
}

/// Returns the infos of an array.
fn entries<'i>(info: &'i Info<'_>) -> Option<&'i [Info<'i>]> {
    match &info.value {
        Value::DataArray(DataArray::Info(entries)) => Some(entries),
        _ => None,
    }
}

/// Returns the name or number of the node that an array describes.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn array(key: &'static str, node: Option<Info<'static>>, note: u32) -> Info<'static> {
        let mut about = vec![Info::new("note", note)];
        about.extend(node);
        Info::new(key, Value::DataArray(DataArray::Info(about)))
    }

    /// Creates an info from a number: a plain value, or an array with or without a node, of one of a few keys.
    fn info(number: u32) -> Info<'static> {
        let note = number;
        let node = match number / 4 % 4 {
            0 => None,
            1 => Some(Info::new(keys::NODEID, number / 16 % 3)),
            _ => Some(Info::new(keys::HOSTNAME, format!("n{}", number / 16 % 3))),
        };
        match number % 4 {
            0 => array(keys::NODE_INFO_ARRAY, node, note),
            1 => array(keys::APP_INFO_ARRAY, node, note),
            2 => array("site.array", node, note),
            _ => Info::new(format!("site.{}", number / 4 % 3), note),
        }
    }

    #[test]
    fn the_index_agrees_with_a_linear_search() {
        let mut resources = Resources::default();
        let mut all: Vec<Info<'static>> = Vec::new();
        let mut state = 7_u32;
        for _ in 0..2_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let new = info(state >> 16 & 0xff);
            if state >> 24 & 3 == 0 {
                let node = node_of(&new);
                all.retain(|known| {
                    known.key != new.key || (node.is_some() && node_of(known) != node)
                });
                resources.deregister(std::slice::from_ref(&new));
            } else {
                all.retain(|known| !replaces(&new, known));
                all.push(new.clone());
                resources.register(std::slice::from_ref(&new)).unwrap();
            }
            let asked: Vec<_> = (0..64).map(info).collect();
            let mut expected: Vec<_> = asked
                .iter()
                .filter(|info| !all.iter().any(|known| replaces(known, info)))
                .cloned()
                .collect();
            expected.extend(all.iter().cloned());
            let found = resources.with_registered(&asked);
            assert_eq!(found, (!all.is_empty()).then_some(expected));
            for key in ["site.0", "site.array", keys::APP_INFO_ARRAY] {
                let is_plain = !ARRAYS.contains(&key);
                let expected = value_of(&all, key).filter(|_| is_plain);
                let found = resources.find(key, &[]).map(|(_, value)| value);
                assert_eq!(found.as_deref(), expected, "{key}");
            }
        }
        let names = resources
            .registered
            .by_key
            .values()
            .flat_map(BTreeMap::values);
        assert_eq!(names.map(BTreeSet::len).sum::<usize>(), all.len());
    }
}
