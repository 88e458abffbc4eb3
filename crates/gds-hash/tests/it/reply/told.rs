// SPDX-License-Identifier: MIT OR Apache-2.0
//! The content of a reply, and its comparison with the values of the job.

use std::collections::BTreeMap;

use bfrops::{Decoder, Layout, Limits, Module, wire_type};
use gds_hash::{Job, LocalNode, Request};
use pmix_types::{DataArray, Info, Kval, Rank, Value, keys};
use preg_core::{Params, Preg};

pub(crate) fn preg() -> Preg {
    pmix_builtin::open_preg(&Params::default()).unwrap()
}

pub(crate) fn array(key: &'static str, infos: Vec<Info<'static>>) -> Info<'static> {
    Info::new(key, Value::DataArray(DataArray::Info(infos)))
}

pub(crate) fn register(infos: &[Info<'_>]) -> Job {
    Job::register(&preg(), &LocalNode::new("n1"), "JOB1", infos).unwrap()
}

pub(crate) fn layout() -> Layout {
    Layout::new(Module::V41)
}

/// A decoded reply.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Told {
    pub(crate) nspace: String,
    pub(crate) job: Vec<(String, Value<'static>)>,
    pub(crate) session: Vec<Info<'static>>,
    pub(crate) nodes: Vec<Vec<Info<'static>>>,
    pub(crate) apps: Vec<Vec<Info<'static>>>,
    pub(crate) procs: BTreeMap<u32, Vec<(String, Value<'static>)>>,
}

pub(crate) fn infos(value: Value<'static>) -> Vec<Info<'static>> {
    match value {
        Value::DataArray(DataArray::Info(infos)) => infos,
        other => panic!("no infos: {other:?}"),
    }
}

pub(crate) fn decoder(layout: Layout, bytes: &[u8]) -> Decoder<'_> {
    Decoder::new(layout, bytes).with_limits(Limits {
        memory_factor: 64,
        ..Limits::default()
    })
}

pub(crate) fn take(layout: Layout, reply: &[u8]) -> Told {
    use pmix_types::IntoOwned;
    let mut decoder = decoder(layout, reply);
    let nspace = decoder.one::<wire_type::String>().unwrap().unwrap();
    let mut told = Told {
        nspace: nspace.to_str_lossy().into_owned(),
        ..Told::default()
    };
    while !decoder.is_empty() {
        let Kval { key, value } = decoder.one::<wire_type::Kval>().unwrap().into_owned();
        match key.to_string().as_str() {
            keys::SESSION_INFO_ARRAY => told.session = infos(value),
            keys::NODE_INFO_ARRAY => told.nodes.push(infos(value)),
            keys::APP_INFO_ARRAY => told.apps.push(infos(value)),
            keys::PROC_BLOB => {
                let Value::ByteObject(bytes) = value else {
                    panic!("no bytes");
                };
                let (rank, values) = blob(layout, &bytes);
                assert_eq!(told.procs.insert(rank, values), None, "rank {rank} twice");
            }
            key => told.job.push((key.to_owned(), value)),
        }
    }
    told
}

pub(crate) fn blob(layout: Layout, bytes: &[u8]) -> (u32, Vec<(String, Value<'static>)>) {
    use pmix_types::IntoOwned;
    let mut decoder = decoder(layout, bytes);
    let rank = decoder.one::<wire_type::Rank>().unwrap().as_raw();
    let mut values = Vec::new();
    while !decoder.is_empty() {
        let kval = decoder.one::<wire_type::Kval>().unwrap().into_owned();
        values.push((kval.key.to_string(), kval.value));
    }
    (rank, values)
}

/// Checks that every value in a reply equals the value of the job.
pub(crate) fn assert_answers(job: &Job, told: &Told) {
    let get = |rank: Rank, key: &str, with: &[Info<'_>]| {
        let answer = job.get(&Request::new(rank, key).with(with));
        answer.unwrap_or_else(|e| panic!("{e}")).into_owned()
    };
    let of = |infos: &[Info<'static>], key: &str| {
        let found = infos.iter().find(|info| info.key.is(key));
        found.unwrap_or_else(|| panic!("no {key}")).clone()
    };
    let (all, yes) = (Rank::WILDCARD, Value::Bool(true));
    for (key, value) in &told.job {
        if key != keys::QUALIFIED_VALUE {
            let with = [Info::new(keys::JOB_INFO, yes.clone())];
            assert_eq!(get(all, key, &with), *value, "{key}");
        }
    }
    for info in &told.session {
        if !info.key.is(keys::NODE_INFO_ARRAY) && info.value != Value::Uint32(u32::MAX) {
            let with = [Info::new(keys::SESSION_INFO, yes.clone())];
            assert_eq!(
                get(all, &info.key.to_string(), &with),
                info.value,
                "{}",
                info.key
            );
        }
    }
    for node in &told.nodes {
        let with = [
            Info::new(keys::NODE_INFO, yes.clone()),
            of(node, keys::NODEID),
        ];
        // The node is identified by its number, because names may lack their domain.
        for info in node.iter().filter(|info| !info.key.is(keys::HOSTNAME)) {
            assert_eq!(
                get(all, &info.key.to_string(), &with),
                info.value,
                "{}",
                info.key
            );
        }
    }
    for app in &told.apps {
        let with = [
            Info::new(keys::APP_INFO, yes.clone()),
            of(app, keys::APPNUM),
        ];
        for info in app
            .iter()
            .filter(|info| !info.key.is(keys::NODE_INFO_ARRAY))
        {
            assert_eq!(
                get(all, &info.key.to_string(), &with),
                info.value,
                "{}",
                info.key
            );
        }
    }
    for (rank, values) in &told.procs {
        for (key, value) in values {
            assert_eq!(get(Rank::new(*rank), key, &[]), *value, "{key} of {rank}");
        }
    }
}

/// Checks that the reply has every derived value of a process, node and job.
pub(crate) fn assert_complete(job: &Job, told: &Told, num_procs: u32) {
    for rank in (0..num_procs).filter(|rank| job.has_rank(Rank::new(*rank))) {
        let values = told.procs.get(&rank);
        for key in [
            keys::HOSTNAME,
            keys::NODEID,
            keys::LOCAL_RANK,
            keys::NODE_RANK,
            keys::APPNUM,
            keys::APP_RANK,
            keys::GLOBAL_RANK,
            "app.color",
            "app.flag",
            "app.text",
        ] {
            let known = job.get(&Request::new(Rank::new(rank), key)).ok();
            let said = values.and_then(|values| values.iter().find(|(k, _)| k == key));
            assert_eq!(
                said.map(|(_, v)| v.clone()),
                known.map(|v| v.into_owned()),
                "{key}"
            );
        }
    }
}
