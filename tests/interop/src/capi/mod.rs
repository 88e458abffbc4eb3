// SPDX-License-Identifier: MIT OR Apache-2.0
//! `libpmix.so.2` of ours in place of the one that programs have: as the client, as the server and as
//! both, with the installed releases on the other side.

mod machines;
mod slurm;
mod swapped;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::ours::{Ours, built};
use crate::peers::{Library, Peer};
use crate::server::case::{Case, Judge};
use crate::server::launcher::Launcher;
use crate::server::{PACKAGES, examples, missing, programs, run_all};
use crate::tally::Tally;
use xtask::{install, process};

/// What our library is called in tables.
const OURS: &str = "ours";

/// How long all programs together may take, so that a library that answers nothing fails in time.
const LIMIT: Duration = Duration::from_secs(7 * 60);

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

/// Runs the checks, with what is built with a profile of cargo.
///
/// # Errors
/// Something of ours does not build.
pub(crate) fn run(peers: &[Peer], profile: &str, tally: &mut Tally) -> Result<(), String> {
    install::packages(PACKAGES);
    install::packages(slurm::PACKAGES);
    let pmix = Launcher::Ours(Ours::build_as(profile)?.program);
    let swap = Swap::build(profile)?;

    // Our library as the client, under each server.
    let mut servers = vec![pmix.clone()];
    for peer in peers {
        servers.push(Launcher::host(peer)?);
        servers.extend(Launcher::prterun(peer));
    }
    let mut cases = programs::cases(OURS, &swap.library, &servers)?;
    match examples::cases(OURS, &swap.library, std::slice::from_ref(&pmix)) {
        Ok(examples) => cases.extend(examples),
        Err(why) => missing(&why, tally),
    }
    // Our library as the server, with each client.
    let host = [Launcher::host_of(OURS, &swap.library)?];
    cases.extend(programs::cases(OURS, &swap.library, &host)?);
    for peer in peers {
        cases.extend(programs::cases(&peer.version, &peer.library, &host)?);
    }
    cases.extend(own_cases(&swap, peers)?);
    let until = Instant::now() + LIMIT;
    slurm::run(&swap, peers, until, tally)?;
    swapped::run(&swap, peers, &pmix, until, tally)?;
    run_all(cases, until, tally)
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
