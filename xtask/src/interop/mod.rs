// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask interop`: our strings into real PMIx libraries, theirs into us.
//!
//! The libraries are reached through the C programs in `tests/interop`. For maps we are reached
//! through `pmix map batch`, as any other language would reach us. What a library expands a map to
//! is read back from a job registered with it, so a check compares names and hosts, never bytes.
//! Packed data are compared byte for byte; see [`bfrops`]. Whole sessions, clients of theirs under our
//! server and ours under theirs, are run by [`server`].

mod bfrops;
mod checks;
mod gds;
pub(crate) mod harness;
mod lists;
pub(crate) mod naive;
pub(crate) mod ours;
pub(crate) mod peers;
pub(crate) mod random;
pub(crate) mod server;
mod tally;
mod vectors;

use std::str::FromStr;

use crate::{Outcome, install};
use ours::Ours;
use peers::Peer;
use tally::Tally;

/// What the command line may say.
const ARGUMENTS: &str =
    "preg, bfrops, gds, server, --seed N, --lists N, --data N, --jobs N or --install";

/// The seed unless told otherwise.
const SEED: u64 = 2;

/// What the command line asks for.
struct Options {
    seed: u64,
    lists: usize,
    data: usize,
    jobs: usize,
    only: Option<String>,
}

impl Options {
    fn parse(args: &[String]) -> Result<Self, String> {
        let mut options = Self {
            seed: SEED,
            lists: 320,
            data: bfrops::DATA,
            jobs: gds::JOBS,
            only: None,
        };
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            match arg.as_str() {
                "--seed" => options.seed = number(arg, rest.next())?,
                "--lists" => options.lists = number(arg, rest.next())?,
                "--data" => options.data = number(arg, rest.next())?,
                "--jobs" => options.jobs = number(arg, rest.next())?,
                "preg" | "bfrops" | "gds" | "server" => options.only = Some(arg.clone()),
                _ => return Err(format!("{arg}: expected {ARGUMENTS}")),
            }
        }
        Ok(options)
    }

    /// Whether this part was asked for.
    fn wants(&self, part: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only == part)
    }
}

/// The number behind a word of the command line.
fn number<T: FromStr>(name: &str, word: Option<&String>) -> Result<T, String> {
    word.and_then(|n| n.parse().ok())
        .ok_or_else(|| format!("{name} needs a number"))
}

/// Runs every check against every peer that is there.
pub(crate) fn run(args: &[String]) -> Outcome {
    match try_run(args) {
        Ok(tally) => tally.close(),
        Err(why) => {
            eprintln!("interop: {why}");
            Outcome::of(false)
        }
    }
}

fn try_run(args: &[String]) -> Result<Tally, String> {
    let options = Options::parse(args)?;
    let mut tally = Tally::default();
    install::packages(install::INTEROP);
    if options.wants("server") {
        install::packages(server::PACKAGES);
    }
    let peers = found(peers::find(), &mut tally);
    if peers.is_empty() {
        return Ok(tally);
    }
    if options.wants("preg") {
        maps(&options, &peers, &mut tally)?;
    }
    if options.wants("bfrops") {
        println!(
            "interop: bfrops, seed {}, {} data of each family",
            options.seed, options.data
        );
        bfrops::run(&peers, options.seed, options.data, &mut tally)?;
    }
    if options.wants("gds") {
        println!("interop: gds, seed {}, {} jobs", options.seed, options.jobs);
        gds::run(&peers, options.seed, options.jobs, &mut tally)?;
    }
    if options.wants("server") {
        println!("interop: server");
        server::run(&peers, &mut tally)?;
    }
    Ok(tally)
}

fn maps(options: &Options, peers: &[Peer], tally: &mut Tally) -> Result<(), String> {
    println!(
        "interop: seed {}, {} generated lists and the vectors",
        options.seed, options.lists
    );
    let ours = Ours::build()?;
    let mut cases = vectors::cases()?;
    cases.extend(lists::generate(options.seed, options.lists));
    for peer in peers {
        println!("peer: {}", peer.version);
        checks::ours_to_theirs(&ours, peer, &cases, tally)?;
        checks::theirs_to_ours(&ours, peer, &cases, tally)?;
    }
    Ok(())
}

/// The peers that are there; one that is missing is a failure in CI and said aloud elsewhere.
fn found(candidates: Vec<Result<Peer, String>>, tally: &mut Tally) -> Vec<Peer> {
    let mut peers = Vec::new();
    for candidate in candidates {
        match candidate {
            Ok(peer) => peers.push(peer),
            Err(why) if crate::process::in_ci() => tally.fail("peers", &format!("missing: {why}")),
            Err(why) => tally.skip("peers", &why),
        }
    }
    peers
}
