// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which attributes the server supports, for which functions.

use pmix_types::{Attribute, DataArray, DataType, Info, Key, Query, Regattr, Text, Value, keys};

/// The attributes that this server obeys, by the function of the client that they come with.
/// Others are handed on to the host.
const SUPPORTED: &[(&str, &[&str])] = &[
    ("PMIx_Connect", &["TIMEOUT"]),
    ("PMIx_Disconnect", &["TIMEOUT"]),
    ("PMIx_Fence", &["COLLECT_DATA", "TIMEOUT"]),
    (
        "PMIx_Get",
        &[
            "IMMEDIATE",
            "TIMEOUT",
            "NODE_INFO",
            "APP_INFO",
            "SESSION_INFO",
            "HOSTNAME",
            "NODEID",
        ],
    ),
    (
        "PMIx_IOF_pull",
        &["IOF_CACHE_SIZE", "IOF_DROP_OLDEST", "IOF_DROP_NEWEST"],
    ),
    ("PMIx_IOF_push", &["IOF_PUSH_STDIN", "IOF_COMPLETE"]),
    (
        "PMIx_Job_control",
        &[
            "REGISTER_CLEANUP",
            "REGISTER_CLEANUP_DIR",
            "CLEANUP_RECURSIVE",
            "CLEANUP_EMPTY",
            "CLEANUP_IGNORE",
            "CLEANUP_LEAVE_TOPDIR",
        ],
    ),
    (
        "PMIx_Notify_event",
        &[
            "EVENT_NON_DEFAULT",
            "EVENT_CUSTOM_RANGE",
            "EVENT_AFFECTED_PROC",
            "EVENT_AFFECTED_PROCS",
            "EVENT_DO_NOT_CACHE",
            "EVENT_STAYS_LOCAL",
        ],
    ),
    (
        "PMIx_Process_monitor",
        &[
            "MONITOR_HEARTBEAT",
            "SEND_HEARTBEAT",
            "MONITOR_CANCEL",
            "MONITOR_ID",
            "MONITOR_HEARTBEAT_TIME",
            "MONITOR_HEARTBEAT_DROPS",
            "MONITOR_APP_CONTROL",
            "RANGE",
        ],
    ),
    (
        "PMIx_Query_info",
        &[
            "QUERY_ATTRIBUTE_SUPPORT",
            "QUERY_GROUP_MEMBERSHIP",
            "QUERY_GROUP_NAMES",
            "QUERY_JOB_STATUS",
            "QUERY_LOCAL_ONLY",
            "QUERY_LOCAL_PROC_TABLE",
            "QUERY_NAMESPACES",
            "QUERY_NAMESPACE_INFO",
            "QUERY_NUM_GROUPS",
            "QUERY_NUM_PSETS",
            "QUERY_PROC_TABLE",
            "QUERY_PROVISIONAL_ABI_VERSION",
            "QUERY_PSET_MEMBERSHIP",
            "QUERY_PSET_NAMES",
            "QUERY_REFRESH_CACHE",
            "QUERY_RESOLVE_NODE",
            "QUERY_RESOLVE_PEERS",
            "QUERY_STABLE_ABI_VERSION",
            "QUERY_SUPPORTED_KEYS",
            "SERVER_START_TIME",
            "NSPACE",
            "RANK",
            "PROCID",
            "HOSTNAME",
            "NODEID",
            "PSET_NAME",
            "GROUP_ID",
        ],
    ),
    (
        "PMIx_Register_event_handler",
        &["EVENT_AFFECTED_PROC", "EVENT_AFFECTED_PROCS"],
    ),
    ("PMIx_Spawn", &["FWD_STDOUT", "FWD_STDERR", "FWD_STDDIAG"]),
];

/// Whether a query asks for supported attributes: the keys behind the first one are functions then.
pub(super) fn is_about_support(query: &Query<'_>) -> bool {
    query
        .keys
        .first()
        .is_some_and(|key| *key == keys::QUERY_ATTRIBUTE_SUPPORT)
}

/// What a query about support finds here, one info for each level; and what is left of it for the
/// host, if anything is.
///
/// Libraries of 4.2 and later ask for a level with the functions in its qualifier, the Standard
/// puts them behind the key; both are read. The answer has the form that those libraries read.
pub(super) fn supported(query: &Query<'_>) -> (Vec<Info<'static>>, Option<Query<'static>>) {
    let mut found = Vec::new();
    let mut left = Vec::new();
    let all = query.qualifiers.is_empty();
    for level in [keys::SERVER_ATTRIBUTES, keys::SERVER_FUNCTIONS] {
        let qualifier = query.qualifiers.iter().find(|info| info.key.is(level));
        if all || qualifier.is_some() {
            let functions = functions(query, qualifier);
            found.push(at_level(level, &functions));
        }
    }
    for level in [keys::HOST_ATTRIBUTES, keys::HOST_FUNCTIONS] {
        let qualifier = query.qualifiers.iter().find(|info| info.key.is(level));
        match qualifier {
            Some(info) => left.push(pmix_types::IntoOwned::into_owned(info.clone())),
            None if all => left.push(Info::new(level, Value::Undef)),
            None => {}
        }
    }
    let left = (!left.is_empty()).then(|| Query {
        keys: pmix_types::IntoOwned::into_owned(query.keys.clone()),
        qualifiers: left,
    });
    (found, left)
}

/// The functions that are asked about; none is all.
fn functions<'q>(query: &'q Query<'_>, qualifier: Option<&'q Info<'_>>) -> Vec<&'q str> {
    let behind = query.keys.iter().skip(1).filter_map(Text::as_str);
    let listed = match qualifier.map(|info| &info.value) {
        Some(Value::String(Some(list))) => list.as_str(),
        _ => None,
    };
    let listed = listed.into_iter().flat_map(|list| list.split(','));
    let all: Vec<_> = behind
        .chain(listed)
        .filter(|name| !name.is_empty())
        .collect();
    match all.contains(&"all") {
        true => Vec::new(),
        false => all,
    }
}

fn at_level(level: &'static str, asked: &[&str]) -> Info<'static> {
    let wanted = |(name, _): &&(&str, _)| asked.is_empty() || asked.contains(name);
    let rows = SUPPORTED.iter().filter(wanted);
    let infos = if level == keys::SERVER_FUNCTIONS {
        let names: Vec<_> = rows.map(|(name, _)| *name).collect();
        vec![Info::new(level, names.join(","))]
    } else {
        let row = |(name, attributes): &(&'static str, &[&str])| {
            Info::new(
                *name,
                Value::DataArray(DataArray::Regattr(regattrs(attributes))),
            )
        };
        rows.map(row).collect()
    };
    Info::new(keys::QUERY_ATTRIBUTE_SUPPORT, infos)
}

fn regattrs(names: &[&str]) -> Vec<Regattr<'static>> {
    let attributes = names.iter().filter_map(|name| Attribute::by_name(name));
    let regattr = |attribute: &'static Attribute| Regattr {
        name: Some(Text::from(attribute.full_name())),
        string: Key::new(attribute.key()),
        data_type: attribute.data_type().unwrap_or(DataType::UNDEF),
        description: vec![Text::from(attribute.c_type())],
    };
    attributes.map(regattr).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(keys: &[&'static str], qualifiers: Vec<Info<'static>>) -> Query<'static> {
        let keys = [keys::QUERY_ATTRIBUTE_SUPPORT].iter().chain(keys);
        Query {
            keys: keys.map(|key| Text::from(*key)).collect(),
            qualifiers,
        }
    }

    fn names(info: &Info<'_>) -> Vec<String> {
        let infos = info.value.as_infos().unwrap();
        infos.iter().map(|info| info.key.to_string()).collect()
    }

    #[test]
    fn every_name_of_the_table_is_an_attribute() {
        for (function, attributes) in SUPPORTED {
            assert!(function.starts_with("PMIx_"));
            assert_eq!(regattrs(attributes).len(), attributes.len(), "{function}");
        }
    }

    #[test]
    fn functions_are_named_in_the_qualifier_or_behind_the_key() {
        let level = || Info::new(keys::SERVER_ATTRIBUTES, "PMIx_Get,PMIx_Fence");
        let flag = || Info::new(keys::SERVER_ATTRIBUTES, true);
        let asked = [
            query(&[], vec![level()]),
            query(&["PMIx_Get", "PMIx_Fence"], vec![flag()]),
        ];
        for asked in asked {
            assert!(is_about_support(&asked));
            let (found, left) = supported(&asked);
            assert_eq!((found.len(), left), (1, None));
            assert_eq!(names(&found[0]), ["PMIx_Fence", "PMIx_Get"]);
        }
        let all = [flag(), Info::new(keys::SERVER_ATTRIBUTES, "all")];
        for qualifier in all {
            let (found, _) = supported(&query(&[], vec![qualifier]));
            assert_eq!(names(&found[0]).len(), SUPPORTED.len());
        }
    }

    #[test]
    fn what_the_host_supports_is_left_for_it_to_say() {
        let host = Info::new(keys::HOST_ATTRIBUTES, "all");
        let (found, left) = supported(&query(&["PMIx_Get"], vec![host.clone()]));
        assert_eq!(found, []);
        let left = left.unwrap();
        assert_eq!((left.keys.len(), left.qualifiers), (2, vec![host]));
        let (found, left) = supported(&query(&[], vec![]));
        assert_eq!((found.len(), left.unwrap().qualifiers.len()), (2, 2));
    }

    #[test]
    fn an_attribute_is_told_with_its_key_and_type() {
        let level = Info::new(keys::SERVER_ATTRIBUTES, "PMIx_IOF_pull");
        let (found, _) = supported(&query(&[], vec![level]));
        let functions = found[0].value.as_infos().unwrap();
        let Value::DataArray(DataArray::Regattr(regattrs)) = &functions[0].value else {
            panic!("{functions:?}");
        };
        assert_eq!(regattrs[0].name, Some("PMIX_IOF_CACHE_SIZE".into()));
        assert_eq!(regattrs[0].string, keys::IOF_CACHE_SIZE);
        assert_eq!(regattrs[0].data_type, DataType::UINT32);
    }
}
