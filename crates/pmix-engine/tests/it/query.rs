// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queries, and resolved peers and nodes.

use std::time::Duration;

use pmix_engine::{HostReply, Upcall};
use pmix_proto::{Hello, Request, reply, request};
use pmix_types::{
    DataArray, Info, IntoOwned, Nspace, Proc, ProcState, Query, Rank, Status, Text, Value, keys,
};

use crate::ledger::{Ledger, tool};
use crate::world::{Reaction, Who, World, hello};

pub(crate) fn query(names: &[&'static str], qualifiers: Vec<Info<'static>>) -> Query<'static> {
    Query {
        keys: names.iter().map(|name| Text::from(*name)).collect(),
        qualifiers,
    }
}

pub(crate) fn of_job(nspace: &'static str) -> Vec<Info<'static>> {
    vec![Info::new(keys::NSPACE, nspace)]
}

pub(crate) fn asked(
    world: &mut World,
    who: Who,
    queries: Vec<Query<'static>>,
) -> (Status, Vec<Info<'static>>) {
    let tag = world.ask(who, &Request::Query(request::Query { queries }));
    world.run();
    let client = &world.clients[who];
    let response = client.reply(tag).expect("no reply");
    let form = client.session.form();
    let reply = reply::Infos::decode(form, None, &response.payload).unwrap();
    (reply.status, reply.infos.unwrap_or_default().into_owned())
}

/// Returns the value of a key, which must exist.
pub(crate) fn value(
    world: &mut World,
    who: Who,
    key: &'static str,
    of: Vec<Info<'static>>,
) -> Value<'static> {
    let (status, mut infos) = asked(world, who, vec![query(&[key], of)]);
    assert_eq!((status, infos.len()), (Status::SUCCESS, 1), "{key}");
    let info = infos.remove(0);
    assert!(info.key.is(key));
    info.value
}

/// Creates two jobs on two nodes and a tool, with a host without any information.
pub(crate) fn two_jobs() -> (World, Who) {
    let mut world = World::new(2);
    world.job("b", &[2, 2]);
    world.job("a", &[1]);
    let who = tool(&mut world, 0);
    (world, who)
}

#[test]
fn the_server_knows_its_jobs() {
    let (mut world, who) = two_jobs();
    let names = value(&mut world, who, keys::QUERY_NAMESPACES, vec![]);
    assert_eq!(names, Value::from("a,b"));
    let infos = value(&mut world, who, keys::QUERY_NAMESPACE_INFO, of_job("b"));
    let jobs = infos.as_infos().unwrap();
    assert_eq!(jobs.len(), 1);
    let about = jobs[0].value.as_infos().unwrap();
    // Programs read these by position, as strings.
    let expected = [Info::new(keys::NSPACE, "b"), Info::new(keys::CMD_LINE, "")];
    assert_eq!(about, expected);
    let all = value(&mut world, who, keys::QUERY_NAMESPACE_INFO, vec![]);
    assert_eq!(all.as_infos().unwrap().len(), 2);
}

#[test]
fn the_host_adds_its_jobs_with_and_without_a_refresh() {
    for refreshed in [vec![], vec![Info::new(keys::QUERY_REFRESH_CACHE, true)]] {
        let (mut world, who) = two_jobs();
        let theirs = Info::new(keys::QUERY_NAMESPACES, "b,c");
        let answer = HostReply::Infos(Status::SUCCESS, vec![theirs]);
        let ledger = Ledger::answering(&mut world, answer);
        let names = value(&mut world, who, keys::QUERY_NAMESPACES, refreshed.clone());
        assert_eq!(names, Value::from("a,b,c"));
        let _ = ledger.one("Query");
        let about = vec![
            Info::new(keys::NSPACE, "c"),
            Info::new(keys::CMD_LINE, "./c"),
        ];
        let about = vec![Info::new(keys::JOB_INFO_ARRAY, about)];
        let theirs = Info::new(keys::QUERY_NAMESPACE_INFO, about);
        let answer = HostReply::Infos(Status::SUCCESS, vec![theirs]);
        let ledger = Ledger::answering(&mut world, answer);
        let jobs = value(&mut world, who, keys::QUERY_NAMESPACE_INFO, refreshed);
        assert_eq!(jobs.as_infos().unwrap().len(), 3);
        let _ = ledger.one("Query");
    }
}

#[test]
fn a_datastore_key_is_answered_for_the_requested_process() {
    let (mut world, who) = two_jobs();
    let size = value(&mut world, who, keys::JOB_SIZE, of_job("b"));
    assert_eq!(size, Value::Uint32(4));
    let of_rank = vec![Info::new(keys::PROCID, Proc::new("b", Rank::new(3)))];
    let rank = value(&mut world, who, keys::LOCAL_RANK, of_rank);
    assert_eq!(rank, Value::Uint16(1));
    let client = world.join(0, "b", 0);
    let own = value(&mut world, client, keys::JOB_SIZE, vec![]);
    assert_eq!(own, Value::Uint32(4), "the default is the caller's own job");
}

#[test]
fn process_sets_are_counted_named_and_listed() {
    let (mut world, who) = two_jobs();
    let none = value(&mut world, who, keys::QUERY_NUM_PSETS, vec![]);
    let no_names = value(&mut world, who, keys::QUERY_PSET_NAMES, vec![]);
    assert_eq!((none, no_names), (Value::Size(0), Value::from("")));
    let members = vec![Proc::new("b", Rank::new(1)), Proc::new("a", Rank::new(0))];
    let engine = &mut world.nodes[0].engine;
    engine.define_process_set(&"odd".into(), &members).unwrap();
    engine
        .define_process_set(&"even".into(), &members[..1])
        .unwrap();
    let count = value(&mut world, who, keys::QUERY_NUM_PSETS, vec![]);
    assert_eq!(count, Value::Size(2));
    let names = value(&mut world, who, keys::QUERY_PSET_NAMES, vec![]);
    assert_eq!(names, Value::from("even,odd"));
    let odd = vec![Info::new(keys::PSET_NAME, "odd")];
    let listed = value(&mut world, who, keys::QUERY_PSET_MEMBERSHIP, odd);
    assert_eq!(listed, Value::from(members));
}

#[test]
fn the_process_table_follows_the_connections() {
    let (mut world, who) = two_jobs();
    let all = world.join_all("b", &[2, 2]);
    world.status_of(all[0], &Request::Finalize);
    world.kill(all[1]);
    let rows = |value: Value<'static>| match value {
        Value::DataArray(DataArray::ProcInfo(rows)) => rows,
        other => panic!("{other:?}"),
    };
    let table = rows(value(&mut world, who, keys::QUERY_PROC_TABLE, of_job("b")));
    let states: Vec<_> = table.iter().map(|row| (row.proc.rank, row.state)).collect();
    let expected = [
        (Rank::new(0), ProcState::TERMINATED),
        (Rank::new(1), ProcState::TERM_WO_SYNC),
        (Rank::new(2), ProcState::UNDEF),
        (Rank::new(3), ProcState::UNDEF),
    ];
    assert_eq!(states, expected);
    assert_eq!(table[3].hostname, Some("n01".into()));
    let local = rows(value(
        &mut world,
        who,
        keys::QUERY_LOCAL_PROC_TABLE,
        of_job("b"),
    ));
    assert_eq!(local, table[..2]);
    let status = value(&mut world, who, keys::QUERY_JOB_STATUS, of_job("b"));
    assert_eq!(status, Value::Status(Status::ERR_PROC_TERM_WO_SYNC));
    let status = value(&mut world, who, keys::QUERY_JOB_STATUS, of_job("a"));
    assert_eq!(status, Value::Status(Status::SUCCESS));
    let of_rank = vec![Info::new(keys::PROCID, Proc::new("b", Rank::new(0)))];
    let state = value(&mut world, who, keys::PROC_STATE_STATUS, of_rank);
    assert_eq!(state, Value::ProcState(ProcState::TERMINATED));
    // The state remains after the host deregistered the process.
    let proc = Proc::new("b", Rank::new(0));
    let engine = &mut world.nodes[0].engine;
    engine.deregister_client(&proc).unwrap();
    let of_rank = vec![Info::new(keys::PROCID, proc)];
    let state = value(&mut world, who, keys::PROC_STATE_STATUS, of_rank);
    assert_eq!(state, Value::ProcState(ProcState::TERMINATED));
}

#[test]
fn the_host_answers_the_rest_and_replies_are_merged() {
    let (mut world, who) = two_jobs();
    let queues = Info::new(keys::QUERY_QUEUE_LIST, "short,long");
    let answer = HostReply::Infos(Status::SUCCESS, vec![queues.clone()]);
    let ledger = Ledger::answering(&mut world, answer);
    let names = [keys::QUERY_NAMESPACES, keys::QUERY_QUEUE_LIST];
    let (status, infos) = asked(&mut world, who, vec![query(&names, vec![])]);
    assert_eq!(status, Status::SUCCESS);
    assert_eq!(infos, [Info::new(keys::QUERY_NAMESPACES, "a,b"), queues]);
    let Upcall::Query(call) = ledger.one("Query") else {
        panic!();
    };
    assert_eq!(call.queries.len(), 1);
    assert_eq!(call.queries[0].keys, names);
    let user = call.queries[0].qualifiers.iter();
    assert_eq!(user.filter(|info| info.key.is(keys::USERID)).count(), 1);
}

#[test]
fn the_host_is_not_asked_for_known_keys() {
    let (mut world, who) = two_jobs();
    let ledger = Ledger::open(&mut world, |_| Reaction::Silence);
    value(&mut world, who, keys::QUERY_NUM_PSETS, vec![]);
    value(&mut world, who, keys::JOB_SIZE, of_job("a"));
    assert_eq!(ledger.take("Query"), []);
    let local = vec![Info::new(keys::QUERY_LOCAL_ONLY, true)];
    let unknown = query(&[keys::QUERY_QUEUE_LIST], local);
    let nothing = asked(&mut world, who, vec![unknown]);
    assert_eq!(nothing, (Status::ERR_NOT_FOUND, vec![]));
    assert_eq!(ledger.take("Query"), []);
}

#[test]
fn without_a_host_missing_keys_are_a_partial_success_or_its_status() {
    let (mut world, who) = two_jobs();
    for answer in [HostReply::NotSupported, HostReply::DROPPED] {
        let status = answer.status();
        Ledger::answering(&mut world, answer);
        let names = [keys::QUERY_NAMESPACES, keys::QUERY_QUEUE_LIST];
        let (some, infos) = asked(&mut world, who, vec![query(&names, vec![])]);
        assert_eq!((some, infos.len()), (Status::ERR_PARTIAL_SUCCESS, 1));
        let none = asked(&mut world, who, vec![query(&names[1..], vec![])]);
        assert_eq!(none, (status, vec![]));
    }
}

#[test]
fn queries_without_keys_or_with_two_processes_are_refused() {
    let (mut world, who) = two_jobs();
    let both = vec![
        Info::new(keys::PROCID, Proc::new("a", Rank::new(0))),
        Info::new(keys::RANK, Rank::new(0)),
    ];
    let bad = [
        vec![],
        vec![query(&[], vec![])],
        vec![query(&[keys::JOB_SIZE], both)],
        vec![query(
            &[keys::JOB_SIZE],
            vec![Info::new(keys::NSPACE, 3_u16)],
        )],
    ];
    for queries in bad {
        let refused = asked(&mut world, who, queries);
        assert_eq!(refused, (Status::ERR_BAD_PARAM, vec![]));
    }
}

#[test]
fn supported_attributes_have_the_form_that_tools_read() {
    let (mut world, who) = two_jobs();
    let level = vec![Info::new(keys::SERVER_ATTRIBUTES, "PMIx_Job_control")];
    let support = value(&mut world, who, keys::QUERY_ATTRIBUTE_SUPPORT, level);
    let functions = support.as_infos().unwrap();
    assert_eq!(
        (functions.len(), &functions[0].key),
        (1, &"PMIx_Job_control".into())
    );
    let Value::DataArray(DataArray::Regattr(attributes)) = &functions[0].value else {
        panic!();
    };
    assert_eq!(attributes[0].string, keys::REGISTER_CLEANUP);
    let ledger = Ledger::answering(&mut world, HostReply::NotSupported);
    let level = vec![Info::new(keys::HOST_FUNCTIONS, Value::Undef)];
    let host = query(&[keys::QUERY_ATTRIBUTE_SUPPORT], level);
    let refused = asked(&mut world, who, vec![host]);
    assert_eq!(refused, (Status::ERR_NOT_SUPPORTED, vec![]));
    ledger.one("Query");
    let keys = value(&mut world, who, keys::QUERY_SUPPORTED_KEYS, vec![]);
    let Value::String(Some(keys)) = keys else {
        panic!();
    };
    assert!(
        keys.to_str_lossy()
            .split(',')
            .any(|key| key == keys::QUERY_NAMESPACES)
    );
}

#[test]
fn jobs_of_another_user_are_hidden() {
    let (mut world, _) = two_jobs();
    world.job_of("foreign", &[1], 7);
    let credential = [7_u32.to_ne_bytes(), 7_u32.to_ne_bytes()].concat();
    let foreign = world.connect(
        0,
        &Hello {
            credential: &credential,
            ..hello("foreign", 0)
        },
    );
    world.run();
    let names = value(&mut world, foreign, keys::QUERY_NAMESPACES, vec![]);
    assert_eq!(names, Value::from("foreign"));
    for key in [
        keys::JOB_SIZE,
        keys::QUERY_PROC_TABLE,
        keys::QUERY_JOB_STATUS,
    ] {
        let (status, infos) = asked(&mut world, foreign, vec![query(&[key], of_job("b"))]);
        assert_eq!(infos, [], "{key}");
        assert_eq!(
            status,
            Status::ERR_NOT_SUPPORTED,
            "{key} is forwarded to the host"
        );
    }
    let peers = peers(&mut world, foreign, Some("n00"), "b");
    assert_eq!(peers, (Status::ERR_NO_PERMISSIONS, None));
    // Process sets with members of that job only are hidden as well.
    let (own, other) = (
        Proc::new("foreign", Rank::new(0)),
        Proc::new("b", Rank::new(1)),
    );
    let engine = &mut world.nodes[0].engine;
    for (set, members) in [
        ("theirs", vec![other.clone()]),
        ("own", vec![own.clone()]),
        ("shared", vec![other, own]),
    ] {
        engine.define_process_set(&set.into(), &members).unwrap();
    }
    let names = value(&mut world, foreign, keys::QUERY_PSET_NAMES, vec![]);
    assert_eq!(names, Value::from("own,shared"));
    let count = value(&mut world, foreign, keys::QUERY_NUM_PSETS, vec![]);
    assert_eq!(count, Value::Size(2));
    for (set, is_told) in [("theirs", false), ("own", true), ("shared", true)] {
        let about = query(
            &[keys::QUERY_PSET_MEMBERSHIP],
            vec![Info::new(keys::PSET_NAME, set)],
        );
        let (_, infos) = asked(&mut world, foreign, vec![about]);
        assert_eq!(!infos.is_empty(), is_told, "{set}");
    }
}

type Ranks = Option<Vec<(String, u32)>>;

fn peers(
    world: &mut World,
    who: Who,
    node: Option<&'static str>,
    nspace: &'static str,
) -> (Status, Ranks) {
    let request = Request::ResolvePeers(request::ResolvePeers {
        node: node.map(Text::from),
        nspace: nspace.into(),
    });
    let tag = world.ask(who, &request);
    world.run();
    let client = &world.clients[who];
    let payload = &client.reply(tag).expect("no reply").payload;
    let reply = reply::Peers::decode(client.session.form(), None, payload).unwrap();
    let procs = reply.procs.map(|procs| {
        let ranks = procs.iter();
        let ranks = ranks.map(|proc| (proc.nspace.to_string(), proc.rank.as_raw()));
        ranks.collect()
    });
    (reply.status, procs)
}

fn nodes(world: &mut World, who: Who, nspace: &'static str) -> (Status, Option<String>) {
    let nspace = Nspace::new(nspace);
    let request = Request::ResolveNodes(request::ResolveNodes { nspace });
    let tag = world.ask(who, &request);
    world.run();
    let client = &world.clients[who];
    let payload = &client.reply(tag).expect("no reply").payload;
    let reply = reply::Nodes::decode(client.session.form(), None, payload).unwrap();
    let nodes = reply.nodes.flatten().map(|nodes| nodes.to_string());
    (reply.status, nodes)
}

#[test]
fn peers_are_resolved_by_node() {
    let (mut world, who) = two_jobs();
    let named = |list: &[(&str, u32)]| {
        let name = |(nspace, rank): &(&str, u32)| ((*nspace).to_owned(), *rank);
        (Status::SUCCESS, Some(list.iter().map(name).collect()))
    };
    let b01 = named(&[("b", 0), ("b", 1)]);
    assert_eq!(peers(&mut world, who, Some("n00"), "b"), b01);
    assert_eq!(peers(&mut world, who, None, "b"), b01, "on this node");
    let b23 = named(&[("b", 2), ("b", 3)]);
    assert_eq!(peers(&mut world, who, Some("n01"), "b"), b23);
    let all = named(&[("a", 0), ("b", 0), ("b", 1)]);
    assert_eq!(peers(&mut world, who, Some("n00"), ""), all, "of all jobs");
    let none = named(&[]);
    assert_eq!(peers(&mut world, who, Some("n01"), "a"), none);
    assert_eq!(peers(&mut world, who, Some("n77"), "b"), none);
}

#[test]
fn nodes_are_resolved_by_job() {
    let (mut world, who) = two_jobs();
    let named = |list: &str| (Status::SUCCESS, Some(list.to_owned()));
    assert_eq!(nodes(&mut world, who, "b"), named("n00,n01"));
    assert_eq!(nodes(&mut world, who, "a"), named("n00"));
    assert_eq!(nodes(&mut world, who, ""), named("n00,n01"));
}

#[test]
fn the_host_is_asked_about_unknown_jobs() {
    let (mut world, who) = two_jobs();
    let unknown = Status::ERR_INVALID_NAMESPACE;
    assert_eq!(peers(&mut world, who, None, "far"), (unknown, None));
    assert_eq!(nodes(&mut world, who, "far"), (unknown, None));
    let ledger = Ledger::open(&mut world, |call| match call {
        Upcall::Query(call) if call.queries[0].keys == [keys::QUERY_RESOLVE_NODE] => {
            let nodes = Info::new(keys::QUERY_RESOLVE_NODE, "n8,n9");
            Reaction::HostReply(HostReply::Infos(Status::SUCCESS, vec![nodes]))
        }
        _ => {
            let procs = vec![Proc::new("far", Rank::new(5))];
            let procs = Info::new(keys::QUERY_RESOLVE_PEERS, procs);
            Reaction::HostReply(HostReply::Infos(Status::SUCCESS, vec![procs]))
        }
    });
    let told = nodes(&mut world, who, "far");
    assert_eq!(told, (Status::SUCCESS, Some("n8,n9".into())));
    let told = peers(&mut world, who, Some("n9"), "far");
    assert_eq!(told, (Status::SUCCESS, Some(vec![("far".into(), 5)])));
    let calls = ledger.take("Query");
    let Upcall::Query(call) = &calls[1] else {
        panic!();
    };
    assert_eq!(
        call.queries[0].qualifiers[0],
        Info::new(keys::NSPACE, "far")
    );
    assert_eq!(
        call.queries[0].qualifiers[1],
        Info::new(keys::HOSTNAME, "n9")
    );
}

#[test]
fn distances_are_not_supported() {
    let (mut world, who) = two_jobs();
    let request = Request::DeviceDistances(request::DeviceDistances {
        topology: pmix_types::Topology::default(),
        cpuset: pmix_types::Cpuset::default(),
        infos: vec![],
    });
    let status = world.status_of(who, &request);
    assert_eq!(status, Some(Status::ERR_NOT_SUPPORTED));
}

#[test]
fn keys_of_a_query_request_are_bounded() {
    let (mut world, who) = two_jobs();
    let many = query(&[keys::QUERY_NAMESPACES; 4096], vec![]);
    let (status, infos) = asked(&mut world, who, vec![many.clone()]);
    assert_eq!((status, infos.len()), (Status::SUCCESS, 4096));
    let one = query(&[keys::QUERY_NAMESPACES], vec![]);
    let refused = asked(&mut world, who, vec![many, one]);
    assert_eq!(refused, (Status::ERR_OUT_OF_RESOURCE, vec![]));
}

/// Sends queries to a host that never replies, and returns the status and the number of infos after `time`.
fn asked_in_time(
    world: &mut World,
    who: Who,
    queries: Vec<Query<'static>>,
    time: Duration,
) -> Option<(Status, usize)> {
    let tag = world.ask(who, &Request::Query(request::Query { queries }));
    world.run();
    world.advance(time);
    let client = &world.clients[who];
    let response = client.reply(tag)?;
    let reply = reply::Infos::decode(client.session.form(), None, &response.payload).unwrap();
    Some((reply.status, reply.infos.unwrap_or_default().len()))
}

#[test]
fn a_query_of_a_silent_host_times_out() {
    let (mut world, who) = two_jobs();
    Ledger::open(&mut world, |_| Reaction::Silence);
    let limit = |seconds: u32| vec![Info::new(keys::TIMEOUT, seconds)];
    let second = Duration::from_secs(1);
    let names = [keys::QUERY_NAMESPACES, keys::QUERY_QUEUE_LIST];
    let known = || query(&names[..1], limit(3));
    assert_eq!(
        asked_in_time(&mut world, who, vec![known()], 2 * second),
        None
    );
    for (queries, expected) in [
        (vec![known()], (Status::ERR_PARTIAL_SUCCESS, 1)),
        (
            vec![query(&names, limit(3))],
            (Status::ERR_PARTIAL_SUCCESS, 1),
        ),
        (vec![query(&names[1..], limit(3))], (Status::ERR_TIMEOUT, 0)),
        // The shortest limit applies to the request.
        (
            vec![query(&names, limit(60)), known()],
            (Status::ERR_PARTIAL_SUCCESS, 2),
        ),
    ] {
        let told = asked_in_time(&mut world, who, queries, 3 * second);
        assert_eq!(told, Some(expected));
    }
    // The disconnection of a peer removes its time limit.
    assert_eq!(asked_in_time(&mut world, who, vec![known()], second), None);
    world.kill(who);
    world.run();
    assert_eq!(world.nodes[0].engine.recount(), []);
    world.advance(3 * second);
    assert_eq!(world.nodes[0].engine.stats().num_timers, 0);
}
