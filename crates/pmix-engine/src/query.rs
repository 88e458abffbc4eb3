// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queries that the server answers from what it knows.
//!
//! | key | answer | without it the host |
//! | --- | --- | --- |
//! | namespaces and their infos | of the registered jobs | is asked for its own |
//! | process sets and their members, groups and their members, resolved peers and nodes | from the registrations | is not asked |
//! | status of a job, process tables, state of a process | as far as the connections tell | is asked first |
//! | supported attributes and functions | the server's own | is asked for its own |
//! | versions of the interface, the start of the server | the server's own | is not asked |
//! | any key of the datastore | for the job and process that the qualifiers name | is asked for what is not there |
//!
//! A process is told of the groups that it is in, a tool of those that have a member of a job which it may be told
//! of. A tool that names no job asks about all such jobs, and a query that names several nodes about
//! all of these. With `PMIX_QUERY_REFRESH_CACHE` the host is asked for values of the datastore, too, and knows
//! better.
//!
//! What belongs to another user's job is not known to a process, unless it is root's or the
//! server's user's. Source: PMIx Standard, chapter "Query operations".

mod jobs;
mod known;
mod nodes;
mod resolve;
pub(crate) mod results;
mod serve;
mod stored;
mod support;
mod table;
mod target;

pub(crate) use jobs::visible;
pub(crate) use known::OwnGroups;
pub(crate) use resolve::{host_resolved, resolve_nodes, resolve_peers};
pub(crate) use serve::{query, reply_results};
