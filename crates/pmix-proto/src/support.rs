// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queries for supported attributes (`PMIX_QUERY_ATTRIBUTE_SUPPORT`), and their results. Clients,
//! servers and hosts each return results for their own level.
//!
//! In queries of OpenPMIx 4.2 and later, the qualifier of a level contains the functions. In the
//! Standard, the functions are further keys of the query. Both forms are accepted. The results have
//! the form that OpenPMIx expects. Source: PMIx Standard, chapter "Query operations".

use std::collections::BTreeSet;

use pmix_types::{
    Attribute, DataArray, DataType, ErrorDetail, Info, Key, Query, Regattr, Status, Text, Value,
    keys,
};

/// A function and its supported attributes, by their names in C with or without `PMIX_`. If a table
/// has several rows for a function, their attributes are joined.
pub type SupportedFunction<'t> = (&'t str, &'t [&'static str]);

/// The level of a query for support. Each level has a key for attributes and one for functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SupportLevel {
    /// The library of a client.
    Client,
    /// The library of a server.
    Server,
    /// The host of a server.
    Host,
    /// The library of a tool.
    Tool,
}

impl SupportLevel {
    /// Returns the key for the attributes and the key for the functions of the level.
    #[must_use]
    pub const fn keys(self) -> [&'static str; 2] {
        match self {
            Self::Client => [keys::CLIENT_ATTRIBUTES, keys::CLIENT_FUNCTIONS],
            Self::Server => [keys::SERVER_ATTRIBUTES, keys::SERVER_FUNCTIONS],
            Self::Host => [keys::HOST_ATTRIBUTES, keys::HOST_FUNCTIONS],
            Self::Tool => [keys::TOOL_ATTRIBUTES, keys::TOOL_FUNCTIONS],
        }
    }

    /// Returns the results of a query for this level from a table. The result has one info for each
    /// key of the level that is a qualifier of the query. If the query has no qualifier, the result
    /// has an info for both keys.
    #[must_use]
    pub fn answer(self, query: &Query<'_>, table: &[SupportedFunction<'_>]) -> Vec<Info<'static>> {
        let mut found = Vec::new();
        for key in self.keys() {
            let qualifier = query.qualifiers.iter().find(|info| info.key.is(key));
            if query.qualifiers.is_empty() || qualifier.is_some() {
                let asked = functions(query, qualifier, table);
                found.push(described(key, key == self.keys()[1], asked.as_ref(), table));
            }
        }
        found
    }
}

/// Rejects required infos (`PMIX_INFO_REQD`) of a function that are not supported. An info is
/// supported if a table lists it for the function, or if another layer has processed it
/// (`PMIX_INFO_REQD_PROCESSED`).
///
/// # Errors
///
/// `PMIX_ERR_NOT_SUPPORTED`, with the attribute and the function in the message.
pub fn check_required(
    function: &str,
    tables: &[&[SupportedFunction<'_>]],
    infos: &[Info<'_>],
) -> Result<(), ErrorDetail> {
    let required = infos.iter().filter(|info| info.must_be_obeyed());
    for info in required {
        if !tables.iter().any(|table| lists(table, function, info)) {
            let key = info.key.to_string();
            let name = Attribute::name_of(&key);
            let message = format!("{function} does not obey {name}, which is marked as required");
            return Err(ErrorDetail::new(Status::ERR_NOT_SUPPORTED, message));
        }
    }
    Ok(())
}

/// Marks required infos as processed if the table lists them for the function, so that the next
/// layer need not obey them.
pub fn mark_processed(function: &str, table: &[SupportedFunction<'_>], infos: &mut [Info<'_>]) {
    for info in infos {
        if info.must_be_obeyed() && lists(table, function, info) {
            info.set_processed();
        }
    }
}

/// Returns `true` if a table lists the attribute of an info for a function.
fn lists(table: &[SupportedFunction<'_>], function: &str, info: &Info<'_>) -> bool {
    let rows = table.iter().filter(|(name, _)| *name == function);
    let mut names = rows.flat_map(|(_, names)| names.iter());
    names.any(|name| Attribute::by_name(name).is_some_and(|found| info.key.is(found.key())))
}

/// Returns `true` if a query is for supported attributes. Then the keys after the first are
/// functions. A query for the qualifiers of that key (`PMIX_QUERY_SUPPORTED_QUALIFIERS`) is not
/// one.
#[must_use]
pub fn is_about_support(query: &Query<'_>) -> bool {
    let first = query.keys.first();
    let asks_qualifiers =
        |info: &Info<'_>| info.key.is(keys::QUERY_SUPPORTED_QUALIFIERS) && info.truth().is_true();
    first.is_some_and(|key| *key == keys::QUERY_ATTRIBUTE_SUPPORT)
        && !query.qualifiers.iter().any(asks_qualifiers)
}

/// Returns the queried functions that a table has, or `None` for all functions.
fn functions<'t>(
    query: &Query<'_>,
    qualifier: Option<&Info<'_>>,
    table: &[SupportedFunction<'t>],
) -> Option<BTreeSet<&'t str>> {
    let known: BTreeSet<&'t str> = table.iter().map(|(name, _)| *name).collect();
    let behind = query.keys.iter().skip(1).filter_map(Text::as_str);
    let listed = match qualifier.map(|info| &info.value) {
        Some(Value::String(Some(list))) => list.as_str(),
        _ => None,
    };
    let listed = listed.into_iter().flat_map(|list| list.split(','));
    let mut asked = None;
    for name in behind.chain(listed).filter(|name| !name.is_empty()) {
        if name == "all" {
            return None;
        }
        // The list is a text of a peer and may have millions of names, so only those of the table are kept.
        let found = asked.get_or_insert_with(BTreeSet::new);
        found.extend(known.get(name).copied());
    }
    asked
}

fn described(
    key: &'static str,
    are_functions: bool,
    asked: Option<&BTreeSet<&str>>,
    table: &[SupportedFunction<'_>],
) -> Info<'static> {
    let wanted =
        |(name, _): &&SupportedFunction<'_>| asked.is_none_or(|asked| asked.contains(name));
    let mut rows: Vec<(&str, Vec<&'static str>)> = Vec::new();
    for (name, attributes) in table.iter().filter(wanted) {
        match rows.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => known.extend_from_slice(attributes),
            None => rows.push((*name, attributes.to_vec())),
        }
    }
    let infos = if are_functions {
        let names: Vec<_> = rows.iter().map(|(name, _)| *name).collect();
        vec![Info::new(key, names.join(","))]
    } else {
        let row = |(name, attributes): &(&str, Vec<&'static str>)| {
            let attributes = DataArray::Regattr(regattrs(attributes));
            Info::new(String::from(*name), Value::DataArray(attributes))
        };
        rows.iter().map(row).collect()
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

    const TABLE: &[SupportedFunction<'_>] = &[
        ("PMIx_Fence", &["COLLECT_DATA", "PMIX_TIMEOUT"]),
        ("PMIx_Get", &["TIMEOUT"]),
        ("PMIx_IOF_pull", &["IOF_CACHE_SIZE"]),
    ];

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
    fn accepts_functions_in_the_qualifier_or_after_the_key() {
        let level = || Info::new(keys::HOST_ATTRIBUTES, "PMIx_Get,PMIx_Fence");
        let flag = || Info::new(keys::HOST_ATTRIBUTES, true);
        let asked = [
            query(&[], vec![level()]),
            query(&["PMIx_Get", "PMIx_Fence"], vec![flag()]),
        ];
        for asked in asked {
            assert!(is_about_support(&asked));
            let found = SupportLevel::Host.answer(&asked, TABLE);
            assert_eq!(found.len(), 1);
            assert_eq!(names(&found[0]), ["PMIx_Fence", "PMIx_Get"]);
        }
        for qualifier in [flag(), Info::new(keys::HOST_ATTRIBUTES, "all")] {
            let found = SupportLevel::Host.answer(&query(&[], vec![qualifier]), TABLE);
            assert_eq!(names(&found[0]).len(), TABLE.len());
        }
    }

    #[test]
    fn only_functions_of_the_table_are_kept() {
        let listed = |text: String| Info::new(keys::HOST_ATTRIBUTES, text);
        let of = |info: &Info<'_>| functions(&query(&[], vec![]), Some(info), TABLE);
        let found = of(&listed("PMIx_Get,a,,PMIx_Get,".repeat(1000))).unwrap();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["PMIx_Get"]);
        assert_eq!(of(&listed("a,".repeat(1000))), Some(BTreeSet::new()));
        assert_eq!(of(&listed("a,all".into())), None);
        assert_eq!(of(&listed(",,".into())), None);
    }

    #[test]
    fn a_level_answers_queries_for_it_and_for_no_level() {
        let host = query(&[], vec![Info::new(keys::HOST_FUNCTIONS, true)]);
        assert_eq!(SupportLevel::Server.answer(&host, TABLE), []);
        let found = SupportLevel::Host.answer(&host, TABLE);
        let list = Info::new(keys::HOST_FUNCTIONS, "PMIx_Fence,PMIx_Get,PMIx_IOF_pull");
        assert_eq!(found[0].value.as_infos().unwrap(), [list]);
        for level in [SupportLevel::Client, SupportLevel::Tool] {
            assert_eq!(level.answer(&query(&[], vec![]), TABLE).len(), 2);
        }
    }

    #[test]
    fn results_have_key_and_type_of_attributes() {
        let level = Info::new(keys::SERVER_ATTRIBUTES, "PMIx_IOF_pull");
        let found = SupportLevel::Server.answer(&query(&[], vec![level]), TABLE);
        let functions = found[0].value.as_infos().unwrap();
        let Value::DataArray(DataArray::Regattr(regattrs)) = &functions[0].value else {
            panic!("{functions:?}");
        };
        assert_eq!(regattrs[0].name, Some("PMIX_IOF_CACHE_SIZE".into()));
        assert_eq!(regattrs[0].string, keys::IOF_CACHE_SIZE);
        assert_eq!(regattrs[0].data_type, DataType::UINT32);
    }

    #[test]
    fn joins_the_rows_of_a_function() {
        let table: &[SupportedFunction<'_>] = &[
            ("PMIx_Get", &["TIMEOUT"]),
            ("PMIx_Fence", &["TIMEOUT"]),
            ("PMIx_Get", &["IMMEDIATE", "OPTIONAL"]),
        ];
        let found = SupportLevel::Client.answer(&query(&[], vec![]), table);
        let [attributes, functions] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!(names(attributes), ["PMIx_Get", "PMIx_Fence"]);
        let of_get = &attributes.value.as_infos().unwrap()[0].value;
        let Value::DataArray(DataArray::Regattr(of_get)) = of_get else {
            panic!("{of_get:?}");
        };
        let of_get: Vec<_> = of_get.iter().map(|one| one.string.to_string()).collect();
        assert_eq!(of_get, [keys::TIMEOUT, keys::IMMEDIATE, keys::OPTIONAL]);
        let list = Info::new(keys::CLIENT_FUNCTIONS, "PMIx_Get,PMIx_Fence");
        assert_eq!(functions.value.as_infos().unwrap(), [list]);
        let required = [Info::new(keys::OPTIONAL, true).required()];
        assert!(check_required("PMIx_Get", &[table], &required).is_ok());
    }

    #[test]
    fn rejects_required_infos_unless_listed_or_processed() {
        let of = |function, key: &'static str| {
            check_required(function, &[TABLE], &[Info::new(key, 1_u32).required()])
        };
        assert!(of("PMIx_Fence", keys::TIMEOUT).is_ok());
        assert!(of("PMIx_Fence", keys::COLLECT_DATA).is_ok());
        let refused = of("PMIx_Get", keys::COLLECT_DATA).unwrap_err();
        assert_eq!(refused.status(), Status::ERR_NOT_SUPPORTED);
        let text = refused.to_string();
        assert!(
            text.contains("PMIX_COLLECT_DATA") && text.contains("PMIx_Get"),
            "{text}"
        );
        let none = of("PMIx_Publish", keys::TIMEOUT).unwrap_err();
        assert_eq!(none.status(), Status::ERR_NOT_SUPPORTED);
        let mut infos = [
            Info::new(keys::COLLECT_DATA, true).required(),
            Info::new(keys::RANGE, true),
            Info::new("of.nobody", true).required(),
        ];
        mark_processed("PMIx_Fence", TABLE, &mut infos);
        let processed = infos.clone().map(|info| info.was_processed());
        assert_eq!(processed, [true, false, false]);
        assert!(check_required("PMIx_Get", &[TABLE], &infos[..2]).is_ok());
        infos[2].set_processed();
        assert!(check_required("PMIx_Get", &[TABLE], &infos).is_ok());
    }
}
