// SPDX-License-Identifier: MIT OR Apache-2.0
//! The nodes that a query covers. A query may name several (`PMIX_NODEID`, `PMIX_HOSTNAME`); its answer includes all of
//! them.

use std::collections::HashSet;

use pmix_types::{Info, Status, Value, keys};

use crate::Error;

/// The limit of nodes in one query.
const MOST_NODES: usize = 4096;

/// The limit of other qualifiers in a query with several nodes, because each lookup of a node processes them.
const MOST_OTHERS: usize = 64;

/// The qualifiers of a query, split by node.
#[derive(Debug)]
pub(super) struct Nodes<'q> {
    /// All qualifiers of the query.
    given: &'q [Info<'q>],
    /// The distinct nodes, if there are several.
    several: Vec<&'q Info<'q>>,
}

impl<'q> Nodes<'q> {
    /// Decodes the qualifiers of a query.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_OUT_OF_RESOURCE` if the query names too many nodes, or has too many other qualifiers with
    /// several nodes.
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

    /// Returns `true` if the query names a node.
    pub(super) fn are_named(&self) -> bool {
        self.given.iter().any(is_node)
    }

    /// Calls `lookup` for each node, with the other qualifiers, or once if the query names no node.
    pub(super) fn for_each<T>(&self, mut lookup: impl FnMut(&[Info<'_>]) -> T) -> Vec<T> {
        let Some(first) = self.several.first() else {
            return vec![lookup(self.given)];
        };
        let others = self.given.iter().filter(|info| !is_node(info));
        let mut qualifiers: Vec<Info<'q>> =
            std::iter::once(*first).chain(others).cloned().collect();
        let one = |node: &&Info<'q>| {
            // One list serves all nodes: a query may name thousands.
            if let Some(place) = qualifiers.first_mut() {
                *place = (*node).clone();
            }
            lookup(&qualifiers)
        };
        self.several.iter().map(one).collect()
    }
}

/// Returns `true` if a qualifier names a node; a NULL name does not.
fn is_node(info: &Info<'_>) -> bool {
    let is_named = !matches!(info.value, Value::String(None));
    is_named && (info.key.is(keys::NODEID) || info.key.is(keys::HOSTNAME))
}

/// Returns the number of qualifiers that name a node, including repetitions.
pub(super) fn num_named(given: &[Info<'_>]) -> usize {
    given.iter().filter(|info| is_node(info)).count()
}

/// Returns the number or the name that identifies a node.
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
        nodes.for_each(|infos| pmix_types::IntoOwned::into_owned(infos.to_vec()))
    }

    #[test]
    fn each_node_is_queried_once_with_the_other_qualifiers() {
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
    fn the_number_of_nodes_in_a_query_is_bounded() {
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
