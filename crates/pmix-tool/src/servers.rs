// SPDX-License-Identifier: MIT OR Apache-2.0
//! The servers of a node, as a query for them is answered (`PMIX_QUERY_AVAIL_SERVERS`).
//!
//! Source: PMIx Standard, chapter "Tools and Debuggers".

use pmix_types::{DataArray, Info, Value, keys};

use crate::{FoundServer, Search};

/// Returns the servers that a tool may attach to: an array of `PMIX_SERVER_INFO_ARRAY`, each with
/// `PMIX_SERVER_NSPACE`, `PMIX_SERVER_RANK` and `PMIX_SERVER_URI`, and what the rendezvous file of the server states
/// of `PMIX_SERVER_PIDINFO`, `PMIX_USERID`, `PMIX_GRPID` and `PMIX_SERVER_START_TIME`. Servers that have ended are
/// not among them.
#[must_use]
pub fn available_servers(search: &Search) -> Value<'static> {
    let servers = search.list().servers;
    let infos = servers
        .iter()
        .map(|server| Info::new(keys::SERVER_INFO_ARRAY, about(server)));
    Value::DataArray(DataArray::Info(infos.collect()))
}

fn about(found: &FoundServer) -> Vec<Info<'static>> {
    let server = &found.uri.server;
    let name = Value::String(Some(server.nspace.as_text().clone()));
    let mut infos = vec![
        Info::new(keys::SERVER_NSPACE, name),
        Info::new(keys::SERVER_RANK, Value::Rank(server.rank)),
        Info::new(keys::SERVER_URI, found.uri.to_string()),
    ];
    let pid = found.pid.and_then(|pid| i32::try_from(pid).ok());
    infos.extend(pid.map(|pid| Info::new(keys::SERVER_PIDINFO, Value::Pid(pid))));
    if let Some((uid, gid)) = found.user {
        infos.push(Info::new(keys::USERID, uid));
        infos.push(Info::new(keys::GRPID, gid));
    }
    if !found.started.is_empty() {
        infos.push(Info::new(keys::SERVER_START_TIME, found.started.clone()));
    }
    infos
}
