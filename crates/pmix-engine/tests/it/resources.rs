// SPDX-License-Identifier: MIT OR Apache-2.0
//! Resources for all jobs, and the inventory of nodes.

use pmix_engine::Engine;
use pmix_proto::{Request, request};
use pmix_types::{DataArray, Info, Key, Nspace, Proc, Rank, Status, Value, keys};

use crate::ledger::tool;
use crate::query::{asked, query};
use crate::world::{Who, World};

/// A key that no release defines.
const SITE: &str = "site.name";

fn of_node(name: &'static str) -> Vec<Info<'static>> {
    let whole = Info::new(keys::NODE_INFO, true);
    vec![whole, Info::new(keys::HOSTNAME, name)]
}

fn array(key: &'static str, infos: Vec<Info<'static>>) -> Info<'static> {
    Info::new(key, Value::DataArray(DataArray::Info(infos)))
}

fn node(name: &'static str, size: u32) -> Info<'static> {
    let about = vec![
        Info::new(keys::HOSTNAME, name),
        Info::new(keys::NODE_SIZE, size),
    ];
    array(keys::NODE_INFO_ARRAY, about)
}

fn engine(world: &mut World) -> &mut Engine {
    &mut world.nodes[0].engine
}

/// Returns a value that the server itself reads.
fn get(
    world: &mut World,
    nspace: &'static str,
    key: &str,
    of: &[Info<'_>],
) -> Option<Value<'static>> {
    let proc = Proc::new(nspace, Rank::WILDCARD);
    engine(world).get(&proc, key, of).ok()
}

/// Returns the value under a key in the reply to a client's get about its job.
fn told(
    world: &mut World,
    who: Who,
    (key, infos): (&'static str, Vec<Info<'static>>),
    under: &str,
) -> Option<Value<'static>> {
    let get = request::Get {
        nspace: "job".into(),
        rank: Rank::WILDCARD,
        infos,
        key: Some(Key::new(key)),
    };
    let tag = world.ask(who, &Request::Get(get));
    world.run();
    if world.clients[who].status(tag) != Some(Status::SUCCESS) {
        return None;
    }
    let value = world.clients[who].value(tag, under);
    value.map(pmix_types::IntoOwned::into_owned)
}

#[test]
fn resources_reach_later_jobs_and_override_their_info() {
    let mut world = World::new(1);
    let infos = [
        Info::new(SITE, "old"),
        Info::new(SITE, "new"),
        Info::new(keys::UNIV_SIZE, 99_u32),
        node("elsewhere", 5),
    ];
    engine(&mut world).register_resources(&infos).unwrap();
    world.job("job", &[1]);
    assert_eq!(get(&mut world, "job", SITE, &[]), Some("new".into()));
    let size = get(&mut world, "job", keys::UNIV_SIZE, &[]);
    assert_eq!(size, Some(99_u32.into()));
    let of_node = get(&mut world, "job", keys::NODE_SIZE, &of_node("elsewhere"));
    assert_eq!(of_node, Some(5_u32.into()));
    let who = world.join(0, "job", 0);
    let site = told(&mut world, who, (SITE, vec![]), SITE);
    assert_eq!(site, Some("new".into()));
    engine(&mut world).deregister_resources(&[Info::new(SITE, true)]);
    assert_eq!(get(&mut world, "job", SITE, &[]), Some("new".into()));
    world.job("later", &[1]);
    assert_eq!(get(&mut world, "later", SITE, &[]), None);
    assert_eq!(get(&mut world, "later", keys::UNIV_SIZE, &[]), size);
}

#[test]
fn jobs_and_tools_find_resources_until_deregistered() {
    let mut world = World::new(1);
    world.job("job", &[1]);
    let who = world.join(0, "job", 0);
    let tool = tool(&mut world, 0);
    assert_eq!(told(&mut world, who, (SITE, vec![]), SITE), None);
    let infos = [Info::new(SITE, "here")];
    engine(&mut world).register_resources(&infos).unwrap();
    let site = told(&mut world, who, (SITE, vec![]), SITE);
    assert_eq!(site, Some("here".into()));
    let (status, found) = asked(&mut world, tool, vec![query(&[SITE], vec![])]);
    assert_eq!((status, found), (Status::SUCCESS, infos.to_vec()));
    engine(&mut world).deregister_resources(&infos);
    assert_eq!(told(&mut world, who, (SITE, vec![]), SITE), None);
}

#[test]
fn clients_read_a_registered_session_of_their_job_and_of_no_job() {
    let mut world = World::new(1);
    world.job("job", &[1]);
    let who = world.join(0, "job", 0);
    let of = |id: u32| {
        let whole = Info::new(keys::SESSION_INFO, true);
        vec![whole, Info::new(keys::SESSION_ID, id)]
    };
    let name = [Info::new(keys::CLUSTER_ID, "big")];
    let asked = |world: &mut World| {
        let found = told(
            world,
            who,
            (keys::CLUSTER_ID, of(7)),
            keys::SESSION_INFO_ARRAY,
        );
        let Some(Value::DataArray(DataArray::Info(infos))) = found else {
            return None;
        };
        Some(infos)
    };
    assert_eq!(asked(&mut world), None);
    engine(&mut world).register_session(7, &name).unwrap();
    let expected = vec![Info::new(keys::SESSION_ID, 7_u32), name[0].clone()];
    assert_eq!(asked(&mut world), Some(expected));
    let own = get(&mut world, "host", keys::CLUSTER_ID, &of(7));
    assert_eq!(own, Some("big".into()));
    engine(&mut world).deregister_session(7).unwrap();
    assert_eq!(asked(&mut world), None);
    let again = engine(&mut world).deregister_session(7);
    assert_eq!(again.unwrap_err().status(), Status::ERR_NOT_FOUND);
}

#[test]
fn one_of_several_nodes_is_deregistered_and_registered_again() {
    let mut world = World::new(1);
    let nodes = [node("n1", 1), node("n2", 2), node("n2", 3)];
    engine(&mut world).register_resources(&nodes).unwrap();
    let about = vec![Info::new(keys::HOSTNAME, "n1")];
    let about = array(keys::NODE_INFO_ARRAY, about);
    engine(&mut world).deregister_resources(&[about]);
    world.job("job", &[1]);
    let size = |world: &mut World, name| get(world, "job", keys::NODE_SIZE, &of_node(name));
    assert_eq!(size(&mut world, "n1"), None);
    assert_eq!(size(&mut world, "n2"), Some(3_u32.into()));
}

#[test]
fn an_inventory_is_found_by_node() {
    let mut world = World::new(1);
    world.job("job", &[1]);
    let who = world.join(0, "job", 0);
    let unnamed = array(keys::NODE_INFO_ARRAY, vec![Info::new(SITE, "x")]);
    let infos = [node("n9", 4), unnamed, Info::new("other.blob", 1_u32)];
    engine(&mut world).deliver_inventory(&infos);
    engine(&mut world).deliver_inventory(&[node("n9", 8)]);
    let size = (keys::NODE_SIZE, of_node("n9"));
    let answer = told(&mut world, who, size, keys::NODE_INFO_ARRAY);
    let Some(Value::DataArray(DataArray::Info(about))) = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(
        about,
        [
            Info::new(keys::HOSTNAME, "n9"),
            Info::new(keys::NODE_SIZE, 8_u32)
        ]
    );
    let tool = tool(&mut world, 0);
    let queries = vec![query(&[keys::NODE_SIZE], of_node("n9"))];
    let (status, found) = asked(&mut world, tool, queries);
    let expected = vec![Info::new(keys::NODE_SIZE, 8_u32)];
    assert_eq!((status, found), (Status::SUCCESS, expected));
    assert_eq!(
        get(&mut world, "job", keys::NODE_SIZE, &of_node("n8")),
        None
    );
    assert_eq!(get(&mut world, "job", SITE, &of_node("n9")), None);
}

#[test]
fn job_info_is_exchanged_between_nodes() {
    let mut world = World::new(2);
    world.job("job", &[1, 2]);
    let procs = [0, 1].map(|rank| Proc::new("job", Rank::new(rank)));
    let packed = engine(&mut world).collect_job_info(&procs).unwrap();
    let nobody = engine(&mut world).collect_job_info(&[]).unwrap_err();
    assert_eq!(nobody.status(), Status::ERR_BAD_PARAM);
    let mut other = World::new(1);
    let infos = [Info::new(
        keys::GROUP_JOB_INFO,
        Value::ByteObject(packed.into()),
    )];
    engine(&mut other).register_resources(&infos).unwrap();
    let size = get(&mut other, "job", keys::JOB_SIZE, &[]);
    assert_eq!(size, Some(3_u32.into()));
    engine(&mut other)
        .deregister_nspace(&Nspace::new("job"))
        .unwrap();
    assert_eq!(get(&mut other, "job", keys::JOB_SIZE, &[]), None);
}

#[test]
fn an_invalid_resource_is_refused_and_not_registered() {
    let mut world = World::new(1);
    let cases = [
        (
            Info::new(keys::GROUP_CONTEXT_ID, 3_u64),
            Status::ERR_NOT_SUPPORTED,
        ),
        (
            Info::new(keys::GROUP_JOB_INFO, 3_u64),
            Status::ERR_BAD_PARAM,
        ),
    ];
    for (info, status) in cases {
        let infos = [Info::new(SITE, "x"), info];
        let refused = engine(&mut world).register_resources(&infos).unwrap_err();
        assert_eq!(refused.status(), status);
    }
    let damaged = Value::ByteObject(vec![0xff; 20].into());
    let infos = [Info::new(keys::GROUP_JOB_INFO, damaged)];
    assert!(engine(&mut world).register_resources(&infos).is_err());
    world.job("job", &[1]);
    assert_eq!(get(&mut world, "job", SITE, &[]), None);
}
