// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients that receive the info of a large job in part: `answers` must give the same results as with the whole job
//! info.

use std::time::Duration;

use super::case::run_within;
use super::launcher::{Far, Launcher};
use super::programs;
use crate::peers::Peer;
use crate::tally::Tally;
use xtask::install;

/// The remote nodes.
const FAR: Far = Far(&[(2, 3), (1, 2)]);

/// The number of local processes.
const LOCAL: u32 = 4;

/// Two local ranks, a remote one in the middle, and the last one.
const ASKED: [&str; 4] = ["0", "2", "5", "11"];

/// Compares the answers to each question line by line.
///
/// # Errors
/// Returns a message if the program does not compile.
pub(super) fn compare(peer: &Peer, ours: &Launcher, tally: &mut Tally) -> Result<(), String> {
    let program = programs::compile(peer, "answers")?;
    let what = format!("server: large job of {}", peer.version);
    let home = install::scratch("interop/server")?;
    let answers = |whole: &str| {
        let mut command = ours.command_of_larger(LOCAL, FAR)?;
        command.args(["--mca", "gds_hash_whole", whole]);
        command.arg(&program).args(ASKED);
        let output = home.join(format!("answers-{whole}"));
        let status = run_within(&mut command, Duration::from_secs(30), &output, &home)?;
        let text = std::fs::read_to_string(&output).map_err(|e| e.to_string())?;
        match status.success() {
            true => Ok(text),
            false => Err(format!("{status}: {text:.300}")),
        }
    };
    match answers("-1").and_then(|whole| Ok((whole, answers("0")?))) {
        Ok((whole, part)) => judge(&what, &whole, &part, tally),
        Err(why) => tally.fail(&what, &why),
    }
    Ok(())
}

fn judge(what: &str, whole: &str, part: &str, tally: &mut Tally) {
    let found = whole.lines().filter(|line| line.contains(": 0 ")).count();
    if found < 60 {
        let why = format!("only {found} answers about a job that is registered as a whole");
        tally.fail(what, &why);
    }
    let (whole, part): (Vec<_>, Vec<_>) = (whole.lines().collect(), part.lines().collect());
    for number in 0..whole.len().max(part.len()) {
        let line = |lines: &[&str]| lines.get(number).copied().unwrap_or("nothing").to_owned();
        let (expected, found) = (line(&whole), line(&part));
        match expected == found {
            true => tally.pass(what),
            false => tally.fail(what, &format!("{found}, not {expected}")),
        }
    }
}
