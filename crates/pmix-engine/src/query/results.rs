// SPDX-License-Identifier: MIT OR Apache-2.0
//! The results of a query, from this server and from the host.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use pmix_types::{Info, IntoOwned, Key, Query, Status, Text, Value, keys, memory};

use crate::error::Error;
use crate::host::HostReply;
use crate::infos::timeout;
use crate::weight;

/// The limit of keys in one request.
const MOST_KEYS: usize = 4096;

/// The limit of lookups in one request: keys times nodes.
const MOST_LOOKS: usize = 65_536;

/// The limit in bytes of the values in one reply. The process table of a job of half a million processes fits.
const MOST_BYTES: usize = 256 << 20;

/// The greatest number of keys for [`MOST_BYTES`].
const FEW_KEYS: usize = 64;

/// The limit in bytes for more keys: each could return the process table of every job, which takes time to build.
const MOST_BYTES_OF_MANY: usize = 16 << 20;

/// The answer of this server for one key of a query.
#[derive(Debug, PartialEq)]
pub(super) enum LocalAnswer {
    /// A final answer.
    Found(Value<'static>),
    /// An answer unless the host has a better one: the host observes processes, the server only connections.
    Tentative(Value<'static>),
    /// No value of this server.
    Unknown,
}

/// The results of this server for a query, and the queries for the host.
#[derive(Debug, Default)]
pub(crate) struct QueryResults {
    pub(super) found: Vec<Info<'static>>,
    /// The queries for the host.
    pub(super) open: Vec<Query<'static>>,
    /// The answers of this server, unless the host has better ones.
    tentative: Vec<Tentative>,
    /// The number of keys in the host's queries without an answer of this server.
    pub(super) num_unknown: usize,
    /// The number of keys without an answer that must not be passed to the host.
    pub(super) num_missing: usize,
    /// The number of keys processed.
    num_keys: usize,
    /// The number of lookups of keys for nodes.
    num_looks: usize,
    /// The bytes of the values found here.
    weight: usize,
    /// The shortest `PMIX_TIMEOUT` of the queries.
    pub(super) time_limit: Option<Duration>,
    /// The time at which the reply is sent without the host.
    pub(crate) until: Option<Instant>,
}

/// An answer of this server that applies unless the host has a better one.
#[derive(Debug)]
struct Tentative {
    info: Info<'static>,
    /// `true` if the query requires a qualifier that this server does not support, so that the host must answer.
    needs_host: bool,
}

/// The part of one query for the host.
#[derive(Debug, Default)]
pub(super) struct HostQuery {
    /// `true` if the query requires a qualifier that this server does not support.
    pub(super) needs_host: bool,
    keys: Vec<Text<'static>>,
    /// The number of keys without an answer of this server.
    num_unknown: usize,
}

impl QueryResults {
    /// Adds the answer for a key.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_OUT_OF_RESOURCE` if the request exceeds its limits.
    pub(super) fn add(
        &mut self,
        key: &Text<'_>,
        known: LocalAnswer,
        host_query: &mut HostQuery,
    ) -> Result<(), Error> {
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
                self.tentative.push(Tentative {
                    info: Info::new(Key::new(key.clone()), value),
                    needs_host: host_query.needs_host,
                });
            }
            LocalAnswer::Unknown => host_query.num_unknown += 1,
        }
        // The host may have a better answer than a tentative one.
        host_query.keys.push(key);
        Ok(())
    }

    /// Counts keys and the bytes of their values, and checks the limits.
    pub(super) fn spend(&mut self, num_keys: usize, weight: usize) -> Result<(), Error> {
        self.num_keys += num_keys;
        self.weight += weight;
        let most_bytes = match self.num_keys <= FEW_KEYS {
            true => MOST_BYTES,
            false => MOST_BYTES_OF_MANY,
        };
        if self.num_keys <= MOST_KEYS && self.weight <= most_bytes {
            return Ok(());
        }
        let message = format!("a query has more than {MOST_KEYS} keys or {most_bytes} bytes");
        Err(Error::new(Status::ERR_OUT_OF_RESOURCE, message))
    }

    /// Makes room for more elements of a value, before any of them is made.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_OUT_OF_RESOURCE` if the list alone would exceed the limit of a reply, and `PMIX_ERR_NOMEM` if
    /// the process has no memory for it.
    pub(super) fn make_room<T>(list: &mut Vec<T>, more: u64) -> Result<(), Error> {
        let most = MOST_BYTES / size_of::<T>().max(1);
        let more = usize::try_from(more).unwrap_or(usize::MAX);
        if list.len().saturating_add(more) > most {
            let message = format!("the value of a query has more than {most} elements");
            return Err(Error::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        Ok(memory::reserve(list, more)?)
    }

    /// Applies the time limit in the qualifiers of a query. The shortest one of a request applies, as there is one
    /// reply.
    pub(super) fn limit_time(&mut self, qualifiers: &[Info<'_>]) {
        let limits = [self.time_limit, timeout(qualifiers)];
        self.time_limit = limits.into_iter().flatten().min();
    }

    /// Counts the lookups of keys for nodes.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_OUT_OF_RESOURCE` if the request exceeds its limit.
    pub(super) fn count_lookups(&mut self, num_keys: usize, num_nodes: usize) -> Result<(), Error> {
        let num = num_keys.saturating_mul(num_nodes);
        self.num_looks = self.num_looks.saturating_add(num);
        if self.num_looks <= MOST_LOOKS {
            return Ok(());
        }
        let message = format!("a query has more than {MOST_LOOKS} keys of nodes");
        Err(Error::new(Status::ERR_OUT_OF_RESOURCE, message))
    }

    /// Adds the remaining keys of a query to the host's queries, unless the query is restricted to local information.
    pub(super) fn add_host_query(&mut self, query: &Query<'_>, host_query: HostQuery) {
        let is_local =
            |info: &Info<'_>| info.key.is(keys::QUERY_LOCAL_ONLY) && info.truth().is_true();
        if query.qualifiers.iter().any(is_local) {
            self.num_missing += host_query.num_unknown;
        } else if !host_query.keys.is_empty() {
            self.num_unknown += host_query.num_unknown;
            self.open.push(Query {
                keys: host_query.keys,
                qualifiers: query.qualifiers.clone().into_owned(),
            });
        }
    }

    /// Returns the merged results and their status.
    pub(super) fn merge(self, reply: Option<HostReply>) -> (Status, Vec<Info<'static>>) {
        let host_status = reply.as_ref().map(HostReply::status);
        let mut more = match reply {
            Some(HostReply::Infos(status, infos)) if has_infos(status) => infos,
            _ => Vec::new(),
        };
        // A host may return an error status although it found all keys of its queries, so only success with infos
        // counts.
        let has_all = host_status == Some(Status::SUCCESS) && !more.is_empty();
        let mut num_missing = match has_all {
            true => self.num_missing,
            false => self.num_missing + self.num_unknown,
        };
        // A host that refuses a query has not applied its required qualifiers either.
        let is_obeyed = host_status.is_some_and(has_infos);
        let (standing, refused): (Vec<_>, Vec<_>) =
            (self.tentative.into_iter()).partition(|tentative| is_obeyed || !tentative.needs_host);
        num_missing += refused.len();
        if host_status == Some(Status::ERR_TIMEOUT) {
            // The host might have had a better answer and did not reply in time.
            num_missing += standing.len();
        }
        let mut standing: Vec<_> = standing.into_iter().map(|one| one.info).collect();
        standing.retain(|info| {
            let mut better = more.iter_mut().find(|other| other.key == info.key);
            if let Some(better) = &mut better
                && let Some(merged) = merged(info, &better.value)
            {
                better.value = merged;
            }
            better.is_none()
        });
        let mut found = self.found;
        found.extend(standing);
        found.extend(more);
        let status = match (found.is_empty(), num_missing) {
            (_, 0) => Status::SUCCESS,
            (false, _) => Status::ERR_PARTIAL_SUCCESS,
            (true, _) if !refused.is_empty() => Status::ERR_NOT_SUPPORTED,
            (true, _) => host_status
                .filter(|status| !has_infos(*status))
                .unwrap_or(Status::ERR_NOT_FOUND),
        };
        (status, found)
    }
}

/// Returns the union of both answers for keys with lists; `None` if the host's answer replaces the server's.
fn merged(info: &Info<'static>, host: &Value<'static>) -> Option<Value<'static>> {
    // A key is supported if either supports it, and a job exists if either knows it.
    if info.key.is(keys::QUERY_SUPPORTED_KEYS) || info.key.is(keys::QUERY_NAMESPACES) {
        return joined(&info.value, host);
    }
    if info.key.is(keys::QUERY_NAMESPACE_INFO) {
        return with_jobs_of_host(&info.value, host);
    }
    None
}

/// Returns the jobs that the host describes, followed by those that only this server knows.
fn with_jobs_of_host(own: &Value<'static>, host: &Value<'static>) -> Option<Value<'static>> {
    let (Ok(own), Ok(host)) = (own.as_infos(), host.as_infos()) else {
        return None;
    };
    let known: HashSet<_> = host.iter().filter_map(job_of).collect();
    let more = own.iter().filter(|job| match job_of(job) {
        Some(name) => !known.contains(name),
        None => true,
    });
    let jobs: Vec<_> = host.iter().chain(more).cloned().collect();
    Some(Value::from(jobs))
}

/// Returns the name of the job that an element of `PMIX_QUERY_NAMESPACE_INFO` describes.
fn job_of<'i>(job: &'i Info<'_>) -> Option<&'i [u8]> {
    let about = job.value.as_infos().ok()?;
    let name = about.iter().find(|info| info.key.is(keys::NSPACE))?;
    match &name.value {
        Value::String(Some(name)) => Some(name.as_bytes()),
        Value::Nspace(nspace) => Some(nspace.as_bytes()),
        _ => None,
    }
}

/// Returns the distinct words of two comma-separated lists; `None` if a value is not a text.
fn joined(first: &Value<'_>, second: &Value<'_>) -> Option<Value<'static>> {
    let (Value::String(Some(first)), Value::String(Some(second))) = (first, second) else {
        return None;
    };
    let mut seen = HashSet::new();
    let words = [first.as_bytes(), second.as_bytes()];
    let words = words
        .iter()
        .flat_map(|list| list.split(|byte| *byte == b','));
    let words: Vec<_> = words
        .filter(|word| !word.is_empty() && seen.insert(*word))
        .collect();
    Some(Value::String(Some(Text::new(words.join(&b',')))))
}

/// Returns `true` if a reply with the status has infos.
fn has_infos(status: Status) -> bool {
    status.is_success() || status == Status::ERR_PARTIAL_SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(key: &'static str, number: u32) -> Info<'static> {
        Info::new(key, number)
    }

    /// Creates an answer to a query without required qualifiers.
    fn holds(info: Info<'static>) -> Tentative {
        Tentative {
            info,
            needs_host: false,
        }
    }

    fn results(
        found: &[&'static str],
        tentative: &[&'static str],
        num_unknown: usize,
    ) -> QueryResults {
        QueryResults {
            found: found.iter().map(|key| info(key, 1)).collect(),
            tentative: tentative.iter().map(|key| holds(info(key, 2))).collect(),
            num_unknown,
            ..QueryResults::default()
        }
    }

    fn merged_with(
        results: QueryResults,
        reply: Option<HostReply>,
    ) -> (Status, Vec<(String, Value<'static>)>) {
        let (status, infos) = results.merge(reply);
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
    fn a_list_longer_than_a_reply_is_refused_before_it_is_made() {
        let mut list = Vec::<u64>::new();
        assert!(QueryResults::make_room(&mut list, 10).is_ok() && list.capacity() >= 10);
        for more in [MOST_BYTES as u64 / 8 + 1, u64::MAX] {
            let refused = QueryResults::make_room(&mut list, more).unwrap_err();
            assert_eq!(refused.status(), Status::ERR_OUT_OF_RESOURCE);
        }
        assert!(list.capacity() < 1_000);
    }

    #[test]
    fn many_keys_have_a_lower_byte_limit_than_few() {
        let mut results = QueryResults::default();
        assert!(results.spend(FEW_KEYS, MOST_BYTES).is_ok());
        let refused = results.spend(1, 0).unwrap_err();
        assert_eq!(refused.status(), Status::ERR_OUT_OF_RESOURCE);
        let mut results = QueryResults::default();
        assert!(results.spend(MOST_KEYS, MOST_BYTES_OF_MANY).is_ok());
        assert!(results.spend(0, 1).is_err());
    }

    #[test]
    fn results_of_the_server_and_the_host_are_merged() {
        let host = HostReply::Infos(Status::SUCCESS, vec![info("c", 3)]);
        let merged_results = merged_with(results(&["a"], &["b"], 1), Some(host));
        let expected = values(&[("a", 1), ("b", 2), ("c", 3)]);
        assert_eq!(merged_results, (Status::SUCCESS, expected));
    }

    #[test]
    fn results_of_the_host_take_precedence() {
        let host = HostReply::Infos(Status::SUCCESS, vec![info("b", 3)]);
        let merged_results = merged_with(results(&[], &["b"], 0), Some(host));
        assert_eq!(merged_results, (Status::SUCCESS, values(&[("b", 3)])));
    }

    #[test]
    fn an_unsupported_required_qualifier_is_refused() {
        let results = || QueryResults {
            tentative: vec![Tentative {
                info: info("b", 2),
                needs_host: true,
            }],
            ..QueryResults::default()
        };
        for refusal in [Status::ERR_NOT_SUPPORTED, Status::ERR_NOT_FOUND] {
            let merged_results = merged_with(results(), Some(HostReply::Done(refusal)));
            assert_eq!(merged_results, (Status::ERR_NOT_SUPPORTED, Vec::new()));
        }
        let host = HostReply::Infos(Status::SUCCESS, vec![info("c", 3)]);
        let merged_results = merged_with(results(), Some(host));
        assert_eq!(
            merged_results,
            (Status::SUCCESS, values(&[("b", 2), ("c", 3)]))
        );
    }

    #[test]
    fn a_key_is_supported_if_the_server_or_the_host_answers_it() {
        let key = keys::QUERY_SUPPORTED_KEYS;
        let list = |text: &str| vec![Info::new(key, text.to_owned())];
        let of = |host: Vec<Info<'static>>| {
            let results = QueryResults {
                tentative: list("a,b").into_iter().map(holds).collect(),
                ..QueryResults::default()
            };
            merged_with(results, Some(HostReply::Infos(Status::SUCCESS, host))).1
        };
        for (host, all) in [
            (list("c,b"), "a,b,c"),
            (list(""), "a,b"),
            (Vec::new(), "a,b"),
        ] {
            assert_eq!(of(host), [(key.to_owned(), Value::from(all))]);
        }
    }

    #[test]
    fn jobs_of_the_host_and_of_the_server_are_one_list() {
        let job = |name: &'static str, command: &'static str| {
            let about = vec![
                Info::new(keys::NSPACE, name),
                Info::new(keys::CMD_LINE, command),
            ];
            Info::new(keys::JOB_INFO_ARRAY, about)
        };
        let of = |key: &'static str, own: Value<'static>, host: Value<'static>| {
            let results = QueryResults {
                tentative: vec![holds(Info::new(key, own))],
                ..QueryResults::default()
            };
            let host = HostReply::Infos(Status::SUCCESS, vec![Info::new(key, host)]);
            merged_with(results, Some(host))
        };
        let key = keys::QUERY_NAMESPACES;
        let (status, found) = of(key, Value::from("a,b"), Value::from("b,c"));
        let all = vec![(key.to_owned(), Value::from("a,b,c"))];
        assert_eq!((status, found), (Status::SUCCESS, all));
        let key = keys::QUERY_NAMESPACE_INFO;
        let own = Value::from(vec![job("a", ""), job("b", "")]);
        let host = Value::from(vec![job("b", "./b"), job("c", "./c")]);
        let (status, found) = of(key, own, host);
        let all = Value::from(vec![job("b", "./b"), job("c", "./c"), job("a", "")]);
        let all = vec![(key.to_owned(), all)];
        assert_eq!((status, found), (Status::SUCCESS, all));
    }

    #[test]
    fn missing_keys_are_a_partial_success_or_not_found() {
        let partial = Status::ERR_PARTIAL_SUCCESS;
        let some = HostReply::Infos(partial, vec![info("c", 3)]);
        let all = values(&[("a", 1), ("c", 3)]);
        assert_eq!(
            merged_with(results(&["a"], &[], 2), Some(some)),
            (partial, all)
        );
        let none = HostReply::Infos(Status::SUCCESS, vec![]);
        assert_eq!(
            merged_with(results(&["a"], &[], 1), Some(none.clone())).0,
            partial
        );
        let nothing = merged_with(results(&[], &[], 1), Some(none));
        assert_eq!(nothing, (Status::ERR_NOT_FOUND, vec![]));
    }

    #[test]
    fn a_failure_of_the_host_keeps_the_results_of_the_server() {
        for host in [HostReply::NotSupported, HostReply::DROPPED] {
            let status = host.status();
            let known = merged_with(results(&[], &["b"], 0), Some(host.clone()));
            assert_eq!(known, (Status::SUCCESS, values(&[("b", 2)])));
            let some = merged_with(results(&["a"], &[], 1), Some(host.clone()));
            assert_eq!(some.0, Status::ERR_PARTIAL_SUCCESS);
            let none = merged_with(results(&[], &[], 1), Some(host));
            assert_eq!(none, (status, vec![]), "the status of the host");
        }
    }

    #[test]
    fn a_query_of_this_server_alone_is_not_forwarded() {
        let query = Query {
            keys: vec!["x".into()],
            qualifiers: vec![Info::new(keys::QUERY_LOCAL_ONLY, true)],
        };
        let mut results = QueryResults::default();
        let mut host_query = HostQuery::default();
        results
            .add(&"x".into(), LocalAnswer::Unknown, &mut host_query)
            .unwrap();
        results.add_host_query(&query, host_query);
        assert!(results.open.is_empty());
        assert_eq!(results.merge(None), (Status::ERR_NOT_FOUND, vec![]));
    }
}
