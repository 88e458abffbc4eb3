// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares lookups in the table of `Job::answers` with `Job::get`.

use std::collections::{BTreeMap, HashMap};

use bfrops::{Decoder, Layout, Module, wire_type};
use gds_hash::{Codec, Job, KnownAnswers, LocalNode, Remote, Request};
use pmix_types::{DataArray, Info, IntoOwned, Kval, Rank, Release, Text, Value, keys};
use preg_core::Params;

fn array(key: &'static str, infos: Vec<Info<'static>>) -> Info<'static> {
    Info::new(key, Value::DataArray(DataArray::Info(infos)))
}

fn job(host: &str, infos: &[Info<'_>]) -> Job {
    let preg = pmix_builtin::open_preg(&preg_core::Params::default()).unwrap();
    Job::register(&preg, &LocalNode::new(host), "job@1", infos).unwrap()
}

/// Looks a key up as a reader of the table does.
fn look_up(known: &KnownAnswers, rank: Rank, key: &str) -> Option<Value<'static>> {
    let of: HashMap<(Rank, Vec<u8>), _> = (known.answers.iter())
        .map(|answer| ((answer.rank, answer.kval.key.as_bytes().to_vec()), answer))
        .collect();
    let find = |rank| of.get(&(rank, key.as_bytes().to_vec()));
    let own = find(rank).map(|answer| answer.kval.value.clone());
    own.or_else(|| {
        let of_job = find(Rank::WILDCARD)?;
        let holds = of_job.is_for_all || known.described.contains(&rank);
        holds.then(|| of_job.kval.value.clone())
    })
}

/// Returns the result of a get from the whole job info.
fn asked(job: &Job, rank: Rank, key: &str) -> Option<Value<'static>> {
    let ask = |rank| {
        job.get(&Request::new(rank, key))
            .ok()
            .map(|value| value.into_owned())
    };
    ask(rank).or_else(|| ask(Rank::WILDCARD))
}

fn jobs() -> Vec<Job> {
    let maps = || {
        vec![
            Info::new(keys::NODE_MAP, "n0,n1,n2"),
            Info::new(keys::PROC_MAP, "0,1,2;3,4;5"),
        ]
    };
    let with = |more: Vec<Info<'static>>| [maps(), more].concat();
    let app = |number: u32, leader: u32, size: u32| {
        array(
            keys::APP_INFO_ARRAY,
            vec![
                Info::new(keys::APPNUM, number),
                Info::new(keys::APPLDR, Rank::new(leader)),
                Info::new(keys::APP_SIZE, size),
                Info::new(keys::WDIR, format!("/w{number}")),
            ],
        )
    };
    let proc = |rank: u32, more: Vec<Info<'static>>| {
        array(
            keys::PROC_DATA,
            [vec![Info::new(keys::RANK, Rank::new(rank))], more].concat(),
        )
    };
    vec![
        job("n0", &maps()),
        job("n1", &maps()),
        job("elsewhere", &maps()),
        job("n0", &[]),
        job("n0", &with(vec![app(0, 0, 4), app(1, 4, 2)])),
        job(
            "n1",
            &with(vec![
                app(0, 0, 6),
                Info::new(keys::JOBID, "17"),
                Info::new(keys::UNIV_SIZE, 64_u32),
                // A value of the job and of some processes. Other processes have the job-level
                // value.
                Info::new("pmix.both", 1_u32),
                proc(
                    3,
                    vec![
                        Info::new("pmix.both", 2_u32),
                        Info::new(keys::CPUSET, "0-3"),
                    ],
                ),
                proc(0, vec![Info::new("pmix.both", 3_u32)]),
                // A process that is registered on another node than in the map.
                proc(4, vec![Info::new(keys::HOSTNAME, "n2")]),
                array(
                    keys::NODE_INFO_ARRAY,
                    vec![
                        Info::new(keys::HOSTNAME, "n1"),
                        Info::new(keys::NODE_SIZE, 9_u32),
                        Info::new("pmix.of.node", 5_u32),
                    ],
                ),
            ]),
        ),
    ]
}

#[test]
fn lookups_agree_with_gets() {
    let asked_for = [
        keys::JOB_SIZE,
        keys::JOBID,
        keys::NUM_NODES,
        keys::MAX_PROCS,
        keys::NODE_LIST,
        keys::PROC_MAP_RAW,
        keys::NODE_MAP_RAW,
        keys::NSPACE,
        keys::ANL_MAP,
        keys::UNIV_SIZE,
        keys::SESSION_ID,
        keys::JOB_NUM_APPS,
        keys::APPNUM,
        keys::APP_SIZE,
        keys::APPLDR,
        keys::WDIR,
        keys::HOSTNAME,
        keys::NODEID,
        keys::LOCAL_SIZE,
        keys::LOCALLDR,
        keys::LOCAL_PEERS,
        keys::LOCAL_PROCS,
        keys::NODE_SIZE,
        keys::LOCAL_RANK,
        keys::NODE_RANK,
        keys::APP_RANK,
        keys::GLOBAL_RANK,
        keys::CPUSET,
        "pmix.both",
        "pmix.of.node",
        "pmix.not.there",
    ];
    let (mut num_found, mut num_described) = (0, 0);
    for job in jobs() {
        let known = job.answers();
        num_described += known.described.len();
        for rank in (0..7).map(Rank::new).chain([Rank::WILDCARD]) {
            for key in asked_for {
                let found = look_up(&known, rank, key);
                let is_known = rank == Rank::WILDCARD || known.described.contains(&rank);
                // A value of a remote process may be missing, but must not differ.
                if is_known || found.is_some() {
                    assert_eq!(found, asked(&job, rank, key), "{key} of rank {rank}");
                }
                num_found += usize::from(found.is_some());
            }
        }
    }
    assert!(num_found > 400, "{num_found}");
    assert_eq!(num_described, 3 + 2 + 3 + 1);
}

#[test]
fn the_table_of_a_large_job_is_as_small_as_that_of_a_small_one() {
    let of = |num_nodes: u32| {
        let nodes: Vec<String> = (0..num_nodes).map(|node| format!("n{node}")).collect();
        let procs: Vec<String> = (0..num_nodes).map(|node| (node * 2).to_string()).collect();
        let (nodes, procs) = (nodes.join(","), procs.join(";"));
        let infos = [
            Info::new(keys::NODE_MAP, nodes.as_str()),
            Info::new(keys::PROC_MAP, procs.as_str()),
        ];
        let known = job("n0", &infos).answers();
        let packed: usize = known
            .answers
            .iter()
            .map(|answer| format!("{answer:?}").len())
            .sum();
        packed
    };
    assert!(of(20_000) < of(4) + 100);
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
fn flat_job(apps: impl IntoIterator<Item = Info<'static>>) -> Job {
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

/// Returns the values of a reply that are not in arrays or blobs.
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
    let job = flat_job([app(0, 0)]);
    for module in [Module::V12, Module::V20, Module::V21, Module::V3] {
        let values = values(&job, module);
        assert_eq!(values[keys::UNIV_SIZE], Value::Uint32(64), "{module}");
        assert_eq!(values[keys::LOCAL_PEERS], text("0,1,2"));
        assert_eq!(values[keys::LOCAL_SIZE], Value::Uint32(3));
        let leader = match module {
            // v12 has no type for ranks.
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
    let values = values(&flat_job([app(0, 0), app(1, 2)]), Module::V3);
    assert!(!values.contains_key(keys::APPLDR));
    assert!(values.contains_key(keys::LOCAL_PEERS));
}

#[test]
fn clients_of_release_2_find_peers_of_nodes_in_a_blob() {
    let job = flat_job([app(0, 0)]);
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
    let job = flat_job([app(0, 0)]);
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
