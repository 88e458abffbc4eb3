// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lookups in the table of `Job::answers` agree with `Job::get`.

use std::collections::HashMap;

use gds_hash::{Job, KnownAnswers, LocalNode, Request};
use pmix_types::{DataArray, Info, Rank, Value, keys};

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

/// Returns the result of a get by a client that has all job info.
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
                // A value of the job and of some processes; other processes have that of the job.
                Info::new("pmix.both", 1_u32),
                proc(
                    3,
                    vec![
                        Info::new("pmix.both", 2_u32),
                        Info::new(keys::CPUSET, "0-3"),
                    ],
                ),
                proc(0, vec![Info::new("pmix.both", 3_u32)]),
                // A process stated to be on another node than in the map.
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
                // A value of a process elsewhere may be missing, but must not differ.
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
