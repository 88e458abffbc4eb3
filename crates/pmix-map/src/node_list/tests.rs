// SPDX-License-Identifier: MIT OR Apache-2.0

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::scan::MAX_DIGITS;

/// The expanded content of a list.
type Model = Vec<Vec<u8>>;

/// A call of the builder.
#[derive(Clone, Debug)]
enum Step {
    Name(Vec<u8>),
    Row {
        prefix: Vec<u8>,
        suffix: Vec<u8>,
        width: usize,
        first: u64,
        step: i64,
        count: u64,
    },
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![4 => Just(b'n'), 4 => b'0'..=b'2', 1 => Just(b'-'), 1 => Just(0xffu8)];
    vec(byte, 0..4)
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    let digits = |len: usize| vec(b'0'..=b'1', len);
    prop_oneof![
        6 => (0u32..30).prop_map(|n| format!("n{n}").into_bytes()),
        6 => (0u32..4, 0u32..4).prop_map(|(r, n)| format!("r{r:02}n{n:02}").into_bytes()),
        4 => text(),
        1 => digits(20),
        1 => (digits(12), digits(12)).prop_map(|(a, b)| [&a[..], b"x", &b].concat()),
    ]
}

fn row() -> impl Strategy<Value = Step> {
    let affix = prop_oneof![
        text(),
        Just(b"n".to_vec()),
        Just(vec![]),
        vec(b'0'..=b'1', 15..20)
    ];
    let width = prop_oneof![4 => 1..4usize, 1 => Just(MAX_DIGITS)];
    (affix.clone(), affix, width, 0u64..40, -3i64..=11, 1u64..12).prop_map(
        |(prefix, suffix, width, first, step, count)| Step::Row {
            prefix,
            suffix,
            width,
            first,
            step,
            count,
        },
    )
}

/// Generates single names, consecutive names and rows, and repetitions of several of them.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let counted = (name(), 1usize..30, 1usize..4).prop_map(|(name, count, by)| {
        let mut steps = vec![Step::Name(name.clone())];
        let mut name = name;
        for _ in 1..count {
            for _ in 0..by {
                if let Some(field) = crate::scan::fields(&name).last() {
                    crate::scan::increment(&mut name[field]);
                }
            }
            steps.push(Step::Name(name.clone()));
        }
        steps
    });
    let some = prop_oneof![
        vec(name().prop_map(Step::Name), 1..6),
        counted,
        vec(row(), 1..4),
    ];
    let again = (some, 1usize..5).prop_map(|(steps, times)| vec![steps; times].concat());
    vec(again, 0..8).prop_map(|parts| parts.concat())
}

/// Builds the list and its model. Both reject a row that does not fit.
fn build(steps: &[Step]) -> (NodeList, Model) {
    let mut builder = NodeListBuilder::new(&Limits::default());
    let mut model = Model::new();
    for step in steps {
        match step {
            Step::Name(name) => {
                builder.name(name).unwrap();
                model.push(name.clone());
            }
            Step::Row {
                prefix,
                suffix,
                width,
                first,
                step,
                count,
            } => {
                let names: Option<Model> = (0..*count)
                    .map(|i| {
                        let number = i128::from(*first) + i128::from(*step) * i128::from(i);
                        let digits = format!("{number:0width$}");
                        let fits = number >= 0 && digits.len() == *width;
                        fits.then(|| [prefix, digits.as_bytes(), suffix].concat())
                    })
                    .collect();
                let progression = Progression {
                    prefix,
                    width: *width,
                    first: *first,
                    count: *count,
                    step: *step,
                    suffix,
                };
                assert_eq!(builder.progression(&progression).is_ok(), names.is_some());
                model.extend(names.into_iter().flatten());
            }
        }
    }
    (builder.finish(), model)
}

fn expand(run: &NodeRun<'_>) -> Model {
    match run {
        NodeRun::Name(name) => vec![name.to_vec()],
        NodeRun::Progression(p) => (0..p.count)
            .map(|i| {
                let number = i128::from(p.first) + i128::from(p.step) * i128::from(i);
                let digits = format!("{number:0width$}", width = p.width);
                assert_eq!(digits.len(), p.width);
                [p.prefix, digits.as_bytes(), p.suffix].concat()
            })
            .collect(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn every_query_agrees_with_the_expanded_list(steps in steps(), probes in vec(name(), 8)) {
        let (list, model) = build(&steps);
        prop_assert_eq!(list.len(), model.len());
        prop_assert_eq!(list.is_empty(), model.is_empty());
        prop_assert_eq!(&list.iter().collect::<Model>(), &model);
        let mut each = Model::new();
        list.for_each(|n| each.push(n.to_vec()));
        prop_assert_eq!(&each, &model);
        for (i, name) in model.iter().enumerate() {
            prop_assert_eq!(list.nth(i), Some(name.clone()));
            let first = model.iter().position(|n| n == name);
            prop_assert_eq!(list.position(name), first);
        }
        prop_assert_eq!(list.nth(model.len()), None);
        for probe in probes {
            prop_assert_eq!(list.position(&probe), model.iter().position(|n| *n == probe));
        }
    }

    #[test]
    fn text_and_runs_hold_the_same_names(steps in steps()) {
        let (list, model) = build(&steps);
        let mut text = b"before ".to_vec();
        list.write_text(b';', &mut text);
        prop_assert_eq!(&text[7..], &model.join(&b';')[..]);
        prop_assert_eq!(list.text_len(), text.len() - 7);
        let mut again = Model::new();
        list.for_each_run(|r| again.extend(expand(&r)));
        prop_assert_eq!(&again, &model);
    }

    #[test]
    fn lists_are_equal_if_their_names_are(steps in steps(), at in any::<prop::sample::Index>()) {
        let (list, mut model) = build(&steps);
        let by_name = |model: &Model| {
            build(&model.iter().cloned().map(Step::Name).collect::<Vec<_>>()).0
        };
        prop_assert_eq!(&by_name(&model), &list);
        let text = model.join(&b',');
        if !model.is_empty() && model != [b""] {
            prop_assert_eq!(&NodeList::parse_text(&text, &Limits::default()).unwrap(), &list);
        }
        if !model.is_empty() {
            let at = at.index(model.len());
            model[at].push(b'1');
            prop_assert_ne!(&by_name(&model), &list);
            model[at].pop();
            model.swap(0, at);
            prop_assert_eq!(by_name(&model) == list, model[0] == model[at]);
        }
    }

    #[test]
    fn text_is_split_on_commas_and_nothing_else(names in vec(name(), 1..40)) {
        let text = names.join(&b',');
        let list = NodeList::parse_text(&text, &Limits::default()).unwrap();
        let split: Model = match text.is_empty() {
            true => vec![],
            false => text.split(|b| *b == b',').map(<[u8]>::to_vec).collect(),
        };
        prop_assert_eq!(list.iter().collect::<Model>(), split);
    }
}

fn list(names: impl IntoIterator<Item = String>) -> NodeList {
    let text = names.into_iter().collect::<Vec<_>>().join(",");
    NodeList::parse_text(text.as_bytes(), &Limits::default()).unwrap()
}

fn xnames(cabinets: u32) -> impl Iterator<Item = String> {
    (0..cabinets * 256).map(|i| {
        let (x, c, s, b, n) = (i >> 8, i >> 5 & 7, i >> 2 & 7, i >> 1 & 1, i & 1);
        format!("x{}c{c}s{s}b{b}n{n}", 1000 + x)
    })
}

#[test]
fn memory_of_regular_lists_is_independent_of_length() {
    let lists = [
        list((1..=100_000).map(|n| format!("n{n:06}"))),
        list((0..100_000).map(|n| format!("r{:04}n{:02}", n / 20, n % 20 + 1))),
        list(xnames(400)),
        list((0..100_000).map(|n| format!("r{:02}n{:04}", n % 10, n / 10))),
        list(
            (0..100_000)
                .rev()
                .map(|n| format!("ip-10-0-{n:05}.ec2.internal")),
        ),
        list((0..100_000).map(|_| "localhost".to_owned())),
    ];
    for list in lists {
        assert!(list.len() >= 100_000);
        assert!(list.memory_bytes() < 1000, "{} bytes", list.memory_bytes());
        assert_eq!(
            list.position(&list.nth(77_777).unwrap()),
            list.position(&list.nth(77_777).unwrap())
        );
        assert!(
            list.memory_bytes() < 1500,
            "{} bytes with the index",
            list.memory_bytes()
        );
    }
}

#[test]
fn a_progression_costs_the_same_for_any_count() {
    let progression = |count| {
        let mut builder = NodeListBuilder::new(&Limits::default());
        let run = Progression {
            prefix: b"n",
            width: 7,
            first: 1,
            count,
            step: 1,
            suffix: b".cluster7",
        };
        builder.progression(&run).unwrap();
        builder.finish()
    };
    let (small, large) = (progression(30), progression(9_999_999));
    assert_eq!(small.memory_bytes(), large.memory_bytes());
    assert!(large.memory_bytes() < 1024);
    assert_eq!(large.position(b"n0999999.cluster7"), Some(999_998));
    assert_eq!(large.position(b"n0999999.cluster8"), None);
    assert_eq!(large.nth(9_999_998).unwrap(), b"n9999999.cluster7");
}

#[test]
fn irregular_lists_take_about_as_much_memory_as_text() {
    // A generator with full period returns every number once, in irregular order.
    let shuffled = |names: u64| {
        let mut n = 1u64;
        (0..names).map(move |_| {
            n = (n * 1_664_525 + 1_013_904_223) % (1 << 20);
            n
        })
    };
    let lists = [
        list(shuffled(100_000).map(|n| format!("n{n:07}"))),
        list(shuffled(100_000).map(|n| format!("r{:04}n{:02}", n / 20 % 10_000, n % 20))),
        list(
            (1..100_000)
                .filter(|n| n % 33 != 7)
                .map(|n| format!("n{n:06}")),
        ),
        list(
            (1..100_000)
                .filter(|n| n % 3 != 1 || n % 7 == 2)
                .map(|n| format!("n{n:06}")),
        ),
    ];
    for list in lists {
        let (held, text) = (list.memory_bytes(), list.text_len());
        assert!(held < text * 5 / 4, "{held} bytes for {text} bytes of text");
    }
}

#[test]
fn limits_are_checked_before_anything_is_stored() {
    let limits = Limits {
        max_nodes: 10,
        max_bytes: 50,
        ..Limits::default()
    };
    let run = |width, first, count, step| Progression {
        prefix: b"n",
        width,
        first,
        count,
        step,
        suffix: b"",
    };
    let refused = |run: Progression<'_>| {
        let mut builder = NodeListBuilder::new(&limits);
        let error = builder.progression(&run).unwrap_err();
        let list = builder.finish();
        assert!(list.is_empty() && list.memory_bytes() == 0);
        error.to_string()
    };
    assert!(refused(run(9, 0, 11, 1)).contains("10 nodes"));
    assert!(refused(run(9, 0, u64::MAX, 1)).contains("does not fit"));
    assert!(refused(run(18, 0, u64::MAX, 0)).contains("10 nodes"));
    assert!(refused(run(5, 0, 8, 1)).contains("50 bytes"));
    assert!(refused(run(1, 5, 6, 1)).contains("10 does not fit 1 digits"));
    assert!(refused(run(1, 5, 7, -1)).contains("-1 does not fit"));
    assert!(refused(run(0, 0, 1, 1)).contains("a number of 0 digits"));
    assert!(refused(run(19, 0, 1, 1)).contains("a number of 19 digits"));
    assert!(refused(run(18, u64::MAX, 2, i64::MAX)).contains("does not fit"));
    let parse = |text: &[u8]| NodeList::parse_text(text, &limits);
    assert_eq!(parse(b"1,2,3,4,5,6,7,8,9,a").unwrap().len(), 10);
    assert_eq!(parse(b"a,a,a,a,a,a,a,a,a,a").unwrap().len(), 10);
    assert!(parse(b"0,1,2,3,4,5,6,7,8,9,a").is_err());
    assert!(parse(b",,,,,,,,,,").is_err());
    assert!(parse(&[b'x'; 51]).is_err());
    assert!(parse(&[b'x'; 50]).is_ok());
}

#[test]
fn many_threads_query_one_list_at_once() {
    let list = list(
        (0..2000)
            .map(|n| format!("n{:04}", n * 7919 % 2000))
            .chain(xnames(2)),
    );
    let names: Model = list.iter().collect();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (list, names) = (&list, &names);
            scope.spawn(move || {
                for i in (thread..names.len()).step_by(3) {
                    assert_eq!(list.nth(i).as_ref(), Some(&names[i]));
                    assert_eq!(list.position(&names[i]), Some(i));
                }
                assert_eq!(list.iter().count(), names.len());
            });
        }
    });
}

#[test]
fn overlapping_runs_find_the_first_name() {
    let mut builder = NodeListBuilder::new(&Limits::default());
    // Nested, crossing and interleaved runs, with more distinct steps than are indexed.
    let mut model = Model::new();
    for i in 0..200u64 {
        let step = i64::try_from(i % 40).unwrap() + 1;
        let run = Progression {
            prefix: b"n",
            width: 5,
            first: i * 37 % 1000,
            count: 50 + i % 7,
            step,
            suffix: b"",
        };
        builder.progression(&run).unwrap();
        model.extend(expand(&NodeRun::Progression(run)));
    }
    let list = builder.finish();
    for n in 0..4000 {
        let name = format!("n{n:05}").into_bytes();
        assert_eq!(list.position(&name), model.iter().position(|m| *m == name));
    }
}
