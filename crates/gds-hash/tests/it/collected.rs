// SPDX-License-Identifier: MIT OR Apache-2.0
//! Job information of several jobs, collected on one node and stored on another.

use std::sync::Arc;

use bfrops::{Encoder, Layout, Module, wire_type};
use gds_hash::{Codec, LocalNode, PlainMaps, Request, Store};
use pmix_types::{Bytes, Info, Nspace, Rank, Release, Status, Value, keys};

const CODEC: Codec<'static> = Codec::new(Layout::new(Module::V41));

fn store(node: &str) -> Store {
    Store::new(Arc::new(PlainMaps::default()), LocalNode::new(node))
}

/// Returns the collected job information of a node with two jobs, and of an unknown job.
fn collected() -> Vec<u8> {
    let store = store("n00");
    for (name, jobid) in [("a", "first"), ("b", "second")] {
        let infos = [
            Info::new(keys::NODE_MAP, "n00,n01"),
            Info::new(keys::PROC_MAP, "0,1;2"),
            Info::new(keys::JOBID, jobid),
        ];
        store
            .register_nspace(&Nspace::new(name), 2, &infos)
            .unwrap();
    }
    let names = ["b", "unknown", "a"].map(Nspace::new);
    store
        .collect_job_info(&CODEC, Release::Master, &names)
        .unwrap()
}

fn get(store: &Store, nspace: &str, rank: Rank, key: &str) -> Option<Value<'static>> {
    store
        .get(&Nspace::new(nspace), &Request::new(rank, key))
        .ok()
}

#[test]
fn jobs_of_one_node_are_known_on_another() {
    let other = store("n07");
    let told = other
        .absorb_collected(&CODEC, &collected(), |_| false)
        .unwrap();
    let names: Vec<_> = told.into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["b", "a"].map(Nspace::new));
    assert_eq!(
        get(&other, "a", Rank::WILDCARD, keys::JOBID),
        Some("first".into())
    );
    assert_eq!(
        get(&other, "b", Rank::WILDCARD, keys::JOBID),
        Some("second".into())
    );
    assert_eq!(
        get(&other, "a", Rank::new(2), keys::HOSTNAME),
        Some("n01".into())
    );
    assert_eq!(
        get(&other, "a", Rank::WILDCARD, keys::JOB_SIZE),
        Some(3_u32.into())
    );
}

#[test]
fn a_job_registered_by_the_host_is_unchanged() {
    let other = store("n07");
    let own = [Info::new(keys::JOBID, "own")];
    other.register_nspace(&Nspace::new("a"), 0, &own).unwrap();
    let has_own = |nspace: &Nspace<'_>| *nspace == Nspace::new("a");
    let told = other
        .absorb_collected(&CODEC, &collected(), has_own)
        .unwrap();
    assert_eq!((told.len(), &told[0].0), (1, &Nspace::new("b")));
    assert_eq!(
        get(&other, "a", Rank::WILDCARD, keys::JOBID),
        Some("own".into())
    );
}

#[test]
fn truncated_bytes_are_an_error_at_every_length() {
    let good = collected();
    let taken = |len: usize| {
        let told = store("n07").absorb_collected(&CODEC, &good[..len], |_| false);
        told.map(|told| told.len()).ok()
    };
    let whole: Vec<_> = (0..good.len()).filter_map(taken).collect();
    assert_eq!(whole, [0, 1], "nothing, and what ends between the two jobs");
    let (mut name, mut nobody) = (Vec::new(), Vec::new());
    let layout = CODEC.layout();
    Encoder::new(layout, &mut name)
        .one::<wire_type::String>(&None)
        .unwrap();
    let name = Bytes::Owned(name);
    Encoder::new(layout, &mut nobody)
        .one::<wire_type::ByteObject>(&name)
        .unwrap();
    let refused = store("n07").absorb_collected(&CODEC, &nobody, |_| false);
    assert_eq!(refused.unwrap_err().status(), Status::ERR_BAD_PARAM);
}
