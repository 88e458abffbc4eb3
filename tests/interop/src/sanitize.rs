// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask sanitize`: our C library under abidiff, valgrind and the compiler's sanitizers.

mod abi;
mod runs;
mod tool;

use std::time::Instant;

use clap::ValueEnum;

use crate::capi;
use crate::logs::Kind;
use crate::peers::Peer;
use crate::server::missing;
use crate::tally::Tally;
use tool::{NO_SOURCE, Tool};

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

/// The requested checks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    /// The cargo profile of a library that is built without a sanitizer.
    pub(crate) profile: &'a str,
    /// The single check to run, or `None` for every check.
    pub(crate) only: Option<Check>,
    /// `true` for the form in which each tool runs for two minutes at most.
    pub(crate) short: bool,
}

/// Runs one check, or all of them.
///
/// # Errors
/// Returns a message if a crate of ours does not build.
pub(crate) fn run(peers: &[Peer], wanted: Wanted<'_>, tally: &mut Tally) -> Result<(), String> {
    let Wanted { profile, only, .. } = wanted;
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
        let begun = Instant::now();
        match Tool::make(kind, profile) {
            Ok(tool) => {
                let built = begun.elapsed();
                runs::run(&tool, wanted, tally)?;
                let title = kind.title();
                let ran = begun.elapsed() - built;
                println!("{title}: built in {built:.0?}, ran for {ran:.0?}");
            }
            Err(why) if why.starts_with(NO_SOURCE) => {
                println!("{why}");
                tally.skip(kind.title(), NO_SOURCE);
            }
            Err(why) => missing(&why, tally),
        }
    }
    Ok(())
}
