// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queries: the answers of this server and of the host.

use pmix_proto::{SupportLevel, is_about_support, request};
use pmix_types::{Info, IntoOwned as _, Query, Status, Value};

use super::known::{OwnGroups, known};
use super::nodes::num_named;
use super::results::{HostQuery, QueryResults};
use super::target::QueryTarget;
use crate::cx::Cx;
use crate::host::{self, HostReply};
use crate::infos::with_user;
use crate::obeyed::SUPPORTED;
use crate::peers::Ticket;
use crate::pending::Pending;
use crate::{Error, obeyed, weight};

/// Handles a query. The server answers the keys that it knows and passes the others to the host; both results form one
/// reply. `groups` are the groups of the process, if the query needs them.
///
/// The reply has one info for each key that was found, in the form that all libraries up to 7.0 read. The newest
/// Standard puts the infos of each query into an array of their own.
pub(crate) fn query(cx: &mut Cx, ticket: Ticket, request: &request::Query<'_>, groups: &OwnGroups) {
    match look_up(cx, &ticket, &request.queries, groups) {
        Err(error) => cx.reply_error(ticket, &error),
        Ok(results) if results.open.is_empty() => {
            reply_results(cx, ticket, results, None);
        }
        Ok(results) => ask_the_rest(cx, ticket, results),
    }
}

fn look_up(
    cx: &Cx,
    ticket: &Ticket,
    queries: &[Query<'_>],
    groups: &OwnGroups,
) -> Result<QueryResults, Error> {
    if queries.is_empty() {
        return Err(Error::bad("a request without queries"));
    }
    let member = cx.member(ticket)?;
    let mut results = QueryResults::default();
    for query in queries {
        if query.keys.is_empty() {
            return Err(Error::bad("a query without keys"));
        }
        if is_about_support(query) {
            let (found, open) = supported(query);
            results.spend(query.keys.len(), weight::infos(&found))?;
            // The attributes of clients and tools are not known here.
            results.num_missing += usize::from(found.is_empty() && open.is_none());
            results.found.extend(found);
            results.num_unknown += usize::from(open.is_some());
            results.open.extend(open);
            continue;
        }
        let target = QueryTarget::read(&query.qualifiers)?;
        // Each key is looked up for each node, so their product is checked before any lookup.
        results.count_lookups(query.keys.len(), num_named(&query.qualifiers))?;
        results.limit_time(&query.qualifiers);
        let mut host_query = HostQuery::default();
        host_query.needs_host = obeyed::check_qualifiers(&query.qualifiers).is_err();
        for key in &query.keys {
            let name = key.as_str().unwrap_or_default();
            let known = known(cx, member, name, &target, &query.qualifiers, groups)?;
            results.add(key, known, &mut host_query)?;
        }
        let num_open = results.open.len();
        results.add_host_query(query, host_query);
        if results.open.len() == num_open {
            // The host does not receive the query, so required qualifiers must be supported here.
            obeyed::check_qualifiers(&query.qualifiers)?;
        }
    }
    Ok(results)
}

fn ask_the_rest(cx: &mut Cx, ticket: Ticket, mut results: QueryResults) {
    let Ok(member) = cx.member(&ticket) else {
        return cx.reply_status(ticket, Status::ERR_LOST_CONNECTION);
    };
    let mut queries = std::mem::take(&mut results.open);
    let limit = results.time_limit;
    results.until = limit.and_then(|limit| cx.after(limit));
    for query in &mut queries {
        query.qualifiers = with_user(&query.qualifiers, member.user);
    }
    let call = host::Query {
        proc: member.proc.clone(),
        queries,
    };
    cx.call_host(call, Pending::Query(ticket, Box::new(results)));
}

pub(crate) fn reply_results(
    cx: &mut Cx,
    ticket: Ticket,
    results: QueryResults,
    reply: Option<HostReply>,
) {
    let (status, infos) = results.merge(reply);
    match infos.is_empty() {
        true => cx.reply_status(ticket, status),
        false => cx.reply_infos(ticket, status, infos),
    }
}

/// Returns one info for each requested key at the level of the server, and the remaining query for the host. The levels
/// of clients and tools are answered by their own libraries.
fn supported(query: &Query<'_>) -> (Vec<Info<'static>>, Option<Query<'static>>) {
    let found = SupportLevel::Server.answer(query, SUPPORTED);
    let mut left = Vec::new();
    for key in SupportLevel::Host.keys() {
        match query.qualifiers.iter().find(|info| info.key.is(key)) {
            Some(info) => left.push(info.clone().into_owned()),
            // A query without a level concerns all levels (PMIx Standard, "Query operations"), so the host gets its
            // own.
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
