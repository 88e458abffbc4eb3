// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask sanitize`: our C library under abidiff, valgrind and the sanitizers of the compiler.

mod abi;
mod runs;
mod tool;

use clap::ValueEnum;

use crate::capi;
use crate::logs::Kind;
use crate::peers::Peer;
use crate::server::missing;
use crate::tally::Tally;
use tool::Tool;

/// One of the tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Check {
    /// abidiff: the functions and types that programs were built for.
    Abi,
    /// valgrind's memcheck: what is read before it is written, and what is lost.
    Memcheck,
    /// The address sanitizer: what is read and written where nothing is.
    Address,
    /// The thread sanitizer: what two threads do at a time that only one may.
    Thread,
}

/// Runs one check, or all of them.
///
/// # Errors
/// Something of ours does not build.
pub(crate) fn run(
    peers: &[Peer],
    profile: &str,
    only: Option<Check>,
    tally: &mut Tally,
) -> Result<(), String> {
    let wants = |check: Check| only.is_none_or(|only| only == check);
    if wants(Check::Abi) {
        abi::run(&capi::library(profile)?, peers, tally)?;
    }
    for (check, kind) in [
        (Check::Memcheck, Kind::Memcheck),
        (Check::Address, Kind::Address),
        (Check::Thread, Kind::Thread),
    ] {
        if !wants(check) {
            continue;
        }
        match Tool::make(kind, profile) {
            Ok(tool) => runs::run(&tool, profile, tally)?,
            Err(why) => missing(&why, tally),
        }
    }
    Ok(())
}
