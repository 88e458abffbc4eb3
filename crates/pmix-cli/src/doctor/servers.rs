// SPDX-License-Identifier: MIT OR Apache-2.0
//! The servers that tools of this user find, and the rendezvous files that are in their way.

use std::time::Duration;

use pmix_tool::{FoundServer, PassedOver, Search, Tool};

use super::Finding;

/// Attaches to every server, with so much time for each.
pub(super) fn check(limit: Duration) -> Vec<Finding> {
    let listing = Search::from_env().list();
    let mut findings: Vec<_> = listing.passed_over.iter().map(passed_over).collect();
    if listing.servers.is_empty() {
        findings.push(Finding::ok("servers", "none that tools of this user find"));
    }
    findings.extend(listing.servers.iter().map(|server| attach(server, limit)));
    findings
}

/// A file of a server that is gone may be removed; one that somebody else could have written is not used.
fn passed_over(passed: &PassedOver) -> Finding {
    let found = format!("{}: {}", passed.path.display(), passed.reason);
    match passed.is_dead {
        true => {
            let help = match passed.path.is_dir() {
                true => format!(
                    "remove the rendezvous files of ended servers below {}",
                    passed.path.display()
                ),
                false => format!("nothing uses it: rm {}", passed.path.display()),
            };
            Finding::warning("servers", found, help)
        }
        false => Finding::fault(
            "servers",
            found,
            "tools do not use it: see who wrote it, and whom its directory belongs to",
        ),
    }
}

fn attach(server: &FoundServer, limit: Duration) -> Finding {
    let name = &server.uri.server.nspace;
    let pid = server
        .pid
        .map_or_else(String::new, |pid| format!(", process {pid}"));
    let release = match server.release.as_str() {
        "" => String::new(),
        release => format!(", PMIx {release}"),
    };
    let known = format!("{name}{pid}{release}");
    let mut tool = Tool::new().time_limit(limit);
    match tool.attach(server, |_| {}) {
        Ok(_) => {
            // It has answered, whatever it says of that.
            let _ = tool.finalize();
            Finding::ok("servers", format!("{known}: lets tools in"))
        }
        Err(error) => Finding::fault(
            "servers",
            format!("{known}: {error}"),
            "its process is there and does not serve tools of this user",
        ),
    }
}
