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
        findings.push(Finding::ok(
            "servers",
            "no server that tools of this user can find",
        ));
    }
    findings.extend(listing.servers.iter().map(|server| attach(server, limit)));
    findings
}

/// Reports a rendezvous file that tools do not use: the file of an exited server can be removed, and a file
/// that another user could have written is suspicious.
fn passed_over(passed: &PassedOver) -> Finding {
    let found = format!("{}: {}", passed.path.display(), passed.reason);
    match passed.is_dead {
        true => {
            let help = match passed.path.is_dir() {
                true => format!(
                    "remove the rendezvous files of ended servers below {}",
                    passed.path.display()
                ),
                false => format!("the file is unused: rm {}", passed.path.display()),
            };
            Finding::warning("servers", found, help)
        }
        false => Finding::fault(
            "servers",
            found,
            "tools ignore the file: check the owner of the file and of its directory",
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
            Finding::ok("servers", format!("{known}: accepts tools"))
        }
        Err(error) => Finding::fault(
            "servers",
            format!("{known}: {error}"),
            "its process is running but does not accept tools of this user",
        ),
    }
}
