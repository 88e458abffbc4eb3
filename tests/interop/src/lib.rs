// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask interop`: data exchanged with real PMIx libraries in both directions.
//!
//! The libraries run in the C programs beside `src`. For maps, our side is `pmix map batch`, as programs in other
//! languages use it. The expansion of a map is read from a job registered with the library, so a check compares names
//! and hosts, never bytes. Packed data are compared byte for byte; see `bfrops`. [`server`] runs whole sessions, with
//! their clients under our server and ours under theirs.
//!
//! This library exports the parts that `cargo xtask bench` and `faults` use: the peers, and random data.
#![forbid(unsafe_code)]

mod bfrops;
pub mod capi;
pub mod captures;
mod checks;
mod gds;
pub mod harness;
mod lists;
pub mod logs;
mod mpirun;
pub mod naive;
pub mod newest;
pub mod ours;
pub mod peers;
pub mod random;
pub mod sanitize;
pub mod seeds;
pub mod server;
mod skew;
mod tally;
pub mod tools;
mod topology;
mod types;

use clap::{Parser, ValueEnum};
use xtask::{Outcome, install, process};

use ours::Ours;
use peers::Peer;
use tally::Tally;

/// The default seed.
const SEED: u64 = 2;

/// One part of the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Node and process maps.
    Preg,
    /// Packed data.
    Bfrops,
    /// Compare job data.
    Gds,
    /// Whole sessions.
    Server,
    /// Servers of one release with clients of another, ours among them.
    Skew,
    /// Our tools at servers of others, and theirs at ours.
    Tools,
    /// Compare topologies and localities.
    Topology,
    /// Every data type in every function of C that takes data of any type.
    Types,
    /// Programs in C, Fortran and Python under `pmix run` and under mpirun: output, input and ends.
    Mpirun,
    /// The examples of OpenPMIx 7 under `pmix run` and prterun 5, from a private root of Debian sid.
    Newest,
    /// Our library as abidiff, valgrind and the sanitizers of the compiler see it; runs only when it is named.
    Sanitize,
}

/// Our data into real PMIx libraries, theirs into us.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask interop")]
pub struct Options {
    /// One part; every part but `sanitize` without it.
    part: Option<Part>,
    /// The seed of the random data.
    #[arg(long, default_value_t = SEED)]
    seed: u64,
    /// Number of random lists.
    #[arg(long, default_value_t = 320)]
    lists: usize,
    /// Number of data of each family of types.
    #[arg(long, default_value_t = bfrops::DATA)]
    data: usize,
    /// Number of random jobs.
    #[arg(long, default_value_t = gds::JOBS)]
    jobs: usize,
    /// Runs the example programs about groups so many times each, and nothing else of `server`.
    #[arg(long, value_name = "TIMES")]
    groups: Option<usize>,
    /// The cargo profile of the command, and of the library of `sanitize`.
    #[arg(long, default_value = "release")]
    profile: String,
    /// Writes the measured results of `skew` to `docs/skew.md`, instead of comparing them with the
    /// page.
    #[arg(long)]
    write: bool,
    /// One check of `sanitize`; every check without it.
    #[arg(long)]
    only: Option<sanitize::Check>,
    /// The form that `.ci/run` runs: `server` without the runs that involve no part of pmix-rs, `sanitize` with each
    /// tool for two minutes at most.
    #[arg(long)]
    short: bool,
    /// Installs what is needed and missing.
    #[arg(long)]
    pub install: bool,
}

impl Options {
    /// Returns `true` if this part was requested.
    fn wants(&self, part: Part) -> bool {
        self.part.is_none_or(|only| only == part)
    }
}

/// Runs every check against every available peer.
#[must_use]
pub fn run(options: &Options) -> Outcome {
    match try_run(options) {
        Ok(tally) => tally.close(),
        Err(why) => {
            eprintln!("interop: {why}");
            Outcome::of(false)
        }
    }
}

/// Runs existing programs on our C library, with every available peer.
#[must_use]
pub fn consumers(options: &capi::Options) -> Outcome {
    let mut tally = Tally::default();
    let peers = match options.needs_peers() {
        true => {
            install::packages(install::INTEROP);
            found(peers::find(), &mut tally)
        }
        false => Vec::new(),
    };
    match capi::run(&peers, options, &mut tally) {
        Ok(()) => tally.close(),
        Err(why) => {
            eprintln!("consumers: {why}");
            Outcome::of(false)
        }
    }
}

fn try_run(options: &Options) -> Result<Tally, String> {
    let mut tally = Tally::default();
    install::packages(install::INTEROP);
    if options.wants(Part::Server) {
        install::packages(server::PACKAGES);
    }
    let peers = found(peers::find(), &mut tally);
    if peers.is_empty() {
        return Ok(tally);
    }
    if options.wants(Part::Preg) {
        maps(options, &peers, &mut tally)?;
    }
    if options.wants(Part::Bfrops) {
        println!(
            "interop: bfrops, seed {}, {} data of each family",
            options.seed, options.data
        );
        bfrops::run(&peers, options.seed, options.data, &mut tally)?;
    }
    if options.wants(Part::Gds) {
        println!("interop: gds, seed {}, {} jobs", options.seed, options.jobs);
        gds::run(
            &peers,
            (options.seed, options.jobs),
            &options.profile,
            &mut tally,
        )?;
    }
    if options.wants(Part::Server) {
        println!("interop: server");
        match options.groups {
            Some(times) => server::groups(&peers, times, &options.profile, &mut tally)?,
            None => server::run(&peers, options, &mut tally)?,
        }
    }
    if options.wants(Part::Skew) {
        println!("interop: skew");
        skew::run(&peers, options.write, &mut tally)?;
    }
    if options.wants(Part::Tools) {
        println!("interop: tools");
        install::packages(tools::PACKAGES);
        tools::run(&peers, &options.profile, &mut tally)?;
    }
    if options.wants(Part::Topology) {
        println!("interop: topology");
        topology::run(&peers, &mut tally)?;
    }
    if options.wants(Part::Types) {
        println!("interop: types");
        types::run(&peers, &mut tally)?;
    }
    if options.wants(Part::Mpirun) {
        println!("interop: mpirun");
        mpirun::run(&peers, &options.profile, &mut tally)?;
    }
    if options.wants(Part::Newest) {
        println!("interop: newest");
        newest::run(&options.profile, &mut tally)?;
    }
    if options.part == Some(Part::Sanitize) {
        println!("sanitize:");
        let wanted = sanitize::Wanted {
            profile: &options.profile,
            only: options.only,
            short: options.short,
        };
        sanitize::run(&peers, wanted, &mut tally)?;
    }
    Ok(tally)
}

fn maps(options: &Options, peers: &[Peer], tally: &mut Tally) -> Result<(), String> {
    println!(
        "interop: seed {}, {} generated lists and the vectors",
        options.seed, options.lists
    );
    let ours = Ours::build(&options.profile)?;
    let mut cases = checks::cases()?;
    cases.extend(lists::generate(options.seed, options.lists));
    for peer in peers {
        println!("peer: {}", peer.version);
        checks::ours_to_theirs(&ours, peer, &cases, tally)?;
        checks::theirs_to_ours(&ours, peer, &cases, tally)?;
    }
    Ok(())
}

/// Returns the available peers. A missing one is a failure in CI and a printed note elsewhere.
fn found(candidates: Vec<Result<Peer, String>>, tally: &mut Tally) -> Vec<Peer> {
    let mut peers = Vec::new();
    for candidate in candidates {
        match candidate {
            Ok(peer) => peers.push(peer),
            Err(why) if process::in_ci() => tally.fail("peers", &format!("missing: {why}")),
            Err(why) => tally.skip("peers", &why),
        }
    }
    peers
}
