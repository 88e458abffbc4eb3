// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of registered and derived values of jobs.

use gds_hash::{Error, Job, LocalNode, Request};
use pmix_types::{DataArray, Info, Rank, Status, Value, keys};
use preg_core::{Params, Preg};

fn preg() -> Preg {
    pmix_builtin::open_preg(&Params::default()).unwrap()
}

fn register(infos: &[Info<'_>]) -> Result<Job, Error> {
    Job::register(&preg(), &LocalNode::new("b"), "job@1", infos)
}

fn maps(nodes: &'static str, procs: &'static str) -> Vec<Info<'static>> {
    vec![
        Info::new(keys::NODE_MAP, nodes),
        Info::new(keys::PROC_MAP, procs),
    ]
}

fn array(key: &'static str, infos: Vec<Info<'static>>) -> Info<'static> {
    Info::new(key, Value::DataArray(DataArray::Info(infos)))
}

#[track_caller]
fn get(job: &Job, rank: u32, key: &str) -> Option<Value<'static>> {
    match job.get(&Request::new(Rank::new(rank), key)) {
        Ok(value) => Some(value.into_owned()),
        Err(error) => {
            assert_eq!(error.status(), Status::ERR_NOT_FOUND, "{error}");
            None
        }
    }
}

const JOB: u32 = Rank::WILDCARD.as_raw();

#[test]
fn values_are_derived_from_the_maps() {
    let job = register(&maps("a,b,c", "0,2;1,3,5;4")).unwrap();
    assert_eq!(get(&job, JOB, keys::JOB_SIZE), Some(Value::Uint32(6)));
    assert_eq!(get(&job, JOB, keys::NUM_NODES), Some(Value::Uint32(3)));
    assert_eq!(get(&job, JOB, keys::NODE_LIST), Some("a,b,c".into()));
    assert_eq!(get(&job, JOB, keys::LOCAL_PEERS), Some("1,3,5".into()));
    assert_eq!(get(&job, 4, keys::HOSTNAME), Some("c".into()));
    assert_eq!(get(&job, 5, keys::NODEID), Some(Value::Uint32(1)));
    assert_eq!(get(&job, 5, keys::LOCAL_RANK), Some(Value::Uint16(2)));
    assert_eq!(
        get(&job, 2, keys::LOCALLDR),
        Some(Value::Rank(Rank::new(0)))
    );
    assert_eq!(get(&job, 2, keys::LOCAL_SIZE), Some(Value::Uint32(2)));
    assert_eq!(get(&job, 6, keys::HOSTNAME), None);
    assert_eq!(get(&job, 0, keys::JOB_SIZE), None);
}

#[test]
fn stated_values_take_precedence_over_derived_ones() {
    let mut infos = maps("a,b", "0,1;2,3");
    infos.push(array(
        keys::PROC_INFO_ARRAY,
        vec![
            Info::new(keys::RANK, Rank::new(3)),
            Info::new(keys::LOCAL_RANK, Value::Uint16(9)),
        ],
    ));
    infos.push(array(
        keys::NODE_INFO_ARRAY,
        vec![
            Info::new(keys::HOSTNAME, "a"),
            Info::new(keys::LOCAL_PEERS, "99"),
        ],
    ));
    let job = register(&infos).unwrap();
    assert_eq!(get(&job, 3, keys::LOCAL_RANK), Some(Value::Uint16(9)));
    assert_eq!(get(&job, 3, keys::NODE_RANK), Some(Value::Uint16(1)));
    assert_eq!(get(&job, 2, keys::LOCAL_RANK), Some(Value::Uint16(0)));
    assert_eq!(get(&job, 0, keys::LOCAL_PEERS), Some("99".into()));
    assert_eq!(get(&job, 2, keys::LOCAL_PEERS), Some("2,3".into()));
}

#[test]
fn a_node_named_twice_has_the_ranks_of_both_places() {
    let job = register(&maps("a,b,a", "0,1;2;3,4")).unwrap();
    assert_eq!(get(&job, 0, keys::LOCAL_PEERS), Some("0,1,3,4".into()));
    assert_eq!(get(&job, 4, keys::LOCAL_PEERS), Some("0,1,3,4".into()));
    assert_eq!(get(&job, 4, keys::LOCAL_RANK), Some(Value::Uint16(3)));
    assert_eq!(get(&job, 4, keys::NODEID), Some(Value::Uint32(0)));
    assert_eq!(get(&job, 2, keys::LOCAL_SIZE), Some(Value::Uint32(1)));
}

#[test]
fn errors_name_the_entry() {
    let error = register(&maps("a,b,c", "0;1")).unwrap_err();
    assert_eq!(error.status(), Status::ERR_BAD_PARAM);
    assert!(error.to_string().contains("3 nodes"), "{error}");

    let mut twice = maps("a", "0");
    twice.push(Info::new(keys::NODE_MAP, "b"));
    let error = register(&twice).unwrap_err();
    assert_eq!(
        error.to_string(),
        "entry [2] pmix.nmap: the map is given twice"
    );

    let error = register(&[Info::new(keys::NODE_MAP, 3u32)]).unwrap_err();
    assert_eq!(error.status(), Status::ERR_TYPE_MISMATCH);

    let nested = array(
        keys::JOB_INFO_ARRAY,
        vec![array(
            keys::APP_INFO_ARRAY,
            vec![Info::new(keys::APP_SIZE, 4u32)],
        )],
    );
    let error = register(&[nested]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "entry [0] pmix.job.arr [0] pmix.app.arr: an application array without pmix.appnum"
    );
}

/// PMIx Standard, "Node realm keys": name and number have values for the node of this server, or
/// for the named node.
#[test]
fn a_node_is_known_by_its_name_and_its_number() {
    let mut infos = maps("a,b,c", "0;1;2");
    infos.push(array(
        keys::NODE_INFO_ARRAY,
        vec![
            Info::new(keys::HOSTNAME, "c"),
            Info::new(keys::NODEID, Value::Uint32(70)),
            Info::new(keys::HOSTNAME_ALIASES, "c-ib"),
        ],
    ));
    let job = register(&infos).unwrap();
    let ask = |rank, key, named: Option<Info<'static>>| {
        let mut how = vec![Info::new(keys::NODE_INFO, true)];
        how.extend(named);
        let found = job.get(&Request::new(rank, key).with(&how));
        found.ok().map(std::borrow::Cow::into_owned)
    };
    let number = |number| Info::new(keys::NODEID, Value::Uint32(number));
    let name = |name: &'static str| Info::new(keys::HOSTNAME, name);
    for rank in [Rank::WILDCARD, Rank::UNDEF, Rank::new(0)] {
        for (given, id) in [("a", 0), ("b", 1), ("c", 70)] {
            let found = ask(rank, keys::HOSTNAME, Some(number(id)));
            assert_eq!(found, Some(given.into()), "{given} of rank {rank}");
            let found = ask(rank, keys::NODEID, Some(name(given)));
            assert_eq!(found, Some(Value::Uint32(id)), "{given} of rank {rank}");
        }
        let found = ask(rank, keys::NODEID, Some(name("c-ib")));
        assert_eq!(found, Some(Value::Uint32(70)));
        assert_eq!(ask(rank, keys::HOSTNAME, Some(number(2))), None);
        assert_eq!(ask(rank, keys::NODEID, Some(name("d"))), None);
    }
    // This server runs on b.
    assert_eq!(get(&job, JOB, keys::NODEID), Some(Value::Uint32(1)));
    assert_eq!(ask(Rank::WILDCARD, keys::HOSTNAME, None), Some("b".into()));
    let elsewhere = Job::register(&preg(), &LocalNode::new("login"), "job@1", &infos).unwrap();
    assert_eq!(get(&elsewhere, JOB, keys::NODEID), None);
}

/// Uses the arguments that `PMIx_Resolve_peers` of 4.2 sends if its caller names no node.
#[test]
fn a_null_name_of_a_node_names_none() {
    let job = register(&maps("a,b,c", "0;1,3;2")).unwrap();
    let how = [
        Info::new(keys::NODE_INFO, true),
        Info::new(keys::HOSTNAME, Value::String(None)),
    ];
    for rank in [Rank::UNDEF, Rank::WILDCARD] {
        let request = Request::new(rank, keys::LOCAL_PEERS).with(&how);
        assert_eq!(job.get(&request).unwrap().into_owned(), "1,3".into());
    }
}

/// An application may describe a node by name or by number. A request may use any name of the node.
#[test]
fn an_application_finds_a_node_by_any_of_its_names() {
    let mut infos = maps("a,b,c", "0;1;2");
    infos.push(array(
        keys::NODE_INFO_ARRAY,
        vec![
            Info::new(keys::HOSTNAME, "b"),
            Info::new(keys::NODEID, Value::Uint32(70)),
            Info::new(keys::HOSTNAME_ALIASES, "b-ib"),
        ],
    ));
    let ways = [
        Info::new(keys::HOSTNAME, "b"),
        Info::new(keys::NODEID, Value::Uint32(70)),
        Info::new(keys::HOSTNAME, "b-ib"),
    ];
    for stated in &ways[..2] {
        let node = vec![stated.clone(), Info::new("my.node", "told")];
        let app = vec![
            Info::new(keys::APPNUM, Value::Uint32(0)),
            array(keys::NODE_INFO_ARRAY, node),
        ];
        let mut infos = infos.clone();
        infos.push(array(keys::APP_INFO_ARRAY, app));
        let job = register(&infos).unwrap();
        for asked in &ways {
            let how = [Info::new(keys::APP_INFO, true), asked.clone()];
            let request = Request::new(Rank::WILDCARD, "my.node").with(&how);
            assert_eq!(job.get(&request).unwrap().into_owned(), "told".into());
        }
        let how = [
            Info::new(keys::APP_INFO, true),
            Info::new(keys::NODEID, Value::Uint32(1)),
        ];
        let request = Request::new(Rank::WILDCARD, "my.node").with(&how);
        assert_eq!(
            job.get(&request).unwrap_err().status(),
            Status::ERR_NOT_FOUND
        );
    }
}
