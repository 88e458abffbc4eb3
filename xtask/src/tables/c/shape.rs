// SPDX-License-Identifier: MIT OR Apache-2.0
//! The structures of the C interface, from the headers of several releases.

use std::collections::BTreeMap;

use super::super::sheet::Sheet;

/// The releases whose layouts are used, by precedence. Objects that only an older release has are taken from there: the
/// monitoring structures and their members of the union.
const ORDER: &[&str] = &["seed", "master", "6.1.0", "5.0.11", "4.2.2"];

/// The union of all types of a value.
pub(crate) const UNION: &str = "union";

/// A member of a structure or of its union.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) offset: u64,
    pub(crate) c_type: String,
}

/// A structure of the C interface.
#[derive(Clone, Debug, Default)]
pub(crate) struct Struct {
    pub(crate) name: String,
    pub(crate) size: u64,
    pub(crate) members: Vec<Member>,
    /// The members of the union, for the member of type [`UNION`].
    pub(crate) union: Vec<Member>,
}

impl Struct {
    /// Returns the tag of the structure in the headers of 4.2.2 and 5.0.11, which is part of the symbols of C++
    /// functions, or `None` if there is no tag. Most are the name without `_t`.
    pub(crate) fn tag(&self) -> Option<&str> {
        match TAGS.iter().find(|(name, _)| *name == self.name) {
            Some((_, tag)) => *tag,
            None => Some(self.short()),
        }
    }

    /// Returns the name without `_t`.
    pub(crate) fn short(&self) -> &str {
        self.name.strip_suffix("_t").unwrap_or(&self.name)
    }
}

/// Structures with an irregular tag, or without one.
const TAGS: &[(&str, Option<&str>)] = &[
    ("pmix_cpuset_t", None),
    ("pmix_disk_stats_t", None),
    ("pmix_envar_t", None),
    ("pmix_fabric_t", Some("pmix_fabric_s")),
    ("pmix_net_stats_t", None),
    ("pmix_node_stats_t", None),
    ("pmix_regattr_t", Some("pmix_regattr_t")),
    ("pmix_server_module_t", Some("pmix_server_module_4_0_0_t")),
    ("pmix_topology_t", None),
];

/// Returns every structure, each after those that it contains.
///
/// # Errors
/// Returns a message if a table cannot be read.
pub(crate) fn structs() -> Result<Vec<Struct>, String> {
    let sheet = Sheet::read("structs")?;
    let mut known: BTreeMap<String, Struct> = BTreeMap::new();
    for release in ORDER {
        let mut fresh: BTreeMap<String, Struct> = BTreeMap::new();
        for row in sheet.rows() {
            if row.need("version")? != *release {
                continue;
            }
            let name = row.need("struct")?;
            let entry = fresh.entry(name.to_owned()).or_default();
            entry.name = name.to_owned();
            entry.size = unsigned(row.number("struct_size")?);
            let field = row.need("field")?;
            let member = |name: &str| -> Result<Member, String> {
                Ok(Member {
                    name: name.to_owned(),
                    offset: unsigned(row.number("offset")?),
                    c_type: row.need("field_type")?.to_owned(),
                })
            };
            match field.split_once('.') {
                Some((_, inner)) => entry.union.push(member(inner)?),
                None => entry.members.push(member(field)?),
            }
        }
        for (name, found) in fresh {
            match known.get_mut(&name) {
                None => drop(known.insert(name, found)),
                Some(newer) => {
                    let missing = |m: &&Member| !newer.union.iter().any(|n| n.name == m.name);
                    let more: Vec<_> = found.union.iter().filter(missing).cloned().collect();
                    newer.union.extend(more);
                }
            }
        }
    }
    Ok(ordered(known))
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Orders the structures so that each follows those that it contains, and those without a tag to which it points: these
/// have no name before their definition.
fn ordered(mut left: BTreeMap<String, Struct>) -> Vec<Struct> {
    let mut order: Vec<Struct> = Vec::new();
    while !left.is_empty() {
        let ready = |one: &Struct| {
            let mut all = one.members.iter().chain(&one.union);
            let waits = |m: &Member| {
                let pointed = left.get(m.c_type.trim_end_matches('*'));
                left.contains_key(&m.c_type) || pointed.is_some_and(|s| s.tag().is_none())
            };
            !all.any(waits)
        };
        let names: Vec<_> = left
            .values()
            .filter(|s| ready(s))
            .map(|s| s.name.clone())
            .collect();
        // C has no structures that contain each other.
        assert!(!names.is_empty(), "structures that hold each other");
        order.extend(names.iter().filter_map(|name| left.remove(name)));
    }
    order
}
