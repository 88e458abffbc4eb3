// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random lists with the shapes of real machines, with sizes and numbers from a seed.

use super::checks::Case;
use super::random::Random;

type NodeShape = (&'static str, fn(&mut Random) -> Vec<String>);
type ProcShape = (&'static str, fn(&mut Random) -> Vec<Vec<u64>>);

const NODE_SHAPES: &[NodeShape] = &[
    ("consecutive", consecutive),
    ("crossing widths", crossing_widths),
    ("descending", descending),
    ("stride", stride),
    ("holes", holes),
    ("duplicates", duplicates),
    ("shuffled", shuffled),
    ("x-names", x_names),
    ("racks", racks),
    ("fully qualified", qualified),
    ("addresses", addresses),
    ("interleaved kinds", interleaved),
    ("large numbers", large_numbers),
    ("digits only", digits_only),
    ("words", words),
    ("suffix varies", suffix_varies),
];

const PROC_SHAPES: &[ProcShape] = &[
    ("block", block),
    ("cyclic", cyclic),
    ("plane", plane),
    ("irregular", irregular),
    ("ranks shuffled on each node", shuffled_ranks),
    ("one rank a node, any order", one_each),
];

/// Returns `count` cases from a seed, every shape in turn.
pub(crate) fn generate(seed: u64, count: usize) -> Vec<Case> {
    let mut random = Random::new(seed);
    let shapes = NODE_SHAPES.len() + PROC_SHAPES.len();
    (0..count)
        .map(|i| {
            let shape = i % shapes;
            match NODE_SHAPES.get(shape) {
                Some((name, make)) => Case {
                    name: format!("generated {i}, {name}"),
                    procs: false,
                    text: make(&mut random).join(","),
                },
                None => {
                    let (name, make) = PROC_SHAPES[shape - NODE_SHAPES.len()];
                    Case {
                        name: format!("generated {i}, {name}"),
                        procs: true,
                        text: proc_text(&make(&mut random)),
                    }
                }
            }
        })
        .collect()
}

fn proc_text(nodes: &[Vec<u64>]) -> String {
    let node = |ranks: &Vec<u64>| {
        ranks
            .iter()
            .map(u64::to_string)
            .collect::<Vec<_>>()
            .join(",")
    };
    nodes.iter().map(node).collect::<Vec<_>>().join(";")
}

/// Returns a size that is mostly small. One of eight is large enough for compression.
fn size(random: &mut Random) -> u64 {
    if random.one_in(8) {
        random.within(600, 2500)
    } else {
        random.within(1, 120)
    }
}

fn stem(random: &mut Random) -> String {
    let stems = [
        "n", "node", "cn", "frontier", "nid", "gpu", "Host", "tux-", "c_", "a.b", "é",
    ];
    (*random.pick(&stems)).to_owned()
}

fn numbered(stem: &str, width: usize, numbers: impl Iterator<Item = u64>) -> Vec<String> {
    numbers.map(|n| format!("{stem}{n:0width$}")).collect()
}

fn width(random: &mut Random) -> usize {
    *random.pick(&[0, 2, 3, 4, 5, 6, 8])
}

fn consecutive(random: &mut Random) -> Vec<String> {
    let (first, count) = (random.within(0, 5000), size(random));
    numbered(&stem(random), width(random), first..first + count)
}

fn crossing_widths(random: &mut Random) -> Vec<String> {
    let power = *random.pick(&[10, 100, 1000, 10_000, 100_000]);
    let below = random.within(1, 9);
    numbered(
        &stem(random),
        0,
        power - below..power + random.within(1, 60),
    )
}

fn descending(random: &mut Random) -> Vec<String> {
    let mut names = consecutive(random);
    names.reverse();
    names
}

fn stride(random: &mut Random) -> Vec<String> {
    let step = usize::try_from(random.within(2, 12)).unwrap_or(2);
    let (first, count) = (random.within(0, 200), size(random));
    numbered(
        &stem(random),
        width(random),
        (first..first + count * 12).step_by(step),
    )
}

fn holes(random: &mut Random) -> Vec<String> {
    let mut names = consecutive(random);
    let kept = names[0].clone();
    names.retain(|n| *n == kept || !random.one_in(15));
    names
}

fn duplicates(random: &mut Random) -> Vec<String> {
    let mut names = Vec::new();
    for name in consecutive(random) {
        names.resize(
            names.len() + usize::try_from(random.within(1, 3)).unwrap_or(1),
            name,
        );
    }
    names
}

fn shuffled(random: &mut Random) -> Vec<String> {
    let mut names = consecutive(random);
    random.shuffle(&mut names);
    names
}

/// Returns names of cabinets, chassis, slots, boards and nodes, with the last number counting fastest, from a random
/// start.
fn x_names(random: &mut Random) -> Vec<String> {
    let (cabinet, first, count) = (
        random.within(1000, 9000),
        random.within(0, 300),
        size(random),
    );
    (first..first + count)
        .map(|i| {
            let (n, b, s, c) = (i % 2, i / 2 % 2, i / 4 % 8, i / 32 % 8);
            format!("x{}c{c}s{s}b{b}n{n}", cabinet + i / 256)
        })
        .collect()
}

fn racks(random: &mut Random) -> Vec<String> {
    let (per_rack, first, count) = (random.within(2, 40), random.within(0, 99), size(random));
    (first..first + count)
        .map(|i| format!("r{:02}n{:02}", i / per_rack + 1, i % per_rack + 1))
        .collect()
}

fn qualified(random: &mut Random) -> Vec<String> {
    let domain = *random.pick(&[".juwels", ".cluster.local", ".hpc-1.example.org", ".n4"]);
    let names = consecutive(random);
    names.into_iter().map(|n| format!("{n}{domain}")).collect()
}

fn addresses(random: &mut Random) -> Vec<String> {
    let (net, first, count) = (random.within(0, 31), random.within(1, 250), size(random));
    (first..first + count)
        .map(|i| format!("ip-10-0-{}-{}.ec2.internal", net + i / 256, i % 256))
        .collect()
}

/// Returns interleaved kinds of names. The real encoders regroup them, so that their order is lost.
fn interleaved(random: &mut Random) -> Vec<String> {
    let kinds = ["login", "n", "m", "", "x-1-", "n", "service.example"];
    (1..=random.within(3, 60))
        .map(|i| match *random.pick(&kinds) {
            plain if plain.len() > 4 => plain.to_owned(),
            stem => format!("{stem}{}", i + random.within(0, 1)),
        })
        .collect()
}

/// Returns numbers near the limits of 31, 32 and 63 bits, and beyond any integer.
fn large_numbers(random: &mut Random) -> Vec<String> {
    let edges = [
        "2147483645",
        "4294967293",
        "99999999999",
        "999999999999999997",
        "9223372036854775805",
        "18446744073709551613",
        "99999999999999999999997",
    ];
    let edge: u128 = random.pick(&edges).parse().unwrap_or(0);
    let width = *random.pick(&[0, 12, 24]);
    let stem = stem(random);
    let count = u128::from(random.within(1, 8));
    (edge..edge + count)
        .map(|n| format!("{stem}{n:0width$}"))
        .collect()
}

fn digits_only(random: &mut Random) -> Vec<String> {
    let (first, count) = (random.within(0, 2000), size(random));
    numbered("", width(random), first..first + count)
}

/// Returns names without a scheme, of any character that is no separator and no bracket. Dots are excluded: 5.0.11
/// treats `w` and `w.x` as one host in queries about ranks.
fn words(random: &mut Random) -> Vec<String> {
    let letters: Vec<char> = "abcxyzXZ0123456789-_ :=é".chars().collect();
    (0..random.within(1, 40))
        .map(|_| {
            let tail = (0..random.within(0, 14)).map(|_| *random.pick(&letters));
            let tail: String = tail.collect();
            format!("w{}", tail.trim_end())
        })
        .collect()
}

/// Returns names with one increasing number, followed by a suffix that changes sometimes.
fn suffix_varies(random: &mut Random) -> Vec<String> {
    let mut suffix = "a";
    (0..size(random))
        .map(|i| {
            if random.one_in(5) {
                suffix = *random.pick(&["a", "b", "-ib", "c2", ".eth1", ""]);
            }
            format!("n{:03}{suffix}", i + 1)
        })
        .collect()
}

fn shape(random: &mut Random) -> (u64, u64) {
    let most = if random.one_in(6) { 300 } else { 24 };
    (random.within(1, most), *random.pick(&[1, 2, 3, 8, 16, 64]))
}

fn block(random: &mut Random) -> Vec<Vec<u64>> {
    let (nodes, per_node) = shape(random);
    let first = if random.one_in(3) {
        random.within(0, 100_000)
    } else {
        0
    };
    (0..nodes)
        .map(|n| (first + n * per_node..first + (n + 1) * per_node).collect())
        .collect()
}

fn cyclic(random: &mut Random) -> Vec<Vec<u64>> {
    let (nodes, per_node) = shape(random);
    (0..nodes)
        .map(|n| (0..per_node).map(|i| i * nodes + n).collect())
        .collect()
}

fn plane(random: &mut Random) -> Vec<Vec<u64>> {
    let (nodes, planes) = shape(random);
    let wide = random.within(2, 5);
    let on_node =
        |n: u64| (0..planes).flat_map(move |p| (0..wide).map(move |i| (p * nodes + n) * wide + i));
    (0..nodes).map(|n| on_node(n).collect()).collect()
}

fn irregular(random: &mut Random) -> Vec<Vec<u64>> {
    let mut next = 0;
    (0..random.within(1, 40))
        .map(|_| {
            (0..random.within(1, 12))
                .map(|_| {
                    next += if random.one_in(4) {
                        random.within(2, 50)
                    } else {
                        1
                    };
                    next
                })
                .collect()
        })
        .collect()
}

fn shuffled_ranks(random: &mut Random) -> Vec<Vec<u64>> {
    let mut nodes = block(random);
    nodes.iter_mut().for_each(|ranks| random.shuffle(ranks));
    nodes
}

fn one_each(random: &mut Random) -> Vec<Vec<u64>> {
    let mut nodes: Vec<_> = (0..size(random)).map(|rank| vec![rank]).collect();
    random.shuffle(&mut nodes);
    nodes
}

#[cfg(test)]
mod tests {
    use super::{NODE_SHAPES, PROC_SHAPES, generate};

    #[test]
    fn a_seed_gives_the_same_lists_and_another_seed_others() {
        let texts = |seed| {
            generate(seed, 40)
                .into_iter()
                .map(|c| c.text)
                .collect::<Vec<_>>()
        };
        assert_eq!(texts(2), texts(2));
        assert_ne!(texts(2), texts(3));
    }

    #[test]
    fn no_generated_list_has_an_empty_element() {
        for case in generate(7, 10 * (NODE_SHAPES.len() + PROC_SHAPES.len())) {
            let empty = case.text.split([',', ';']).any(str::is_empty);
            assert!(!empty, "{}: {}", case.name, case.text);
        }
    }
}
