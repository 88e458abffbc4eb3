// SPDX-License-Identifier: MIT OR Apache-2.0
//! Static initializers: the macros `PMIX_..._STATIC_INIT`.

use std::fmt::Write as _;

use super::declare::base;
use super::shape::{Struct, UNION};

/// Structures whose macro has another name.
const NAMES: &[(&str, &str)] = &[
    ("pmix_pdata_t", "LOOKUP"),
    ("pmix_device_distance_t", "DEVICE_DIST"),
];

/// Structures without a static initializer.
const NONE: &[&str] = &["pmix_server_module_t"];

/// Members whose initial value is not zero.
const VALUES: &[(&str, &str, &str)] = &[
    ("pmix_proc_t", "rank", "PMIX_RANK_UNDEF"),
    ("pmix_device_distance_t", "mindist", "UINT16_MAX"),
    ("pmix_device_distance_t", "maxdist", "UINT16_MAX"),
    ("pmix_node_pid_t", "nodeid", "UINT32_MAX"),
    ("pmix_node_pid_t", "pid", "-1"),
];

/// Returns the static initializers of all structures.
pub(crate) fn all(structs: &[Struct]) -> String {
    let mut text = String::new();
    for one in structs
        .iter()
        .filter(|one| !NONE.contains(&one.name.as_str()))
    {
        let short = one.short().trim_start_matches("pmix_").to_uppercase();
        let known = NAMES.iter().find(|(name, _)| *name == one.name);
        let short = known.map_or(short.as_str(), |(_, macro_name)| macro_name);
        let _ = writeln!(
            text,
            "#define PMIX_{short}_STATIC_INIT {}",
            value(structs, &one.name)
        );
    }
    text
}

/// Returns the initializer of a structure with a value for each member, valid in C and C++.
fn value(structs: &[Struct], name: &str) -> String {
    let Some(one) = structs.iter().find(|one| one.name == name) else {
        return String::from("0");
    };
    let parts = one.members.iter().map(|member| {
        let special = VALUES
            .iter()
            .find(|(of, field, _)| *of == name && *field == member.name);
        match (special, member.c_type.as_str()) {
            (Some((_, _, value)), _) => (*value).to_owned(),
            (None, UNION) => String::from("{ false }"),
            (None, "pmix_nspace_t" | "pmix_key_t") => String::from("{ 0 }"),
            (None, "struct timeval") => String::from("{ 0, 0 }"),
            (None, of) if of.ends_with('*') => String::from("NULL"),
            (None, of) if base(of).starts_with('f') => String::from("0.0F"),
            (None, of) => value(structs, of),
        }
    });
    format!("{{ {} }}", parts.collect::<Vec<_>>().join(", "))
}
