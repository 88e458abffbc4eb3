// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names of running jobs, for the completion of shells.

use std::collections::BTreeSet;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use pmix_tool::Search;

use super::{AT_ONCE, attach_within, leave, ps};

/// The time limit for the replies of all servers together: a user waits for the completion.
const LIMIT: Duration = Duration::from_secs(1);

/// The maximum number of names.
const MOST: usize = 1000;

/// The maximum length of a name in bytes; no nspace of PMIx is longer.
const LONGEST: usize = 255;

/// Returns the names of the jobs of the servers of this node that reply in time. A name with characters that shells
/// expand is left out, because the name is a word of a command line.
pub(crate) fn job_names() -> BTreeSet<String> {
    let end = Instant::now() + LIMIT;
    let (sender, replies) = mpsc::channel();
    for server in Search::from_env().list().servers.into_iter().take(AT_ONCE) {
        let sender = sender.clone();
        // Nothing waits for this thread. It ends with the command.
        let begun = thread::Builder::new().spawn(move || {
            let Ok(tool) = attach_within(&server, LIMIT, |_| {}) else {
                return;
            };
            // The receiver is dropped when the command ends.
            let _ = sender.send(ps::names(&tool).unwrap_or_default());
            leave(tool);
        });
        if let Err(error) = begun {
            tracing::debug!(%error, "cannot start a thread; its server is not asked");
        }
    }
    drop(sender);
    let mut names = BTreeSet::new();
    while let Ok(found) = replies.recv_timeout(end.saturating_duration_since(Instant::now())) {
        names.extend(found.into_iter().filter(|name| is_word(name)));
        if names.len() >= MOST {
            break;
        }
    }
    names
}

/// Returns `true` if a shell takes the name as one word without expansion.
fn is_word(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"@._-+:,/%".contains(&byte);
    (1..=LONGEST).contains(&name.len()) && name.bytes().all(is_plain) && !name.starts_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_a_shell_would_expand_are_left_out() {
        for name in ["run-n01-4711@1", "slurm.pmix.12.0", "a:b"] {
            assert!(is_word(name), "{name}");
        }
        for name in [
            "",
            "$(rm x)",
            "`x`",
            "a b",
            "a\nb",
            "-x",
            "a;b",
            "*",
            "\u{1b}[2J",
            "é",
        ] {
            assert!(!is_word(name), "{name}");
        }
    }
}
