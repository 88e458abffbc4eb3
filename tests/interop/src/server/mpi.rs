// SPDX-License-Identifier: MIT OR Apache-2.0
//! Open MPI: the programs of `tests/server/mpi` with three releases, and the two Python clients.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::case::{Case, Judge};
use super::launcher::{Far, Launcher};
use crate::peers::{PYTHON, Peer, require_mpi4py, require_wrapper};
use xtask::install;
use xtask::process;

/// Programs and their numbers of processes; all but the smallest jobs share processors.
const PROGRAMS: [(&[&str], &[u32]); 2] = [
    (&["hello", "allreduce", "alltoall", "split"], &[2, 8, 32]),
    (&["bcast", "ring", "window", "shared", "about"], &[1, 3, 8]),
];

/// Kinds of spawns, the number of parent processes, and the expected exit code.
const SPAWNS: [(&str, u32, i32); 7] = [
    ("once", 2, 0),
    ("multiple", 1, 0),
    ("nested", 1, 0),
    ("row", 1, 0),
    ("fails", 2, 0),
    ("dies", 2, LOST),
    ("parent", 2, 5),
];

/// The exit code of a child that ends while its parents are connected, which ends all.
const LOST: i32 = 3;

/// The exit code of a parent that Open MPI aborts because the connection to such a child is lost. The kernel closes the
/// connection before it reports the end of the child, so the abort may be the first failure.
const ABORTED: i32 = 14;

/// Returns the expected result of a spawn.
fn ends_with(code: i32) -> Judge {
    match code {
        LOST => Judge::OneOf(&[LOST, ABORTED]),
        code => Judge::Code(code),
    }
}

/// The remote nodes of a larger job.
const FAR: Far = Far(&[(3, 4)]);

/// A compiler wrapper, with a title.
struct Release {
    name: String,
    compiler: PathBuf,
}

/// Returns the Debian release, that of the wheel, and an older one with an embedded client.
fn releases(peers: &[Peer]) -> Vec<Result<Release, String>> {
    let debian = Path::new("/usr/bin/mpicc.openmpi");
    let debian = match debian.exists() {
        true => Ok(debian.to_owned()),
        false => Err("no mpicc of the system: install libopenmpi-dev".to_owned()),
    };
    // The other peer is Debian's library, whose mpicc was added above.
    let mut newer = peers.iter().filter(|peer| peer.reads_blob);
    let wheel = newer.find_map(|peer| peer.library.beside("mpicc"));
    let wheel =
        wheel.ok_or_else(|| format!("no mpicc of the wheel: pip install {}", install::WHEEL));
    let release = |compiler: PathBuf| {
        let text = process::output(Command::new(&compiler).arg("--showme:version"))?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let is_release = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
        let name = text.split_whitespace().find(is_release);
        let name = name.ok_or_else(|| format!("{} has no version", compiler.display()))?;
        Ok(Release {
            name: name.to_owned(),
            compiler,
        })
    };
    [debian, wheel, install::older_mpicc()]
        .map(|compiler| compiler.and_then(release))
        .into()
}

impl Release {
    fn compile(&self, name: &str) -> Result<PathBuf, String> {
        let home = install::scratch(&format!("interop/server/mpi-{}", self.name))?;
        let program = home.join(name);
        let source = process::root().join(format!("tests/server/mpi/{name}.c"));
        let mut command = Command::new(&self.compiler);
        command.args(["-O2", "-Wall", "-Wextra", "-o"]);
        process::output(command.arg(&program).arg(source))?;
        Ok(program)
    }

    fn case(
        &self,
        name: &str,
        size: u32,
        launcher: &Launcher,
        judge: Judge,
    ) -> Result<Case, String> {
        let mut command = launcher.command(size);
        command.arg(self.compile(name)?).arg(size.to_string());
        Ok(self.run(format!("{name} on {size}"), command, launcher, judge))
    }

    /// Returns a run of a program whose shared memory is in a folder of its own.
    fn small(&self, name: &str, code: i32, launcher: &Launcher) -> Result<Case, String> {
        let folder = format!("interop/server/memory-{}-{name}", self.name);
        let folder = install::scratch(&folder)?;
        for entry in std::fs::read_dir(&folder)
            .map_err(|e| e.to_string())?
            .flatten()
        {
            std::fs::remove_file(entry.path()).map_err(|e| e.to_string())?;
        }
        let mut case = self.case(name, 4, launcher, Judge::Leaves(code, folder.clone()))?;
        // The component is named "vader" in Open MPI 4.1 and "sm" in 5.0.
        for component in ["vader", "sm"] {
            let variable = format!("OMPI_MCA_btl_{component}_backing_directory");
            case.command.env(variable, &folder);
        }
        Ok(case)
    }

    /// Returns the run of the local processes of a larger job.
    fn part(&self, num_local: u32, launcher: &Launcher) -> Result<Case, String> {
        let mut command = launcher.command_of_larger(num_local, FAR)?;
        let size = num_local + FAR.num_procs();
        let sizes = [num_local, size].map(|number| number.to_string());
        command.arg(self.compile("part")?).args(sizes);
        let name = format!("part, {num_local} of {size}");
        Ok(self.run(name, command, launcher, Judge::Code(0)))
    }

    /// Returns a run of processes that spawn others.
    fn spawn(&self, kind: &str, size: u32, code: i32, launcher: &Launcher) -> Result<Case, String> {
        self.spawn_judged(kind, size, ends_with(code), launcher)
    }

    /// Returns a run of processes that spawn others, with its expected result.
    fn spawn_judged(
        &self,
        kind: &str,
        size: u32,
        judge: Judge,
        launcher: &Launcher,
    ) -> Result<Case, String> {
        let mut command = launcher.command(size);
        command.arg(self.compile("spawn")?);
        command.args([&size.to_string(), kind]);
        Ok(self.run(format!("spawn {kind} on {size}"), command, launcher, judge))
    }

    /// Returns `true` if the release supports MPI 4, which has sessions.
    fn has_sessions(&self) -> bool {
        let major = self.name.split('.').next();
        major
            .and_then(|major| major.parse().ok())
            .is_some_and(|major: u32| major >= 5)
    }

    fn run(&self, name: String, command: Command, launcher: &Launcher, judge: Judge) -> Case {
        Case {
            what: format!("server: Open MPI {} under {}", self.name, launcher.title()),
            name,
            command,
            limit: Duration::from_secs(60),
            judge,
            is_control: false,
        }
    }
}

/// Returns every MPI program under a launcher, or the reason why it cannot run.
pub(super) fn cases(peers: &[Peer], launcher: &Launcher) -> Vec<Result<Case, String>> {
    let mut cases = Vec::new();
    for release in releases(peers) {
        let release = match release {
            Ok(release) => release,
            Err(why) => {
                cases.push(Err(why));
                continue;
            }
        };
        for (names, sizes) in PROGRAMS {
            for (name, size) in names
                .iter()
                .flat_map(|n| sizes.iter().map(move |s| (n, *s)))
            {
                cases.push(release.case(name, size, launcher, Judge::Code(0)));
            }
        }
        if release.has_sessions() {
            for size in [1, 2, 3, 8, 16] {
                cases.push(release.case("sessions", size, launcher, Judge::Code(0)));
            }
        }
        cases.push(release.part(4, launcher));
        cases.extend(SPAWNS.map(|(kind, size, code)| release.spawn(kind, size, code, launcher)));
        if matches!(launcher, Launcher::Ours(_)) {
            let judge = Judge::CodeSaying(3, "the parents continue");
            cases.push(release.spawn_judged("apart", 2, judge, launcher));
        }
        cases.push(release.case("abort", 4, launcher, Judge::Code(9)));
    }
    cases
}

/// The programs that run under the smallest host, and their exit codes.
const SMALL: [(&str, i32); 3] = [("hello", 0), ("shared", 0), ("abort", 9)];

/// Returns runs of Open MPI under the smallest host, where no shared memory may be left.
pub(super) fn small(peers: &[Peer]) -> Result<Vec<Result<Case, String>>, String> {
    let launcher = Launcher::example("dev")?;
    let mut cases = Vec::new();
    for release in releases(peers) {
        match release {
            Ok(release) => {
                cases.extend(SMALL.map(|(name, code)| release.small(name, code, &launcher)));
            }
            Err(why) => cases.push(Err(why)),
        }
    }
    Ok(cases)
}

/// The mpi4py program of the README.
const MPI4PY: &str = "from mpi4py import MPI; world = MPI.COMM_WORLD; \
     total = world.allreduce(world.rank); assert total == 6, total; \
     print('rank', world.rank, 'of', world.size, 'is content')";

/// Returns the runs of the Python clients: mpi4py of the wheel, and the wrapper of Debian's library.
pub(super) fn python(launcher: &Launcher) -> Vec<Result<Case, String>> {
    let case = |what: &str, python: &Path, args: &[&str]| {
        let mut command = launcher.command(4);
        command.arg(python).args(args);
        Case {
            what: format!("server: Python under {}", launcher.title()),
            name: what.to_owned(),
            command,
            limit: Duration::from_secs(60),
            judge: Judge::Says(vec![("is content", 4)], &["Traceback"]),
            is_control: false,
        }
    };
    let mpi4py = install::pip("mpi4py")
        .and_then(|()| install::venv())
        .map(|python| case("mpi4py", &python, &["-c", MPI4PY]));
    let client = process::root().join("tests/server/python/client.py");
    let client = client.display().to_string();
    let wrapper = require_wrapper().map(|()| case("python3-pmix", Path::new(PYTHON), &[&client]));
    // Intel MPI is not linked with PMIx. A process that opens no PMIx library is a singleton, and its total differs.
    let intel =
        install::intel_mpi().map(|python| case("mpi4py of Intel MPI", &python, &["-c", MPI4PY]));
    let mut cases = vec![mpi4py, wrapper, intel];
    // Open MPI 4 has no sessions.
    match install::venv() {
        Ok(python) => cases.extend(sessions(&python, launcher).map(Ok)),
        Err(why) => cases.push(Err(why)),
    }
    // The Debian package of mpi4py is one of the required packages.
    let pythons = [
        ("the wheel", install::venv()),
        (
            "Open MPI 4.1",
            require_mpi4py().map(|()| PathBuf::from(PYTHON)),
        ),
    ];
    for (release, python) in pythons {
        match python {
            Ok(python) => cases.extend(spawning(release, &python, launcher).map(Ok)),
            Err(why) => cases.push(Err(why)),
        }
    }
    cases
}

/// Returns runs of mpi4py processes that create communicators from groups.
fn sessions(python: &Path, launcher: &Launcher) -> [Case; 4] {
    let program = process::root().join("tests/server/python/sessions.py");
    [2, 4, 8, 16].map(|size| {
        let mut command = launcher.command(size);
        command.arg(python).arg(&program).arg(size.to_string());
        let said = usize::try_from(size).unwrap_or(usize::MAX);
        Case {
            what: format!("server: Python under {}", launcher.title()),
            name: format!("mpi4py, sessions on {size}"),
            command,
            limit: Duration::from_secs(90),
            judge: Judge::Says(vec![("is content", said)], &["Traceback"]),
            is_control: false,
        }
    })
}

/// Returns runs of mpi4py processes that spawn others.
fn spawning(release: &str, python: &Path, launcher: &Launcher) -> [Case; SPAWNS.len()] {
    let program = process::root().join("tests/server/python/spawn.py");
    SPAWNS.map(|(kind, size, code)| {
        let mut command = launcher.command(size);
        command.arg(python).arg(&program).arg(kind);
        Case {
            what: format!("server: Python under {}", launcher.title()),
            name: format!("mpi4py of {release}, spawn {kind} on {size}"),
            command,
            limit: Duration::from_secs(90),
            judge: ends_with(code),
            is_control: false,
        }
    })
}
