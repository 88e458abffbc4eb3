// SPDX-License-Identifier: MIT OR Apache-2.0

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::Limits;

/// The expanded content of a map.
type Model = Vec<Vec<u32>>;

fn run(first: u32, count: u32, step: i64) -> RankRun {
    RankRun {
        first: Rank::new(first),
        count,
        step,
    }
}

/// Generates single nodes and regular groups of nodes, whose ranks may overlap.
fn nodes() -> impl Strategy<Value = Model> {
    let some = vec(vec(0u32..12, 0..5), 0..6);
    let regular = (0u32..40, 1u32..7, 1u32..7, 0u32..9, 0u32..9).prop_map(
        |(first, nodes, ranks, shift, step)| {
            let rank = |n, r| first + n * shift + r * step;
            (0..nodes)
                .map(|n| (0..ranks).map(|r| rank(n, r)).collect())
                .collect()
        },
    );
    let plane = (0u32..20, 1u32..6, 1u32..4, 1u32..4).prop_map(|(first, nodes, size, planes)| {
        let rank = |n: u32, p, r| first + (p * nodes + n) * size + r;
        let ranks = |n| (0..planes).flat_map(move |p| (0..size).map(move |r| rank(n, p, r)));
        (0..nodes).map(|n| ranks(n).collect()).collect()
    });
    let part = prop_oneof![1 => some, 2 => regular, 1 => plane];
    let part = (part, any::<bool>()).prop_map(|(mut nodes, back): (Model, _)| {
        if back {
            nodes.reverse();
        }
        nodes
    });
    vec(part, 0..7).prop_map(|parts| parts.concat())
}

fn text(model: &Model) -> String {
    let node = |n: &Vec<u32>| n.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    model.iter().map(node).collect::<Vec<_>>().join(";")
}

fn parse(text: &str) -> ProcMap {
    ProcMap::parse_text(text.as_bytes(), &Limits::default()).unwrap()
}

fn expand(runs: &[RankRun]) -> Vec<u32> {
    let ranks = |r: &RankRun| {
        let (first, step) = (i64::from(r.first.as_raw()), r.step);
        (0..i64::from(r.count)).map(move |i| u32::try_from(first + i * step).unwrap())
    };
    runs.iter().flat_map(ranks).collect()
}

/// Builds the process map of a model. The ranks of each node are passed to the builder in runs, whose lengths depend on
/// `cuts`.
fn build(model: &Model, cuts: &[bool]) -> ProcMap {
    let mut builder = ProcMapBuilder::new(&Limits::default());
    let mut cuts = cuts.iter().cycle();
    for node in model {
        let mut left = node.as_slice();
        while let Some(first) = left.first() {
            let step = left.get(1).map_or(0, |n| i64::from(*n) - i64::from(*first));
            let mut count = 1;
            while left.len() > count
                && i64::from(left[count]) - i64::from(left[count - 1]) == step
                && *cuts.next().unwrap_or(&false)
            {
                count += 1;
            }
            builder
                .run(run(*first, u32::try_from(count).unwrap(), step))
                .unwrap();
            left = &left[count..];
        }
        builder.end_node().unwrap();
    }
    builder.finish()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn every_query_agrees_with_the_expanded_map(model in nodes(), cuts in vec(any::<bool>(), 1..50)) {
        let map = build(&model, &cuts);
        prop_assert_eq!(map.num_nodes(), model.len());
        prop_assert_eq!(map.num_ranks(), model.concat().len() as u64);
        let each: Model = map.iter().map(|r| r.map(Rank::as_raw).collect()).collect();
        prop_assert_eq!(&each, &model);
        for (i, ranks) in model.iter().enumerate() {
            let of = map.ranks_of(i).unwrap();
            prop_assert_eq!(of.size_hint(), (ranks.len(), Some(ranks.len())));
            prop_assert_eq!(&of.map(Rank::as_raw).collect::<Vec<_>>(), ranks);
            prop_assert_eq!(&expand(&map.runs_of(i).unwrap()), ranks);
        }
        prop_assert!(map.ranks_of(model.len()).is_none());
        for rank in 0..150 {
            let naive = model.iter().position(|n| n.contains(&rank));
            prop_assert_eq!(map.node_of(Rank::new(rank)), naive, "rank {}", rank);
        }
    }

    #[test]
    fn blocks_hold_the_same_ranks(model in nodes()) {
        let map = build(&model, &[true]);
        let mut again = Model::new();
        for block in map.blocks() {
            prop_assert_eq!(block.first_node, again.len());
            let ranks = expand(&block.runs);
            for node in 0..i64::try_from(block.num_nodes).unwrap() {
                let moved = |r: &u32| u32::try_from(i64::from(*r) + node * block.shift).unwrap();
                again.push(ranks.iter().map(moved).collect());
            }
        }
        prop_assert_eq!(again, model);
    }

    #[test]
    fn text_survives_parsing_and_writing(model in nodes()) {
        let text = text(&model);
        let map = parse(&text);
        let mut out = b"before ".to_vec();
        map.write_text(&mut out);
        prop_assert_eq!(&out[7..], text.as_bytes());
        prop_assert_eq!(map.text_len(), text.len());
        for (i, node) in text.split(';').enumerate().take(model.len()) {
            let mut out = b"before ".to_vec();
            map.write_node(i, &mut out);
            prop_assert_eq!(&out[7..], node.as_bytes());
        }
    }

    #[test]
    fn maps_are_equal_if_their_ranks_are(model in nodes(), at in any::<prop::sample::Index>(), cuts in vec(any::<bool>(), 1..50)) {
        let map = build(&model, &[true]);
        prop_assert_eq!(&map, &build(&model, &[false]));
        prop_assert_eq!(&map, &build(&model, &cuts));
        let mut other = model.clone();
        if !model.is_empty() {
            let at = at.index(model.len());
            other[at].push(7);
            prop_assert_ne!(&map, &build(&other, &[true]));
            other[at].pop();
            other.swap(0, at);
            prop_assert_eq!(map == build(&other, &[true]), model == other);
        }
    }

    #[test]
    fn any_bytes_are_parsed_or_rejected_with_an_offset(
        entries in vec(prop_oneof![
            "[0-9]{1,12}", "[ \t]{0,2}[0-9]{0,3}[ ]?-?[ ]?[0-9]{0,3}[ ]{0,2}", "[0-9a-z,; \\-]{0,9}"
        ], 0..9),
        separators in vec(prop_oneof![Just(","), Just(";")], 9),
    ) {
        let text: String = entries.iter().zip(separators).flat_map(|(e, s)| [e.as_str(), s]).collect();
        match (ProcMap::parse_text(text.as_bytes(), &Limits::default()), naive(&text)) {
            (Ok(map), Some(model)) => {
                let each: Model = map.iter().map(|r| r.map(Rank::as_raw).collect()).collect();
                prop_assert_eq!(each, model);
            }
            (Err(error), None) => prop_assert!(error.offset().unwrap() <= text.len()),
            (left, right) => prop_assert!(false, "{:?} but {:?} for {:?}", left, right, text),
        }
    }
}

/// A naive implementation of the grammar.
fn naive(text: &str) -> Option<Model> {
    if text.is_empty() {
        return Some(vec![]);
    }
    let rank = |t: &str| {
        let digits = t.trim_matches([' ', '\t']);
        let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        let number = plain.then(|| digits.parse::<u64>().ok()).flatten()?;
        u32::try_from(number)
            .ok()
            .filter(|n| *n <= Rank::MAX_VALID.as_raw())
    };
    let node = |text: &str| {
        let mut ranks = Vec::new();
        for entry in text.split(',').filter(|e| !e.trim().is_empty()) {
            let (first, last) = entry.split_once('-').unwrap_or((entry, entry));
            let (first, last) = (rank(first)?, rank(last)?);
            (first <= last).then(|| ranks.extend(first..=last))?;
        }
        Some(ranks)
    };
    text.split(';').map(node).collect()
}

fn regular(nodes: u32, ranks: u32, rank: impl Fn(u32, u32) -> u32) -> ProcMap {
    let mut builder = ProcMapBuilder::new(&Limits::default());
    for n in 0..nodes {
        for r in 0..ranks {
            builder.run(run(rank(n, r), 1, 0)).unwrap();
        }
        builder.end_node().unwrap();
    }
    builder.finish()
}

proptest! {
    #[test]
    fn place_agrees_with_counting(model in nodes(), skipped in 0_usize..4) {
        let map = build(&model, &[]);
        for (node, expected) in model.iter().enumerate() {
            let mut ranks = map.ranks_of(node).unwrap();
            ranks.by_ref().take(skipped).for_each(drop);
            for rank in 0..200 {
                let left = expected.iter().skip(skipped);
                let expected = left.clone().position(|known| *known == rank);
                prop_assert_eq!(ranks.place(Rank::new(rank)), expected);
            }
        }
    }
}

#[test]
fn memory_of_regular_maps_is_independent_of_size() {
    let nodes = 5000;
    let cases = [
        ("block", regular(nodes, 128, |n, r| n * 128 + r), 1, 500),
        ("cyclic", regular(nodes, 128, |n, r| n + r * nodes), 1, 500),
        (
            "plane 4",
            regular(nodes, 128, |n, r| r / 4 * 4 * nodes + n * 4 + r % 4),
            1,
            3000,
        ),
        (
            "reversed",
            regular(nodes, 128, |n, r| (nodes - n) * 128 - 1 - r),
            1,
            500,
        ),
        (
            "hole in each node",
            regular(nodes, 7, |n, r| n * 8 + r + u32::from(r > 3)),
            1,
            500,
        ),
        (
            "two kinds",
            regular(nodes, 8, |n, r| n * 8 + r + n / 2500 * 64),
            2,
            500,
        ),
    ];
    for (name, map, blocks, bytes) in cases {
        assert_eq!(map.blocks().count(), blocks, "{name}");
        for node in [0, 1234, 4999] {
            for rank in map.ranks_of(node).unwrap() {
                assert_eq!(map.node_of(rank), Some(node), "{name}");
            }
        }
        assert!(
            map.memory_bytes() < bytes,
            "{name}: {} bytes",
            map.memory_bytes()
        );
    }
}

#[test]
fn irregular_maps_are_searched_through_tables() {
    // Each node has two ranks in irregular order, so each pair has its own step.
    let nodes = 3000;
    let scattered = regular(nodes, 2, |n, r| (n * 2 + r) * 265_443 % 6007);
    let holes = regular(nodes, 8, |n, r| (n + n / 30) + r * (nodes + 100));
    for map in [scattered, holes] {
        for node in 0..nodes as usize {
            for rank in map.ranks_of(node).unwrap() {
                assert_eq!(map.node_of(rank), Some(node));
            }
        }
    }
}

#[test]
fn the_largest_ranges_are_counted_without_overflow() {
    let limits = Limits {
        max_ranks: u64::MAX,
        max_bytes: u64::MAX,
        ..Limits::default()
    };
    let most = Rank::MAX_VALID;
    let text = format!("0-{most};0-{most},0-{most};{most}");
    let map = ProcMap::parse_text(text.as_bytes(), &limits).unwrap();
    assert_eq!(map.num_ranks(), 3 * (u64::from(most.as_raw()) + 1) + 1);
    assert_eq!(map.node_of(most), Some(0));
    let mut builder = ProcMapBuilder::new(&limits);
    builder.run(run(5, u32::MAX, 0)).unwrap();
    builder.run(run(5, u32::MAX, 0)).unwrap();
    let map = builder.finish();
    assert_eq!(map.num_ranks(), 2 * u64::from(u32::MAX));
    assert_eq!(map.runs_of(0).unwrap().len(), 2);
    assert_eq!(map.node_of(Rank::new(5)), Some(0));
}

#[test]
fn rejects_invalid_ranks_with_their_offset() {
    let error = |text: &str| ProcMap::parse_text(text.as_bytes(), &Limits::default()).unwrap_err();
    for (text, offset) in [
        ("0,1;x", 4),
        ("0, one ,2", 3),
        ("4-2", 0),
        ("0;1 - b", 6),
        ("0;-3", 2),
        ("0;3-", 4),
        ("1-2-3", 2),
        ("0,4294967295", 2),
        ("4294967246", 0),
        ("0,99999999999999999999;1", 2),
        ("0-4294967246", 2),
        ("1 2", 0),
        ("\u{ff11}", 0),
    ] {
        assert_eq!(
            error(text).offset(),
            Some(offset),
            "{text}: {}",
            error(text)
        );
    }
    assert!(error("4-2").to_string().contains("4-2 is reversed"));
    assert!(error("0,rank").to_string().contains("found \"rank\""));
}

#[test]
fn blanks_and_empty_entries_are_skipped_and_empty_nodes_kept() {
    for (text, model) in [
        ("", vec![]),
        (";", vec![vec![], vec![]]),
        (",", vec![vec![]]),
        (" 0 ,\t1\r\n; ;,2,,3,", vec![vec![0, 1], vec![], vec![2, 3]]),
        ("0-2,4;007", vec![vec![0, 1, 2, 4], vec![7]]),
        (" 1 - 3 ", vec![vec![1, 2, 3]]),
        ("00000000000000012;", vec![vec![12], vec![]]),
        (
            "12345678,123456789;1234567890",
            vec![vec![12_345_678, 123_456_789], vec![1_234_567_890]],
        ),
    ] {
        let each: Model = parse(text)
            .iter()
            .map(|r| r.map(Rank::as_raw).collect())
            .collect();
        assert_eq!(each, model, "{text:?}");
    }
}

#[test]
fn ranks_of_an_unfinished_node_are_kept() {
    let limits = Limits {
        max_nodes: 1,
        ..Limits::default()
    };
    let mut builder = ProcMapBuilder::new(&limits);
    builder.range(Rank::new(0), Rank::new(3)).unwrap();
    let map = builder.finish();
    assert_eq!((map.num_nodes(), map.num_ranks()), (1, 4));
    let mut builder = ProcMapBuilder::new(&limits);
    builder.end_node().unwrap();
    assert!(builder.range(Rank::new(0), Rank::new(0)).is_err());
    assert!(builder.end_node().is_err());
    assert_eq!(builder.finish().num_nodes(), 1);
}

#[test]
fn limits_are_checked_before_anything_is_stored() {
    let limits = Limits {
        max_nodes: 3,
        max_ranks: 10,
        max_bytes: 30,
        ..Limits::default()
    };
    let parse = |text: &str| ProcMap::parse_text(text.as_bytes(), &limits);
    assert!(parse("0-9").is_ok());
    assert_eq!(parse("0-5;0-4").unwrap_err().offset(), Some(4));
    assert_eq!(
        parse("0,1,2,3,4,5,6,7,8,9,10").unwrap_err().offset(),
        Some(20)
    );
    assert!(parse(";;").is_ok());
    assert_eq!(parse(";;;").unwrap_err().offset(), Some(3));
    assert_eq!(parse(";;;5").unwrap_err().offset(), Some(3));
    assert!(parse("1000000-1000002;1").is_ok());
    assert!(
        parse("1000000-1000003;1")
            .unwrap_err()
            .to_string()
            .contains("30 bytes")
    );
    let mut builder = ProcMapBuilder::new(&limits);
    assert!(builder.run(run(5, 7, -1)).is_err());
    assert!(builder.run(run(0, 2, i64::MAX)).is_err());
    assert!(builder.run(run(u32::MAX, 1, 0)).is_err());
    assert!(builder.run(run(0, u32::MAX, 0)).is_err());
    assert_eq!(builder.finish().num_nodes(), 0);
}

#[test]
fn many_threads_query_one_map_at_once() {
    let map = regular(500, 8, |n, r| (n + n / 30) + r * 600);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let map = &map;
            scope.spawn(move || {
                for node in (thread..500).step_by(3) {
                    for rank in map.ranks_of(node).unwrap() {
                        assert_eq!(map.node_of(rank), Some(node));
                    }
                }
            });
        }
    });
}
