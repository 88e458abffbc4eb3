// SPDX-License-Identifier: MIT OR Apache-2.0

use proptest::prelude::*;

use super::*;

fn expanded(text: &str) -> Vec<String> {
    let list = expand(
        text.as_bytes(),
        true,
        Notation::ClusterShell,
        &Limits::default(),
    )
    .unwrap();
    list.iter().map(|n| String::from_utf8(n).unwrap()).collect()
}

#[test]
fn separators_are_those_of_plain_lists() {
    assert_eq!(expanded("[1],,a , b\n\nc"), ["1", "", "a", "b", "c"]);
    assert_eq!(expanded(",[1],"), ["", "1", ""]);
    assert_eq!(expanded("# no [\n[1] # no ]\nb#2"), ["1", "b#2"]);
}

/// The output of `scontrol show hostnames` of Slurm 22.05.
#[test]
fn slurm_counts_the_first_of_three_brackets_before_the_second() {
    let names = |text: &str| {
        let limits = Limits::default();
        let list = expand(text.as_bytes(), false, Notation::Slurm, &limits).unwrap();
        let names: Vec<_> = list.iter().map(|n| String::from_utf8(n).unwrap()).collect();
        names.join(" ")
    };
    assert_eq!(names("r[1-2]n[1-2]"), "r1n1 r1n2 r2n1 r2n2");
    assert_eq!(
        names("x[1-2]c[1-2]n[1-2],y"),
        "x1c1n1 x1c1n2 x2c1n1 x2c1n2 x1c2n1 x1c2n2 x2c2n1 x2c2n2 y"
    );
    assert_eq!(
        names("x[1-2]c[1-2]b[3-4]n[08,9]"),
        "x1c1b3n08 x1c1b3n9 x2c1b3n08 x2c1b3n9 x1c2b3n08 x1c2b3n9 x2c2b3n08 x2c2b3n9 \
         x1c1b4n08 x1c1b4n9 x2c1b4n08 x2c1b4n9 x1c2b4n08 x1c2b4n9 x2c2b4n08 x2c2b4n9"
    );
}

#[test]
fn errors_have_offsets_in_the_whole_text() {
    for (text, offset) in [
        ("a,n[1-x]", 6),
        ("n1]", 2),
        ("n[1", 1),
        ("n[1[2]]", 3),
        ("ok n[1-2]m[]", 11),
        ("n[4-2]", 2),
    ] {
        let error = expand(
            text.as_bytes(),
            false,
            Notation::ClusterShell,
            &Limits::default(),
        )
        .unwrap_err();
        assert_eq!(error.offset(), Some(offset), "{text}: {error}");
        assert_eq!(error.status(), pmix_types::Status::ERR_BAD_PARAM);
    }
    let most = Limits {
        max_nodes: 10,
        ..Limits::default()
    };
    let error = expand(b"a,n[1-99999999999]", false, Notation::Slurm, &most).unwrap_err();
    assert_eq!(error.status(), pmix_types::Status::ERR_OUT_OF_RESOURCE);
    assert_eq!(error.offset(), Some(2));
}

/// A bracket entry: numbers or ranges, with the width of their padding.
#[derive(Clone, Debug)]
struct Range {
    first: u64,
    more: u64,
    step: u64,
    width: usize,
}

impl Range {
    fn text(&self) -> String {
        let (first, last, width) = (self.first, self.first + self.more, self.width);
        match (self.more, self.step) {
            (0, _) => format!("{first:0width$}"),
            (_, 1) => format!("{first:0width$}-{last:0width$}"),
            (_, step) => format!("{first:0width$}-{last:0width$}/{step}"),
        }
    }

    fn numbers(&self) -> Vec<String> {
        let width = self.width;
        let steps =
            (self.first..=self.first + self.more).step_by(usize::try_from(self.step).unwrap());
        steps.map(|n| format!("{n:0width$}")).collect()
    }
}

fn range() -> impl Strategy<Value = Range> {
    (0u64..1100, 0u64..30, 1u64..4, 0usize..5).prop_map(|(first, more, step, width)| Range {
        first,
        more,
        step,
        width,
    })
}

type Name = (String, Vec<(Vec<Range>, String)>);

fn name() -> impl Strategy<Value = Name> {
    let bracket = (prop::collection::vec(range(), 1..3), "[a-z0-9.-]{0,3}");
    ("[a-z][a-z0-9-]{0,3}", prop::collection::vec(bracket, 0..3))
}

fn text_of((prefix, brackets): &Name) -> String {
    brackets
        .iter()
        .fold(prefix.clone(), |text, (ranges, tail)| {
            let inside: Vec<_> = ranges.iter().map(Range::text).collect();
            format!("{text}[{}]{tail}", inside.join(","))
        })
}

/// Expands a name in a simple way: every bracket multiplies the names so far.
fn names_of((prefix, brackets): &Name) -> Vec<String> {
    brackets
        .iter()
        .fold(vec![prefix.clone()], |heads, (ranges, tail)| {
            let numbers: Vec<_> = ranges.iter().flat_map(Range::numbers).collect();
            let grow = |head: &String| -> Vec<String> {
                numbers.iter().map(|n| format!("{head}{n}{tail}")).collect()
            };
            heads.iter().flat_map(grow).collect()
        })
}

proptest! {
    #[test]
    fn expansion_agrees_with_the_naive_one(list in prop::collection::vec(name(), 1..5)) {
        let text = list.iter().map(text_of).collect::<Vec<_>>().join(",");
        let expected: Vec<_> = list.iter().flat_map(names_of).collect();
        prop_assert_eq!(expanded(&text), expected);
    }

    #[test]
    fn no_text_causes_a_panic(text in "[\\[\\]0-9,a/ :\n#-]{0,40}") {
        let limits = Limits { max_nodes: 10_000, ..Limits::default() };
        // Both success and an error are correct, but the parser must not panic.
        prop_assert!(expand(text.as_bytes(), true, Notation::Slurm, &limits).map_or(true, |l| l.len() <= 10_000));
    }
}
