// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that were built for another library and load ours: Open MPI, OpenSHMEM, and Debian's Python wrapper. The
//! trace of the dynamic loader proves that ours was loaded.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::{OURS, Swap};
use crate::peers::{Library, PYTHON, Peer, require_mpi4py, require_wrapper};
use crate::server::case::{Case, Judge};
use crate::server::launcher::Launcher;
use crate::server::{missing, programs};
use crate::tally::Tally;
use xtask::install::{self, Root};
use xtask::process;

/// The number of processes of each job.
const SIZE: u32 = 4;

/// The side of a job that loads our library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Neither,
    Client,
    Server,
    Both,
}

impl Side {
    fn title(self) -> &'static str {
        match self {
            Self::Neither => "the installed library",
            Self::Client => "ours in the clients",
            Self::Server => "ours in the server",
            Self::Both => "ours on both sides",
        }
    }

    fn in_client(self) -> bool {
        matches!(self, Self::Client | Self::Both)
    }

    fn in_server(self) -> bool {
        matches!(self, Self::Server | Self::Both)
    }

    /// Returns the number of processes that load our library.
    fn loads(self) -> usize {
        let clients = usize::try_from(SIZE).unwrap_or(0);
        usize::from(self.in_server()) + if self.in_client() { clients } else { 0 }
    }
}

/// A run, and the number of its processes that load our library.
struct Run {
    case: Case,
    loads: usize,
}

/// Runs every installed program.
///
/// # Errors
/// Returns a message if a folder cannot be created.
pub(super) fn run(
    swap: &Swap,
    peers: &[Peer],
    pmix: &Launcher,
    until: Instant,
    tally: &mut Tally,
) -> Result<(), String> {
    let home = install::scratch("interop/capi/runs")?;
    let mut runs = Vec::new();
    for found in [
        debian(swap, pmix),
        wheel(swap, peers, pmix, &home),
        alone(swap, peers, &home),
        shmem(swap, pmix, &home),
        intel(swap, pmix),
        python(swap, pmix),
        python_server(swap, peers),
    ] {
        match found {
            Ok(found) => runs.extend(found),
            Err(why) => missing(&why, tally),
        }
    }
    for (number, mut run) in runs.into_iter().enumerate() {
        let traces = home.join(format!("traces-{number}"));
        let output = home.join(format!("output-{number}"));
        let done = run.judge(swap, &traces, &output, &home, until);
        match done {
            Ok(()) => tally.pass(&run.case.what),
            Err(why) => tally.fail(&run.case.what, &why),
        }
    }
    Ok(())
}

impl Run {
    /// Runs the case and checks which libraries were loaded.
    fn judge(
        &mut self,
        swap: &Swap,
        traces: &Path,
        output: &Path,
        home: &Path,
        until: Instant,
    ) -> Result<(), String> {
        let fault = |e: std::io::Error| format!("{}: {e}", traces.display());
        if traces.exists() {
            std::fs::remove_dir_all(traces).map_err(fault)?;
        }
        std::fs::create_dir_all(traces).map_err(fault)?;
        self.case.command.env("LD_DEBUG", "libs");
        self.case
            .command
            .env("LD_DEBUG_OUTPUT", traces.join("trace"));
        self.case.run(output, home, until)?;
        let loaded = format!("calling init: {}\n", swap.file.display());
        let mut loads = 0;
        for entry in std::fs::read_dir(traces).map_err(fault)? {
            let trace = std::fs::read(entry.map_err(fault)?.path()).map_err(fault)?;
            loads += usize::from(String::from_utf8_lossy(&trace).contains(&loaded));
        }
        match self.loads {
            expected if loads == expected => Ok(()),
            expected => Err(format!(
                "{}: our library was in {loads} processes, not in {expected}",
                self.case.name
            )),
        }
    }
}

/// Adds the library in a folder to one side of a launcher's command. The caller adds the program.
fn command(mut command: Command, side: Side, folder: &Path) -> Command {
    if side.in_server() {
        command.env("LD_LIBRARY_PATH", folder);
    } else {
        command.env_remove("LD_LIBRARY_PATH");
    }
    command.arg("env");
    if side.in_client() {
        command.arg(format!("LD_LIBRARY_PATH={}", folder.display()));
    } else {
        command.args(["-u", "LD_LIBRARY_PATH"]);
    }
    command
}

/// The MPI programs to run.
const PROGRAMS: [&str; 3] = ["hello", "ring", "alltoall"];

/// Compiles a program of `tests/server/mpi` with a compiler wrapper.
///
/// # Errors
/// Returns the message of the compiler.
pub(super) fn compile(compiler: &Path, name: &str, home: &Path) -> Result<PathBuf, String> {
    compile_in(None, compiler, name, home)
}

/// Compiles a program of `tests/server/mpi` with a compiler wrapper of a root, or of this machine.
///
/// # Errors
/// Returns the message of the compiler.
pub(super) fn compile_in(
    root: Option<&Root>,
    compiler: &Path,
    name: &str,
    home: &Path,
) -> Result<PathBuf, String> {
    let release = compiler.display().to_string().replace('/', "-");
    let program = home.join(format!("mpi{release}-{name}"));
    let source = process::root().join(format!("tests/server/mpi/{name}.c"));
    let mut command = match root {
        Some(root) => root.covering(compiler),
        None => Command::new(compiler),
    };
    command.args(["-O2", "-Wall", "-Wextra", "-o"]);
    process::output(command.arg(&program).arg(source))?;
    Ok(program)
}

fn run_of(what: &str, name: &str, side: Side, command: Command) -> Run {
    Run {
        case: Case {
            what: format!("capi: {what}, {}", side.title()),
            name: name.to_owned(),
            command,
            limit: Duration::from_secs(60),
            judge: Judge::Code(0),
            is_control: side == Side::Neither,
        },
        loads: side.loads(),
    }
}

/// Debian's compiler wrapper and launcher of Open MPI 4.
const MPICC: &str = "/usr/bin/mpicc.openmpi";
const MPIRUN: &str = "/usr/bin/mpirun.openmpi";

/// Compiles a program of `tests/server/mpi` for Debian's Open MPI 4.
///
/// # Errors
/// Returns a message if Open MPI is not installed, or that of the compiler.
pub fn compile_for_debian(name: &str) -> Result<PathBuf, String> {
    if !Path::new(MPICC).exists() || !Path::new(MPIRUN).exists() {
        return Err("no Open MPI of the system: install libopenmpi-dev openmpi-bin".to_owned());
    }
    compile(
        Path::new(MPICC),
        name,
        &install::scratch("interop/capi/runs")?,
    )
}

/// Returns Debian's mpirun for a number of processes. The caller adds the program.
pub(super) fn mpirun(num_procs: u32) -> Command {
    launcher_of(MPIRUN, num_procs)
}

/// Returns a launcher of Debian's Open MPI for `num_procs` processes.
fn launcher_of(program: &str, num_procs: u32) -> Command {
    let mut launcher = Command::new(program);
    launcher.args(["--allow-run-as-root", "--oversubscribe", "-n"]);
    launcher.arg(num_procs.to_string());
    launcher
}

/// Returns a job of an MPI program, compiled for Debian's Open MPI, under Debian's mpirun. Both sides use the given
/// library or the installed one.
pub fn mpi_job(program: &Path, num_procs: u32, library: Option<&Library>) -> Command {
    let mut command = match library {
        Some(library) => command(mpirun(num_procs), Side::Both, library.folder()),
        None => command(mpirun(num_procs), Side::Neither, Path::new("")),
    };
    command.arg(program).arg(num_procs.to_string());
    command
}

/// Returns runs of Debian's Open MPI 4 under its own mpirun and under our command.
fn debian(swap: &Swap, pmix: &Launcher) -> Result<Vec<Run>, String> {
    let mut runs = Vec::new();
    for name in PROGRAMS {
        let program = compile_for_debian(name)?;
        for side in [Side::Neither, Side::Client, Side::Server, Side::Both] {
            let mut command = command(mpirun(SIZE), side, swap.folder());
            command.arg(&program).arg(SIZE.to_string());
            runs.push(run_of("mpirun of Open MPI 4", name, side, command));
        }
        let mut command = command(pmix.command(SIZE), Side::Client, swap.folder());
        command.arg(&program).arg(SIZE.to_string());
        runs.push(run_of(
            "Open MPI 4 under pmix run",
            name,
            Side::Client,
            command,
        ));
    }
    require_mpi4py()?;
    let python = Path::new(PYTHON);
    for side in [Side::Neither, Side::Client, Side::Server, Side::Both] {
        let launched = command(mpirun(SIZE), side, swap.folder());
        runs.push(mpi4py(
            "mpi4py under mpirun of Open MPI 4",
            side,
            launched,
            python,
        ));
    }
    let launched = command(pmix.command(SIZE), Side::Client, swap.folder());
    runs.push(mpi4py(
        "mpi4py of Open MPI 4 under pmix run",
        Side::Client,
        launched,
        python,
    ));
    Ok(runs)
}

/// Returns runs of Open MPI 5 from the wheel under its prterun, which needs the library that it was built with, and
/// under our command.
fn wheel(swap: &Swap, peers: &[Peer], pmix: &Launcher, home: &Path) -> Result<Vec<Run>, String> {
    let mut runs = Vec::new();
    for peer in peers {
        let prterun = Launcher::prterun(peer);
        let (Some(prterun), Some(compiler)) = (prterun, peer.library.beside("mpicc")) else {
            continue;
        };
        for name in PROGRAMS {
            let program = compile(&compiler, name, home)?;
            for (launcher, what, side) in [
                (&prterun, "prterun of Open MPI 5", Side::Neither),
                (&prterun, "prterun of Open MPI 5", Side::Client),
                (pmix, "Open MPI 5 under pmix run", Side::Client),
            ] {
                let mut command = command(launcher.command(SIZE), side, swap.folder());
                command.arg(&program).arg(SIZE.to_string());
                runs.push(run_of(what, name, side, command));
            }
        }
        let python = install::pip("mpi4py").and_then(|()| install::venv())?;
        for (launcher, what, side) in [
            (&prterun, "mpi4py under prterun", Side::Client),
            (pmix, "mpi4py of Open MPI 5 under pmix run", Side::Client),
        ] {
            let launched = command(launcher.command(SIZE), side, swap.folder());
            runs.push(mpi4py(what, side, launched, &python));
        }
    }
    match runs.is_empty() {
        true => Err(format!("no prterun: pip install {}", install::WHEEL)),
        false => Ok(runs),
    }
}

/// Returns runs of Open MPI 4 and 5 without a launcher, in which each program is a singleton.
fn alone(swap: &Swap, peers: &[Peer], home: &Path) -> Result<Vec<Run>, String> {
    require_mpi4py()?;
    // Open MPI 4 starts its daemon (orted), which loads the library as the server of the process.
    let mut releases = vec![(
        "Open MPI 4",
        compile_for_debian("hello")?,
        PathBuf::from(PYTHON),
        2,
    )];
    let compilers = peers
        .iter()
        .filter(|peer| Launcher::prterun(peer).is_some());
    for compiler in compilers.filter_map(|peer| peer.library.beside("mpicc")) {
        let python = install::pip("mpi4py").and_then(|()| install::venv())?;
        releases.push(("Open MPI 5", compile(&compiler, "hello", home)?, python, 1));
    }
    let mut runs = Vec::new();
    for (release, hello, python, loads) in releases {
        for side in [Side::Neither, Side::Client] {
            let mut push = |name: &str, program: &Path, words: &[&str]| {
                let mut command = Command::new(program);
                command.args(words).arg("1");
                match side {
                    Side::Client => command.env("LD_LIBRARY_PATH", swap.folder()),
                    _ => command.env_remove("LD_LIBRARY_PATH"),
                };
                let what = format!("{release} without a launcher");
                let mut run = run_of(&what, name, side, command);
                run.loads = if side == Side::Client { loads } else { 0 };
                runs.push(run);
            };
            push("hello", &hello, &[]);
            push("mpi4py", &python, &["-c", MPI4PY]);
        }
    }
    Ok(runs)
}

/// Returns runs of Intel MPI under our command, which opens the library that the loader finds.
fn intel(swap: &Swap, pmix: &Launcher) -> Result<Vec<Run>, String> {
    let python = install::intel_mpi()?;
    let launched = command(pmix.command(SIZE), Side::Client, swap.folder());
    let what = "mpi4py of Intel MPI under pmix run";
    Ok(vec![mpi4py(what, Side::Client, launched, &python)])
}

/// The program that mpi4py runs, with the size of the job as its argument: an all-to-all exchange.
pub(super) const MPI4PY: &str = "import sys; from mpi4py import MPI; w = MPI.COMM_WORLD; \
                                 assert w.size == int(sys.argv[1]), w.size; \
                                 assert w.alltoall([w.rank] * w.size) == list(range(w.size))";

/// Returns a run of mpi4py in a Python, under the given command.
fn mpi4py(what: &str, side: Side, mut command: Command, python: &Path) -> Run {
    command.arg(python).args(["-c", MPI4PY, &SIZE.to_string()]);
    run_of(what, "mpi4py", side, command)
}

/// Debian's compiler wrapper and launcher of OpenSHMEM, a part of its Open MPI 4.
const OSHCC: &str = "/usr/bin/oshcc";
const OSHRUN: &str = "/usr/bin/oshrun";

/// Returns runs of OpenSHMEM under its own launcher and under our command.
fn shmem(swap: &Swap, pmix: &Launcher, home: &Path) -> Result<Vec<Run>, String> {
    if !Path::new(OSHCC).exists() || !Path::new(OSHRUN).exists() {
        return Err("no OpenSHMEM: install libopenmpi-dev openmpi-bin".to_owned());
    }
    let program = home.join("shmem-hello");
    let source = process::root().join("tests/server/shmem/hello.c");
    let mut compiler = Command::new(OSHCC);
    compiler.args([
        "-O2",
        "-Wall",
        "-Wextra",
        "-Wno-deprecated-declarations",
        "-o",
    ]);
    process::output(compiler.arg(&program).arg(source))?;
    let mut runs = Vec::new();
    for side in [Side::Neither, Side::Client, Side::Server, Side::Both] {
        let command = command(launcher_of(OSHRUN, SIZE), side, swap.folder());
        runs.push(shmem_run("oshrun of OpenSHMEM", side, command, &program));
    }
    let command = command(pmix.command(SIZE), Side::Client, swap.folder());
    runs.push(shmem_run(
        "OpenSHMEM under pmix run",
        Side::Client,
        command,
        &program,
    ));
    Ok(runs)
}

fn shmem_run(what: &str, side: Side, mut command: Command, program: &Path) -> Run {
    command.env("SHMEM_SYMMETRIC_SIZE", "16M");
    // This component of Open MPI 4.1.4 frees invalid memory at the end of OpenSHMEM, with any library.
    command.env("OMPI_MCA_osc", "^rdma");
    command.arg(program).arg(SIZE.to_string());
    run_of(what, "hello", side, command)
}

/// Returns runs of Debian's Python wrapper as a server. The clients are C programs with libraries of their own, and the
/// wrapper itself.
fn python_server(swap: &Swap, peers: &[Peer]) -> Result<Vec<Run>, String> {
    require_wrapper()?;
    let folder = process::root().join("tests/server/python");
    let server = || {
        let mut command = Command::new(PYTHON);
        command.arg(folder.join("server.py")).arg(SIZE.to_string());
        command
    };
    let mut runs = Vec::new();
    let mut push = |name: String, side, mut command: Command, words: &[&Path]| {
        command.args(words);
        runs.push(run_of("python3-pmix as the server", &name, side, command));
    };
    for side in [Side::Neither, Side::Client, Side::Server, Side::Both] {
        let command = command(server(), side, swap.folder());
        let script = folder.join("client.py");
        let words = [Path::new(PYTHON), script.as_path()];
        push("client.py".to_owned(), side, command, &words);
    }
    let theirs = peers.iter().map(|peer| (&*peer.version, &peer.library));
    let clients: Vec<_> = std::iter::once((OURS, &swap.library))
        .chain(theirs)
        .collect();
    for (release, library) in clients {
        for name in ["exchange", "fences", "direct", "events"] {
            let program = programs::compile_for(release, library, name)?;
            for in_server in [true, false] {
                let side = match (in_server, release == OURS) {
                    (false, false) => Side::Neither,
                    (false, true) => Side::Client,
                    (true, false) => Side::Server,
                    (true, true) => Side::Both,
                };
                let mut command = server();
                if in_server {
                    command.env("LD_LIBRARY_PATH", swap.folder());
                }
                push(format!("{name} of {release}"), side, command, &[&program]);
            }
        }
    }
    Ok(runs)
}

/// Returns runs of Debian's Python wrapper as a client and as a tool.
fn python(swap: &Swap, pmix: &Launcher) -> Result<Vec<Run>, String> {
    require_wrapper()?;
    let folder = process::root().join("tests/server/python");
    let mut runs = Vec::new();
    for name in ["client.py", "tool.py", "attached.py"] {
        for side in [Side::Neither, Side::Client] {
            let mut command = command(pmix.command(SIZE), side, swap.folder());
            command.arg(PYTHON).arg(folder.join(name));
            let mut run = run_of("python3-pmix under pmix run", name, side, command);
            run.case.judge = Judge::Says(vec![("is content", 4)], &["Traceback"]);
            runs.push(run);
        }
    }
    Ok(runs)
}
