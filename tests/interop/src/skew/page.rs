// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page of the results, `docs/skew.md`.

use std::fmt::Write as _;

use super::checks::{CHECKS, NOTES, note};

const HEAD: &str = "\
<!-- Written by `cargo xtask interop skew --write`. -->
# Servers and clients of different releases

`cargo xtask interop skew` runs a host in C (`tests/server/host`) with the server library of one release, and three
processes (`tests/server/skew`) with the client library of another release. Both are compiled with the headers of 4.2.2.
`ours` is pmix-rs; the other names are releases of OpenPMIx. The client of 3.2 is the client inside Open MPI 4.1.8. Each
table has one server. The task fails if a result differs from this page. A `no` has a note, and its cause is OpenPMIx:
the check also fails without pmix-rs.

Expected results: the server refuses a process of another user, a spawn returns `PMIX_ERR_NOT_SUPPORTED` because the
host does not spawn, and the host ends the job after an abort or a killed process.
";

/// Returns the page. `held` returns `true` if a check succeeded between a server and a client.
pub(super) fn page(
    servers: &[&str],
    clients: &[&str],
    held: impl Fn(&str, &str, &str) -> bool,
) -> String {
    let mut page = HEAD.to_owned();
    for server in servers {
        let _ = write!(page, "\n## Server: {server}\n\n| check | ");
        let _ = writeln!(page, "{} |", clients.join(" | "));
        let _ = writeln!(page, "| --- |{}", " --- |".repeat(clients.len()));
        for check in CHECKS {
            let _ = write!(page, "| {} |", check.title);
            for client in clients {
                let cell = match note(check.name, server, client) {
                    Some((number, limit))
                        if !limit.is_refuted(held(check.name, server, client)) =>
                    {
                        format!("no ({number})")
                    }
                    _ if held(check.name, server, client) => "yes".to_owned(),
                    _ => "no".to_owned(),
                };
                let _ = write!(page, " {cell} |");
            }
            page.push('\n');
        }
    }
    page.push_str("\n## Notes\n\n");
    for (number, note) in (1..).zip(NOTES) {
        let _ = writeln!(page, "{number}. {}", note.text);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use xtask::process;

    const LIBRARIES: [&str; 4] = ["ours", "4.2.2", "5.0.11", "3.2"];

    #[test]
    fn the_committed_page_is_that_of_the_notes() {
        let all = page(&LIBRARIES[..3], &LIBRARIES, |check, server, client| {
            note(check, server, client).is_none()
        });
        let committed = std::fs::read_to_string(process::root().join("docs/skew.md"));
        assert_eq!(committed.expect("the page"), all);
    }

    #[test]
    fn what_did_not_hold_is_a_no() {
        let none = page(&["ours"], &["ours"], |_, _, _| false);
        assert_eq!(none.matches("| no |").count(), CHECKS.len());
    }
}
