// SPDX-License-Identifier: MIT OR Apache-2.0
//! The examples of OpenPMIx 7, unmodified and with its client library, under `pmix run` and under prterun 5 of the same
//! release of Debian. Both must end with the same exit code, and the processes must print the same lines.
//!
//! `testdata/interop/newest.tsv` lists the examples that differ, with the reason: `theirs` if the difference is that of
//! prterun, `open` if it is one of ours that remains to be mended, and `varies` if the lines depend on the time at which
//! a launcher ends the job. A listed example that does not differ any more is a failure, unless it varies. `races` means
//! that the processes of the example race with each other, and one of several runs has to agree.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use regex_lite::Regex;
use xtask::install::{self, Root};
use xtask::process;

use crate::capi;
use crate::ours::Ours;
use crate::tally::Tally;

/// The sources of the examples in the root.
const SOURCES: &str = "usr/share/doc/libpmix-dev/examples";

/// The directory of the library in the root.
const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/pmix2";

/// The seconds after which `timeout` ends an example. Some wait forever, also under prterun.
const LIMIT: &str = "12";

/// The number of runs of an example whose own processes race, one of which has to agree.
const ATTEMPTS: usize = 8;

/// The check of the report.
const WHAT: &str = "newest: examples of OpenPMIx 7";

/// Runs every example under both launchers.
///
/// # Errors
/// Returns a message if the command does not build, or a file cannot be written.
pub(crate) fn run(profile: &str, tally: &mut Tally) -> Result<(), String> {
    let root = match Root::debian(install::NEWEST, install::SID) {
        Ok(root) => root,
        // The release changes from day to day, so its absence is no failure.
        Err(why) => {
            tally.skip("newest", &why);
            return Ok(());
        }
    };
    for package in ["libpmix2t64", "libprrte-bin"] {
        println!("{package} {}", root.version(package)?);
    }
    let home = install::scratch("interop/newest")?;
    // The root cannot run the command from the target directory of cargo if that is outside of it.
    let pmix = home.join("pmix");
    let built = Ours::build(profile)?.program;
    fs::copy(&built, &pmix).map_err(|e| format!("{}: {e}", pmix.display()))?;
    let normal = Normal::new()?;
    let known = known()?;
    let mut equal = 0;
    let programs = compile(&root, &home, tally)?;
    for (name, program) in &programs {
        let ours = [&*pmix.to_string_lossy(), "run", "-n", "4"].map(str::to_owned);
        let theirs = [
            "prterun",
            "--host",
            "localhost:16",
            "--map-by",
            "slot",
            "-n",
            "4",
        ];
        let theirs = example(&root, &home, &theirs.map(str::to_owned), program)?;
        let known = known.get(name.as_str());
        let attempts = match known.is_some_and(|known| known.side == "races") {
            true => ATTEMPTS,
            false => 1,
        };
        let (mut ended, mut difference) = (None, None);
        for _ in 0..attempts {
            let one = example(&root, &home, &ours, program)?;
            difference = normal.difference(&one, &theirs);
            ended = Some(one);
            if difference.is_none() {
                break;
            }
        }
        let Some(ours) = ended else { continue };
        let times = format!(
            "{:.1} s, {:.1} s",
            ours.took.as_secs_f32(),
            theirs.took.as_secs_f32()
        );
        println!(
            "{name:24} {times:16} {}",
            difference.as_deref().unwrap_or("equal")
        );
        match (difference, known) {
            (None, None) => {
                equal += 1;
                tally.pass(WHAT);
            }
            // A run that ends well under `pmix run` may fail under prterun.
            (_, Some(known))
                if known.side == "varies" && (ours.code == theirs.code || ours.code == Some(0)) =>
            {
                tally.pass(WHAT);
            }
            (Some(_), Some(known)) if known.side == "theirs" => tally.pass(WHAT),
            (Some(_), Some(known)) if known.side == "open" => {
                tally.skip(WHAT, &format!("{name}: {}", known.reason));
            }
            (None, Some(known)) if known.side == "races" => {
                equal += 1;
                tally.pass(WHAT);
            }
            (None, Some(_)) => tally.fail(WHAT, &format!("{name} does not differ any more")),
            (Some(difference), _) => tally.fail(WHAT, &format!("{name}: {difference}")),
        }
    }
    println!("{equal} of {} examples are equal", programs.len());
    mpi(&root, &home, &pmix, profile, tally)
}

/// The programs of Open MPI 6, with their arguments. Each checks its results and exits with 0.
const PROGRAMS: &[(&str, &[&str])] = &[
    ("hello", &["4"]),
    ("ring", &["4"]),
    ("alltoall", &["4"]),
    ("sessions", &["4"]),
    ("spawn", &["4", "once"]),
    ("spawn", &["4", "multiple"]),
    ("spawn", &["4", "nested"]),
];

/// Runs programs of Open MPI 6 under both launchers, with its own library and with ours in the processes.
fn mpi(
    root: &Root,
    home: &Path,
    pmix: &Path,
    profile: &str,
    tally: &mut Tally,
) -> Result<(), String> {
    let library = capi::library(profile)?;
    let found = format!("LD_LIBRARY_PATH={}", library.folder().display());
    let sources = home.join("mpi");
    copy_sources(&sources)?;
    for (name, args) in PROGRAMS {
        let program = sources.join(name);
        let mut mpicc = root.command("mpicc.openmpi");
        mpicc.args(["-w", "-O1", "-o"]).arg(&program);
        process::output(mpicc.arg(program.with_extension("c")))?;
        // prterun does not map a spawn of two command lines here, also with its own library.
        let is_ours_only = args.last() == Some(&"multiple");
        for (launcher, is_ours) in [
            (&["run", "-n", "4"][..], true),
            (
                &["--bind-to", "none", "--host", "localhost:16", "-n", "4"],
                false,
            ),
        ] {
            if is_ours_only && !is_ours {
                continue;
            }
            for library in ["-u LD_LIBRARY_PATH", &found] {
                let mut words = match is_ours {
                    true => vec![pmix.display().to_string()],
                    false => vec!["prterun".to_owned()],
                };
                words.extend(launcher.iter().map(|word| (*word).to_owned()));
                words.push("env".to_owned());
                words.extend(library.split(' ').map(str::to_owned));
                words.push(program.display().to_string());
                let (last, rest) = args.split_last().unwrap_or((&"", &[]));
                words.extend(rest.iter().map(|word| (*word).to_owned()));
                let ended = example(root, home, &words, Path::new(last))?;
                let what = match is_ours {
                    true => "newest: Open MPI 6 under pmix run",
                    false => "newest: Open MPI 6 under prterun 5",
                };
                match ended.code {
                    Some(0) => tally.pass(what),
                    code => {
                        let text = ended.text.lines().last().unwrap_or_default().to_owned();
                        tally.fail(
                            what,
                            &format!("{name} {args:?}, {library}: {code:?}: {text}"),
                        );
                    }
                }
            }
        }
    }
    Ok(())
}

/// Copies the sources of the MPI programs to where the root sees them.
fn copy_sources(to: &Path) -> Result<(), String> {
    fs::create_dir_all(to).map_err(|e| format!("{}: {e}", to.display()))?;
    let from = process::root().join("tests/server/mpi");
    let fault = |e: std::io::Error| format!("{}: {e}", from.display());
    for entry in fs::read_dir(&from).map_err(fault)? {
        let entry = entry.map_err(fault)?;
        fs::copy(entry.path(), to.join(entry.file_name())).map_err(fault)?;
    }
    Ok(())
}

/// A difference that is listed.
struct Known {
    /// `theirs`, `open`, `varies` or `races`.
    side: String,
    reason: String,
}

/// Reads the list of differences.
fn known() -> Result<BTreeMap<String, Known>, String> {
    let file = process::root().join("testdata/interop/newest.tsv");
    let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    let lines = text.lines().skip(1);
    lines
        .map(|line| match line.split('\t').collect::<Vec<_>>()[..] {
            [
                name,
                side @ ("theirs" | "open" | "varies" | "races"),
                reason,
            ] => {
                let known = Known {
                    side: side.to_owned(),
                    reason: reason.to_owned(),
                };
                Ok((name.to_owned(), known))
            }
            _ => Err(format!("{}: {line:?}", file.display())),
        })
        .collect()
}

/// Compiles the examples in the root. An example that does not compile with the headers of the package is skipped.
fn compile(root: &Root, home: &Path, tally: &mut Tally) -> Result<Vec<(String, PathBuf)>, String> {
    let sources = root.path().join(SOURCES);
    let fault = |e: std::io::Error| format!("{}: {e}", sources.display());
    let mut names: Vec<_> = fs::read_dir(&sources)
        .map_err(fault)?
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".c").map(str::to_owned))
        .collect();
    names.sort();
    let mut programs = Vec::new();
    for name in names {
        match compile_example(root, home, &name) {
            Ok(program) => programs.push((name, program)),
            Err(_) => tally.skip(
                WHAT,
                &format!("{name}: the package lacks a header or a part of it"),
            ),
        }
    }
    Ok(programs)
}

/// Compiles an example of the root into a directory that the root sees.
///
/// # Errors
/// Returns a message if the example does not compile.
pub fn compile_example(root: &Root, home: &Path, name: &str) -> Result<PathBuf, String> {
    // The examples include a header that the package lacks.
    let header = process::root().join("tests/server/examples.h");
    let beside = home.join("examples.h");
    fs::copy(&header, &beside).map_err(|e| format!("{}: {e}", beside.display()))?;
    let program = home.join(name);
    let mut gcc = root.command("gcc");
    gcc.args(["-w", "-O1", "-o"]).arg(&program);
    gcc.arg(format!("/{SOURCES}/{name}.c"));
    gcc.arg(format!("-I{LIBRARY}/include")).arg("-I").arg(home);
    gcc.arg(format!("-L{LIBRARY}/lib"));
    // A library of LD_LIBRARY_PATH takes precedence over a RUNPATH.
    gcc.args(["-lpmix", "-lpthread"]);
    gcc.arg(format!("-Wl,--enable-new-dtags,-rpath,{LIBRARY}/lib"));
    process::output(&mut gcc).map(|_| program)
}

/// The end of an example.
#[derive(Debug)]
pub struct Ended {
    /// The exit code of the launcher.
    pub code: Option<i32>,
    /// The output of the launcher and of the processes.
    pub text: String,
    /// The time from the start of the launcher to its end.
    pub took: Duration,
}

/// Runs an example under a launcher in the root.
///
/// # Errors
/// Returns a message if the output cannot be written, or the root cannot be entered.
pub fn example(
    root: &Root,
    home: &Path,
    launcher: &[String],
    program: &Path,
) -> Result<Ended, String> {
    let output = home.join("output");
    let fault = |e: std::io::Error| format!("{}: {e}", output.display());
    let file = fs::File::create(&output).map_err(fault)?;
    let mut command: Command = root.command("env");
    for launcher in ["PRTE", "OMPI"] {
        command.arg(format!("{launcher}_ALLOW_RUN_AS_ROOT=1"));
        command.arg(format!("{launcher}_ALLOW_RUN_AS_ROOT_CONFIRM=1"));
    }
    command
        .args(["timeout", "-k", "3", LIMIT])
        .args(launcher)
        .arg(program);
    command.stdin(Stdio::null());
    command
        .stdout(file.try_clone().map_err(fault)?)
        .stderr(file);
    let begun = Instant::now();
    let status = command.status().map_err(|e| format!("unshare: {e}"))?;
    let text = fs::read(&output).map_err(fault)?;
    Ok(Ended {
        code: status.code(),
        text: String::from_utf8_lossy(&text).into_owned(),
        took: begun.elapsed(),
    })
}

/// The text that differs in each run: names of jobs, addresses, and numbers such as process ids and times.
struct Normal {
    patterns: Vec<(Regex, &'static str)>,
    number: Regex,
}

impl Normal {
    fn new() -> Result<Self, String> {
        let patterns = [
            (r"[A-Za-z0-9_.-]+@[0-9]+", "JOB"),
            (r"0x[0-9a-f]+", "ADDRESS"),
            (r"(?i)(cid\D{0,20})[0-9]+", "${1}ID"),
            (r"(Client |universe size |pid )[0-9]+", "${1}NUMBER"),
            (r"[0-9]+\.[0-9]+", "NUMBER"),
            (r"[0-9]{4,}", "NUMBER"),
            (r" +", " "),
        ];
        let compiled = patterns.map(|(pattern, by)| {
            let regex = Regex::new(pattern).map_err(|e| format!("{pattern}: {e}"))?;
            Ok::<_, String>((regex, by))
        });
        let patterns = compiled.into_iter().collect::<Result<_, _>>()?;
        let number = Regex::new("[0-9]+").map_err(|e| e.to_string())?;
        Ok(Self { patterns, number })
    }

    /// Returns the lines of the processes in alphabetical order, without those of the launchers.
    fn lines(&self, text: &str) -> Vec<String> {
        let mut is_banner = false;
        let mut lines = Vec::new();
        for line in text.lines() {
            if line.starts_with("----------") {
                is_banner = !is_banner;
                continue;
            }
            // Messages of `pmix run`, of prterun, and of its library.
            let starts = ["pmix run: ", "error: ", "warning: ", "Abort is in progress"];
            let is_message = starts.iter().any(|start| line.starts_with(start));
            if is_banner || is_message || line.contains("] PMIX ERROR: ") {
                continue;
            }
            let mut line = line.trim().to_owned();
            for (pattern, by) in &self.patterns {
                line = pattern.replace_all(&line, *by).into_owned();
            }
            if !line.is_empty() {
                lines.push(line);
            }
        }
        lines.sort();
        lines
    }

    /// Returns the first difference between two ends.
    fn difference(&self, ours: &Ended, theirs: &Ended) -> Option<String> {
        if ours.code != theirs.code {
            return Some(format!(
                "exit code {:?}, prterun {:?}",
                ours.code, theirs.code
            ));
        }
        let is_failed = ours.code != Some(0);
        let lines = |ended: &Ended| {
            let mut lines = self.lines(&ended.text);
            if is_failed {
                // A launcher ends the other processes of a failed job at any point, so not each of them prints all.
                for line in &mut lines {
                    *line = self.number.replace_all(line, "NUMBER").into_owned();
                }
                lines.sort();
                lines.dedup();
            }
            lines
        };
        let (ours, theirs) = (lines(ours), lines(theirs));
        let pairs = ours.iter().zip(&theirs);
        let first = pairs.take_while(|(ours, theirs)| ours == theirs).count();
        match (ours.get(first), theirs.get(first)) {
            (None, None) => None,
            (ours, theirs) => Some(format!("{ours:?}, prterun {theirs:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(code: i32, text: &str) -> Ended {
        Ended {
            code: Some(code),
            text: text.to_owned(),
            took: Duration::ZERO,
        }
    }

    #[test]
    fn names_numbers_and_order_are_no_difference() {
        let normal = Normal::new().expect("patterns");
        let ours = ended(0, "b: pid 471\na@12:0 CID 1\nerror: rank 1 failed\n");
        let theirs = ended(
            0,
            "prterun-n-77@1:0 CID 4294967295\n-----------\nfailed\n-----------\nb: pid 99999\n",
        );
        assert_eq!(normal.difference(&ours, &theirs), None);
        let other = ended(0, "b: pid 4711\na@12:0 CID none\n");
        assert!(normal.difference(&ours, &other).is_some());
        assert!(normal.difference(&ours, &ended(1, &ours.text)).is_some());
        let failed = [
            ended(1, "rank 1 failed\nrank 2 failed\n"),
            ended(1, "rank 3 failed\n"),
        ];
        assert_eq!(normal.difference(&failed[0], &failed[1]), None);
        let more = format!("{}z\n", ours.text);
        assert!(normal.difference(&ours, &ended(0, &more)).is_some());
    }

    #[test]
    fn the_list_of_differences_is_readable() {
        assert!(known().is_ok());
    }
}
