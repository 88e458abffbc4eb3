// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every entry point is a pure function of its arguments: many threads with one framework get the
//! results of one thread.

use std::sync::Barrier;
use std::thread;

use pmix_mca::Source;
use pmix_types::Rank;
use preg_core::{NodeList, Params, Preg, ProcMap, Regex2Ref};

const THREADS: usize = 16;
const ROUNDS: usize = 4;

fn framework() -> Preg {
    let params = Params::builder()
        .set("preg_fold_enabled", "true", Source::Api)
        .set("pcompress_base_limit", "64", Source::Api)
        .build()
        .expect("valid settings");
    pmix_builtin::open_preg(&params).expect("the settings can be obeyed")
}

fn lists() -> Vec<Vec<u8>> {
    let racks = (0..2_000).map(|n| format!("r{:02}n{:02}", n / 40, n % 40));
    let odd = (0..300).map(|n| format!("h{}-{}.example.org", n * 7919 % 1013, n % 3));
    let lists = [
        String::new(),
        "n1,,n2,n1".to_owned(),
        "login,node1,node2,login,node3".to_owned(),
        racks.collect::<Vec<_>>().join(","),
        odd.collect::<Vec<_>>().join(","),
    ];
    lists.map(String::into_bytes).to_vec()
}

fn maps() -> Vec<Vec<u8>> {
    let block = (0..500).map(|n| format!("{}-{}", n * 8, n * 8 + 7));
    let cyclic = (0..64).map(|n| format!("{n},{},{}", n + 64, n + 128));
    let maps = [
        "0-3;;7".to_owned(),
        block.collect::<Vec<_>>().join(";"),
        cyclic.collect::<Vec<_>>().join(";"),
    ];
    maps.map(String::into_bytes).to_vec()
}

/// Returns the results of every entry point as text.
fn answers(preg: &Preg) -> Vec<String> {
    let mut found = Vec::new();
    for list in lists() {
        let value = preg.generate_node_regex(&list).expect("a list");
        found.push(format!("{value:?}"));
        found.push(format!("{:?}", preg.parse_nodes(&value.bytes)));
        found.push(format!("{:?}", preg.copy(&value.bytes)));
        found.push(format!("{:?}", preg.pack(&value.bytes)));
        let copy = preg.copy(&value.bytes).expect("our own value");
        found.push(format!("{:?}", preg.unpack(&copy)));
        let regex = preg.generate_regex(&list).expect("a list");
        found.push(format!("{regex:?}"));
        found.push(format!("{:?}", preg.parse_regex(regex.as_view())));
        found.push(format!("{:?}", preg.resolve_nodes(regex.as_view())));
        found.push(format!("{:?}", preg.release(value)));
    }
    for map in maps() {
        let value = preg.generate_ppn(&map).expect("a map");
        found.push(format!("{value:?}"));
        found.push(format!("{:?}", preg.parse_procs(&value.bytes)));
        let regex = preg.generate_regex(&map).expect("a map");
        found.push(format!("{:?}", preg.resolve_procs(regex.as_view())));
    }
    for damaged in [
        &b"pmix[n[1:1-"[..],
        b"blob:\0component=zlib:\0size=9:\0",
        b"raw:0;x",
    ] {
        found.push(format!("{:?}", preg.parse_nodes(damaged)));
        found.push(format!("{:?}", preg.parse_procs(damaged)));
        let regex = Regex2Ref {
            kind: "compress",
            bytes: damaged,
        };
        found.push(format!("{:?}", preg.parse_regex(regex)));
    }
    found
}

/// Runs `work` on many threads that start at the same time.
fn on_all_threads(work: impl Fn(usize) + Sync) {
    let start = Barrier::new(THREADS);
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (start, work) = (&start, &work);
            scope.spawn(move || {
                start.wait();
                work(number);
            });
        }
    });
}

#[test]
fn many_threads_get_the_same_results() {
    let preg = framework();
    let expected = answers(&framework());
    on_all_threads(|_| {
        for _ in 0..ROUNDS {
            let got = answers(&preg);
            assert_eq!(got.len(), expected.len());
            for (got, expected) in got.iter().zip(&expected) {
                assert!(got == expected, "{got:.200} is not {expected:.200}");
            }
        }
    });
}

/// The first query builds an index; concurrent first queries must all find their result.
#[test]
fn many_threads_may_run_the_first_query_of_a_map() {
    for _ in 0..ROUNDS {
        let preg = framework();
        let text = lists().remove(3);
        let list: NodeList = preg.parse_nodes(&text).expect("a list");
        let map: ProcMap = preg.parse_procs(&maps()[1]).expect("a map");
        on_all_threads(|thread| {
            for step in 0..200 {
                let at = (thread * 131 + step * 17) % list.len();
                let name = list.nth(at).expect("a name");
                assert_eq!(list.position(&name), Some(at));
                let rank = u32::try_from((thread * 97 + step * 13) % 4_000).expect("small");
                assert_eq!(map.node_of(Rank::new(rank)), Some(rank as usize / 8));
            }
        });
    }
}
