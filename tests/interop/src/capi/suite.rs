// SPDX-License-Identifier: MIT OR Apache-2.0
//! The test suite of mpi4py on Open MPI. Every test that passes with the installed libraries must pass with ours on
//! either side, and without a launcher.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::{Swap, swapped};
use crate::peers::Peer;
use crate::server::case::run_within;
use crate::server::launcher::Launcher;
use crate::server::missing;
use crate::tally::Tally;
use xtask::{install, process};

/// The source package of mpi4py with the tests, and the release that runs them.
pub(super) const SUITE: &str = "mpi4py==4.1.2";

/// Debian's Open MPI 4, which the wheel of mpi4py loads.
const LIBMPI_OF_DEBIAN: &str = "/usr/lib/x86_64-linux-gnu/libmpi.so.40";

/// The tests of the suite that use PMIx most, as patterns of unittest. The CI form runs only these in jobs of several
/// processes. Running every test of spawns takes more than a minute, so the list has one for each kind of spawn.
const SHORT: &[&str] = &[
    "test_comm*",
    "test_dynproc.*",
    "test_environ.*",
    "test_session.*",
    "test_spawn.TestSpawn*World.testCommSpawn",
    "test_threads.*",
    "test_toplevel.*",
    "test_win.*",
];

/// The modules that stock Open MPI 4.1 does not complete under its own mpirun: two concurrent spawns time out.
const UNFINISHED_BY_4: &[&str] = &["test_dynproc", "test_spawn"];

/// The modules that stock Open MPI 4 and 5 and stock MPICH do not complete with one process under their own launcher: the
/// process is lost when it has spawned the workers of a pool.
const UNFINISHED_ALONE: &[&str] = &["test_util_pool"];

/// The modules that spawn processes, which requires a launcher.
const SPAWNING: &[&str] = &["test_dynproc", "test_spawn", "test_util_pool"];

/// The time limit of one run of the suite. All of it takes long with more ranks than processors, which poll in turn.
const LIMIT: Duration = Duration::from_secs(10 * 60);
const LIMIT_OF_ALL: Duration = Duration::from_secs(30 * 60);

/// An Open MPI for mpi4py, and its own launcher.
struct Mpi {
    title: &'static str,
    /// The variable that names its library to mpi4py, if it is not the wheel's default.
    libmpi: Option<&'static str>,
    /// A function that returns its own launcher for a number of processes.
    launcher: Box<dyn Fn(u32) -> Command>,
    /// The environment variable, with its value, that the launcher of this Open MPI needs if the started processes load
    /// the library of pmix-rs.
    for_ours: Option<(&'static str, &'static str)>,
    left_out: &'static [&'static str],
    /// The Python whose mpi4py loads it, if it is not that of all.
    python: Option<PathBuf>,
    /// `true` if it uses PMIx, so that its processes can load our library.
    has_pmix: bool,
}

/// The part of the suite that is run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// `true` for all modules, otherwise those of CI.
    pub(super) is_long: bool,
    /// The only size of job, instead of those of this form.
    pub(super) size: Option<u32>,
    /// The end of the time for it.
    pub(super) until: Instant,
}

/// Outcomes by test and rank: `true` for a test that passed.
type Outcomes = BTreeMap<(String, u32), bool>;

/// A run of the suite.
struct Run<'a> {
    what: String,
    size: u32,
    /// The command before `env`, or `None` for a singleton process.
    launcher: Option<Command>,
    library: Option<&'a Path>,
    mpi: &'a Mpi,
    /// The patterns of the tests that it runs; empty for all tests.
    tests: &'static [&'static str],
}

/// Runs the suite under every launcher, for every Open MPI.
///
/// # Errors
/// Returns a message if the folder of the runs cannot be created.
pub(super) fn run(
    swap: &Swap,
    peers: &[Peer],
    pmix: &Launcher,
    extent: Extent,
    tally: &mut Tally,
) -> Result<(), String> {
    let mpis = || [wheel(peers), debian()];
    run_on(mpis, swap, pmix, extent, tally)
}

/// Runs the suite on MPICH under Hydra and under our launcher.
///
/// # Errors
/// Returns a message if the folder of the runs cannot be created.
pub(super) fn run_on_mpich(
    swap: &Swap,
    pmix: &Launcher,
    extent: Extent,
    tally: &mut Tally,
) -> Result<(), String> {
    run_on(|| [mpich()], swap, pmix, extent, tally)
}

fn run_on<const N: usize>(
    mpis: impl FnOnce() -> [Result<Mpi, String>; N],
    swap: &Swap,
    pmix: &Launcher,
    extent: Extent,
    tally: &mut Tally,
) -> Result<(), String> {
    let home = install::scratch("interop/capi/suite")?;
    let place = install::pip(SUITE)
        .and_then(|()| install::unpack_source(SUITE))
        .and_then(|suite| Ok((suite, install::venv()?)));
    let (suite, python) = match place {
        Ok(place) => place,
        Err(why) => {
            missing(&why, tally);
            return Ok(());
        }
    };
    let runner = Runner {
        suite,
        python,
        home,
        extent,
    };
    for mpi in mpis() {
        match mpi {
            Ok(mpi) => runner.compare(&mpi, swap, pmix, tally),
            Err(why) => missing(&why, tally),
        }
    }
    Ok(())
}

/// Returns Open MPI 5 from the wheel.
fn wheel(peers: &[Peer]) -> Result<Mpi, String> {
    let prterun = peers.iter().find_map(Launcher::prterun);
    let prterun = prterun.ok_or_else(|| format!("no prterun: pip install {}", install::WHEEL))?;
    Ok(Mpi {
        title: "Open MPI 5",
        libmpi: None,
        launcher: Box::new(move |size| {
            let mut command = prterun.command(size);
            // Spawned processes share processors; by default each process needs one of its own.
            command.env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
            command
        }),
        // Spawned processes have the stock library, and all processes of a connect must use the same gds module.
        for_ours: Some(("PMIX_MCA_gds", "hash")),
        left_out: &[],
        python: None,
        has_pmix: true,
    })
}

/// Returns MPICH, which uses PMI-1, with its launcher Hydra.
fn mpich() -> Result<Mpi, String> {
    let python = install::mpich(SUITE)?;
    let hydra = install::hydra()?;
    Ok(Mpi {
        title: "MPICH",
        libmpi: None,
        launcher: Box::new(move |size| {
            let mut command = Command::new(&hydra);
            Launcher::clean(&mut command);
            command.args(["-n", &size.to_string()]);
            command
        }),
        for_ours: None,
        left_out: &[],
        python: Some(python),
        has_pmix: false,
    })
}

/// Returns Debian's Open MPI 4.
fn debian() -> Result<Mpi, String> {
    if !Path::new(LIBMPI_OF_DEBIAN).exists() {
        return Err("no Open MPI of the system: install libopenmpi-dev openmpi-bin".to_owned());
    }
    Ok(Mpi {
        title: "Open MPI 4",
        libmpi: Some(LIBMPI_OF_DEBIAN),
        launcher: Box::new(|size| {
            let mut command = swapped::mpirun(size);
            Launcher::clean(&mut command);
            command
        }),
        for_ours: None,
        left_out: UNFINISHED_BY_4,
        python: None,
        has_pmix: true,
    })
}

/// The folders that all runs share.
struct Runner {
    suite: PathBuf,
    python: PathBuf,
    home: PathBuf,
    extent: Extent,
}

impl Runner {
    /// Runs the suite on one Open MPI with each library, and compares with the stock runs of the same size.
    fn compare(&self, mpi: &Mpi, swap: &Swap, pmix: &Launcher, tally: &mut Tally) {
        let ours = Some(swap.file.as_path());
        let Extent { is_long, size, .. } = self.extent;
        let tests: &'static [&'static str] = if is_long { &[] } else { SHORT };
        let sizes: &[u32] = match (&size, is_long) {
            (Some(size), _) => std::slice::from_ref(size),
            (None, true) => &[1, 2, 3, 5],
            (None, false) => &[2],
        };
        let title = mpi.title;
        let with_ours = |size| {
            let mut command = (mpi.launcher)(size);
            command.envs(mpi.for_ours);
            Some(command)
        };
        let run = |under: &str, size, launcher, library, tests| Run {
            what: format!("capi: tests of mpi4py on {title} {under}"),
            size,
            launcher,
            library,
            mpi,
            tests,
        };
        let alone = run("without a launcher, stock", 1, None, None, &[]);
        if mpi.has_pmix
            && let Some(control) = self.control(&alone, tally)
        {
            let alone = run("without a launcher, ours", 1, None, ours, &[]);
            self.check(&alone, &control, tally);
        }
        for size in sizes.iter().copied() {
            let stock = || Some((mpi.launcher)(size));
            let control = run("under its own launcher, stock", size, stock(), None, tests);
            let Some(control) = self.control(&control, tally) else {
                continue;
            };
            let pmix = || Some(pmix.command(size));
            for (under, launcher, library) in [
                (
                    "under its own launcher, ours in the processes",
                    with_ours(size),
                    ours,
                ),
                ("under pmix run, stock in the processes", pmix(), None),
                ("under pmix run, ours in the processes", pmix(), ours),
            ] {
                if library.is_some() && !mpi.has_pmix {
                    continue;
                }
                let run = run(under, size, launcher, library, tests);
                self.check(&run, &control, tally);
            }
        }
    }

    /// Runs the suite with stock libraries and returns the outcomes; repeats a run that did not finish.
    fn control(&self, run: &Run<'_>, tally: &mut Tally) -> Option<Outcomes> {
        let first = self.outcomes(run, &[]);
        let found = first.or_else(|why| {
            println!("again: {} on {}: {why}", run.what, run.size);
            self.outcomes(run, &[])
        });
        match found {
            Ok(outcomes) => {
                let passed = outcomes.values().filter(|passed| **passed).count();
                let all = outcomes.len();
                println!("{} on {}: {passed} of {all} passed", run.what, run.size);
                Some(outcomes)
            }
            Err(why) => {
                tally.fail(&run.what, &why);
                None
            }
        }
    }

    /// Runs the suite and counts each test that passed with stock libraries.
    fn check(&self, run: &Run<'_>, control: &Outcomes, tally: &mut Tally) {
        let begun = Instant::now();
        let mut outcomes = match self.outcomes(run, &[]) {
            Ok(outcomes) => outcomes,
            Err(why) => {
                tally.fail(&run.what, &format!("on {}: {why}", run.size));
                return;
            }
        };
        let expected = || control.iter().filter(|(_, passed)| **passed);
        // Tests with time limits of their own sometimes fail on a busy machine, so their modules are run once more.
        let mut again: Vec<&str> = expected()
            .filter(|(test, _)| outcomes.get(test) != Some(&true))
            .map(|((name, _), _)| module(name))
            .collect();
        again.dedup();
        if !again.is_empty() {
            println!("again: {} on {}: {}", run.what, run.size, again.join(" "));
            match self.outcomes(run, &again) {
                Ok(second) => outcomes.extend(second),
                Err(why) => tally.fail(&run.what, &why),
            }
        }
        let mut passed = 0;
        for ((name, rank), _) in expected() {
            match outcomes.get(&(name.clone(), *rank)) {
                Some(true) => passed += 1,
                Some(false) => {
                    tally.fail(&run.what, &format!("rank {rank} of {}: {name}", run.size))
                }
                None => {
                    let why = format!("rank {rank} of {}: {name} was not run", run.size);
                    tally.fail(&run.what, &why);
                }
            }
        }
        tally.passes(&run.what, passed);
        let took = begun.elapsed().as_secs();
        println!("{} on {}: {passed} passed in {took} s", run.what, run.size);
    }

    /// Runs the suite, or the named modules, and reads the outcomes of each rank.
    fn outcomes(&self, run: &Run<'_>, only: &[&str]) -> Result<Outcomes, String> {
        let out = self.home.join("outcomes");
        let fault = |e: std::io::Error| format!("{}: {e}", out.display());
        if out.exists() {
            std::fs::remove_dir_all(&out).map_err(fault)?;
        }
        std::fs::create_dir_all(&out).map_err(fault)?;
        let left = self.extent.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err("no time is left to run it".to_owned());
        }
        let written = self.home.join("output");
        let mut command = self.command(run, only, &out);
        let limit = match self.extent.is_long {
            true => LIMIT_OF_ALL,
            false => LIMIT,
        };
        let ended = run_within(&mut command, limit.min(left), &written, &self.home);
        let mut outcomes = Outcomes::new();
        for rank in 0..run.size {
            let path = out.join(rank.to_string());
            let text = std::fs::read_to_string(&path);
            let text = text.map_err(|e| format!("rank {rank} wrote nothing: {e}"))?;
            read(&text, rank, run.library, &mut outcomes).map_err(|why| {
                let end = ended
                    .as_ref()
                    .map_or_else(Clone::clone, ToString::to_string);
                format!("rank {rank}: {why}; {end}")
            })?;
        }
        ended?;
        Ok(outcomes)
    }

    fn command(&self, run: &Run<'_>, only: &[&str], out: &Path) -> Command {
        let mut command = match &run.launcher {
            Some(launcher) => copy_of(launcher),
            None => {
                let mut command = Command::new("env");
                Launcher::clean(&mut command);
                command
            }
        };
        if run.launcher.is_some() {
            command.arg("env");
        }
        // A foreign launcher must load its own library; only the processes load ours.
        command.env_remove("LD_LIBRARY_PATH");
        if let Some(folder) = run.library.and_then(Path::parent) {
            command.arg(format!("LD_LIBRARY_PATH={}", folder.display()));
        }
        if let Some(libmpi) = run.mpi.libmpi {
            command.arg(format!("MPI4PY_LIBMPI={libmpi}"));
        }
        let script = process::root().join("tests/server/python/suite.py");
        command.arg(run.mpi.python.as_ref().unwrap_or(&self.python));
        command.arg(script);
        command.arg(&self.suite).arg(out);
        let tests = if only.is_empty() { run.tests } else { &[] };
        for pattern in tests {
            command.args(["-k", pattern]);
        }
        let modules = tests.iter().map(|pattern| module(pattern));
        for module in modules.chain(only.iter().copied()) {
            command.args(["-i", module]);
        }
        let unserved: &[&str] = match run.launcher {
            Some(_) if run.size == 1 => UNFINISHED_ALONE,
            Some(_) => &[],
            None => SPAWNING,
        };
        for module in run.mpi.left_out.iter().chain(unserved) {
            command.args(["-e", module]);
        }
        command
    }
}

/// Returns the module of a test or of a pattern of tests.
fn module(test: &str) -> &str {
    test.split(['.', '*']).next().unwrap_or(test)
}

/// Returns a command that starts the same program, as [`Command`] cannot be cloned.
fn copy_of(command: &Command) -> Command {
    let mut copy = Command::new(command.get_program());
    copy.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => copy.env(name, value),
            None => copy.env_remove(name),
        };
    }
    copy
}

/// Reads the outcomes of one rank. `library` is our libpmix, which the process must have loaded.
/// Without it, our library must not be loaded.
fn read(
    text: &str,
    rank: u32,
    library: Option<&Path>,
    outcomes: &mut Outcomes,
) -> Result<(), String> {
    let mut libraries = Vec::new();
    let mut is_ended = false;
    let mut last = "nothing";
    for line in text.lines() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "library" => libraries.push(Path::new(rest)),
            "start" => last = rest,
            "ok" | "fail" => {
                let key = (rest.to_owned(), rank);
                // A test that ran several times counts as passed if every run passed.
                let passed = outcomes.get(&key).copied().unwrap_or(true) && word == "ok";
                outcomes.insert(key, passed);
            }
            "skip" => {}
            "end" => is_ended = true,
            _ => return Err(format!("a line of another form: {line:?}")),
        }
    }
    if !is_ended {
        return Err(format!("it was lost in {last}"));
    }
    match library {
        Some(ours) if libraries != [ours] => Err(format!("it loaded {libraries:?}, not ours")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_one(text: &str, library: Option<&str>) -> Result<Outcomes, String> {
        let mut outcomes = Outcomes::new();
        read(text, 3, library.map(Path::new), &mut outcomes).map(|()| outcomes)
    }

    #[test]
    fn a_rank_that_was_lost_is_named_with_its_test() {
        let lost = read_one("start a.b\nok a.b\nstart a.c\n", None);
        assert_eq!(lost, Err("it was lost in a.c".to_owned()));
    }

    #[test]
    fn a_skipped_test_has_no_outcome_and_a_failed_one_fails() {
        let text = "start a\nskip a\nstart b\nfail b\nstart c\nok c\nend 3\n";
        let outcomes = read_one(text, None).expect("it ended");
        let expected = [(("b".to_owned(), 3), false), (("c".to_owned(), 3), true)];
        assert_eq!(outcomes, Outcomes::from(expected));
    }

    #[test]
    fn a_rank_with_another_library_is_refused() {
        let text = "library /a/libpmix.so.2\nend 0\n";
        assert!(read_one(text, Some("/a/libpmix.so.2")).is_ok());
        assert!(read_one(text, Some("/b/libpmix.so.2")).is_err());
        assert!(read_one("end 0\n", Some("/b/libpmix.so.2")).is_err());
    }
}
