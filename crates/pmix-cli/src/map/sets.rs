// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists as sets: sorted, or the names that some rule chooses, each once and in the order in which they
//! first appear.

use std::collections::HashMap;

use pmix_map::{Limits, NodeList, NodeListBuilder};

use super::{convert, natural, read_lists};
use crate::args::Lists;
use crate::context::Context;
use crate::failure::{Exit, Failure};

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
    names.sort_by(|a, b| natural::compare(a, b));
    let list = list_of(names.iter().map(Vec::as_slice), context.limits())?;
    convert::write(context, &list.into(), args.to)?;
    Ok(Exit::Ok)
}

/// Runs `unique`, `union`, `minus`, `intersection` and `xor`.
pub(super) fn chosen(context: &mut Context, args: &Lists, rule: Rule) -> Result<Exit, Failure> {
    let lists = read_lists(context, &args.lists)?;
    let list = choose(&lists, rule, context.limits())?;
    convert::write(context, &list.into(), args.to)?;
    Ok(Exit::Ok)
}

/// In how many lists a name is, and which one had it last.
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

#[cfg(test)]
mod tests {
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
}
