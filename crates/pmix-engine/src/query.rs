// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queries that the server can answer.
//!
//! | key | answer of the server | role of the host |
//! | --- | --- | --- |
//! | namespaces and their infos | the registered jobs | adds its own |
//! | process sets and their members, groups and their members, resolved peers and nodes | the registrations | not asked |
//! | status of a job, process tables, state of a process | the state of the connections | asked first |
//! | supported attributes and functions | the server's own | adds its own |
//! | versions of the interface, start time of the server | the server's own | not asked |
//! | any key of the datastore | the value for the job and process in the qualifiers | asked for missing values |
//!
//! A process receives its own groups, and a tool those with a member of a job that it may read. Without a job in its
//! qualifiers, the query of a tool covers all such jobs; a query that names several nodes covers all of them. With
//! `PMIX_QUERY_REFRESH_CACHE` the host is asked for values of the datastore, too, and its values take precedence.
//!
//! A process cannot see the jobs of other users, unless it belongs to root or to the server's user.
//!
//! Source: PMIx Standard, chapter "Query operations".

mod known;
mod nodes;
mod resolve;
pub(crate) mod results;
mod serve;
mod stored;
mod table;
mod target;

pub(crate) use known::OwnGroups;
pub(crate) use resolve::{host_resolved, resolve_nodes, resolve_peers};
pub(crate) use serve::{query, reply_results};
pub(crate) use target::visible;
