// SPDX-License-Identifier: MIT OR Apache-2.0
//! The C declarations and structures in the tables: members, prototypes, and structures of several releases.

use std::collections::BTreeMap;

use super::sheet::Sheet;

/// A parsed prototype.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Prototype {
    /// The function's name.
    pub(crate) name: String,
    /// The return type in Rust; empty for `void`.
    pub(crate) returns: String,
    /// Names and Rust types of its parameters.
    pub(crate) params: Vec<(String, String)>,
}

/// C types with another name in Rust. All others keep their names.
const BASES: &[(&str, &str)] = &[
    ("char", "c_char"),
    ("int", "c_int"),
    ("unsigned int", "c_uint"),
    ("void", "c_void"),
    ("size_t", "usize"),
    ("bool", "bool"),
    ("float", "f32"),
    ("double", "f64"),
    ("int8_t", "i8"),
    ("int16_t", "i16"),
    ("int32_t", "i32"),
    ("int64_t", "i64"),
    ("uint8_t", "u8"),
    ("uint16_t", "u16"),
    ("uint32_t", "u32"),
    ("uint64_t", "u64"),
    ("pid_t", "i32"),
    ("uid_t", "u32"),
    ("gid_t", "u32"),
    ("time_t", "i64"),
    ("struct timeval", "timeval"),
];

/// Reserved words of Rust.
const KEYWORDS: &[&str] = &["type", "ref", "fn", "mod", "box", "move"];

/// Returns the Rust name of a C type that is no pointer.
pub(crate) fn base(name: &str) -> &str {
    let known = BASES.iter().find(|(c, _)| *c == name);
    known.map_or(name, |(_, rust)| rust)
}

/// Returns a name that is a valid Rust identifier.
pub(crate) fn identifier(name: &str) -> String {
    match KEYWORDS.contains(&name) {
        true => format!("r#{name}"),
        false => name.to_owned(),
    }
}

/// Returns the Rust type of a structure's member: `char**`, `pmix_info_t*`, `uint64_t`.
pub(crate) fn member(text: &str) -> String {
    let bare = text.trim_end_matches('*');
    pointer("*mut ", text.len() - bare.len(), base(bare.trim()))
}

fn pointer(kind: &str, depth: usize, of: &str) -> String {
    match depth {
        0 => of.to_owned(),
        _ => format!("{}{kind}{of}", "*mut ".repeat(depth - 1)),
    }
}

/// Parses a prototype such as `pmix_status_t PMIx_Commit(void)`, or a callback type such as `void
/// (*pmix_op_cbfunc_t)(pmix_status_t status, void *cbdata)`.
///
/// # Errors
/// Returns a message if the text has another form.
pub(crate) fn prototype(text: &str) -> Result<Prototype, String> {
    let fault = || format!("{text:?} is no prototype");
    let inner = text.trim().strip_suffix(')').ok_or_else(fault)?;
    let (head, params) = match inner.split_once(")(") {
        Some((head, params)) => (head.replacen("(*", "", 1), params),
        None => {
            let (head, params) = inner.split_once('(').ok_or_else(fault)?;
            (head.to_owned(), params)
        }
    };
    let (name, returns) = declared(&head).ok_or_else(fault)?;
    let mut list = Vec::new();
    for param in params.split(',').map(str::trim) {
        if param != "void" && !param.is_empty() {
            list.push(declared(param).ok_or_else(fault)?);
        }
    }
    let returns = if returns == "c_void" {
        String::new()
    } else {
        returns
    };
    Ok(Prototype {
        name,
        returns,
        params: list,
    })
}

/// Parses a name with its type: `const char msg[]`, `pmix_info_t **results`. Array types (`pmix_nspace_t`,
/// `pmix_key_t`) become pointers to characters, as for any C parameter.
fn declared(text: &str) -> Option<(String, String)> {
    let text = text.trim();
    let (text, array) = match text.strip_suffix("[]") {
        Some(rest) => (rest.trim_end(), 1),
        None => (text, 0),
    };
    let at = text.rfind(|c: char| !(c.is_alphanumeric() || c == '_'))? + 1;
    let (left, name) = text.split_at(at);
    let depth = left.matches('*').count() + array;
    let left = left.replace('*', " ");
    let words: Vec<_> = left.split_whitespace().collect();
    let constant = words.first() == Some(&"const");
    let words = words.get(usize::from(constant)..)?.join(" ");
    let (of, depth) = match words.as_str() {
        "pmix_nspace_t" | "pmix_key_t" => ("char", depth + 1),
        other => (other, depth),
    };
    let kind = if constant { "*const " } else { "*mut " };
    Some((identifier(name), pointer(kind, depth, base(of))))
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prototypes_are_taken_apart() {
        let of = |text: &str| {
            let p = prototype(text).expect("a prototype");
            let params: Vec<_> = p.params.iter().map(|(n, t)| format!("{n}: {t}")).collect();
            format!("{}({}) {}", p.name, params.join(", "), p.returns)
        };
        assert_eq!(of("int PMIx_Initialized(void)"), "PMIx_Initialized() c_int");
        assert_eq!(
            of("pmix_status_t F(const char msg[], pmix_info_t **results, char * attrs[])"),
            "F(msg: *const c_char, results: *mut *mut pmix_info_t, attrs: *mut *mut c_char) pmix_status_t"
        );
        assert_eq!(
            of("void (*cb_t)(pmix_status_t status, pmix_nspace_t nspace, unsigned int type)"),
            "cb_t(status: pmix_status_t, nspace: *mut c_char, r#type: c_uint) "
        );
        assert_eq!(
            of("const char *F(pmix_scope_t scope)"),
            "F(scope: pmix_scope_t) *const c_char"
        );
        assert!(prototype("int x").is_err());
    }

    #[test]
    fn members_are_pointers_or_not() {
        assert_eq!(member("char**"), "*mut *mut c_char");
        assert_eq!(member("struct timeval"), "timeval");
        assert_eq!(member("pmix_info_t*"), "*mut pmix_info_t");
    }
}
