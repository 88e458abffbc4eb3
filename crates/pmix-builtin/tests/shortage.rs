// SPDX-License-Identifier: MIT OR Apache-2.0
//! A separate program, as its allocator has as much memory as a test gives it.
//!
//! Maps with little memory left: each call returns its result or `PMIX_ERR_NOMEM`. An allocation that is not checked
//! first aborts the test.

#[path = "../../bfrops/tests/meter/mod.rs"]
mod meter;
#[path = "../../bfrops/tests/meter/short.rs"]
mod short;

use pmix_mca::{Params, Source};
use pmix_types::{Rank, Status};

use preg_core::{Error, Limits, NodeList, Preg, ProcMap};

#[global_allocator]
static SHORT: short::Short = short::Short;

/// Repeats a call with increasing memory until it succeeds. Returns its result and the number of refusals.
fn with_little<T>(call: impl Fn() -> Result<T, Error>) -> (T, usize) {
    for refused in 0..4000 {
        let bytes = (1 << 20) + (160 << 10) + refused * (31 << 10);
        match short::with(bytes, &call) {
            Ok(made) => return (made, refused),
            Err(error) => assert_eq!(error.status(), Status::ERR_NOMEM, "{error}"),
        }
    }
    panic!("refused with any memory");
}

fn preg(settings: &[(&str, &str)]) -> Preg {
    let params = settings
        .iter()
        .fold(Params::builder(), |p, (k, v)| p.set(k, *v, Source::Api));
    pmix_builtin::open_preg(&params.build().unwrap()).unwrap()
}

const COUNT: u32 = 20_000;

fn joined(separator: &str, form: impl Fn(u32) -> String) -> String {
    (0..COUNT).map(form).collect::<Vec<_>>().join(separator)
}

fn scramble(n: u32) -> u32 {
    n.wrapping_mul(2_654_435_761)
}

/// Returns lists of names that fold completely, in part, and not at all.
fn node_lists() -> Vec<String> {
    vec![
        joined(",", |n| format!("node{n:06}")),
        joined(",", |n| format!("rack{}-n{}.example.org", n % 97, n / 97)),
        joined(",", |n| format!("n{:08x}", scramble(n))),
        joined(",", |n| format!("n{}", scramble(n) % 1_000_003)),
        joined(",", |n| format!("n{}", n % 7)),
        "n".repeat(500_000),
    ]
}

/// Returns process maps of one node and of many, folding and not folding.
fn proc_maps() -> Vec<String> {
    vec![
        joined(";", |n| n.to_string()),
        joined(";", |n| format!("{},{}", n, n + COUNT)),
        joined(",", |n| (n * 3 + scramble(n) % 3).to_string()),
        joined(";", |n| {
            format!(
                "{},{}",
                n * 5 + scramble(n) % 2,
                n * 5 + 2 + scramble(n) % 3
            )
        }),
    ]
}

fn nodes_are(list: &NodeList, text: &str) {
    let mut read = Vec::new();
    list.write_text(b',', &mut read);
    assert!(read == text.as_bytes());
}

fn ranks_are(map: &ProcMap, text: &str) {
    let mut read = Vec::new();
    map.write_text(&mut read);
    assert!(read == text.as_bytes());
}

#[test]
fn maps_are_read_or_refused() {
    let preg = preg(&[]);
    let mut all = 0;
    for list in node_lists() {
        let mut values = vec![list.clone().into_bytes()];
        values.push(preg.generate_node_regex(list.as_bytes()).unwrap().bytes);
        values.push(preg.generate_node_text(list.as_bytes()).unwrap().bytes);
        for value in &values {
            let (nodes, refused) = with_little(|| preg.parse_nodes(value));
            nodes_are(&nodes, &list);
            all += refused;
        }
        let regex = preg.generate_regex(list.as_bytes()).unwrap();
        let (nodes, refused) = with_little(|| preg.resolve_nodes(regex.as_view()));
        nodes_are(&nodes, &list);
        let (text, more) = with_little(|| preg.parse_regex(regex.as_view()));
        assert!(text.strip_suffix(b"\0").unwrap_or(&text) == list.as_bytes());
        all += refused + more;
    }
    for map in proc_maps() {
        let mut values = vec![map.clone().into_bytes()];
        values.push(preg.generate_ppn(map.as_bytes()).unwrap().bytes);
        values.push(preg.generate_ppn_text(map.as_bytes()).unwrap().bytes);
        for value in &values {
            let (procs, refused) = with_little(|| preg.parse_procs(value));
            ranks_are(&procs, &map);
            all += refused;
        }
        let regex = preg.generate_regex(map.as_bytes()).unwrap();
        let (procs, refused) = with_little(|| preg.resolve_procs(regex.as_view()));
        ranks_are(&procs, &map);
        all += refused;
    }
    assert!(all > 20, "{all} calls refused");
}

#[test]
fn maps_are_encoded_or_refused() {
    for settings in [&[][..], &[("preg_native_regex2", "true")]] {
        let preg = preg(settings);
        for list in node_lists().iter().chain(&proc_maps()) {
            let list = list.as_bytes();
            let (made, refused) = with_little(|| preg.generate_node_regex(list));
            assert_eq!(made, preg.generate_node_regex(list).unwrap());
            assert!(refused > 0);
            with_little(|| preg.generate_node_text(list));
            with_little(|| preg.generate_ppn(list));
            with_little(|| preg.generate_ppn_text(list));
            with_little(|| preg.generate_regex(list));
        }
    }
}

#[test]
fn encoding_holds_no_more_than_is_asked_for() {
    // The amount that `Preg::check_memory` requests.
    let asked = |list: &str| 12 * list.len() + (1 << 20);
    let preg = preg(&[("preg_native_regex2", "true")]);
    for list in node_lists().iter().chain(&proc_maps()) {
        let bytes = list.as_bytes();
        let held = [
            meter::of(|| drop(preg.generate_node_regex(bytes))).1,
            meter::of(|| drop(preg.generate_node_text(bytes))).1,
            meter::of(|| drop(preg.generate_ppn(bytes))).1,
            meter::of(|| drop(preg.generate_regex(bytes))).1,
        ];
        let peak = held.map(|cost| cost.peak).into_iter().max().unwrap();
        let most = asked(list);
        assert!(
            peak <= most,
            "{list:.40}: {peak} bytes held of {}, more than {most}",
            list.len()
        );
    }
}

#[test]
fn places_are_found_where_there_is_no_memory_for_an_index() {
    let limits = Limits::default();
    for text in node_lists() {
        let list = NodeList::parse_text(text.as_bytes(), &limits).unwrap();
        let names: Vec<_> = text.split(',').collect();
        for at in [0, 1, names.len() / 2, names.len() - 1] {
            let Some(name) = names.get(at) else { continue };
            let found = short::with(600_000, || list.position(name.as_bytes()));
            assert_eq!(
                found,
                names.iter().position(|one| one == name),
                "{name:.40}"
            );
            assert_eq!(found, list.clone().position(name.as_bytes()));
        }
        let none = short::with(600_000, || list.position(b"elsewhere"));
        assert_eq!(none, None);
    }
    for text in proc_maps() {
        let map = ProcMap::parse_text(text.as_bytes(), &limits).unwrap();
        for rank in (0..3 * COUNT).step_by(997).map(Rank::new) {
            let found = short::with(100_000, || map.node_of(rank));
            assert_eq!(found, map.clone().node_of(rank), "{rank}");
        }
    }
}
