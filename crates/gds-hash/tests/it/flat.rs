// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients before release 4 get plain values of the job with the data that later ones get in arrays.

use std::collections::BTreeMap;

use bfrops::{Decoder, Layout, Module, wire_type};
use gds_hash::{Codec, Job, LocalNode, Remote};
use pmix_types::{DataArray, Info, IntoOwned, Kval, Rank, Release, Text, Value, keys};
use preg_core::Params;

fn array(key: &'static str, infos: Vec<Info<'static>>) -> Info<'static> {
    Info::new(key, Value::DataArray(DataArray::Info(infos)))
}

fn app(number: u32, leader: u32) -> Info<'static> {
    let leader = Value::Rank(Rank::new(leader));
    array(
        keys::APP_INFO_ARRAY,
        vec![
            Info::new(keys::APPNUM, number),
            Info::new(keys::APPLDR, leader),
        ],
    )
}

/// Returns a job on `n0`, which has no process, `n1`, the node of the server, and `n2`.
fn job(apps: impl IntoIterator<Item = Info<'static>>) -> Job {
    let session = vec![
        Info::new(keys::SESSION_ID, 9_u32),
        Info::new(keys::UNIV_SIZE, 64_u32),
    ];
    let mut infos = vec![
        Info::new(keys::NODE_MAP, "n0,n1,n2"),
        Info::new(keys::PROC_MAP, ";0-2;3"),
        array(keys::SESSION_INFO_ARRAY, session),
    ];
    infos.extend(apps);
    let preg = pmix_builtin::open_preg(&Params::default()).unwrap();
    Job::register(&preg, &LocalNode::new("n1"), "job@1", &infos).unwrap()
}

/// Returns the plain values of a reply, without those in arrays and blobs.
fn values(job: &Job, module: Module) -> BTreeMap<String, Value<'static>> {
    let layout = Layout::new(module);
    let reply = job
        .reply(&Codec::new(layout), Release::V4_2_2, Remote::Whole)
        .unwrap();
    let mut decoder = Decoder::new(layout, &reply);
    decoder.one::<wire_type::String>().unwrap();
    let mut values = BTreeMap::new();
    while !decoder.is_empty() {
        let Kval { key, value } = decoder.one::<wire_type::Kval>().unwrap().into_owned();
        let is_plain = !matches!(value, Value::DataArray(_)) && !key.is(keys::PROC_BLOB);
        if is_plain {
            assert_eq!(values.insert(key.to_string(), value), None, "{key} twice");
        }
    }
    values
}

fn text(text: &'static str) -> Value<'static> {
    Value::String(Some(Text::from(text)))
}

/// Returns the nodes and their ranks in the map blob of a reply.
fn map_blob(value: &Value<'_>, module: Module) -> Vec<(String, Value<'static>)> {
    let Value::ByteObject(bytes) = value else {
        panic!("no bytes: {value:?}");
    };
    let mut decoder = Decoder::new(Layout::new(module), bytes);
    let num_nodes = decoder.one::<wire_type::Size>().unwrap();
    let mut nodes = Vec::new();
    while !decoder.is_empty() {
        let kval = decoder.one::<wire_type::Kval>().unwrap().into_owned();
        nodes.push((kval.key.to_string(), kval.value));
    }
    assert_eq!(num_nodes, u64::try_from(nodes.len()).unwrap());
    nodes
}

#[test]
fn values_of_session_own_node_and_only_application_are_flat() {
    let job = job([app(0, 0)]);
    for module in [Module::V12, Module::V20, Module::V21, Module::V3] {
        let values = values(&job, module);
        assert_eq!(values[keys::UNIV_SIZE], Value::Uint32(64), "{module}");
        assert_eq!(values[keys::LOCAL_PEERS], text("0,1,2"));
        assert_eq!(values[keys::LOCAL_SIZE], Value::Uint32(3));
        let leader = match module {
            // Ranks did not have their own type.
            Module::V12 => Value::Int(0),
            _ => Value::Rank(Rank::new(0)),
        };
        assert_eq!(values[keys::LOCALLDR], leader);
        assert_eq!(values[keys::APPLDR], leader);
        assert_eq!(values[keys::NUM_NODES], Value::Uint32(3));
        assert!(!values.contains_key(keys::HOSTNAME));
    }
}

#[test]
fn values_of_several_applications_are_not_flat() {
    let values = values(&job([app(0, 0), app(1, 2)]), Module::V3);
    assert!(!values.contains_key(keys::APPLDR));
    assert!(values.contains_key(keys::LOCAL_PEERS));
}

#[test]
fn clients_of_release_2_find_peers_of_nodes_in_a_blob() {
    let job = job([app(0, 0)]);
    for module in [Module::V12, Module::V20, Module::V21] {
        let values = values(&job, module);
        assert_eq!(values[keys::NODE_MAP], text("n0,n1,n2"));
        let told = map_blob(&values[keys::MAP_BLOB], module);
        let node = |name: &str, ranks| (name.to_owned(), text(ranks));
        assert_eq!(told, [node("n1", "0,1,2"), node("n2", "3")]);
    }
    assert!(!values(&job, Module::V3).contains_key(keys::MAP_BLOB));
}

#[test]
fn later_clients_receive_no_duplicates() {
    let job = job([app(0, 0)]);
    for module in [Module::V4, Module::V41, Module::V61] {
        let values = values(&job, module);
        for key in [
            keys::UNIV_SIZE,
            keys::LOCAL_PEERS,
            keys::APPLDR,
            keys::MAP_BLOB,
        ] {
            assert!(!values.contains_key(key), "{module} {key}");
        }
    }
}
