// SPDX-License-Identifier: MIT OR Apache-2.0
//! All servers of the node that the user may control: the user's own, and for root those of all users.

use pmix_tool::FoundServer;

use super::{find_for, search, target};
use crate::args::Attach;
use crate::failure::Failure;
use crate::style::printable;

/// Returns every server of the node. If there is none, fails with a message about the server that was searched for.
pub(super) fn all_servers(
    args: &Attach,
    nspace: Option<&str>,
) -> Result<Vec<FoundServer>, Failure> {
    let listing = search().list();
    for passed in &listing.passed_over {
        tracing::info!("{}: {}", passed.path.display(), passed.reason);
    }
    match listing.servers.is_empty() {
        true => Ok(vec![find_for(args, nspace)?]),
        false => Ok(listing.servers),
    }
}

/// Returns every server of the node, or the one that the options select. There may be none.
pub(super) fn selected_servers(args: &Attach) -> Result<Vec<FoundServer>, Failure> {
    match target(args) {
        Some(_) => Ok(vec![find_for(args, None)?]),
        None => Ok(search().list().servers),
    }
}

/// The name, process and owner of a server in words.
pub(super) fn describe(server: &FoundServer) -> String {
    let mut text = printable(server.uri.server.nspace.as_bytes()).to_string();
    if let Some(pid) = server.pid {
        text += &format!(", process {pid}");
    }
    if let Some(owner) = server.owner {
        text += &format!(", user {owner}");
    }
    text
}
