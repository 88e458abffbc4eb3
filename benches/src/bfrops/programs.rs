// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds and runs the programs that pack and unpack: ours and one for each real library.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tools::{Effort, Timing, bench_program, timing};
use pmix_interop::peers;
use xtask::install;
use xtask::process::root;

/// The Debian packages that this comparison needs.
const PACKAGES: &[&str] = &[
    "gcc",
    "libc6-dev",
    "libpmix-dev",
    "python3-venv",
    "valgrind",
];

/// A program with the command line of `benches/peers/bfrops.c`.
pub(crate) struct Program {
    /// The name of the library.
    pub(crate) name: String,
    path: PathBuf,
}

/// One operation on one file.
#[derive(Clone, Copy)]
pub(crate) struct Job<'a> {
    pub(crate) operation: &'a str,
    pub(crate) data_type: &'a str,
    pub(crate) file: &'a Path,
    pub(crate) count: usize,
}

impl Program {
    fn command(&self, valgrind: &[&str], job: Job<'_>, effort: Effort) -> Command {
        let mut command = match valgrind.split_first() {
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest).arg(&self.path);
                command
            }
            None => Command::new(&self.path),
        };
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("PMIX_") {
                command.env_remove(name);
            }
        }
        // The plain datastore, so that no run leaves shared segments behind.
        command.env("PMIX_MCA_gds", "hash");
        command.args([job.operation, job.data_type]).arg(job.file);
        command.arg(job.count.to_string()).args(effort.words());
        command
    }

    /// Returns the time of an operation.
    ///
    /// # Errors
    /// Returns an error if the program fails.
    pub(crate) fn time(&self, job: Job<'_>, effort: Effort) -> Result<Timing, String> {
        timing(&mut self.command(&[], job, effort))
    }

    /// Returns the instructions of an operation per datum.
    ///
    /// # Errors
    /// Returns an error if valgrind is missing or fails.
    pub(crate) fn instructions(&self, job: Job<'_>) -> Result<f64, String> {
        const CALLGRIND: [&str; 4] = [
            "valgrind",
            "--tool=callgrind",
            "--callgrind-out-file=/dev/null",
            "--toggle-collect=*measured*",
        ];
        let text = self.under(&CALLGRIND, job, Effort::ONCE)?;
        each(number_after(&text, "Collected : ")?, job)
    }

    /// Returns the allocations of an operation per datum: the difference of a long and a short run.
    ///
    /// # Errors
    /// Returns an error if valgrind is missing or fails.
    pub(crate) fn allocations(&self, job: Job<'_>) -> Result<f64, String> {
        const MEMCHECK: [&str; 2] = ["valgrind", "--undef-value-errors=no"];
        let count = |runs| {
            let effort = Effort {
                runs,
                cap_ms: 600_000,
            };
            let text = self.under(&MEMCHECK, job, effort)?;
            number_after(&text, "total heap usage: ")
        };
        each(count(2)? - count(1)?, job)
    }

    fn under(&self, valgrind: &[&str], job: Job<'_>, effort: Effort) -> Result<String, String> {
        let done = self.command(valgrind, job, effort).output();
        let done = done.map_err(|e| format!("valgrind: {e}"))?;
        Ok(String::from_utf8_lossy(&done.stderr).into_owned())
    }
}

fn each(total: f64, job: Job<'_>) -> Result<f64, String> {
    let count = u32::try_from(job.count).map_err(|e| e.to_string())?;
    Ok(total / f64::from(count))
}

/// Returns the number that follows a text, with or without commas.
fn number_after(text: &str, before: &str) -> Result<f64, String> {
    text.lines()
        .find_map(|line| {
            let rest = line.split_once(before)?.1.trim();
            let digits = rest.chars().take_while(|c| c.is_ascii_digit() || *c == ',');
            digits
                .filter(|c| *c != ',')
                .collect::<String>()
                .parse()
                .ok()
        })
        .ok_or_else(|| format!("valgrind counted nothing: {:.200}", text.trim()))
}

/// Builds our program.
///
/// # Errors
/// Returns an error if the program cannot be built.
pub(crate) fn ours() -> Result<Program, String> {
    Ok(Program {
        name: "ours".to_owned(),
        path: bench_program("bfrops", "bfrops")?,
    })
}

/// Builds the program with each installed library and prints the missing ones.
pub(crate) fn theirs() -> Vec<Program> {
    const SOURCES: [&str; 5] = [
        "benches/peers/bfrops.c",
        "tests/interop/bfrops/call.c",
        "tests/interop/bfrops/types.c",
        "tests/interop/bfrops/walk.c",
        "tests/interop/bytes.c",
    ];
    install::packages(PACKAGES);
    let sources: Vec<_> = SOURCES
        .iter()
        .chain(&["tests/interop/timing.c", "tests/interop/bfrops/json.c"])
        .map(|f| root().join(f))
        .collect();
    let build = |peer: peers::Peer| {
        let path = install::scratch("bench")?.join(format!("bfrops-{}", peer.version));
        peer.library.compile(&path, &sources)?;
        let name = peer.version;
        Ok::<_, String>(Program { name, path })
    };
    let found = peers::find().into_iter().map(|peer| peer.and_then(build));
    found
        .filter_map(|peer| peer.map_err(|why| println!("without a peer: {why}")).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::number_after;

    #[test]
    fn numbers_are_read_with_commas_and_without() {
        let text = "==1== Collected : 12345\n==1==   total heap usage: 1,204,567 allocs, 3 frees";
        assert_eq!(number_after(text, "Collected : "), Ok(12_345.0));
        assert_eq!(number_after(text, "total heap usage: "), Ok(1_204_567.0));
        assert!(number_after(text, "Refs : ").is_err());
    }
}
