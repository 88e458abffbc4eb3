// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operations on lists: sorting, set operations, slices, splits, and positions of names.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::hash::{BuildHasher as _, RandomState};
use std::io::Write as _;

use pmix_map::{Limits, NodeList, NodeListBuilder};
use preg_core::Status;
use serde_json::json;

use super::places::places_of;
use super::{read_lists, shape};
use crate::args::{Lists, Parts, Position, Slice};
use crate::context::Context;
use crate::excerpt::Excerpt;
use crate::failure::{Exit, Failure};
use crate::input::{read_nodes, read_option, read_sources};

/// The selection of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// Names in any list.
    Any,
    /// Names of the first list that are in no other list.
    FirstAlone,
    /// Names in all lists.
    All,
    /// Names in an odd number of lists.
    Odd,
}

/// Runs `sort`.
pub(super) fn sort(context: &mut Context, args: &Lists) -> Result<Exit, Failure> {
    let lists = read_lists(context, &args.lists)?;
    let mut names: Vec<_> = lists.iter().flat_map(NodeList::iter).collect();
    names.sort_by(|a, b| natural_order(a, b));
    let list = list_of(names.iter().map(Vec::as_slice), context.limits())?;
    shape::write(context, &list.into(), args.to, &args.shape)?;
    Ok(Exit::Ok)
}

/// Runs `unique`, `union`, `minus`, `intersection` and `xor`.
pub(super) fn chosen(context: &mut Context, args: &Lists, rule: Rule) -> Result<Exit, Failure> {
    let lists = read_lists(context, &args.lists)?;
    let list = choose(&lists, rule, context.limits())?;
    shape::write(context, &list.into(), args.to, &args.shape)?;
    Ok(Exit::Ok)
}

/// The number of lists that contain a name, and the last such list.
struct Seen {
    lists: usize,
    last: usize,
    is_in_first: bool,
}

fn choose(lists: &[NodeList], rule: Rule, limits: &Limits) -> Result<NodeList, Failure> {
    let mut seen: HashMap<Vec<u8>, Seen> = HashMap::new();
    let mut order: Vec<Vec<u8>> = Vec::new();
    for (index, list) in lists.iter().enumerate() {
        list.for_each(|name| match seen.get_mut(name) {
            Some(seen) if seen.last == index => {}
            Some(seen) => (seen.lists, seen.last) = (seen.lists + 1, index),
            None => {
                let (lists, last, is_in_first) = (1, index, index == 0);
                seen.insert(
                    name.to_vec(),
                    Seen {
                        lists,
                        last,
                        is_in_first,
                    },
                );
                order.push(name.to_vec());
            }
        });
    }
    let fits = |name: &&[u8]| {
        seen.get(*name).is_some_and(|seen| match rule {
            Rule::Any => true,
            Rule::FirstAlone => seen.is_in_first && seen.lists == 1,
            Rule::All => seen.lists == lists.len(),
            Rule::Odd => seen.lists % 2 == 1,
        })
    };
    list_of(order.iter().map(Vec::as_slice).filter(fits), limits)
}

/// Folds names to a list.
pub(super) fn list_of<'a>(
    names: impl Iterator<Item = &'a [u8]>,
    limits: &Limits,
) -> Result<NodeList, Failure> {
    let mut builder = NodeListBuilder::new(limits);
    for name in names {
        let fault = |e| Failure::of(&preg_core::Error::from(e), "the list", b"");
        builder.name(name).map_err(fault)?;
    }
    Ok(builder.finish())
}

/// Compares two names: numbers by value, other text byte by byte. Of equal numbers, the one with
/// fewer leading zeros is less, so that different names are never equal.
pub(super) fn natural_order(a: &[u8], b: &[u8]) -> Ordering {
    let (mut left, mut right) = (a, b);
    loop {
        let (Some(x), Some(y)) = (left.first(), right.first()) else {
            // A name is less than longer names that begin with it. Names with equal values are
            // ordered by leading zeros.
            let ends = left.len().cmp(&right.len());
            return ends
                .then_with(|| a.len().cmp(&b.len()))
                .then_with(|| a.cmp(b));
        };
        if x.is_ascii_digit() && y.is_ascii_digit() {
            let (number, rest) = digits(left);
            let (other, other_rest) = digits(right);
            let order = number
                .len()
                .cmp(&other.len())
                .then_with(|| number.cmp(other));
            if order != Ordering::Equal {
                return order;
            }
            (left, right) = (rest, other_rest);
        } else {
            if x != y {
                return x.cmp(y);
            }
            (left, right) = (&left[1..], &right[1..]);
        }
    }
}

/// Returns the number at the start without leading zeros, and the rest of the text.
fn digits(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text
        .iter()
        .position(|b| !b.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    let zeros = number.iter().take_while(|b| **b == b'0').count();
    (&number[zeros..], rest)
}

/// Runs `fold`: sorted names, each once.
pub(super) fn fold(context: &mut Context, args: &Lists) -> Result<Exit, Failure> {
    let lists = read_lists(context, &args.lists)?;
    let mut names: Vec<_> = lists.iter().flat_map(NodeList::iter).collect();
    names.sort_by(|a, b| natural_order(a, b));
    names.dedup();
    let list = list_of(names.iter().map(Vec::as_slice), context.limits())?;
    shape::write(context, &list.into(), args.to, &args.shape)?;
    Ok(Exit::Ok)
}

/// Runs `slice`.
pub(super) fn slice(context: &mut Context, args: &Slice) -> Result<Exit, Failure> {
    let list = one(context, &args.lists)?;
    let places = pmix_hostlist::parse_positions(args.places.as_bytes()).map_err(|error| {
        let place = Excerpt::new(
            "the positions",
            args.places.as_bytes(),
            error.offset().unwrap_or(0),
        );
        let cure = "a position is a number or a range, counted from zero: 3, 8-15, 0-99/3";
        Failure::usage("not a position in a list")
            .at(place)
            .cure(cure)
    })?;
    let len = list.len() as u64;
    let selected = nth_names(context, &list, places.below(len))?;
    shape::write(context, &selected.into(), args.lists.to, &args.lists.shape)?;
    context.out.flush()?;
    match places.first_beyond(len) {
        None => Ok(Exit::Ok),
        Some(place) => {
            let message = format!("no element {place}: the list has {len}");
            let cure = "positions are counted from zero; `pmix map count` counts the names";
            Err(Failure::answer(Status::ERR_NOT_FOUND, message).cure(cure))
        }
    }
}

/// Returns the names at positions that exist.
fn nth_names(
    context: &Context,
    list: &NodeList,
    places: impl Iterator<Item = u64>,
) -> Result<NodeList, Failure> {
    let mut builder = NodeListBuilder::new(context.limits());
    let mut name = Vec::new();
    for place in places {
        name.clear();
        if list.write_nth(usize::try_from(place).unwrap_or(usize::MAX), &mut name) {
            let fault = |e| Failure::of(&preg_core::Error::from(e), "the list", b"");
            builder.name(&name).map_err(fault)?;
        }
    }
    Ok(builder.finish())
}

/// Runs `pick`: names at random positions, in the order of the list.
pub(super) fn pick(context: &mut Context, args: &Parts) -> Result<Exit, Failure> {
    let list = one(context, &args.lists)?;
    let len = list.len() as u64;
    let number = (args.number.get() as u64).min(len);
    let mut places = BTreeSet::new();
    let seed = RandomState::new();
    // Robert Floyd's selection: one random number for each name, whatever the length of the list.
    for last in len - number..len {
        let place = seed.hash_one(last) % (last + 1);
        if !places.insert(place) {
            places.insert(last);
        }
    }
    let picked = nth_names(context, &list, places.into_iter())?;
    shape::write(context, &picked.into(), args.lists.to, &args.lists.shape)?;
    Ok(Exit::Ok)
}

/// Runs `split`: parts whose lengths differ by at most one, the longer ones first.
pub(super) fn split(context: &mut Context, args: &Parts) -> Result<Exit, Failure> {
    let list = one(context, &args.lists)?;
    let parts = args.number.get();
    let (each, more) = (list.len() / parts, list.len() % parts);
    let lengths = (0..parts.min(list.len())).map(|part| each + usize::from(part < more));
    cut(context, &list, lengths, args)
}

/// Runs `chop`: parts of one length. The last one can be shorter.
pub(super) fn chop(context: &mut Context, args: &Parts) -> Result<Exit, Failure> {
    let list = one(context, &args.lists)?;
    let each = args.number.get();
    let lengths = (0..list.len())
        .step_by(each)
        .map(|at| each.min(list.len() - at));
    cut(context, &list, lengths, args)
}

/// Writes the parts, one per line.
fn cut(
    context: &mut Context,
    list: &NodeList,
    lengths: impl Iterator<Item = usize>,
    args: &Parts,
) -> Result<Exit, Failure> {
    let mut names = list.iter();
    for length in lengths {
        let part: Vec<_> = names.by_ref().take(length).collect();
        let part = list_of(part.iter().map(Vec::as_slice), context.limits())?;
        shape::write(context, &part.into(), args.lists.to, &args.lists.shape)?;
    }
    Ok(Exit::Ok)
}

/// Runs `position`: prints the positions of each name on one line.
pub(super) fn position(context: &mut Context, args: &Position) -> Result<Exit, Failure> {
    if args.names == "-" && (args.words.is_empty() || args.words.iter().any(|word| word == "-")) {
        return Err(crate::input::twice());
    }
    let (preg, limits) = (&context.preg, context.limits());
    let asked = read_nodes(preg, read_option("the names", &args.names)?)?.into_list(limits)?;
    let list = read_nodes(preg, read_sources(&args.words)?)?.into_list(limits)?;
    let places = places_of(&asked, &list);
    let (mut answers, mut absent) = (Vec::new(), Vec::new());
    for name in asked.iter() {
        let shown = String::from_utf8_lossy(&name).into_owned();
        let found = places.get(&name).map_or(&[][..], Vec::as_slice);
        for place in found {
            if !context.json {
                context.out.foreign(&name)?;
                writeln!(context.out, "\t{place}")?;
            }
        }
        if found.is_empty() {
            absent.push(shown.clone());
        }
        answers.push(json!({ "name": shown, "places": found }));
    }
    if context.json {
        context.out.json(&json!({ "names": answers }))?;
    }
    context.out.flush()?;
    let Some(first) = absent.first() else {
        return Ok(Exit::Ok);
    };
    let more = match absent.len() - 1 {
        0 => String::new(),
        more => format!(", and {more} more names"),
    };
    let message = format!("not in the list: {first}{more}");
    Err(Failure::answer(Status::ERR_NOT_FOUND, message))
}

/// Returns all arguments as one list.
fn one(context: &Context, args: &Lists) -> Result<NodeList, Failure> {
    let words: &[OsString] = &args.lists;
    let mut lists = read_lists(context, words)?;
    if lists.len() == 1 {
        return Ok(lists.remove(0));
    }
    let names: Vec<_> = lists.iter().flat_map(NodeList::iter).collect();
    list_of(names.iter().map(Vec::as_slice), context.limits())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_rule_keeps_the_order_of_first_appearance() {
        let limits = Limits::default();
        let list = |text: &str| NodeList::parse_text(text.as_bytes(), &limits).unwrap();
        let of = |rule, lists: &[&str]| {
            let lists: Vec<_> = lists.iter().map(|text| list(text)).collect();
            let mut text = Vec::new();
            choose(&lists, rule, &limits)
                .unwrap()
                .write_text(b',', &mut text);
            String::from_utf8(text).unwrap()
        };
        let lists = ["c,a,b,a", "b,d,b", "a,b,e"];
        assert_eq!(of(Rule::Any, &lists), "c,a,b,d,e");
        assert_eq!(of(Rule::FirstAlone, &lists), "c");
        assert_eq!(of(Rule::All, &lists), "b");
        assert_eq!(of(Rule::Odd, &lists), "c,b,d,e");
        assert_eq!(of(Rule::Odd, &lists[..2]), "c,a,d");
        assert_eq!(of(Rule::Any, &lists[..1]), "c,a,b");
        assert_eq!(of(Rule::All, &["", "a"]), "");
    }

    #[test]
    fn numbers_count_by_value() {
        let sorted = [
            "",
            "a",
            "a1",
            "a01",
            "a2",
            "a2b",
            "a10",
            "a010",
            "a10b2",
            "a10b10",
            "b",
            "b123456789012345678901",
            "b123456789012345678902",
        ];
        let mut names = sorted.map(str::as_bytes);
        names.reverse();
        names.sort_by(|a, b| natural_order(a, b));
        assert_eq!(names, sorted.map(str::as_bytes));
    }

    proptest! {
        #[test]
        fn it_is_an_order(a in "[ab0-2]{0,5}", b in "[ab0-2]{0,5}", c in "[ab0-2]{0,5}") {
            let (a, b, c) = (a.as_bytes(), b.as_bytes(), c.as_bytes());
            prop_assert_eq!(natural_order(a, b), natural_order(b, a).reverse());
            prop_assert_eq!(natural_order(a, b) == Ordering::Equal, a == b);
            if natural_order(a, b) != Ordering::Greater && natural_order(b, c) != Ordering::Greater {
                prop_assert_ne!(natural_order(a, c), Ordering::Greater);
            }
        }
    }
}
