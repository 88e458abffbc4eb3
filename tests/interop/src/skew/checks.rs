// SPDX-License-Identifier: MIT OR Apache-2.0
//! The checks of each pair of libraries, and the known limits of real libraries.

/// A check of `tests/server/skew`.
pub(super) struct Check {
    /// The argument of the program.
    pub(super) name: &'static str,
    /// The name in the table.
    pub(super) title: &'static str,
    /// The expected exit code of the host.
    pub(super) code: i32,
    /// The arguments of the host.
    pub(super) host: &'static [&'static str],
}

const fn check(name: &'static str, title: &'static str) -> Check {
    Check {
        name,
        title,
        code: 0,
        host: &[],
    }
}

/// Every check in the order of the table.
pub(super) const CHECKS: &[Check] = &[
    check("init", "initialize and finalize"),
    check("fence", "fence of all processes, of some, with data"),
    check("modex", "data of all processes, by a fence"),
    check("direct", "data of one process, by direct modex"),
    check("publish", "publish, look up, unpublish"),
    check("events", "an event from one process to all"),
    check("spawn", "a refused spawn"),
    Check {
        code: 7,
        ..check("abort", "abort with an exit code")
    },
    check("groups", "groups, with a context id"),
    check("later", "a group destruct that the host completes later"),
    check("query", "query of the host"),
    check("log", "log by the host"),
    check("output", "output of another process"),
    check("large", "a value of 512 KiB"),
    check("many", "1000 keys of each process"),
    check("again", "initialize twice"),
    Check {
        code: 137,
        ..check("killed", "a process is killed in a fence")
    },
    check("time-out", "a get that times out"),
    Check {
        host: &["--user", "other"],
        ..check("refused", "a process of another user")
    },
    check("types", "a value of each type"),
    Check {
        host: &["--session", "9"],
        ..check("session", "data of the session")
    },
    Check {
        host: &["--session", "9"],
        ..check("numbered", "data of the session, by session id")
    },
];

/// A known limit of a pair of libraries, on either side.
pub(super) struct Note {
    checks: &'static [&'static str],
    /// The servers and the clients. An empty list means all.
    servers: &'static [&'static str],
    clients: &'static [&'static str],
    /// `true` if the check sometimes succeeds.
    at_times: bool,
    pub(super) text: &'static str,
}

/// Every known limit.
pub(super) const NOTES: &[Note] = &[
    Note {
        checks: &["groups", "later"],
        servers: &[],
        clients: &["3.2"],
        at_times: false,
        text: "3.2 has no groups.",
    },
    Note {
        checks: &["groups", "later"],
        servers: &["4.2.2"],
        clients: &["5.0.11"],
        at_times: false,
        text: "A server of 4.2.2 does not return the members, and a client of 5.0.11 rejects the reply.",
    },
    Note {
        checks: &["groups", "later"],
        servers: &["5.0.11"],
        clients: &["4.2.2"],
        at_times: false,
        text: "A client of 4.2.2 does not send the members with a destruct, and a server of 5.0.11 requires them.",
    },
    Note {
        checks: &["later"],
        servers: &["5.0.11"],
        clients: &["ours", "5.0.11"],
        at_times: true,
        text: "A server of 5.0.11 calls its host twice for the destruct of a group on this node, and frees the call \
               twice: it crashes, returns an error or hangs. A host that completes at once \
               (`PMIX_OPERATION_SUCCEEDED`) is called once.",
    },
    Note {
        checks: &["output"],
        servers: &[],
        clients: &["3.2"],
        at_times: false,
        text: "A client of 3.2 does not send the number of its handler, which servers of 4 and later require.",
    },
    Note {
        checks: &["refused"],
        servers: &["4.2.2", "5.0.11"],
        clients: &[],
        at_times: true,
        text: "The server refuses the process, but then neither the server nor the client ends.",
    },
    Note {
        checks: &["session"],
        servers: &["ours", "5.0.11"],
        clients: &["3.2"],
        at_times: false,
        text: "A client of 3.2 finds data of a session only by session id (`PMIX_SESSION_ID`), for any reply. \
               Without the id, the client has only the data that a server of 4.2 shares with the client in memory.",
    },
    Note {
        checks: &["numbered"],
        servers: &["5.0.11"],
        clients: &["3.2"],
        at_times: false,
        text: "A client of 3.2 does not find the session in the reply of a server of 5.0.11, nor in the reply of a server \
               of 4.2.2 without shared memory (`PMIX_MCA_gds=hash`).",
    },
];

/// Returns the limit of a server and a client in a check, with its number from 1.
pub(super) fn note(check: &str, server: &str, client: &str) -> Option<(usize, &'static Note)> {
    let names = |list: &[&str], name: &str| list.is_empty() || list.contains(&name);
    let covers = |note: &Note| {
        note.checks.contains(&check) && names(note.servers, server) && names(note.clients, client)
    };
    let mut numbered = (1..).zip(NOTES);
    numbered.find(|(_, note)| covers(note))
}

impl Note {
    /// Returns `true` if a successful run shows that the note is obsolete.
    pub(super) fn is_refuted(&self, held: bool) -> bool {
        held && !self.at_times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that our library has no limit that real ones do not have among themselves.
    #[test]
    fn every_limit_of_ours_is_one_of_real_libraries() {
        for check in CHECKS {
            let limited = |server, client| note(check.name, server, client).is_some();
            assert!(!limited("ours", "ours"), "{}", check.name);
            for release in ["4.2.2", "5.0.11"] {
                let real = limited(release, release);
                assert!(real || !limited("ours", release), "{}", check.name);
                assert!(real || !limited(release, "ours"), "{}", check.name);
            }
            // No server of 3.2 is available.
            let real = ["4.2.2", "5.0.11"]
                .iter()
                .any(|server| limited(server, "3.2"));
            assert!(real || !limited("ours", "3.2"), "{}", check.name);
        }
    }

    #[test]
    fn every_note_is_of_a_check() {
        for note in NOTES {
            for name in note.checks {
                assert!(CHECKS.iter().any(|check| check.name == *name), "{name}");
            }
        }
    }
}
