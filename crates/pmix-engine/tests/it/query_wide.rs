// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queries about several nodes, about all jobs, and about the server.

use pmix_engine::{HostReply, Upcall};
use pmix_types::{DataArray, Info, Proc, Rank, Status, Value, keys};

use crate::ledger::Ledger;
use crate::query::{asked, of_job, query, two_jobs, value};
use crate::world::{Reaction, Who, World};

fn named(list: &[(&'static str, u32)]) -> Value<'static> {
    let name = |(nspace, rank): &(&'static str, u32)| Proc::new(*nspace, Rank::new(*rank));
    Value::from(list.iter().map(name).collect::<Vec<_>>())
}

fn on(nodes: &[u32]) -> Vec<Info<'static>> {
    let ids = nodes.iter().map(|id| Info::new(keys::NODEID, *id));
    ids.collect()
}

fn ranks_of(world: &mut World, who: Who, of: Vec<Info<'static>>) -> Vec<(String, u32)> {
    match value(world, who, keys::QUERY_LOCAL_PROC_TABLE, of) {
        Value::DataArray(DataArray::ProcInfo(rows)) => rows
            .iter()
            .map(|row| (row.proc.nspace.to_string(), row.proc.rank.as_raw()))
            .collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn processes_of_several_nodes_are_merged_in_one_reply() {
    let (mut world, who) = two_jobs();
    let client = world.join(0, "b", 0);
    let both = named(&[("b", 0), ("b", 1), ("b", 2), ("b", 3)]);
    for nodes in [&[0, 1][..], &[0, 1, 0, 1]] {
        let procs = value(&mut world, client, keys::LOCAL_PROCS, on(nodes));
        assert_eq!(procs, both, "{nodes:?}");
    }
    let second = value(&mut world, client, keys::LOCAL_PROCS, on(&[1]));
    assert_eq!(second, named(&[("b", 2), ("b", 3)]));
    let peers = value(&mut world, client, keys::LOCAL_PEERS, on(&[1, 0]));
    assert_eq!(peers, Value::from("2,3,0,1"));
    let names = ["n01", "n00"].map(|name| Info::new(keys::HOSTNAME, name));
    let resolved = [of_job("b"), names.to_vec()].concat();
    let peers = value(&mut world, who, keys::QUERY_RESOLVE_PEERS, resolved);
    assert_eq!(peers, named(&[("b", 2), ("b", 3), ("b", 0), ("b", 1)]));
    // Different values give no result; equal ones give one.
    let size = value(&mut world, client, keys::LOCAL_SIZE, on(&[0, 1]));
    assert_eq!(size, Value::Uint32(2));
    let name = asked(
        &mut world,
        client,
        vec![query(&[keys::HOSTNAME], on(&[0, 1]))],
    );
    assert_eq!(name.1, []);
}

#[test]
fn a_query_names_a_bounded_number_of_nodes() {
    let (mut world, who) = two_jobs();
    let many: Vec<_> = (0..4097).collect();
    let refused = asked(
        &mut world,
        who,
        vec![query(&[keys::LOCAL_PROCS], on(&many))],
    );
    assert_eq!(refused, (Status::ERR_OUT_OF_RESOURCE, vec![]));
    // The limit applies to all queries of a request: each key is looked up for each node.
    let ask = |world: &mut World, num_keys| {
        let one = query(&vec![keys::LOCAL_SIZE; num_keys], on(&many[..4096]));
        asked(world, who, vec![one.clone(), one]).0
    };
    let few = ask(&mut world, 8);
    assert_ne!(few, Status::ERR_OUT_OF_RESOURCE);
    assert_eq!(ask(&mut world, 9), Status::ERR_OUT_OF_RESOURCE);
}

#[test]
fn the_process_table_is_that_of_the_named_node() {
    let (mut world, who) = two_jobs();
    let second = [of_job("b"), vec![Info::new(keys::HOSTNAME, "n01")]].concat();
    let expected = [("b".to_owned(), 2), ("b".to_owned(), 3)];
    assert_eq!(ranks_of(&mut world, who, second), expected);
    let elsewhere = [of_job("b"), vec![Info::new(keys::HOSTNAME, "n77")]].concat();
    assert_eq!(ranks_of(&mut world, who, elsewhere), []);
}

#[test]
fn a_query_of_a_tool_without_a_job_covers_all_jobs() {
    let (mut world, who) = two_jobs();
    let all = ranks_of(&mut world, who, vec![]);
    let expected = [("a", 0), ("b", 0), ("b", 1)].map(|(job, rank)| (job.to_owned(), rank));
    assert_eq!(all, expected);
    let Value::DataArray(DataArray::ProcInfo(rows)) =
        value(&mut world, who, keys::QUERY_PROC_TABLE, vec![])
    else {
        panic!();
    };
    assert_eq!(rows.len(), 5);
    let procs = value(&mut world, who, keys::LOCAL_PROCS, on(&[0, 1]));
    assert_eq!(
        procs,
        named(&[("a", 0), ("b", 0), ("b", 1), ("b", 2), ("b", 3)])
    );
    let status = value(&mut world, who, keys::QUERY_JOB_STATUS, vec![]);
    assert_eq!(status, Value::Status(Status::SUCCESS));
    let lost = world.join(0, "b", 1);
    world.kill(lost);
    let status = value(&mut world, who, keys::QUERY_JOB_STATUS, vec![]);
    assert_eq!(status, Value::Status(Status::ERR_PROC_TERM_WO_SYNC));
    // Jobs of different sizes have no common size.
    let size = asked(&mut world, who, vec![query(&[keys::JOB_SIZE], vec![])]);
    assert_eq!(size.1, []);
    let mut world = World::new(1);
    world.job("only", &[3]);
    let who = crate::ledger::tool(&mut world, 0);
    let size = value(&mut world, who, keys::JOB_SIZE, vec![]);
    assert_eq!(size, Value::Uint32(3));
}

#[test]
fn a_query_that_refreshes_the_cache_is_answered_by_the_host() {
    let (mut world, who) = two_jobs();
    let now = |job| {
        [
            of_job(job),
            vec![Info::new(keys::QUERY_REFRESH_CACHE, true)],
        ]
        .concat()
    };
    let ledger = Ledger::open(&mut world, |call| match call {
        Upcall::Query(call) if call.queries[0].keys == [keys::JOB_SIZE] => {
            let size = vec![Info::new(keys::JOB_SIZE, 9_u32)];
            Reaction::HostReply(HostReply::Infos(Status::SUCCESS, size))
        }
        _ => Reaction::HostReply(HostReply::NotSupported),
    });
    let size = value(&mut world, who, keys::JOB_SIZE, now("b"));
    assert_eq!(size, Value::Uint32(9));
    let known = value(&mut world, who, keys::LOCAL_SIZE, now("b"));
    assert_eq!(known, Value::Uint32(2), "the host has no value for the key");
    assert_eq!(ledger.take("Query").len(), 2);
    let size = value(&mut world, who, keys::JOB_SIZE, of_job("b"));
    assert_eq!(size, Value::Uint32(4));
    assert_eq!(ledger.take("Query"), []);
}

#[test]
fn the_server_reports_its_interface_and_start_time() {
    let (mut world, who) = two_jobs();
    for key in [
        keys::QUERY_STABLE_ABI_VERSION,
        keys::QUERY_PROVISIONAL_ABI_VERSION,
    ] {
        let version = value(&mut world, who, key, vec![]);
        assert_eq!(version, Value::from(pmix_types::ABI_VERSION));
    }
    let unknown = query(&[keys::SERVER_START_TIME], vec![]);
    assert_eq!(asked(&mut world, who, vec![unknown]).1, []);
    let config = pmix_engine::Config::default();
    assert_eq!(config.started, None);
    let mut config = config;
    config.started = Some(std::time::UNIX_EPOCH);
    let mut world = World::with(1, &config);
    let who = crate::ledger::tool(&mut world, 0);
    for key in [keys::SERVER_START_TIME, "pmix.srvr.strtime"] {
        let (status, infos) = asked(&mut world, who, vec![query(&[key], vec![])]);
        assert_eq!(status, Status::SUCCESS);
        assert_eq!(infos[0].value, Value::from("Thu Jan  1 00:00:00 1970"));
    }
}
