// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replies without the data of other nodes.

use gds_hash::{Codec, Job, Remote};
use pmix_types::{Info, Rank, Release, Value, keys};

use super::full;
use super::told::{Told, array, layout, register, take};

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
    // Values stated of remote processes: a place and a key that clients request.
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
