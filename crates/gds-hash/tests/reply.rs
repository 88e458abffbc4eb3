// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reply to a client holds what the job answers, and what a real server says.

use std::collections::BTreeMap;

use bfrops::{BufferKind, Decoder, Layout, Limits, Module, kind};
use gds_hash::{Host, Job, Remote, Replies, Request, Wire};
use pmix_types::{DataArray, Info, Kval, QualifiedValue, Rank, Release, Text, Value, keys};
use preg_core::{Params, Preg};
use proptest::prelude::*;

fn preg() -> Preg {
    pmix_builtin::open_preg(&Params::default()).unwrap()
}

fn array(key: &'static str, infos: Vec<Info<'static>>) -> Info<'static> {
    Info::new(key, Value::DataArray(DataArray::Info(infos)))
}

fn register(infos: &[Info<'_>]) -> Job {
    Job::register(&preg(), &Host::new("n1"), "JOB1", infos).unwrap()
}

fn layout() -> Layout {
    Layout::new(Module::V41)
}

/// A reply taken apart.
#[derive(Debug, Default, PartialEq)]
struct Told {
    nspace: String,
    job: Vec<(String, Value<'static>)>,
    session: Vec<Info<'static>>,
    nodes: Vec<Vec<Info<'static>>>,
    apps: Vec<Vec<Info<'static>>>,
    procs: BTreeMap<u32, Vec<(String, Value<'static>)>>,
}

fn infos(value: Value<'static>) -> Vec<Info<'static>> {
    match value {
        Value::DataArray(DataArray::Info(infos)) => infos,
        other => panic!("no infos: {other:?}"),
    }
}

fn decoder(layout: Layout, bytes: &[u8]) -> Decoder<'_> {
    Decoder::new(layout, bytes).with_limits(Limits {
        memory_factor: 64,
        ..Limits::default()
    })
}

fn take(layout: Layout, reply: &[u8]) -> Told {
    use pmix_types::IntoOwned;
    let mut decoder = decoder(layout, reply);
    let nspace = decoder.one::<kind::String>().unwrap().unwrap();
    let mut told = Told {
        nspace: nspace.to_str_lossy().into_owned(),
        ..Told::default()
    };
    while !decoder.is_empty() {
        let Kval { key, value } = decoder.one::<kind::Kval>().unwrap().into_owned();
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

fn blob(layout: Layout, bytes: &[u8]) -> (u32, Vec<(String, Value<'static>)>) {
    use pmix_types::IntoOwned;
    let mut decoder = decoder(layout, bytes);
    let rank = decoder.one::<kind::Rank>().unwrap().as_raw();
    let mut values = Vec::new();
    while !decoder.is_empty() {
        let kval = decoder.one::<kind::Kval>().unwrap().into_owned();
        values.push((kval.key.to_string(), kval.value));
    }
    (rank, values)
}

/// The first message with this header in a captured connection.
fn captured(file: &str, header: &str) -> Vec<u8> {
    let path = format!("{}/../../testdata/wire/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let raw = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("RAW "));
    let mut payload = raw.filter_map(|line| line.split_once(' '));
    let (_, payload) = payload.rfind(|(h, _)| h.starts_with(header)).unwrap();
    let digits: Vec<u32> = payload.chars().map(|c| c.to_digit(16).unwrap()).collect();
    let bytes = digits.chunks(2).map(|pair| pair[0] * 16 + pair[1]);
    bytes.map(|byte| u8::try_from(byte).unwrap()).collect()
}

#[test]
fn a_real_server_says_nothing_that_is_not_said() {
    let proc = |rank: u32| {
        let rank = Info::new(keys::RANK, Value::Rank(Rank::new(rank)));
        array(keys::PROC_DATA, vec![rank, Info::new(keys::APPNUM, 0_u32)])
    };
    for file in ["client-4.2.2.hex", "client-5.0.11.hex"] {
        let real = take(layout(), &captured(file, "0000000000000065"));
        let univ = real.session.iter().find(|info| info.key == keys::UNIV_SIZE);
        let registered = [
            Info::new(keys::NODE_MAP, "vm"),
            Info::new(keys::PROC_MAP, "0,1"),
            Info::new(keys::JOBID, "1234"),
            Info::new(keys::UNIV_SIZE, univ.unwrap().value.clone()),
            proc(0),
            proc(1),
        ];
        let job = register(&registered);
        let ours = job
            .reply(&Wire::new(layout()), Release::V4_2_2, Remote::Whole)
            .unwrap();
        let ours = take(layout(), &ours);
        assert_eq!(ours.nspace, real.nspace);
        // The release of the server itself is not part of the job.
        let real_job = real
            .job
            .iter()
            .filter(|(key, _)| key != keys::BFROPS_MODULE);
        for pair in real_job {
            assert!(ours.job.contains(pair), "{file} {pair:?} {:?}", ours.job);
        }
        let pairs = |infos: &[Info<'static>]| -> Vec<_> {
            let pairs = infos
                .iter()
                .map(|info| (info.key.clone(), info.value.clone()));
            pairs.collect()
        };
        assert_eq!(pairs(&ours.session), pairs(&real.session));
        assert_eq!(ours.nodes.len(), real.nodes.len());
        for (ours, real) in ours.nodes.iter().zip(&real.nodes) {
            for pair in pairs(real) {
                assert!(pairs(ours).contains(&pair), "{file} {pair:?}");
            }
        }
        assert!(ours.procs.keys().eq(real.procs.keys()));
        for (rank, values) in &real.procs {
            for pair in values {
                assert!(ours.procs[rank].contains(pair), "{file} {rank} {pair:?}");
            }
        }
    }
}

/// Everything in a reply is what the job answers about the same thing.
fn assert_answers(job: &Job, told: &Told) {
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
        // By number, as names may be told without their domain; the name has no place of its own.
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

/// Every derived key of a process, node and job that the job knows is told.
fn assert_complete(job: &Job, told: &Told, num_procs: u32) {
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

fn full() -> Vec<Info<'static>> {
    let mut speed = QualifiedValue::new(Info::new("speed", 100_u32));
    speed.qualify("unit", "gbps");
    let app = |number: u32, first: u32| {
        array(
            keys::APP_INFO_ARRAY,
            vec![
                Info::new(keys::APPNUM, number),
                Info::new(keys::APPLDR, Value::Rank(Rank::new(first))),
                Info::new(keys::APP_SIZE, 4_u32),
                Info::new(keys::WDIR, "/scratch/run"),
            ],
        )
    };
    vec![
        Info::new(keys::NODE_MAP, "n0.site,n1.site,n2.site"),
        Info::new(keys::PROC_MAP, "0-3;4-6;7"),
        Info::new(keys::NPROC_OFFSET, Value::Rank(Rank::new(100))),
        Info::new(keys::HOSTNAME_KEEP_FQDN, false),
        Info::new("site.note", "one"),
        speed.into_info(),
        app(0, 0),
        app(1, 4),
        array(
            keys::SESSION_INFO_ARRAY,
            vec![
                Info::new(keys::SESSION_ID, 9_u32),
                Info::new(keys::UNIV_SIZE, 64_u32),
            ],
        ),
        array(
            keys::NODE_INFO_ARRAY,
            vec![
                Info::new(keys::HOSTNAME, "n1.site"),
                Info::new(keys::HOSTNAME_ALIASES, "one,eins"),
                Info::new(keys::NODE_SIZE, 16_u32),
            ],
        ),
        array(
            keys::PROC_DATA,
            vec![
                Info::new(keys::RANK, Value::Rank(Rank::new(5))),
                Info::new(keys::LOCAL_RANK, Value::Uint16(9)),
                Info::new("app.color", "red"),
            ],
        ),
        array(
            keys::PROC_DATA,
            vec![
                Info::new(keys::RANK, Value::Rank(Rank::new(20))),
                Info::new("app.color", "blue"),
            ],
        ),
    ]
}

#[test]
fn a_reply_holds_what_the_job_answers() {
    let job = register(&full());
    for layout in [
        layout(),
        layout().with_buffer(BufferKind::Described),
        Layout::new(Module::V61),
    ] {
        let reply = job
            .reply(&Wire::new(layout), Release::V5_0_11, Remote::Whole)
            .unwrap();
        let told = take(layout, &reply);
        assert_answers(&job, &told);
        assert_complete(&job, &told, 21);
        assert_eq!(told.nodes.len(), 3);
        assert_eq!(told.apps.len(), 2);
        assert_eq!(told.session[0], Info::new(keys::SESSION_ID, 9_u32));
        assert_eq!(told.procs.len(), 9);
        assert!(told.job.iter().any(|(key, _)| key == keys::QUALIFIED_VALUE));
    }
}

#[test]
fn a_4_2_client_is_sent_no_key_that_ends_its_reading() {
    let unknown = "pmix.of.another.time";
    let mut infos = full();
    infos.insert(0, Info::new(unknown, 1_u32));
    let job = register(&infos);
    for (release, expected) in [(Release::V4_2_2, false), (Release::V5_0_11, true)] {
        let told = take(
            layout(),
            &job.reply(&Wire::new(layout()), release, Remote::Whole)
                .unwrap(),
        );
        assert_eq!(told.job.iter().any(|(key, _)| key == unknown), expected);
        assert!(told.job.iter().any(|(key, _)| key == "site.note"));
    }
}

#[test]
fn what_a_client_cannot_read_is_left_out_alone() {
    let regex2 = Value::Regex2(Box::new(pmix_types::WireRegex2 {
        kind: Some(Text::from("raw")),
        bytes: (&b"n1"[..]).into(),
    }));
    let mut infos = full();
    infos.push(Info::new("site.regex", regex2.clone()));
    infos.push(array(
        keys::NODE_INFO_ARRAY,
        vec![
            Info::new(keys::HOSTNAME, "n0.site"),
            Info::new("site.regex", regex2),
        ],
    ));
    let job = register(&infos);
    for (module, expected) in [(Module::V41, 0), (Module::V61, 2)] {
        let layout = Layout::new(module);
        let reply = job
            .reply(&Wire::new(layout), Release::Master, Remote::Whole)
            .unwrap();
        let told = take(layout, &reply);
        assert_eq!(told.nodes.len(), 3);
        let of_node = told.nodes[0].iter().filter(|info| info.key == "site.regex");
        let of_job = told.job.iter().filter(|(key, _)| key == "site.regex");
        assert_eq!(of_node.count() + of_job.count(), expected, "{module}");
        assert_complete(&job, &told, 21);
    }
}

#[test]
fn a_node_named_twice_is_told_once() {
    let infos = [
        Info::new(keys::NODE_MAP, "a,b,a"),
        Info::new(keys::PROC_MAP, "0;1;2"),
    ];
    let job = register(&infos);
    let told = take(
        layout(),
        &job.reply(&Wire::new(layout()), Release::V4_2_2, Remote::Whole)
            .unwrap(),
    );
    assert_eq!(told.nodes.len(), 2);
    assert_eq!(told.procs.len(), 3);
    assert_answers(&job, &told);
}

#[test]
fn a_job_without_data_is_told_by_its_name() {
    let job = register(&[]);
    let reply = job
        .reply(&Wire::new(layout()), Release::V4_2_2, Remote::Whole)
        .unwrap();
    assert_eq!(reply, b"\x02\x0aJOB1\0");
}

#[test]
fn clients_of_one_kind_share_a_reply() {
    let job = register(&full());
    let replies = Replies::default();
    let of = |layout, release, remote| replies.get(&job, &Wire::new(layout), release, remote);
    let get = |layout, release| of(layout, release, Remote::Whole).unwrap();
    let first = get(layout(), Release::V4_2_2);
    assert!(std::sync::Arc::ptr_eq(
        &first,
        &get(layout(), Release::V4_2_2)
    ));
    let described = get(layout().with_buffer(BufferKind::Described), Release::V4_2_2);
    assert_ne!(first, described);
    let of_larger = of(layout(), Release::V4_2_2, Remote::Places).unwrap();
    assert_ne!(first, of_larger);
    replies.clear();
    let again = get(layout(), Release::V4_2_2);
    assert!(!std::sync::Arc::ptr_eq(&first, &again));
    assert_eq!(first, again);
}

/// A reply that leaves out what is elsewhere, and the whole one.
fn with_and_without(job: &Job, release: Release, remote: Remote) -> (Told, Told) {
    let reply = |remote| {
        take(
            layout(),
            &job.reply(&Wire::new(layout()), release, remote).unwrap(),
        )
    };
    (reply(remote), reply(Remote::Whole))
}

#[test]
fn of_processes_elsewhere_is_told_what_clients_never_ask_for() {
    // Stated of processes elsewhere: a place and a key that is asked for.
    let mut infos = full();
    for (rank, key, value) in [
        (1, keys::HOSTNAME, Value::from("n2.site")),
        (2, keys::APPNUM, Value::Uint32(1)),
        (3, keys::NODEID, Value::Uint32(1)),
        (7, "app.color", Value::from("red")),
    ] {
        let rank = Info::new(keys::RANK, Value::Rank(Rank::new(rank)));
        infos.push(array(keys::PROC_DATA, vec![rank, Info::new(key, value)]));
    }
    let job = register(&infos);
    for (release, never, num_nodes) in [
        (Release::V4_2_2, &[keys::HOSTNAME][..], 3),
        (
            Release::V5_0_11,
            &[keys::HOSTNAME, keys::NODEID, keys::APPNUM],
            1,
        ),
    ] {
        let (told, whole) = with_and_without(&job, release, Remote::Places);
        assert_eq!((&told.job, &told.apps), (&whole.job, &whole.apps));
        assert_eq!(told.session, whole.session);
        assert_eq!(told.nodes.len(), num_nodes);
        assert!(
            whole
                .nodes
                .iter()
                .filter(|node| told.nodes.contains(node))
                .count()
                == num_nodes
        );
        assert!(told.procs.keys().eq(whole.procs.keys()));
        for (rank, values) in &told.procs {
            let whole = &whole.procs[rank];
            if (4..7).contains(rank) {
                // They are here.
                assert_eq!(values, whole, "{rank}");
                continue;
            }
            let is_told = |pair: &&(String, Value<'static>)| never.contains(&pair.0.as_str());
            let mut expected: Vec<_> = whole.iter().filter(is_told).collect();
            let mut values: Vec<_> = values.iter().collect();
            expected.sort_by_key(|(key, _)| key);
            values.sort_by_key(|(key, _)| key);
            assert_eq!(values, expected, "{rank}");
        }
    }
}

#[test]
fn of_processes_elsewhere_nothing_is_told_where_the_host_wants_it() {
    let job = register(&full());
    for release in [Release::V4_2_2, Release::V5_0_11] {
        let (told, whole) = with_and_without(&job, release, Remote::Nothing);
        assert_eq!((&told.job, &told.apps), (&whole.job, &whole.apps));
        assert_eq!(told.nodes, [whole.nodes[1].clone()]);
        assert!(told.procs.keys().eq(&[4, 5, 6]));
        for (rank, values) in &told.procs {
            assert_eq!(*values, whole.procs[rank]);
        }
    }
}

#[test]
fn a_job_without_this_node_is_told_whole() {
    let infos = [
        Info::new(keys::NODE_MAP, "a,b"),
        Info::new(keys::PROC_MAP, "0;1"),
    ];
    let job = register(&infos);
    for remote in [Remote::Places, Remote::Nothing] {
        let (told, whole) = with_and_without(&job, Release::V5_0_11, remote);
        assert_eq!(told, whole);
    }
}

#[test]
fn a_process_elsewhere_takes_few_bytes() {
    let names: Vec<_> = (0..100).map(|n| format!("n{n}")).collect();
    let ranks: Vec<_> = (0..100)
        .map(|n| format!("{}-{}", n * 100, n * 100 + 99))
        .collect();
    let infos = [
        Info::new(keys::NODE_MAP, names.join(",")),
        Info::new(keys::PROC_MAP, ranks.join(";")),
    ];
    let job = register(&infos);
    let len = |release, remote| {
        job.reply(&Wire::new(layout()), release, remote)
            .unwrap()
            .len()
    };
    for (release, most) in [(Release::V4_2_2, 45), (Release::V5_0_11, 62)] {
        let each = len(release, Remote::Places) / 10_000;
        assert!(each <= most, "{each} bytes a process");
        assert!(len(release, Remote::Nothing) < 20_000);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn every_reply_holds_what_its_job_answers(
        ppn in prop_oneof![
            prop::collection::vec(0_u32..4, 1..6),
            prop::collection::vec(0_u32..60, 1..6),
        ]
        // A map without any process has no text.
        .prop_filter("nobody", |ppn| ppn.iter().any(|count| *count > 0)),
        // Around numbers that take another byte.
        stated in prop::collection::vec(
            (0_u32..200, 0_usize..8, prop_oneof![0_u16..5, 60..70_u16, 126..130_u16]),
            0..40,
        ),
        apps in prop::collection::vec(1_u32..5, 0..3),
        offset in prop::option::of(prop_oneof![0_u32..9, 16_300..16_390_u32]),
    ) {
        let mut next = 0;
        let groups: Vec<String> = ppn.iter().map(|count| {
            let ranks: Vec<String> = (next..next + count).map(|r| r.to_string()).collect();
            next += count;
            ranks.join(",")
        }).collect();
        let names: Vec<String> = (0..ppn.len()).map(|n| format!("n{n}")).collect();
        let mut infos = vec![
            Info::new(keys::NODE_MAP, names.join(",")),
            Info::new(keys::PROC_MAP, groups.join(";")),
        ];
        infos.extend(offset.map(|o| Info::new(keys::NPROC_OFFSET, Value::Rank(Rank::new(o)))));
        let mut first = 0;
        for (number, size) in (0_u32..).zip(&apps) {
            infos.push(array(keys::APP_INFO_ARRAY, vec![
                Info::new(keys::APPNUM, number),
                Info::new(keys::APP_SIZE, *size),
                Info::new(keys::APPLDR, Value::Rank(Rank::new(first))),
            ]));
            first += size;
        }
        let mut by_rank = BTreeMap::<u32, BTreeMap<usize, u16>>::new();
        for (rank, what, number) in stated {
            by_rank.entry(rank).or_default().insert(what, number);
        }
        for (rank, values) in by_rank {
            let mut about = vec![Info::new(keys::RANK, Value::Rank(Rank::new(rank)))];
            about.extend(values.into_iter().map(|(what, number)| match what {
                0 => Info::new(keys::LOCAL_RANK, Value::Uint16(number)),
                1 => Info::new(keys::HOSTNAME, format!("n{number}")),
                2 => Info::new(keys::NODEID, u32::from(number)),
                3 => Info::new(keys::APPNUM, u32::from(number)),
                4 => Info::new(keys::GLOBAL_RANK, Value::Rank(Rank::new(number.into()))),
                5 => Info::new("app.flag", number % 2 == 0),
                6 => Info::new("app.text", "x".repeat(number.into())),
                _ => Info::new("app.color", u32::from(number)),
            }));
            infos.push(array(keys::PROC_DATA, about));
        }
        let job = Job::register(&preg(), &Host::new("n1"), "JOB1", &infos).unwrap();
        let reply = job.reply(&Wire::new(layout()), Release::V5_0_11, Remote::Whole).unwrap();
        let told = take(layout(), &reply);
        assert_answers(&job, &told);
        assert_complete(&job, &told, 300);
    }
}
