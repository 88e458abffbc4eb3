// SPDX-License-Identifier: MIT OR Apache-2.0
//! The nodes that a query is about. It may name several (`PMIX_NODEID`, `PMIX_HOSTNAME`), and is answered with
//! what is on any of them.

use std::collections::HashSet;

use pmix_types::{Info, Status, Value, keys};

use crate::Error;

/// The most nodes that one query may name.
const MOST_NODES: usize = 4096;

/// The most other qualifiers of a query that names several nodes: they are looked at for each node.
const MOST_OTHERS: usize = 64;

/// The qualifiers of a query, one node at a time.
#[derive(Debug)]
pub(super) struct Nodes<'q> {
    /// All qualifiers, as they were given.
    given: &'q [Info<'q>],
    /// The nodes, each once, if there are several.
    several: Vec<&'q Info<'q>>,
}

impl<'q> Nodes<'q> {
    /// Reads the qualifiers of a query.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_OUT_OF_RESOURCE` if the query names more nodes than one may, or says more beside them.
    pub(super) fn of(given: &'q [Info<'q>]) -> Result<Self, Error> {
        let named: Vec<_> = given.iter().filter(|info| is_node(info)).collect();
        if named.len() < 2 {
            let several = Vec::new();
            return Ok(Self { given, several });
        }
        let mut seen = HashSet::new();
        let several: Vec<_> = named
            .iter()
            .copied()
            .filter(|info| seen.insert(name(info)))
            .collect();
        if several.len() > MOST_NODES || given.len() - named.len() > MOST_OTHERS {
            let message = format!(
                "a query has more than {MOST_NODES} nodes, or several nodes and more than {MOST_OTHERS} \
                other qualifiers"
            );
            return Err(Error::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        Ok(Self { given, several })
    }

    /// Whether any node is named.
    pub(super) fn are_named(&self) -> bool {
        self.given.iter().any(is_node)
    }

    /// Asks once for each node, with the qualifiers that name it alone, and once if none is named.
    pub(super) fn ask<T>(&self, mut ask: impl FnMut(&[Info<'_>]) -> T) -> Vec<T> {
        let Some(first) = self.several.first() else {
            return vec![ask(self.given)];
        };
        let others = self.given.iter().filter(|info| !is_node(info));
        let mut qualifiers: Vec<Info<'q>> =
            std::iter::once(*first).chain(others).cloned().collect();
        let one = |node: &&Info<'q>| {
            if let Some(place) = qualifiers.first_mut() {
                *place = (*node).clone();
            }
            ask(&qualifiers)
        };
        self.several.iter().map(one).collect()
    }
}

/// Whether a qualifier names a node; one without a name does not.
fn is_node(info: &Info<'_>) -> bool {
    let is_named = !matches!(info.value, Value::String(None));
    is_named && (info.key.is(keys::NODEID) || info.key.is(keys::HOSTNAME))
}

/// How many nodes the qualifiers of a query name, each as often as it is named.
pub(super) fn num_named(given: &[Info<'_>]) -> usize {
    given.iter().filter(|info| is_node(info)).count()
}

/// What tells a node from others: its number, or its name.
fn name<'i>(info: &'i Info<'_>) -> (Option<u32>, &'i [u8]) {
    match &info.value {
        Value::String(Some(name)) => (None, name.as_bytes()),
        number => (number.to_number().ok(), &[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(given: &[Info<'_>]) -> Vec<Vec<Info<'static>>> {
        let nodes = Nodes::of(given).unwrap();
        nodes.ask(|infos| pmix_types::IntoOwned::into_owned(infos.to_vec()))
    }

    #[test]
    fn each_node_is_asked_about_once_with_what_else_is_said() {
        let (five, seven) = (
            Info::new(keys::NODEID, 5_u32),
            Info::new(keys::NODEID, 7_u32),
        );
        let other = Info::new(keys::NODE_INFO, true);
        let given = [five.clone(), other.clone(), seven.clone(), five.clone()];
        let expected = [
            vec![five.clone(), other.clone()],
            vec![seven, other.clone()],
        ];
        assert_eq!(asked(&given), expected);
        let nobody = Info::new(keys::HOSTNAME, Value::String(None));
        let one = [five, nobody, other];
        assert_eq!(asked(&one), [one.to_vec()]);
        assert_eq!(asked(&[]), [vec![]]);
    }

    #[test]
    fn one_query_names_so_many_nodes() {
        let many = |count: u32| -> Vec<_> {
            let ids = 0..count;
            ids.map(|id| Info::new(keys::NODEID, id)).collect()
        };
        assert!(Nodes::of(&many(4096)).is_ok());
        let refused = Nodes::of(&many(4097)).unwrap_err();
        assert_eq!(refused.status(), Status::ERR_OUT_OF_RESOURCE);
        let others = (0..65).map(|_| Info::new(keys::NODE_INFO, true));
        let crowded: Vec<_> = many(2).into_iter().chain(others).collect();
        assert!(Nodes::of(&crowded).is_err());
        assert!(Nodes::of(&crowded[1..]).is_ok(), "of one node");
    }
}
