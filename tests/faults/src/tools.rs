// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tools with a forged name or of another user, servers that lie to tools, and planted files that mislead tools.

pub(super) mod asking;
mod crowd;
mod lied_to;
mod listing;
mod planted;

use std::time::Duration;

use pmix_client::Uri;
use pmix_tool::{FoundServer, Tool};
use pmix_types::{Proc, Rank, Scope, Status};

use asking::PATIENCE;

use super::server::Server;
use super::wait::until;
use super::{Field, Verdict, good, peer};
pub(super) use crowd::{crowded, system_planted};
pub(super) use lied_to::lied_to;
pub(super) use listing::listing_lied_to;
pub(super) use planted::planted;

/// The user ID of a user that owns no files.
const NOBODY: u32 = 65_534;

/// Attaches tools with names of other processes.
pub(super) fn named(field: &Field) -> Result<Verdict, String> {
    let mut server = field.server("tool-named", &[])?;
    server.job("good", 2)?;
    let base = server.figures()?.descriptors;
    let client = good::connect(&server.uri, "good", 0).map_err(|e| e.to_string())?;
    let own = Proc::new("a-tool", Rank::new(0));
    let first = attach(&server.uri, Some(own.clone()))?;
    let lies = [
        (
            "a process",
            Proc::new("good", Rank::new(0)),
            "is already connected",
        ),
        (
            "a rank that its job does not have",
            Proc::new("good", Rank::new(7)),
            "cannot be used as the name of a tool",
        ),
        (
            "its server",
            server.uri.server.clone(),
            "cannot be used as the name of a tool",
        ),
        ("a tool that is there", own, "is already connected"),
    ];
    let num_lies = lies.len();
    for (what, name, reason) in lies {
        let seen = server.log().len();
        if attach(&server.uri, Some(name)).is_ok() {
            return Err(format!("a tool came in under the name of {what}"));
        }
        logged(&server, seen, reason).map_err(|why| format!("{what}: {why}"))?;
    }
    first.finalize().map_err(|e| e.to_string())?;
    client.finalize().map_err(|e| e.to_string())?;
    server.settle(base)?;
    server.end()?;
    Ok(Verdict::Held(format!(
        "{num_lies} names refused and logged"
    )))
}

/// Attaches tools of another user, to a server that accepts its own user only and to one that accepts all.
pub(super) fn foreign(field: &Field) -> Result<Verdict, String> {
    if super::server::me().0 != 0 {
        return Ok(Verdict::Skipped("only root can be another user".to_owned()));
    }
    let denied = Status::ERR_NO_PERMISSIONS.as_raw();
    let server = field.server("tool-foreign", &[])?;
    let seen = server.log().len();
    let said = peer::of_user(NOBODY, &["tool", &peer::argument(&server.uri), "good"])?;
    if said != denied.to_string() {
        return Err(format!("at a server of another user: {said}, not {denied}"));
    }
    logged(
        &server,
        seen,
        "this server does not accept tools of user 65534",
    )?;
    server.end()?;

    let mut server = field.server("tool-foreign", &["", "", "all-tools"])?;
    server.job("good", 1)?;
    server.tell(&format!("job other 1 1 {NOBODY} {NOBODY}"))?;
    let owner = good::connect(&server.uri, "good", 0).map_err(|e| e.to_string())?;
    let put = owner.put(Scope::GLOBAL, "card", "secret");
    put.and_then(|()| owner.commit())
        .map_err(|e| e.to_string())?;
    let said = peer::of_user(NOBODY, &["tool", &peer::argument(&server.uri), "good"])?;
    // The statuses of the attach, the pull and the get, with the visible jobs after the first.
    let expected = format!("0 other {denied} {denied}");
    if said != expected {
        return Err(format!("at a server for all: {said:?}, not {expected:?}"));
    }
    owner.finalize().map_err(|e| e.to_string())?;
    server.end()?;
    Ok(Verdict::Held(
        "refused at one server; at the other it gets its own job only".to_owned(),
    ))
}

fn attach(uri: &Uri, name: Option<Proc<'static>>) -> Result<Tool, String> {
    let mut tool = Tool::new().time_limit(PATIENCE);
    if let Some(name) = name {
        tool = tool.name(name);
    }
    let attached = tool.attach(&FoundServer::at(uri.clone()), |_| {});
    attached.map(|_| tool).map_err(|e| e.to_string())
}

/// Fails unless the server logged a warning with this reason after the first `seen` bytes.
fn logged(server: &Server, seen: usize, reason: &str) -> Result<(), String> {
    let found = until(Duration::from_secs(5), || {
        server.log().get(seen..)?.contains(reason).then_some(())
    });
    found.ok_or_else(|| format!("the log does not say {reason:?}"))
}
