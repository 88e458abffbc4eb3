// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists as on real machines, and the scheme under test.
#![allow(dead_code)]

use std::fmt::Write;

use preg_core::{Limits, Params, Regex2, Scheme};

/// Returns the scheme.
pub(crate) fn fold() -> Box<dyn Scheme> {
    (preg_fold::COMPONENT.query)(&Params::default())
        .expect("the scheme takes no settings")
        .expect("the scheme works everywhere")
}

/// Encodes a list, checks every decoder, and returns the value.
pub(crate) fn encoded(list: &[u8]) -> Regex2 {
    let fold = fold();
    let limits = Limits::default();
    let value = fold.generate_regex(list).unwrap().expect("no NUL in it");
    let view = value.as_view();
    let text = fold.parse_regex(view, &limits).unwrap().unwrap();
    assert!(text == list, "{}", shown(&value.bytes));
    let legacy = fold.generate_node_regex(list).unwrap().unwrap();
    assert_eq!(legacy, [b"fold:", &*value.bytes].concat());
    assert!(!legacy.contains(&0));
    value
}

/// Returns a value as text for messages.
pub(crate) fn shown(value: &[u8]) -> String {
    String::from_utf8_lossy(&value[..value.len().min(200)]).into_owned()
}

/// A counter of an odometer: the text before the number, the range of numbers, and their width.
pub(crate) type Wheel = (&'static str, std::ops::RangeInclusive<u64>, usize);

/// Returns `count` names of an odometer from name `start` on. The last counter is the fastest.
pub(crate) fn odometer(wheels: &[Wheel], start: u64, count: u64) -> Vec<u8> {
    let mut text = String::new();
    for index in start..start + count {
        let mut rest = index;
        let mut numbers = Vec::new();
        for (_, range, _) in wheels.iter().rev() {
            let len = range.end() - range.start() + 1;
            numbers.push(range.start() + rest % len);
            rest /= len;
        }
        assert_eq!(rest, 0, "the odometer is too short");
        if !text.is_empty() {
            text.push(',');
        }
        for ((prefix, _, width), number) in wheels.iter().zip(numbers.iter().rev()) {
            write!(text, "{prefix}{number:0width$}").unwrap();
        }
    }
    text.into_bytes()
}

/// Returns xnames, the names of nodes of Cray machines.
pub(crate) fn xnames(start: u64, count: u64) -> Vec<u8> {
    let wheels = [
        ("x", 1000..=9999, 1),
        ("c", 0..=7, 1),
        ("s", 0..=7, 1),
        ("b", 0..=1, 1),
        ("n", 0..=1, 1),
    ];
    odometer(&wheels, start, count)
}

/// Returns a process map; `rank` returns the rank at (node, slot).
pub(crate) fn procs(nodes: u64, slots: u64, rank: impl Fn(u64, u64) -> u64) -> Vec<u8> {
    let mut text = String::new();
    for node in 0..nodes {
        for slot in 0..slots {
            let separator = match (node, slot) {
                (0, 0) => "",
                (_, 0) => ";",
                _ => ",",
            };
            write!(text, "{separator}{}", rank(node, slot)).unwrap();
        }
    }
    text.into_bytes()
}

/// A reproducible source of random numbers.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    /// Returns a number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// Splits a list, keeps some names, and joins them again.
pub(crate) fn kept(list: &[u8], mut keep: impl FnMut() -> bool) -> Vec<u8> {
    let names: Vec<_> = list.split(|b| *b == b',').filter(|_| keep()).collect();
    names.join(&b","[..])
}

/// Returns the names in random order.
pub(crate) fn shuffled(list: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut names: Vec<_> = list.split(|b| *b == b',').collect();
    for last in (1..names.len()).rev() {
        let other = dice.below(u64::try_from(last + 1).unwrap());
        names.swap(last, usize::try_from(other).unwrap());
    }
    names.join(&b","[..])
}
