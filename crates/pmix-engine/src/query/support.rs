// SPDX-License-Identifier: MIT OR Apache-2.0
//! The attributes that the server supports, by function.

use pmix_proto::SupportLevel;
use pmix_types::{Info, IntoOwned as _, Query, Value};

use crate::obeyed::SUPPORTED;

/// Returns one info for each requested key at the level of the server, and the remaining query for the host. The levels
/// of clients and tools are answered by their own libraries.
pub(super) fn supported(query: &Query<'_>) -> (Vec<Info<'static>>, Option<Query<'static>>) {
    let found = SupportLevel::Server.answer(query, SUPPORTED);
    let mut left = Vec::new();
    for key in SupportLevel::Host.keys() {
        match query.qualifiers.iter().find(|info| info.key.is(key)) {
            Some(info) => left.push(info.clone().into_owned()),
            None if query.qualifiers.is_empty() => left.push(Info::new(key, Value::Undef)),
            None => {}
        }
    }
    let left = (!left.is_empty()).then(|| Query {
        keys: query.keys.clone().into_owned(),
        qualifiers: left,
    });
    (found, left)
}

#[cfg(test)]
mod tests {
    use pmix_types::{Text, keys};

    use super::*;

    fn query(keys: &[&'static str], qualifiers: Vec<Info<'static>>) -> Query<'static> {
        let keys = [keys::QUERY_ATTRIBUTE_SUPPORT].iter().chain(keys);
        Query {
            keys: keys.map(|key| Text::from(*key)).collect(),
            qualifiers,
        }
    }

    #[test]
    fn attributes_of_the_host_are_left_to_the_host() {
        let host = Info::new(keys::HOST_ATTRIBUTES, "all");
        let (found, left) = supported(&query(&["PMIx_Get"], vec![host.clone()]));
        assert_eq!(found, []);
        let left = left.unwrap();
        assert_eq!((left.keys.len(), left.qualifiers), (2, vec![host]));
        let (found, left) = supported(&query(&[], vec![]));
        assert_eq!((found.len(), left.unwrap().qualifiers.len()), (2, 2));
    }
}
