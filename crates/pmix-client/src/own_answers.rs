// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queries that the library of a client answers itself: the version of the interface and the supported attributes.
//!
//! Source: PMIx Standard, chapter "Query operations", and `PMIX_CLIENT_ATTRIBUTES` and its like.

use pmix_proto::{SupportLevel, is_about_support};
use pmix_types::{ABI_VERSION, Info, Key, Query, Status, Value, keys};

use crate::Answers;
use crate::obeyed::{CLIENT, TOOL};

/// Queries divided into those that the library answers itself and those for the server.
#[derive(Debug, Default)]
pub struct OwnAnswers {
    found: Vec<Info<'static>>,
    left: Vec<Query<'static>>,
}

impl OwnAnswers {
    /// Answers the queries that a client (or, with `is_tool`, a tool) can answer itself. `known` is called with each
    /// key that is not about support and returns its value if there is one.
    pub fn of(
        queries: Vec<Query<'static>>,
        is_tool: bool,
        mut known: impl FnMut(&str) -> Option<Value<'static>>,
    ) -> Self {
        let mut own = Self::default();
        for mut query in queries {
            if is_about_support(&query) {
                own.support(query, is_tool);
                continue;
            }
            let num_keys = query.keys.len();
            query.keys.retain(|key| {
                let value = match key.as_str().unwrap_or_default() {
                    keys::QUERY_STABLE_ABI_VERSION | keys::QUERY_PROVISIONAL_ABI_VERSION => {
                        Some(Value::from(ABI_VERSION))
                    }
                    key => known(key),
                };
                let is_known = value.is_some();
                own.found
                    .extend(value.map(|value| Info::new(Key::new(key.clone()), value)));
                !is_known
            });
            // A query without keys is invalid. The server must reject it, so the query is passed on.
            if !query.keys.is_empty() || num_keys == 0 {
                own.left.push(query);
            }
        }
        own
    }

    /// Takes the queries that are left for the server.
    pub fn take_left(&mut self) -> Vec<Query<'static>> {
        std::mem::take(&mut self.left)
    }

    /// Returns the own answers together with those of the server, if it was queried. If the server fails and there are
    /// own answers, these are returned with `PMIX_ERR_PARTIAL_SUCCESS`.
    ///
    /// # Errors
    ///
    /// Returns the error of the server if there are no own answers.
    pub fn with<E>(self, answer: Option<Result<Answers, E>>) -> Result<Answers, E> {
        let mut found = self.found;
        match answer {
            None => Ok((Status::SUCCESS, found)),
            Some(Err(error)) if found.is_empty() => Err(error),
            Some(Err(_)) => Ok((Status::ERR_PARTIAL_SUCCESS, found)),
            Some(Ok((status, more))) => {
                let is_partly = !found.is_empty() && !status.is_success();
                found.extend(more);
                match is_partly {
                    true => Ok((Status::ERR_PARTIAL_SUCCESS, found)),
                    false => Ok((status, found)),
                }
            }
        }
    }

    /// Answers a query about support for the levels of this library, and leaves the other levels for the server.
    fn support(&mut self, mut query: Query<'static>, is_tool: bool) {
        let own: &[_] = match is_tool {
            true => &[(SupportLevel::Client, CLIENT), (SupportLevel::Tool, TOOL)],
            false => &[(SupportLevel::Client, CLIENT)],
        };
        for (level, table) in own {
            self.found.extend(level.answer(&query, table));
        }
        let names_levels = !query.qualifiers.is_empty();
        let is_own = |info: &Info<'_>| {
            let mut levels = own.iter().flat_map(|(level, _)| level.keys());
            levels.any(|key| info.key.is(key))
        };
        query.qualifiers.retain(|info| !is_own(info));
        // A query without qualifiers is about all levels, so the server is queried as well.
        if !names_levels || !query.qualifiers.is_empty() {
            self.left.push(query);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(names: &[&'static str], qualifiers: Vec<Info<'static>>) -> Query<'static> {
        let keys = names.iter().map(|key| (*key).into()).collect();
        Query { keys, qualifiers }
    }

    fn own(queries: Vec<Query<'static>>, is_tool: bool) -> (Vec<String>, Vec<Query<'static>>) {
        let mut own = OwnAnswers::of(queries, is_tool, |key| {
            (key == "known").then(|| 1u32.into())
        });
        let left = own.take_left();
        let found = own.found.iter().map(|info| info.key.to_string());
        (found.collect(), left)
    }

    #[test]
    fn queries_with_own_answers_are_not_sent_to_the_server() {
        let abi = keys::QUERY_STABLE_ABI_VERSION;
        let (found, left) = own(vec![query(&[abi, "known"], vec![])], false);
        assert_eq!((found.len(), left), (2, vec![]));
        let mixed = vec![query(&[abi, keys::JOB_SIZE], vec![]), query(&[], vec![])];
        let (found, left) = own(mixed, false);
        assert_eq!(found, [abi]);
        assert_eq!(left, [query(&[keys::JOB_SIZE], vec![]), query(&[], vec![])]);
    }

    #[test]
    fn each_level_is_answered_by_whose_it_is() {
        let support = keys::QUERY_ATTRIBUTE_SUPPORT;
        let level = |key: &'static str| Info::new(key, "PMIx_Query_info");
        let client = || vec![query(&[support], vec![level(keys::CLIENT_ATTRIBUTES)])];
        assert_eq!(own(client(), false), (vec![support.to_owned()], vec![]));
        let tool = || vec![query(&[support], vec![level(keys::TOOL_FUNCTIONS)])];
        assert_eq!(own(tool(), false), (vec![], tool()), "it is no tool");
        assert_eq!(own(tool(), true), (vec![support.to_owned()], vec![]));
        let host = level(keys::HOST_ATTRIBUTES);
        let both = query(
            &[support],
            vec![level(keys::CLIENT_FUNCTIONS), host.clone()],
        );
        let (found, left) = own(vec![both], false);
        assert_eq!(
            (found.len(), left),
            (1, vec![query(&[support], vec![host])])
        );
        let all = query(&[support], vec![]);
        let (found, left) = own(vec![all.clone()], true);
        assert_eq!((found.len(), left), (4, vec![all]));
    }

    #[test]
    fn both_answers_are_one() {
        let known = || {
            OwnAnswers::of(vec![query(&["known"], vec![])], false, |_| {
                Some(1u32.into())
            })
        };
        type FromServer = Result<Answers, Status>;
        let answers = known().with::<Status>(None).unwrap();
        assert_eq!((answers.0, answers.1.len()), (Status::SUCCESS, 1));
        let refused: FromServer = Err(Status::ERR_NOT_FOUND);
        let answers = known().with(Some(refused.clone())).unwrap();
        assert_eq!(
            (answers.0, answers.1.len()),
            (Status::ERR_PARTIAL_SUCCESS, 1)
        );
        assert_eq!(OwnAnswers::default().with(Some(refused.clone())), refused);
        let more: FromServer = Ok((Status::SUCCESS, vec![Info::new("b", 2u32)]));
        let answers = known().with(Some(more)).unwrap();
        assert_eq!((answers.0, answers.1.len()), (Status::SUCCESS, 2));
    }
}
