// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queries: what is known here, and what the host adds.

use pmix_proto::request;
use pmix_types::{Info, IntoOwned, Key, Query, Status, Text, keys};

use super::known::LocalAnswer;
use super::support::{is_about_support, supported};
use super::target::QueryTarget;
use crate::control::with_user;
use crate::host::{self, Answer};
use crate::peers::Ticket;
use crate::{Engine, Error, weight};

/// The most keys that one request may ask for.
const MOST_KEYS: usize = 4096;

/// The most bytes that the values of one answer may take: the process table of a job of half a
/// million fits.
const MOST_BYTES: usize = 256 << 20;

/// Collects what this server knows of a query, and what the host is to be asked for.
#[derive(Debug, Default)]
struct QueryResults {
    found: Vec<Info<'static>>,
    /// What the host is asked.
    open: Vec<Query<'static>>,
    /// What stands where the host knows no better.
    tentative: Vec<Info<'static>>,
    /// How many of the keys that the host is asked for the server does not know.
    num_unknown: usize,
    /// How many keys the server does not know and the host may not be asked for.
    num_missing: usize,
    /// How many keys were looked at.
    num_keys: usize,
    /// How many bytes the values take that are found here.
    weight: usize,
}

/// What of one query the host is to be asked for.
#[derive(Debug, Default)]
struct Open {
    keys: Vec<Text<'static>>,
    /// How many of the keys the server does not know.
    num_unknown: usize,
}

impl Engine {
    /// A process asks. What is known here is answered here; the host is asked for the rest, and
    /// both answers are one.
    ///
    /// The answer is one info for each key that was found, as all libraries up to 7.0 read it; the
    /// newest Standard puts the infos of each query into an array of their own.
    pub(crate) fn query(&mut self, ticket: Ticket, request: &request::Query<'_>) {
        match self.look(&ticket, &request.queries) {
            Err(error) => self.reply_error(ticket, &error),
            Ok(results) if results.open.is_empty() => {
                self.reply_results(ticket, results, None);
            }
            Ok(results) => self.ask_the_rest(ticket, results),
        }
    }

    fn look(&self, ticket: &Ticket, queries: &[Query<'_>]) -> Result<QueryResults, Error> {
        if queries.is_empty() {
            return Err(Error::bad("a request without queries"));
        }
        let member = self.member(ticket)?;
        let mut results = QueryResults::default();
        for query in queries {
            if query.keys.is_empty() {
                return Err(Error::bad("a query without keys"));
            }
            if is_about_support(query) {
                let (found, open) = supported(query);
                results.spend(query.keys.len(), weight::infos(&found))?;
                results.found.extend(found);
                results.num_unknown += usize::from(open.is_some());
                results.open.extend(open);
                continue;
            }
            let target = QueryTarget::read(&query.qualifiers)?;
            let mut open = Open::default();
            for key in &query.keys {
                let name = key.as_str().unwrap_or_default();
                let known = self.known(member, name, &target, &query.qualifiers);
                results.add(key, known, &mut open)?;
            }
            results.leave(query, open);
        }
        Ok(results)
    }

    fn ask_the_rest(&mut self, ticket: Ticket, mut results: QueryResults) {
        let Ok(member) = self.member(&ticket) else {
            return self.reply_status(ticket, Status::ERR_LOST_CONNECTION);
        };
        let mut queries = std::mem::take(&mut results.open);
        for query in &mut queries {
            query.qualifiers = with_user(&query.qualifiers, member.user);
        }
        let call = host::Query {
            proc: member.proc.clone(),
            queries,
        };
        self.ask(ticket.peer(), call, move |engine, answer| {
            engine.reply_results(ticket, results, Some(answer));
        });
    }

    fn reply_results(&mut self, ticket: Ticket, results: QueryResults, answer: Option<Answer>) {
        let (status, infos) = results.with(answer);
        match infos.is_empty() {
            true => self.reply_status(ticket, status),
            false => self.reply_infos(ticket, status, infos),
        }
    }
}

impl QueryResults {
    /// Adds what is known of a key.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_OUT_OF_RESOURCE` if the request asks for more than one request may.
    fn add(&mut self, key: &Text<'_>, known: LocalAnswer, open: &mut Open) -> Result<(), Error> {
        let key = key.clone().into_owned();
        let weight = match &known {
            LocalAnswer::Found(value) | LocalAnswer::Tentative(value) => weight::value(value),
            LocalAnswer::Unknown => 0,
        };
        self.spend(1, weight)?;
        match known {
            LocalAnswer::Found(value) => {
                self.found.push(Info::new(Key::new(key), value));
                return Ok(());
            }
            LocalAnswer::Tentative(value) => {
                self.tentative.push(Info::new(Key::new(key.clone()), value))
            }
            LocalAnswer::Unknown => open.num_unknown += 1,
        }
        open.keys.push(key);
        Ok(())
    }

    /// Counts what a request asks for, and what is found of it.
    fn spend(&mut self, num_keys: usize, weight: usize) -> Result<(), Error> {
        self.num_keys += num_keys;
        self.weight += weight;
        if self.num_keys <= MOST_KEYS && self.weight <= MOST_BYTES {
            return Ok(());
        }
        let message = format!("more than {MOST_KEYS} keys or {MOST_BYTES} bytes in one query");
        Err(Error::new(Status::ERR_OUT_OF_RESOURCE, message))
    }

    /// Leaves keys of a query for the host, unless it asks for what is known here alone.
    fn leave(&mut self, query: &Query<'_>, open: Open) {
        let is_local =
            |info: &Info<'_>| info.key.is(keys::QUERY_LOCAL_ONLY) && info.truth().is_true();
        if query.qualifiers.iter().any(is_local) {
            self.num_missing += open.num_unknown;
        } else if !open.keys.is_empty() {
            self.num_unknown += open.num_unknown;
            self.open.push(Query {
                keys: open.keys,
                qualifiers: query.qualifiers.clone().into_owned(),
            });
        }
    }

    /// What is found in all, and what that is called.
    fn with(self, answer: Option<Answer>) -> (Status, Vec<Info<'static>>) {
        let said = answer.as_ref().map(Answer::status);
        let more = match answer {
            Some(Answer::Infos(status, infos)) if has_infos(status) => infos,
            _ => Vec::new(),
        };
        // A host that found all it was asked for may call it otherwise.
        let all_there = said == Some(Status::SUCCESS) && !more.is_empty();
        let num_missing = match all_there {
            true => self.num_missing,
            false => self.num_missing + self.num_unknown,
        };
        let better = |info: &Info<'_>| more.iter().any(|other| other.key == info.key);
        let standing: Vec<_> = (self.tentative.into_iter())
            .filter(|info| !better(info))
            .collect();
        let mut found = self.found;
        found.extend(standing);
        found.extend(more);
        let status = match (found.is_empty(), num_missing) {
            (_, 0) => Status::SUCCESS,
            (false, _) => Status::ERR_PARTIAL_SUCCESS,
            (true, _) => said
                .filter(|said| !has_infos(*said))
                .unwrap_or(Status::ERR_NOT_FOUND),
        };
        (status, found)
    }
}

/// Whether infos belong to a status.
fn has_infos(status: Status) -> bool {
    status.is_success() || status == Status::ERR_PARTIAL_SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmix_types::Value;

    fn info(key: &'static str, number: u32) -> Info<'static> {
        Info::new(key, number)
    }

    fn results(
        found: &[&'static str],
        tentative: &[&'static str],
        num_unknown: usize,
    ) -> QueryResults {
        QueryResults {
            found: found.iter().map(|key| info(key, 1)).collect(),
            tentative: tentative.iter().map(|key| info(key, 2)).collect(),
            num_unknown,
            ..QueryResults::default()
        }
    }

    fn told(
        results: QueryResults,
        answer: Option<Answer>,
    ) -> (Status, Vec<(String, Value<'static>)>) {
        let (status, infos) = results.with(answer);
        let infos = infos
            .into_iter()
            .map(|info| (info.key.to_string(), info.value));
        (status, infos.collect())
    }

    fn values(list: &[(&str, u32)]) -> Vec<(String, Value<'static>)> {
        let value = |(key, number): &(&str, u32)| ((*key).to_owned(), Value::from(*number));
        list.iter().map(value).collect()
    }

    #[test]
    fn what_both_know_is_one_answer() {
        let host = Answer::Infos(Status::SUCCESS, vec![info("c", 3)]);
        let told = told(results(&["a"], &["b"], 1), Some(host));
        let expected = values(&[("a", 1), ("b", 2), ("c", 3)]);
        assert_eq!(told, (Status::SUCCESS, expected));
    }

    #[test]
    fn the_host_knows_better_where_it_knows() {
        let host = Answer::Infos(Status::SUCCESS, vec![info("b", 3)]);
        let told = told(results(&[], &["b"], 0), Some(host));
        assert_eq!(told, (Status::SUCCESS, values(&[("b", 3)])));
    }

    #[test]
    fn some_is_a_partial_success_and_none_is_not_found() {
        let partial = Status::ERR_PARTIAL_SUCCESS;
        let some = Answer::Infos(partial, vec![info("c", 3)]);
        let all = values(&[("a", 1), ("c", 3)]);
        assert_eq!(told(results(&["a"], &[], 2), Some(some)), (partial, all));
        let none = Answer::Infos(Status::SUCCESS, vec![]);
        assert_eq!(told(results(&["a"], &[], 1), Some(none.clone())).0, partial);
        let nothing = told(results(&[], &[], 1), Some(none));
        assert_eq!(nothing, (Status::ERR_NOT_FOUND, vec![]));
    }

    #[test]
    fn a_host_that_fails_leaves_what_is_known_here() {
        for host in [Answer::NotSupported, Answer::DROPPED] {
            let status = host.status();
            let known = told(results(&[], &["b"], 0), Some(host.clone()));
            assert_eq!(known, (Status::SUCCESS, values(&[("b", 2)])));
            let some = told(results(&["a"], &[], 1), Some(host.clone()));
            assert_eq!(some.0, Status::ERR_PARTIAL_SUCCESS);
            let none = told(results(&[], &[], 1), Some(host));
            assert_eq!(none, (status, vec![]), "its own reason");
        }
    }

    #[test]
    fn what_is_asked_of_this_server_alone_is_not_asked_elsewhere() {
        let query = Query {
            keys: vec!["x".into()],
            qualifiers: vec![Info::new(keys::QUERY_LOCAL_ONLY, true)],
        };
        let mut results = QueryResults::default();
        let mut open = Open::default();
        results
            .add(&"x".into(), LocalAnswer::Unknown, &mut open)
            .unwrap();
        results.leave(&query, open);
        assert!(results.open.is_empty());
        assert_eq!(results.with(None), (Status::ERR_NOT_FOUND, vec![]));
    }
}
