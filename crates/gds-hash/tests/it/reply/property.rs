// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replies of random jobs.

use std::collections::BTreeMap;

use bfrops::{BufferKind, Decoder, Encoder, Layout, Module, wire_type};
use gds_hash::{Codec, Job, LocalNode, Remote};
use pmix_types::{DataArray, Info, Kval, Rank, Release, Value, keys};
use proptest::prelude::*;

use super::full;
use super::told::{Told, array, assert_answers, assert_complete, layout, preg, register, take};

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn every_reply_has_the_values_of_its_job(
        ppn in prop_oneof![
            prop::collection::vec(0_u32..4, 1..6),
            prop::collection::vec(0_u32..60, 1..6),
        ]
        // A map without processes has no text.
        .prop_filter("nobody", |ppn| ppn.iter().any(|count| *count > 0)),
        // Numbers around the limits of packed lengths.
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
        let job = Job::register(&preg(), &LocalNode::new("n1"), "JOB1", &infos).unwrap();
        let reply = job.reply(&Codec::new(layout()), Release::V5_0_11, Remote::Whole).unwrap();
        let told = take(layout(), &reply);
        assert_answers(&job, &told);
        assert_complete(&job, &told, 300);
        for module in Module::ALL {
            for buffer in [BufferKind::NonDescribed, BufferKind::Described] {
                assert_told_alike(&job, Layout::new(module).with_buffer(buffer));
            }
        }
    }
}

/// Compares the reply to a get about a job with the reply to clients of the job. The bytes are
/// equal, except that the blobs of processes are arrays with the same content.
fn assert_told_alike(job: &Job, layout: Layout) {
    let codec = Codec::new(layout);
    let reply = job.reply(&codec, Release::V5_0_11, Remote::Whole).unwrap();
    let mut expected = Vec::new();
    let mut encoder = Encoder::new(layout, &mut expected);
    let mut decoder = Decoder::new(layout, &reply);
    decoder.one::<wire_type::String>().unwrap();
    while !decoder.is_empty() {
        let kval = decoder.one::<wire_type::Kval>().unwrap();
        let told = match kval.key.is(keys::PROC_BLOB) {
            true => as_array(layout, &kval),
            false => kval.clone(),
        };
        encoder.one::<wire_type::Kval>(&told).unwrap();
    }
    assert_eq!(
        job.kvals(&codec, Release::V5_0_11).unwrap(),
        expected,
        "{layout:?}"
    );
}

fn as_array<'a>(layout: Layout, blob: &'a Kval<'a>) -> Kval<'a> {
    let Value::ByteObject(bytes) = &blob.value else {
        panic!("{:?}", blob.value);
    };
    let mut decoder = Decoder::new(layout, bytes);
    let rank = decoder.one::<wire_type::Rank>().unwrap();
    let mut infos = vec![Info::new(keys::RANK, Value::Rank(rank))];
    while !decoder.is_empty() {
        let kval = decoder.one::<wire_type::Kval>().unwrap();
        infos.push(Info::new(kval.key, kval.value));
    }
    Kval {
        key: keys::PROC_DATA.into(),
        value: Value::DataArray(DataArray::Info(infos)),
    }
}

/// Returns a reply without the data of other nodes, and the complete one.
fn with_and_without(job: &Job, release: Release, remote: Remote) -> (Told, Told) {
    let reply = |remote| {
        take(
            layout(),
            &job.reply(&Codec::new(layout()), release, remote).unwrap(),
        )
    };
    (reply(remote), reply(Remote::Whole))
}

#[test]
fn remote_processes_have_the_keys_that_clients_never_request() {
    // Registered values of remote processes: a node, and a key that clients request.
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
                // These processes are local.
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
fn remote_processes_are_omitted_if_the_host_requests_it() {
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
fn a_job_without_this_node_is_sent_completely() {
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
        job.reply(&Codec::new(layout()), release, remote)
            .unwrap()
            .len()
    };
    for (release, most) in [(Release::V4_2_2, 45), (Release::V5_0_11, 62)] {
        let each = len(release, Remote::Places) / 10_000;
        assert!(each <= most, "{each} bytes a process");
        assert!(len(release, Remote::Nothing) < 20_000);
    }
}
