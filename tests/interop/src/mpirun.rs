// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs in C, Fortran and Python under `pmix run` and under the mpirun of their Open MPI: what they print arrives
//! whole, in order and in time, they read their input, and the launcher ends with their exit code.
//!
//! The programs of `tests/server/mpirun` behave in the way of a [`Kind`]. Each runs at a terminal, with files and with
//! pipes. `testdata/interop/mpirun.tsv` lists where a launcher does not what the kind states, with the reason. A
//! deviation that is not listed is a failure, and so is a listed one of `pmix run` that does not occur.

mod kinds;
mod place;

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use xtask::{install, process};

use crate::ours::Ours;
use crate::peers::{PYTHON, Peer, require_mpi4py};
use crate::server::launcher::Launcher;
use crate::server::{PACKAGES, missing};
use crate::tally::Tally;
use kinds::{KINDS, Kind, Language};
use place::{Place, Seen};

/// The check of the report.
const WHAT: &str = "mpirun";

/// The number of concurrent runs. Most of them sleep.
const AT_ONCE: usize = 6;

/// The number of runs of which one must do what the kind states, if the machine or a peer may be the reason for a
/// deviation.
const ATTEMPTS: usize = 6;

/// The seconds after which a peer counts as hanging. Its exit code is 124 then.
const PATIENCE: &str = "7";

/// A release of Open MPI with its launcher and its programs.
struct Release {
    name: String,
    mpirun: PathBuf,
    programs: Vec<(Language, Vec<OsString>)>,
}

/// A run of a program under a launcher.
struct Run<'a> {
    launcher: Option<&'a Release>,
    release: &'a Release,
    language: Language,
    program: &'a [OsString],
    kind: &'static Kind,
    place: Place,
}

/// A listed deviation.
#[derive(Debug)]
struct Known {
    launcher: String,
    kind: String,
    language: String,
    place: String,
    deviation: String,
}

/// Runs every program under both launchers.
///
/// # Errors
/// Returns a message if the command or a program does not build, or the list cannot be read.
pub(crate) fn run(peers: &[Peer], profile: &str, tally: &mut Tally) -> Result<(), String> {
    install::packages(PACKAGES);
    install::packages(&["gfortran"]);
    let pmix = Ours::build(profile)?.program;
    let known = known()?;
    let mut releases = Vec::new();
    for release in [debian(tally), wheel(peers, tally)] {
        match release {
            Ok(release) => releases.push(release),
            Err(why) => missing(&why, tally),
        }
    }
    let runs = runs(&releases);
    let began = Instant::now();
    let number = runs.len();
    let waiting = Mutex::new(runs.into_iter().enumerate().collect::<VecDeque<_>>());
    let home = install::scratch("interop/mpirun")?;
    // A function, because a lock in the condition of the loop would be held during a run.
    let next = || waiting.lock().ok()?.pop_front();
    let results: Vec<_> = std::thread::scope(|scope| {
        let worker = || {
            let mut results = Vec::new();
            while let Some((number, run)) = next() {
                let home = home.join(number.to_string());
                let began = Instant::now();
                let result = run.judge(&pmix, &known, &home);
                results.push((began.elapsed(), run.title(), result));
            }
            results
        };
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(worker)).collect();
        let done = workers.into_iter().map(|worker| worker.join().ok());
        done.collect()
    });
    let (mut used, mut took) = (BTreeSet::new(), Vec::new());
    for result in results {
        for (time, title, result) in result.ok_or("a thread of the checks panicked")? {
            took.push((time, title.clone()));
            match result {
                Ok(rows) => {
                    used.extend(rows);
                    tally.pass(WHAT);
                }
                Err(why) => tally.fail(WHAT, &format!("{title}: {why}")),
            }
        }
    }
    for (row, known) in known.iter().enumerate() {
        // A peer may behave better on another machine.
        if known.launcher == OURS && !used.contains(&row) && releases.len() == 2 {
            tally.fail(
                WHAT,
                &format!("a listed deviation does not occur: {known:?}"),
            );
        }
    }
    let time = began.elapsed().as_secs();
    println!("{number} runs in {time} s, {AT_ONCE} at a time; the longest:");
    took.sort_unstable();
    for (time, title) in took.iter().rev().take(5) {
        println!("  {:5.1} s  {title}", time.as_secs_f64());
    }
    Ok(())
}

/// The name of our launcher in the list.
const OURS: &str = "pmix run";

/// Returns the runs of all programs under both launchers.
fn runs(releases: &[Release]) -> Vec<Run<'_>> {
    let mut runs = Vec::new();
    for (number, release) in releases.iter().enumerate() {
        for (language, program) in &release.programs {
            for kind in KINDS
                .iter()
                .filter(|kind| kind.languages.contains(language))
            {
                // The programs in C of the first release run everywhere. The others show that nothing depends on the
                // language or the release.
                let places: &[Place] = match (number, language, kind.is_short) {
                    (0, Language::C, _) => &Place::ALL,
                    (0, ..) | (_, _, true) => &[Place::Terminal, Place::Pipe],
                    (_, _, false) => &[],
                };
                for place in places {
                    for launcher in [Some(release), None] {
                        runs.push(Run {
                            launcher,
                            release,
                            language: *language,
                            program,
                            kind,
                            place: *place,
                        });
                    }
                }
            }
        }
    }
    // The longest first.
    runs.sort_by_key(|run| std::cmp::Reverse(run.kind.options.len()));
    runs
}

impl Run<'_> {
    /// Returns the name of the launcher in the list.
    fn launcher(&self) -> String {
        match self.launcher {
            None => OURS.to_owned(),
            Some(release) => {
                let major = release.name.split('.').next().unwrap_or_default();
                format!("mpirun {major}")
            }
        }
    }

    /// Returns the name of the run in failures.
    fn title(&self) -> String {
        let (kind, language) = (self.kind.name, self.language.name());
        let (place, release) = (self.place.name(), &self.release.name);
        let launcher = self.launcher();
        format!("{kind} in {language} at a {place}, Open MPI {release} under {launcher}")
    }

    /// Runs the program, and returns the rows of the list that it needed.
    ///
    /// # Errors
    /// Returns the deviations that are not listed, and the output.
    fn judge(&self, pmix: &Path, known: &[Known], home: &Path) -> Result<Vec<usize>, String> {
        let mut attempt = 1;
        loop {
            let seen = self.place.run(self.command(pmix), self.kind.input, home)?;
            let deviations = self.deviations(&seen);
            let rows: Vec<_> = deviations.iter().map(|it| self.row(known, it)).collect();
            if let Some(rows) = rows.into_iter().collect::<Option<Vec<_>>>() {
                return Ok(rows);
            }
            // A busy machine delays output, so that a line in pieces may be mixed with others at a terminal, and peers
            // sometimes fail. The other deviations are faults of ours.
            let is_mixed = self.place == Place::Terminal && deviations == ["lost"];
            let may_repeat = self.launcher.is_some() || is_mixed || deviations == ["late"];
            if !may_repeat || attempt == ATTEMPTS {
                return Err(format!("{}; {seen}", deviations.join(", ")));
            }
            attempt += 1;
        }
    }

    /// Returns the command, without the program's redirections.
    fn command(&self, pmix: &Path) -> Command {
        let mut command = match self.launcher {
            None => {
                let mut command = Command::new(pmix);
                command.arg("run");
                command
            }
            Some(release) => {
                // A peer that hangs also leaves its processes if it is killed at once.
                let mut command = Command::new("timeout");
                command.args(["--foreground", "--kill-after=1", PATIENCE]);
                command.arg(&release.mpirun).arg("--oversubscribe");
                if install::is_root() {
                    command.arg("--allow-run-as-root");
                }
                command
            }
        };
        Launcher::clean(&mut command);
        command.args(["-n", "2"]).args(self.kind.options);
        command.args(self.program).arg(self.kind.name);
        command
    }

    /// Returns what is not as the kind states.
    fn deviations(&self, seen: &Seen) -> Vec<String> {
        let kind = self.kind;
        let mut found = Vec::new();
        match seen.code {
            None => found.push("hangs".to_owned()),
            Some(code) if code != kind.code => found.push(format!("code {code}")),
            Some(_) => {}
        }
        if !kind.is_printed_in(seen, self.place) {
            found.push("lost".to_owned());
        }
        if seen.latest().is_some_and(|latest| latest > LATEST) {
            found.push("late".to_owned());
        }
        if self.launcher.is_none() && !kind.is_explained_by(&seen.text()) {
            found.push("message".to_owned());
        }
        found
    }

    /// Returns the row of the list with a deviation.
    fn row(&self, known: &[Known], deviation: &str) -> Option<usize> {
        let is = |listed: &str, actual: &str| listed == "*" || listed == actual;
        known.iter().position(|known| {
            is(&known.launcher, &self.launcher())
                && is(&known.kind, self.kind.name)
                && is(&known.language, self.language.name())
                && is(&known.place, self.place.name())
                && known.deviation == deviation
        })
    }
}

/// The time within which flushed output must arrive.
const LATEST: Duration = Duration::from_millis(50);

/// Reads the list of deviations.
fn known() -> Result<Vec<Known>, String> {
    let file = process::root().join("testdata/interop/mpirun.tsv");
    let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    let rows = text.lines().skip(1);
    rows.map(|row| match row.split('\t').collect::<Vec<_>>()[..] {
        [launcher, kind, language, place, deviation, reason] if !reason.is_empty() => Ok(Known {
            launcher: launcher.to_owned(),
            kind: kind.to_owned(),
            language: language.to_owned(),
            place: place.to_owned(),
            deviation: deviation.to_owned(),
        }),
        _ => Err(format!("{}: {row:?}", file.display())),
    })
    .collect()
}

/// Returns the release of Debian with programs in all languages.
fn debian(tally: &mut Tally) -> Result<Release, String> {
    let mpirun = PathBuf::from("/usr/bin/mpirun.openmpi");
    let mpicc = Path::new("/usr/bin/mpicc.openmpi");
    if !mpirun.exists() || !mpicc.exists() {
        return Err("no mpirun of the system: install openmpi-bin and libopenmpi-dev".to_owned());
    }
    let mut release = Release::of(mpirun, mpicc)?;
    match fortran(&release.name) {
        Ok(program) => release.programs.push((Language::Fortran, vec![program])),
        Err(why) => missing(&why, tally),
    }
    match require_mpi4py() {
        Ok(()) => release.programs.push(python(Path::new(PYTHON))),
        Err(why) => missing(&why, tally),
    }
    Ok(release)
}

/// Returns the release of the wheel with programs in C and Python.
fn wheel(peers: &[Peer], tally: &mut Tally) -> Result<Release, String> {
    let mut newer = peers.iter().filter(|peer| peer.reads_blob);
    let tools = newer.find_map(|peer| {
        Some((
            peer.library.beside("mpirun")?,
            peer.library.beside("mpicc")?,
        ))
    });
    let (mpirun, mpicc) =
        tools.ok_or_else(|| format!("no mpirun of the wheel: pip install {}", install::WHEEL))?;
    let mut release = Release::of(mpirun, &mpicc)?;
    match install::pip("mpi4py").and_then(|()| install::venv()) {
        Ok(python_of_wheel) => release.programs.push(python(&python_of_wheel)),
        Err(why) => missing(&why, tally),
    }
    Ok(release)
}

impl Release {
    /// Returns a release with the program in C.
    fn of(mpirun: PathBuf, mpicc: &Path) -> Result<Self, String> {
        let text = process::output(Command::new(mpicc).arg("--showme:version"))?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let is_release = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
        let name = text.split_whitespace().find(is_release);
        let name = name.ok_or_else(|| format!("{} has no version", mpicc.display()))?;
        let program = home(name)?.join("talk");
        let mut command = Command::new(mpicc);
        command
            .args(["-O1", "-Wall", "-Wextra", "-o"])
            .arg(&program);
        process::output(command.arg(source("talk.c")))?;
        Ok(Self {
            name: name.to_owned(),
            mpirun,
            programs: vec![(Language::C, vec![program.into()])],
        })
    }
}

/// Returns the program in Fortran for Debian's release. The package of the compiler may have only a versioned name.
fn fortran(release: &str) -> Result<OsString, String> {
    let program = home(release)?.join("talk-fortran");
    let mut why = String::new();
    for compiler in ["gfortran", "gfortran-12", "gfortran-14"] {
        let mut command = Command::new("/usr/bin/mpifort.openmpi");
        command.env("OMPI_FC", compiler).arg("-o").arg(&program);
        match process::output(command.arg(source("talk.f90"))) {
            Ok(_) => return Ok(program.into()),
            Err(fault) if why.is_empty() => why = fault,
            Err(_) => {}
        }
    }
    Err(format!("no Fortran: install gfortran ({})", why.trim()))
}

/// Returns the program in Python.
fn python(python: &Path) -> (Language, Vec<OsString>) {
    let words = vec![python.into(), source("talk.py").into()];
    (Language::Python, words)
}

fn source(name: &str) -> PathBuf {
    process::root().join("tests/server/mpirun").join(name)
}

fn home(release: &str) -> Result<PathBuf, String> {
    install::scratch(&format!("interop/mpirun/{release}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_deviations_names_kinds_languages_and_places() {
        for known in known().expect("the list") {
            let has = |names: &[&str], name: &str| name == "*" || names.contains(&name);
            let kinds: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
            let places = Place::ALL.map(Place::name);
            let is_known = has(&kinds, &known.kind)
                && has(&["C", "Fortran", "Python"], &known.language)
                && has(&places, &known.place)
                && has(&[OURS, "mpirun 4", "mpirun 5"], &known.launcher);
            assert!(is_known, "{known:?}");
        }
    }
}
