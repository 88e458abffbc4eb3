// SPDX-License-Identifier: MIT OR Apache-2.0
//! `libpmix.so.2` of ours in place of the one that programs have: as the client, as the server and as
//! both, with the installed releases on the other side.

mod machines;
mod slurm;
pub mod swapped;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};

use crate::ours::{Ours, built};
use crate::peers::{Library, Peer};
use crate::server::case::{Case, Judge};
use crate::server::launcher::Launcher;
use crate::server::{PACKAGES, examples, missing, programs, run_all};
use crate::tally::Tally;
use xtask::{install, process};

/// One part of the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// The C programs and examples of `cargo xtask interop server`, with ours as client and as server.
    Programs,
    /// Slurm over several nodes.
    Slurm,
    /// Programs that were built for another library: Open MPI, Python, OpenSHMEM.
    Swapped,
}

/// Programs of others with our C library in place of the one that they have.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask consumers")]
pub struct Options {
    /// One part; every part without it.
    part: Option<Part>,
    /// Every size of job, instead of the form of CI.
    #[arg(long)]
    long: bool,
    /// What the library and the command are built with: a profile of cargo.
    #[arg(long, default_value = "release")]
    profile: String,
    /// Installs what is needed and missing.
    #[arg(long)]
    pub install: bool,
}

impl Options {
    /// Whether this part was asked for.
    fn wants(&self, part: Part) -> bool {
        self.part.is_none_or(|only| only == part)
    }

    /// How long all programs together may take.
    fn limit(&self) -> Duration {
        LIMIT * if self.long { 10 } else { 1 }
    }
}

/// What our library is called in tables.
const OURS: &str = "ours";

/// How long all programs together may take, so that a library that answers nothing fails in time.
const LIMIT: Duration = Duration::from_secs(12 * 60);

/// Our library as programs find it.
struct Swap {
    /// The folder with `libpmix.so.2`.
    folder: PathBuf,
    /// The library itself.
    file: PathBuf,
    /// What to compile against.
    library: Library,
}

impl Swap {
    fn build(profile: &str) -> Result<Self, String> {
        let package = ["build", "--quiet", "--package", "pmix-capi", "--profile"];
        process::run(process::cargo(package).arg(profile))?;
        let folder = install::scratch("interop/capi/lib")?;
        let file = folder.join("libpmix.so.2");
        let fault = |e: std::io::Error| format!("{}: {e}", file.display());
        // A program that still runs keeps the file that it has.
        let _ = std::fs::remove_file(&file);
        std::fs::copy(built(profile).join("libpmix_capi.so"), &file).map_err(fault)?;
        Ok(Self {
            library: Library::new(process::root().join("include"), file.clone()),
            folder,
            file,
        })
    }

    /// The folder, where a program is to look for libraries.
    fn folder(&self) -> &Path {
        &self.folder
    }
}

/// Builds our library with a profile of cargo, to compile programs against.
///
/// # Errors
/// It does not build.
pub fn library(profile: &str) -> Result<Library, String> {
    Ok(Swap::build(profile)?.library)
}

/// Runs the checks.
///
/// # Errors
/// Something of ours does not build.
pub(crate) fn run(peers: &[Peer], options: &Options, tally: &mut Tally) -> Result<(), String> {
    install::packages(PACKAGES);
    let pmix = Launcher::Ours(Ours::build_as(&options.profile)?.program);
    let swap = Swap::build(&options.profile)?;
    let until = Instant::now() + options.limit();
    if options.wants(Part::Slurm) {
        install::packages(slurm::PACKAGES);
        slurm::run(&swap, peers, options.long, until, tally)?;
    }
    if options.wants(Part::Swapped) {
        swapped::run(&swap, peers, &pmix, until, tally)?;
    }
    if options.wants(Part::Programs) {
        run_all(cases(&swap, peers, &pmix, tally)?, until, tally)?;
    }
    Ok(())
}

/// The C programs and examples, with ours as client and as server.
fn cases(
    swap: &Swap,
    peers: &[Peer],
    pmix: &Launcher,
    tally: &mut Tally,
) -> Result<Vec<Case>, String> {
    // Our library as the client, under each server.
    let mut servers = vec![pmix.clone()];
    for peer in peers {
        servers.push(Launcher::host(peer)?);
        servers.extend(Launcher::prterun(peer));
    }
    let mut cases = programs::cases(OURS, &swap.library, &servers)?;
    match examples::cases(OURS, &swap.library, std::slice::from_ref(pmix)) {
        Ok(examples) => cases.extend(examples),
        Err(why) => missing(&why, tally),
    }
    // Our library as the server, with each client.
    let host = [Launcher::host_of(OURS, &swap.library)?];
    cases.extend(programs::cases(OURS, &swap.library, &host)?);
    for peer in peers {
        cases.extend(programs::cases(&peer.version, &peer.library, &host)?);
    }
    cases.extend(own_cases(swap, peers)?);
    Ok(cases)
}

/// The process of a server that asks for itself, with each library.
fn own_cases(swap: &Swap, peers: &[Peer]) -> Result<Vec<Case>, String> {
    let source = process::root().join("tests/capi");
    let theirs = peers.iter().map(|peer| (&*peer.version, &peer.library));
    let libraries = std::iter::once((OURS, &swap.library)).chain(theirs);
    let case = |(release, library): (&str, &Library)| {
        let program = programs::home(release)?.join("capi-own");
        library.compile_with(&program, &source, &[source.join("own.c")])?;
        Ok(Case {
            what: format!("capi: a server that asks for itself, {release}"),
            name: "own.c".to_owned(),
            command: Command::new(program),
            limit: Duration::from_secs(30),
            judge: Judge::Code(0),
        })
    };
    libraries.map(case).collect()
}
