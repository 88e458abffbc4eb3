// SPDX-License-Identifier: MIT OR Apache-2.0
//! Our `libpmix.so.2` in place of the library of existing programs: as the client, as the server, and as both. The
//! other side is an installed release.

mod hosts;
mod machines;
mod mpich;
mod nodes;
mod nvshmem;
pub mod slurm;
mod suite;
pub mod swapped;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};

use crate::ours::Ours;
use crate::peers::{Library, Peer};
use crate::server::case::{Case, Judge};
use crate::server::launcher::{Launcher, OURS};
use crate::server::{PACKAGES, debugged, examples, missing, programs, run_all};
use crate::tally::Tally;
use xtask::{install, library, process};

/// One part of the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// The C programs and examples of `cargo xtask interop server`, with ours as client and as server.
    Programs,
    /// Slurm over several nodes.
    Slurm,
    /// Programs that were built for another library: Open MPI, Python, OpenSHMEM.
    Swapped,
    /// The test suite of mpi4py on Open MPI 4 and 5.
    Suite,
    /// NVSHMEM's bootstrap over PMIx, without a GPU.
    Nvshmem,
    /// Hosts in C that make the calls of flux-pmix, OpenPBS, CraneSched and ParaStation.
    Hosts,
    /// `pmix run` over ssh on several nodes, which are network namespaces.
    Nodes,
    /// Programs that use PMI-1 and PMI-2: the test suite of mpi4py on MPICH, Intel MPI, NVSHMEM, Slurm's client.
    Mpich,
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
    /// The only size of job that the suite of mpi4py runs on.
    #[arg(long)]
    size: Option<u32>,
    /// Slurm's nodes without namespaces, as where they are not allowed.
    #[arg(long)]
    no_namespaces: bool,
    /// The release of Slurm in the part `slurm`, from a private root, instead of that of this machine.
    #[arg(long, requires = "part")]
    release: Option<slurm::source::Release>,
    /// The cargo profile of the library and the command.
    #[arg(long, default_value = "release")]
    profile: String,
    /// Installs what is needed and missing.
    #[arg(long)]
    pub install: bool,
}

impl Options {
    /// Returns `true` if this part was requested.
    fn wants(&self, part: Part) -> bool {
        self.part.is_none_or(|only| only == part)
    }

    /// Returns the part of mpi4py's suite that is run, from now on.
    fn extent(&self) -> suite::Extent {
        suite::Extent {
            is_long: self.long,
            size: self.size,
            until: Instant::now() + self.limit(),
        }
    }

    /// Returns `true` if the libraries of this machine take part.
    pub(crate) fn needs_peers(&self) -> bool {
        self.release.is_none()
    }

    /// Returns the time limit of all programs together.
    fn limit(&self) -> Duration {
        // Slurm of a root runs more clusters, and each of its steps takes longer.
        let factor = match (self.long, self.release) {
            (true, _) => 10,
            (false, Some(_)) => 2,
            (false, None) => 1,
        };
        LIMIT * factor
    }
}

/// The time limit of all programs together, so that a library that never replies fails the run.
const LIMIT: Duration = Duration::from_secs(12 * 60);

/// Our library, installed where programs find it.
struct Swap {
    /// The folder with `libpmix.so.2`.
    folder: PathBuf,
    /// The library file.
    file: PathBuf,
    /// The headers and library to compile against.
    library: Library,
}

impl Swap {
    fn build(profile: &str) -> Result<Self, String> {
        let built = library::build(profile)?;
        let folder = install::scratch("interop/capi/lib")?;
        let file = folder.join("libpmix.so.2");
        let fault = |e: std::io::Error| format!("{}: {e}", file.display());
        // Replace the file instead of writing into it: a program that still runs has it mapped.
        let _ = std::fs::remove_file(&file);
        std::fs::copy(built.join("libpmix_capi.so"), &file).map_err(fault)?;
        Ok(Self {
            library: Library::new(process::root().join("include"), file.clone()),
            folder,
            file,
        })
    }

    /// Returns the folder that programs search for libraries.
    fn folder(&self) -> &Path {
        &self.folder
    }
}

/// Builds our library with a cargo profile, to compile programs against.
///
/// # Errors
/// Returns a message if the build fails.
pub fn library(profile: &str) -> Result<Library, String> {
    Ok(Swap::build(profile)?.library)
}

/// Runs the checks.
///
/// # Errors
/// Returns a message if a crate of ours does not build.
pub(crate) fn run(peers: &[Peer], options: &Options, tally: &mut Tally) -> Result<(), String> {
    if options.release.is_some() && options.part != Some(Part::Slurm) {
        return Err("`--release` selects a Slurm, so the part must be `slurm`".to_owned());
    }
    install::packages(match options.release {
        None => PACKAGES,
        // The root has all but what compiles our own programs and reads PyPI.
        Some(_) => &["gcc", "libc6-dev", "python3-venv"],
    });
    let program = Ours::build(&options.profile)?.program;
    let pmix = Launcher::Ours(program.clone());
    let swap = Swap::build(&options.profile)?;
    let until = Instant::now() + options.limit();
    if options.wants(Part::Slurm) {
        if options.release.is_none() {
            install::packages(slurm::PACKAGES);
        }
        slurm::run(&swap, &program, peers, options, until, tally)?;
    }
    if options.wants(Part::Swapped) {
        swapped::run(&swap, peers, &pmix, until, tally)?;
    }
    if options.wants(Part::Suite) {
        suite::run(&swap, peers, &pmix, options.extent(), tally)?;
    }
    if options.wants(Part::Nvshmem) {
        match nvshmem::cases(&swap, &pmix) {
            Ok(cases) => run_all(cases, until, tally)?,
            Err(why) => missing(&why, tally),
        }
    }
    if options.wants(Part::Hosts) {
        hosts::run(&swap, peers, until, tally)?;
    }
    if options.wants(Part::Nodes) {
        install::packages(nodes::PACKAGES);
        nodes::run(&program, options.long, until, tally)?;
    }
    if options.wants(Part::Mpich) {
        install::packages(mpich::PACKAGES);
        run_all(mpich::cases(&pmix, tally)?, until, tally)?;
        suite::run_on_mpich(&swap, &pmix, options.extent(), tally)?;
    }
    if options.wants(Part::Programs) {
        run_all(cases(&swap, peers, &pmix, tally)?, until, tally)?;
    }
    Ok(())
}

/// Returns the C programs and examples, with our library as client and as server.
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
    if let Launcher::Ours(command) = pmix {
        cases.extend(debugged::cases(OURS, &swap.library, command)?);
    }
    let prteruns = peers.iter().filter_map(Launcher::prterun);
    for launcher in std::iter::once(pmix.clone()).chain(prteruns) {
        cases.push(debugged::initiator(OURS, &swap.library, &launcher)?);
    }
    // Our library as the server, with each client.
    let host = [Launcher::host_of(OURS, &swap.library)?];
    match example_cases(swap, peers, pmix, &host[0]) {
        Ok(examples) => cases.extend(examples),
        Err(why) => missing(&why, tally),
    }
    cases.extend(programs::cases(OURS, &swap.library, &host)?);
    for peer in peers {
        cases.extend(programs::cases(&peer.version, &peer.library, &host)?);
    }
    cases.extend(own_cases(
        swap,
        peers,
        "own",
        "a server that asks for itself",
    )?);
    cases.extend(own_cases(
        swap,
        peers,
        "singleton",
        "a process that no launcher started",
    )?);
    cases.extend(header_cases(swap, peers, pmix)?);
    servers.extend(host);
    cases.extend(group_cases(swap, &servers)?);
    Ok(cases)
}

/// Returns programs compiled with our headers and linked with the library of a release. Release 4.2 lacks functions
/// that our macros call, as do those of release 5.
fn header_cases(swap: &Swap, peers: &[Peer], pmix: &Launcher) -> Result<Vec<Case>, String> {
    let mut cases = Vec::new();
    for peer in peers.iter().filter(|peer| !peer.version.starts_with("4.")) {
        let include = swap.library.include().to_owned();
        let theirs = Library::new(include, peer.library.file().to_owned());
        let release = format!("{} with our headers", peer.version);
        cases.extend(programs::cases(
            &release,
            &theirs,
            std::slice::from_ref(pmix),
        )?);
    }
    Ok(cases)
}

/// Returns the programs of the group functions, with our library as the client under each server.
fn group_cases(swap: &Swap, servers: &[Launcher]) -> Result<Vec<Case>, String> {
    let program = programs::compile_for(OURS, &swap.library, "group_calls")?;
    let mut cases = Vec::new();
    for server in servers {
        // The expected report of a lost leader, and the release of a server that is not ours.
        let (is_told, release) = match server {
            Launcher::Prterun(..) | Launcher::Example(_) => {
                let title = server.title();
                println!("left out: group_calls under {title}: it does not serve groups");
                continue;
            }
            Launcher::Host(_, release) if release != OURS => (false, Some(release)),
            // `pmix run` ends the job when a process is lost.
            Launcher::Ours(_) => (false, None),
            Launcher::Host(..) => (true, None),
        };
        let kinds = ["called", "invited", "led"];
        let kinds = kinds.into_iter().take(if is_told { 3 } else { 2 });
        for kind in kinds {
            let mut command = server.command(4);
            command.arg(&program).arg(kind).args(release);
            cases.push(Case {
                what: format!("capi: groups under {}", server.title()),
                name: format!("group_calls {kind}"),
                command,
                limit: Duration::from_secs(60),
                judge: Judge::Code(0),
                is_control: false,
            });
        }
    }
    Ok(cases)
}

/// Returns Debian's unmodified examples, compiled against the headers of their release. They run
/// with our library in the client under each server, with their library under our server, and with
/// their library on both sides.
fn example_cases(
    swap: &Swap,
    peers: &[Peer],
    pmix: &Launcher,
    host: &Launcher,
) -> Result<Vec<Case>, String> {
    let mut cases = Vec::new();
    for (number, peer) in peers.iter().enumerate() {
        let theirs = Launcher::host(peer)?;
        let pair = [host.clone(), theirs.clone()];
        cases.extend(examples::cases(&peer.version, &peer.library, &pair)?);
        let ours = Library::new(peer.library.include().to_owned(), swap.file.clone());
        let mut servers = vec![theirs];
        if number == 0 {
            servers.extend([pmix.clone(), host.clone()]);
            if let Launcher::Ours(command) = pmix {
                cases.push(debugged::example(OURS, &ours, command)?);
                cases.push(examples::of_system(OURS, &ours, command)?);
            }
        }
        cases.extend(examples::cases(OURS, &ours, &servers)?);
    }
    Ok(cases)
}

/// Returns a program of `tests/capi` that needs no launcher, with each library.
fn own_cases(swap: &Swap, peers: &[Peer], name: &str, title: &str) -> Result<Vec<Case>, String> {
    let source = process::root().join("tests/capi");
    let theirs = peers.iter().map(|peer| (&*peer.version, &peer.library));
    let libraries = std::iter::once((OURS, &swap.library)).chain(theirs);
    let case = |(release, library): (&str, &Library)| {
        let program = programs::home(release)?.join(format!("capi-{name}"));
        library.compile_with(&program, &source, &[source.join(format!("{name}.c"))])?;
        let mut command = Command::new(program);
        if release == OURS {
            // Our library also implements the functions that the releases lack.
            command.arg("all");
        }
        Ok(Case {
            what: format!("capi: {title}, {release}"),
            name: format!("{name}.c"),
            command,
            limit: Duration::from_secs(30),
            judge: Judge::Code(0),
            is_control: release != OURS,
        })
    };
    libraries.map(case).collect()
}
