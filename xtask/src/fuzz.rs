// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask fuzz SECONDS [TARGET]`: runs every fuzz target for a time, on the stable compiler.
//!
//! The compiler's coverage pass feeds libFuzzer, which a crate contains as source. Neither cargo-fuzz nor a nightly
//! compiler is needed, only a C++ compiler. With 0 seconds the task only lints the targets.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::{fs, thread};

use xtask::Outcome;
use xtask::install;
use xtask::process::{self, cargo, root};

/// Flags that report coverage and comparisons to libFuzzer.
const RUSTFLAGS: &str = "-Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Cdebug-assertions -Ccodegen-units=1 --cfg fuzzing";

/// Limits of one input: seconds, and megabytes of one allocation and of the process. The fuzzer's own allocator sets a
/// much lower limit for the memory that an input holds at once.
const TIMEOUT: u32 = 10;
const MALLOC_MB: u32 = 64;
const RSS_MB: u32 = 1024;

/// Runs the targets, two at a time. Without a time it only lints them.
pub(crate) fn run(seconds: u32, target: Option<&str>) -> Outcome {
    let mut outcome = Outcome::default();
    if seconds == 0 {
        let manifest = folder().join("Cargo.toml");
        let mut command = cargo(["clippy", "--locked", "--manifest-path"]);
        command
            .arg(manifest)
            // The crates of the workspace are checked there already.
            .env("CARGO_TARGET_DIR", install::target())
            .args(["--", "-D", "warnings"]);
        outcome.check("lints of the targets", process::run(&mut command));
        return outcome;
    }
    let mut targets = match chosen(target) {
        Ok(targets) => targets,
        Err(why) => {
            outcome.check("arguments", Err(why));
            return outcome;
        }
    };
    let made = build().and_then(|fuzzer| Ok((fuzzer, inputs(&targets)?)));
    let (fuzzer, peer) = match made {
        Ok(made) => made,
        Err(why) => {
            outcome.check("building the fuzzer", Err(why));
            return outcome;
        }
    };
    if peer.is_none() && targets.iter().any(|target| target == WITH_PEER) {
        targets.retain(|target| target != WITH_PEER);
        if process::in_ci() {
            outcome.check(WITH_PEER, Err("no real library is here".to_owned()));
        } else {
            outcome.skip(WITH_PEER, "no real library is here");
        }
    }
    let waiting = Mutex::new(targets.into_iter());
    let counted = Mutex::new(outcome);
    let next = || waiting.lock().ok()?.next();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(target) = next() {
                    let result = fuzz(&fuzzer, &target, seconds, peer.as_deref());
                    if let Ok(mut outcome) = counted.lock() {
                        outcome.check(&target, result);
                    }
                }
            });
        }
    });
    counted
        .into_inner()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Returns the requested targets.
fn chosen(target: Option<&str>) -> Result<Vec<String>, String> {
    let mut targets = targets();
    if let Some(target) = target {
        if !targets.iter().any(|known| known == target) {
            let known = targets.join(" ");
            return Err(format!("no target {target:?}; there are {known}"));
        }
        targets.retain(|known| known == target);
    }
    Ok(targets)
}

/// Returns the targets from the table in `fuzz/targets/mod.rs`.
fn targets() -> Vec<String> {
    let table = root().join("fuzz/targets/mod.rs");
    let text = fs::read_to_string(table).unwrap_or_default();
    names_in(&text)
}

/// Returns the first string of every line of the table.
fn names_in(text: &str) -> Vec<String> {
    let table = text.split("TARGETS: ").nth(1).unwrap_or_default();
    let table = table.split("];").next().unwrap_or_default();
    let name = |line: &str| {
        Some(
            line.trim()
                .strip_prefix("(\"")?
                .split('"')
                .next()?
                .to_owned(),
        )
    };
    table.lines().filter_map(name).collect()
}

fn folder() -> PathBuf {
    root().join("fuzz")
}

/// The target that compares with an installed library.
const WITH_PEER: &str = "bfrops_peer";

/// Writes the seeds of these targets. Returns the peer program of an installed library if a target
/// needs one and it exists. If it does not exist, the seed program prints the reason.
fn inputs(targets: &[String]) -> Result<Option<PathBuf>, String> {
    if targets.iter().any(|target| target == WITH_PEER) {
        install::packages(install::INTEROP);
    }
    let run = ["run", "--quiet", "--locked", "--package", "pmix-interop"];
    let mut command = cargo(run);
    command
        .args(["--", "fuzz-inputs"])
        .arg(seeds())
        .args(targets);
    let said = process::output(command.stderr(Stdio::inherit()))?;
    let path = String::from_utf8_lossy(&said).trim().to_owned();
    Ok((!path.is_empty()).then(|| PathBuf::from(path)))
}

/// Returns the folder of the seeds, with a folder for each target.
fn seeds() -> PathBuf {
    folder().join("target/seeds")
}

/// Builds the fuzzer in a target directory of its own.
fn build() -> Result<PathBuf, String> {
    let host = host()?;
    let mut command = cargo(["build", "--release", "--locked", "--target", &host]);
    command
        .current_dir(folder())
        .env("CARGO_TARGET_DIR", folder().join("target"))
        .env("RUSTFLAGS", RUSTFLAGS)
        // This variable would take precedence over RUSTFLAGS.
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    process::run(&mut command)?;
    Ok(folder().join("target").join(host).join("release/fuzz"))
}

/// Returns the host triple, which must be passed as the target so that build scripts are not instrumented.
fn host() -> Result<String, String> {
    let version = process::output(Command::new("rustc").arg("-vV"))?;
    let version = String::from_utf8_lossy(&version).into_owned();
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned)
        .ok_or_else(|| "rustc -vV names no host".to_owned())
}

/// Runs one target. An error ends with the command that reproduces the fault.
fn fuzz(fuzzer: &Path, target: &str, seconds: u32, peer: Option<&Path>) -> Result<(), String> {
    let fault = |e: std::io::Error| format!("{target}: {e}");
    let corpus = folder().join("corpus").join(target);
    let artifacts = folder().join("artifacts").join(target);
    for made in [&corpus, &artifacts] {
        fs::create_dir_all(made).map_err(fault)?;
    }
    let log = artifacts.join("log");
    let mut command = Command::new(fuzzer);
    command.arg(&corpus).arg(seeds().join(target));
    if let Some(peer) = peer {
        command.env("FUZZ_PEER", peer);
    }
    let regressions = folder().join("regressions").join(target);
    if regressions.is_dir() {
        command.arg(regressions);
    }
    command
        .args([
            // In CI, every change is tested with the same inputs. Elsewhere the seed is random (0),
            // so that each run explores other inputs.
            format!("-seed={}", u32::from(process::in_ci())),
            format!("-max_total_time={seconds}"),
            format!("-timeout={TIMEOUT}"),
            format!("-malloc_limit_mb={MALLOC_MB}"),
            format!("-rss_limit_mb={RSS_MB}"),
            format!("-artifact_prefix={}/", artifacts.display()),
            "-print_final_stats=1".to_owned(),
        ])
        .env("FUZZ_TARGET", target)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(&log).map_err(fault)?);
    let status = command.status().map_err(fault)?;
    let text = String::from_utf8_lossy(&fs::read(&log).map_err(fault)?).into_owned();
    if status.success() {
        println!("{target:<22} {}", summary(&text));
        return Ok(());
    }
    Err(verdict(&text, target, fuzzer))
}

/// Returns the summary of a run from libFuzzer's closing lines.
fn summary(log: &str) -> String {
    let stat = |name: &str| {
        let line = log.lines().rev().find_map(|line| line.strip_prefix(name));
        line.map_or("?", str::trim).to_owned()
    };
    let done = log.lines().rev().find(|line| line.contains("DONE"));
    let covered = done.and_then(|line| line.split("cov: ").nth(1)?.split(' ').next());
    format!(
        "{:>9} inputs, {:>6} a second, {:>5} edges, {:>4} MB",
        stat("stat::number_of_executed_units:"),
        stat("stat::average_exec_per_sec:"),
        covered.unwrap_or("?"),
        stat("stat::peak_rss_mb:"),
    )
}

/// Returns the fault with the command that reproduces it.
fn verdict(log: &str, target: &str, fuzzer: &Path) -> String {
    let mut text = String::from("the fuzzer found a fault\n");
    let telling = |line: &&str| {
        let marks = ["panicked at", "ERROR: libFuzzer", "SUMMARY:", "Base64:"];
        marks.iter().any(|mark| line.contains(mark))
    };
    let lines: Vec<&str> = log.lines().collect();
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| telling(line)) {
        text.push_str(&format!("    {line}\n"));
        // The panic's message is on the line after its location.
        if line.contains("panicked at")
            && let Some(message) = lines.get(at + 1)
        {
            text.push_str(&format!("    {message}\n"));
        }
    }
    let written = lines
        .iter()
        .find_map(|line| line.split("Test unit written to ").nth(1));
    match written {
        Some(file) => text.push_str(&format!(
            "    again: FUZZ_TARGET={target} {} {file}\n    keep it: copy the file to \
             fuzz/regressions/{target}/",
            fuzzer.display()
        )),
        None => text.push_str(&format!("    the end of its log: {:?}", lines.last())),
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_reported_with_its_reproducer() {
        let log = "thread 'x' panicked at a.rs:1:2:\nthe list changed\n== ERROR: libFuzzer: \
                   deadly signal\nartifact_prefix='a/'; Test unit written to a/crash-1\n";
        let text = verdict(log, "raw", Path::new("bin/fuzz"));
        assert!(text.contains("the list changed"));
        assert!(text.contains("FUZZ_TARGET=raw bin/fuzz a/crash-1"));
    }

    #[test]
    fn every_target_of_the_table_is_found() {
        let text = "TARGETS: &[X] = &[\n    (\"one\", a),\n    (\"two\", |d| b(\"x\", d)),\n];";
        assert_eq!(names_in(text), ["one", "two"]);
        assert!(targets().contains(&"native_nodes".to_owned()));
    }

    #[test]
    fn a_target_is_one_of_the_table() {
        assert_eq!(chosen(Some("raw")), Ok(vec!["raw".to_owned()]));
        assert!(chosen(None).is_ok_and(|all| all.len() > 20));
        assert!(chosen(Some("rawr")).is_err());
    }
}
