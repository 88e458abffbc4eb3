// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names of lists with operators of nodeset and pdsh, and with groups.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use pmix_hostlist::{Operator, Term};
use pmix_map::{Limits, NodeList, NodeListBuilder};
use pmix_mca::Environment;

use super::groups::Groups;
use super::source::{Form, Source, of_limits, of_list};
use crate::excerpt::Excerpt;
use crate::failure::Failure;

/// The maximum depth of nested groups.
const DEEPEST: usize = 64;

/// A name, shared by the groups that have it.
type Name = Rc<[u8]>;

/// An evaluator of expressions. Each group is evaluated at most once.
pub(crate) struct Expressions<'a> {
    limits: &'a Limits,
    groups: OnceCell<Groups>,
    known: HashMap<(usize, String), Rc<[Name]>>,
    /// The groups whose definitions are being evaluated, outermost first.
    open: Vec<(usize, String)>,
    /// The number of names of all groups and terms so far, also of those that operators have removed.
    num_names: u64,
}

impl<'a> Expressions<'a> {
    pub(crate) fn new(limits: &'a Limits) -> Self {
        Self {
            limits,
            groups: OnceCell::new(),
            known: HashMap::new(),
            open: Vec::new(),
            num_names: 0,
        }
    }

    /// Returns the groups of this node.
    pub(crate) fn groups(&self) -> Result<&Groups, Failure> {
        if let Some(groups) = self.groups.get() {
            return Ok(groups);
        }
        let groups = Groups::read(&Environment::of_process())?;
        Ok(self.groups.get_or_init(|| groups))
    }

    /// Returns the names of an expression, each once. Returns `None` if the text has neither an operator nor a group.
    pub(super) fn list(&mut self, source: &Source) -> Result<Option<NodeList>, Failure> {
        let found = pmix_hostlist::terms(&source.bytes).map_err(|error| of_list(&error, source))?;
        let Some(terms) = found else {
            return Ok(None);
        };
        let names = self.evaluate(source, &terms)?;
        list_of(&names, self.limits).map(Some)
    }

    /// Returns the nodes of a group.
    pub(crate) fn nodes_of(&mut self, source: &str, group: &str) -> Result<NodeList, Failure> {
        let (index, _) = self.groups()?.source(Some(source))?;
        let names = self.group(index, group)?;
        list_of(&names, self.limits)
    }

    fn evaluate(&mut self, source: &Source, terms: &[Term<'_>]) -> Result<Vec<Name>, Failure> {
        let mut names = Names::default();
        let mut excluded = HashSet::new();
        for term in terms {
            let of_term = self.of_term(source, term)?;
            self.charge(of_term.len())?;
            match term.operator {
                Operator::Union => of_term.into_iter().for_each(|name| names.insert(name)),
                Operator::Difference => of_term.iter().for_each(|name| names.remove(name)),
                Operator::Exclusion => excluded.extend(of_term),
                Operator::Intersection => {
                    let kept: HashSet<_> = of_term.into_iter().collect();
                    names.places.retain(|name, _| kept.contains(name));
                }
                Operator::SymmetricDifference => {
                    let (both, added): (Vec<_>, Vec<_>) = of_term
                        .into_iter()
                        .partition(|name| names.places.contains_key(name));
                    both.iter().for_each(|name| names.remove(name));
                    added.into_iter().for_each(|name| names.insert(name));
                }
            }
        }
        excluded.iter().for_each(|name| names.remove(name));
        Ok(names.finish())
    }

    /// Counts names of a group or term. Without a limit, a short text of many terms that remove each other would take any
    /// amount of time and memory.
    fn charge(&mut self, more: usize) -> Result<(), Failure> {
        let most = self.limits.max_nodes.saturating_mul(2);
        self.num_names = self.num_names.saturating_add(more as u64);
        match self.num_names <= most {
            true => Ok(()),
            false => Err(of_limits(pmix_map::Error::limit(
                "nodes of groups and operators",
                most,
            ))),
        }
    }

    fn of_term(&mut self, source: &Source, term: &Term<'_>) -> Result<Vec<Name>, Failure> {
        let Some(group) = term.text.strip_prefix(b"@") else {
            let list = pmix_hostlist::parse(term.text, self.limits)
                .map_err(|error| of_list(&error.shifted_by(term.offset), source))?;
            return Ok(list.iter().map(Name::from).collect());
        };
        let place = || Excerpt::new(&source.origin, &source.bytes, term.offset);
        self.of_groups(group)
            .map_err(|failure| failure.at_unless_placed(place))
    }

    /// Returns the names of the groups of a term: `NAME`, `SOURCE:NAME`, names with brackets or wildcards.
    fn of_groups(&mut self, text: &[u8]) -> Result<Vec<Name>, Failure> {
        let text = std::str::from_utf8(text)
            .map_err(|_| Failure::data("the name of the group is not UTF-8"))?;
        let (source, group) = match text.split_once(':') {
            Some((source, group)) => (Some(source), group),
            None => (None, text),
        };
        let (index, found) = self.groups()?.source(source)?;
        let groups: Vec<String> = match group {
            "*" if found.definition("all").is_some() => vec!["all".to_owned()],
            group if group.contains(['*', '?']) => {
                let matching = found
                    .names()
                    .filter(|name| matches(group.as_bytes(), name.as_bytes()));
                matching.map(str::to_owned).collect()
            }
            group => {
                let list = pmix_hostlist::parse(group.as_bytes(), self.limits)
                    .map_err(|error| Failure::data(error.to_string()))?;
                let names = list
                    .iter()
                    .map(|name| String::from_utf8_lossy(&name).into_owned());
                names.collect()
            }
        };
        if groups.is_empty() {
            let message = format!("no group of source `{}` matches `{group}`", found.name);
            return Err(Failure::data(message).cure("`pmix map groups` lists the groups"));
        }
        let mut names = Vec::new();
        for group in groups {
            let of_group = self.group(index, &group)?;
            self.charge(of_group.len())?;
            names.extend(of_group.iter().cloned());
        }
        Ok(names)
    }

    /// Returns the names of a group, and evaluates its definition the first time.
    fn group(&mut self, index: usize, name: &str) -> Result<Rc<[Name]>, Failure> {
        let key = (index, name.to_owned());
        if let Some(known) = self.known.get(&key) {
            return Ok(Rc::clone(known));
        }
        let groups = self.groups()?;
        let source = groups
            .sources()
            .get(index)
            .map(|source| source.name.clone());
        let (_, text) = groups.group(source.as_deref(), name)?;
        let file = groups.sources()[index].file().display();
        let definition = Source {
            origin: format!("group `{name}` in {file}"),
            bytes: text.as_bytes().to_vec(),
            comments: false,
            form: Form::Map,
        };
        if self.open.contains(&key) || self.open.len() == DEEPEST {
            let path = self
                .open
                .iter()
                .skip_while(|open| **open != key && self.open.contains(&key));
            let path: Vec<_> = path.map(|(_, name)| format!("@{name}")).collect();
            let message = match self.open.contains(&key) {
                true => format!(
                    "the groups contain each other: {} > @{name}",
                    path.join(" > ")
                ),
                false => format!(
                    "the groups are nested more than {DEEPEST} deep, beginning with {}",
                    path[0]
                ),
            };
            return Err(Failure::data(message).cure(format!("correct the groups in {file}")));
        }
        self.open.push(key.clone());
        let names = self.of_definition(&definition, source.as_deref())?;
        self.open.pop();
        self.charge(names.len())?;
        let names: Rc<[Name]> = names.into();
        self.known.insert(key, Rc::clone(&names));
        Ok(names)
    }

    fn of_definition(
        &mut self,
        definition: &Source,
        source: Option<&str>,
    ) -> Result<Vec<Name>, Failure> {
        let fault = |error| of_list(&error, definition);
        let Some(mut terms) = pmix_hostlist::terms(&definition.bytes).map_err(fault)? else {
            let list = pmix_hostlist::parse(&definition.bytes, self.limits).map_err(fault)?;
            let mut names = Names::default();
            list.for_each(|name| {
                if !name.is_empty() {
                    names.insert(Name::from(name));
                }
            });
            return Ok(names.finish());
        };
        // A group in a definition is one of the same source, unless it names another.
        let own = source.unwrap_or_default();
        let owned: Vec<Option<Vec<u8>>> = (terms.iter())
            .map(|term| match term.text.strip_prefix(b"@") {
                Some(name) if !name.contains(&b':') => {
                    Some([b"@", own.as_bytes(), b":", name].concat())
                }
                _ => None,
            })
            .collect();
        for (term, text) in terms.iter_mut().zip(&owned) {
            if let Some(text) = text {
                term.text = text;
            }
        }
        self.evaluate(definition, &terms)
    }
}

/// Names in the order in which they were inserted, each once.
#[derive(Default)]
struct Names {
    order: Vec<Name>,
    /// The place of each name that was not removed.
    places: HashMap<Name, usize>,
}

impl Names {
    fn insert(&mut self, name: Name) {
        if !self.places.contains_key(&name) {
            self.places.insert(Rc::clone(&name), self.order.len());
            self.order.push(name);
        }
    }

    fn remove(&mut self, name: &Name) {
        self.places.remove(name);
    }

    fn finish(self) -> Vec<Name> {
        let Self { order, places } = self;
        let names = order.into_iter().enumerate();
        // A name that was removed and inserted again has its last place.
        let left = names.filter(|(place, name)| places.get(name) == Some(place));
        left.map(|(_, name)| name).collect()
    }
}

fn list_of(names: &[Name], limits: &Limits) -> Result<NodeList, Failure> {
    let mut builder = NodeListBuilder::new(limits);
    for name in names {
        builder.name(name).map_err(of_limits)?;
    }
    Ok(builder.finish())
}

/// Returns `true` if the name matches the pattern, in which `*` is any text and `?` is any character.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut place) = (0, 0);
    // The last `*`, and the place in the name that its text ends before.
    let mut star: Option<(usize, usize)> = None;
    while place < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, place));
                at += 1;
            }
            Some(byte) if *byte == b'?' || *byte == name[place] => {
                (at, place) = (at + 1, place + 1)
            }
            _ => match star {
                Some((found, end)) => {
                    star = Some((found, end + 1));
                    (at, place) = (found + 1, end + 1);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_match_any_text() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("rack*", "rack1", true),
            ("rack*", "rac", false),
            ("*a*b", "xxayyabb", true),
            ("?", "", false),
            ("r?ck?", "rack1", true),
            ("*x", "abc", false),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), name.as_bytes()),
                expected,
                "{pattern} {name}"
            );
        }
    }

    fn list(limits: &Limits, text: &str) -> Result<NodeList, Failure> {
        let source = Source {
            origin: "argument 1".to_owned(),
            bytes: text.as_bytes().to_vec(),
            comments: false,
            form: Form::Map,
        };
        let list = Expressions::new(limits).list(&source)?;
        Ok(list.expect("an operator"))
    }

    #[test]
    fn names_that_operators_remove_count() {
        let limits = Limits {
            max_nodes: 100,
            ..Limits::default()
        };
        assert!(list(&limits, "n[1-90]!n5").is_ok());
        assert!(list(&limits, "n[1-90]^n[1-90]").is_ok());
        for operator in ["^", "!", "&", ","] {
            let terms = ["n[1-90]"; 4].join(operator);
            let text = format!("{terms}!n5");
            let failure = list(&limits, &text).err().unwrap();
            assert!(failure.message().contains("200"), "{}", failure.message());
        }
    }

    #[test]
    fn operators_are_evaluated_from_left_to_right() {
        let limits = Limits::default();
        for (text, expected) in [
            ("n[1-10]!n[2-3]&n[1-5]^n20", "n1,n4,n5,n20"),
            ("n[1-3],-n2,n2,n4", "n1,n3,n4"),
            ("b,a,b!c", "b,a"),
            ("a!a,b,a", "b,a"),
            ("n[1-4]^n[3-6]", "n1,n2,n5,n6"),
            ("n[1-4]^n[3-6],n3", "n1,n2,n5,n6,n3"),
            ("n[1-3]&m1", ""),
        ] {
            let list = list(&limits, text).unwrap();
            let mut found = Vec::new();
            list.write_text(b',', &mut found);
            assert_eq!(String::from_utf8_lossy(&found), expected, "{text}");
        }
    }
}
