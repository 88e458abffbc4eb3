// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds and runs the programs that register jobs: ours and one with each real library.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use super::maps::Files;
use crate::tools::{Timing, bench_program};
use pmix_interop::peers::{self, Library};
use xtask::install;
use xtask::process;

/// The files that the programs share.
const SHARED: [&str; 2] = ["tests/interop/bytes.c", "tests/interop/timing.c"];

/// A program that registers a job and gets its keys.
pub(super) struct Program {
    /// The release, or "ours".
    pub(super) name: String,
    path: PathBuf,
    /// The program that times the reply to its clients.
    pub(super) replies: PathBuf,
}

/// The figures of a program for a job.
pub(super) struct Figures(BTreeMap<String, Timing>);

impl Figures {
    /// Returns the figure with this name.
    ///
    /// # Errors
    /// Returns an error if the program has no figure with this name.
    pub(super) fn get(&self, name: &str) -> Result<Timing, String> {
        let found = self.0.get(name).cloned();
        found.ok_or_else(|| format!("no figure {name}"))
    }

    /// Returns the better value of each figure.
    pub(super) fn or_better(mut self, other: Self) -> Self {
        for (name, timing) in other.0 {
            match self.0.get_mut(&name) {
                Some(mine) if mine.least <= timing.least => {}
                _ => drop(self.0.insert(name, timing)),
            }
        }
        self
    }

    /// Parses the lines of a name, a least time and a median. Lines with a status instead are dropped.
    fn parse(text: &str) -> Self {
        let figure = |line: &str| {
            let mut words = line.split(' ');
            let name = words.next()?.to_owned();
            let (least, median) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            let timing = Timing {
                least,
                median,
                bytes: 0.0,
                framing: String::new(),
            };
            Some((name, timing))
        };
        Self(text.lines().filter_map(figure).collect())
    }
}

impl Program {
    /// Runs the program on a job. Only our program takes the arguments in `extra`.
    ///
    /// # Errors
    /// Returns an error if the program fails.
    pub(super) fn run(
        &self,
        files: &Files,
        num_nodes: u32,
        cycles: u32,
        extra: &[&str],
    ) -> Result<Figures, String> {
        self.run_with(files, num_nodes, GETS, cycles, extra)
    }

    /// Runs the program with few gets, because gets are slow in a real library.
    ///
    /// # Errors
    /// Returns an error if the program fails.
    pub(super) fn register(
        &self,
        files: &Files,
        num_nodes: u32,
        cycles: u32,
    ) -> Result<Figures, String> {
        self.run_with(files, num_nodes, 1, cycles, &[])
    }

    fn run_with(
        &self,
        files: &Files,
        num_nodes: u32,
        gets: u32,
        cycles: u32,
        extra: &[&str],
    ) -> Result<Figures, String> {
        let mut command = clean(Command::new(&self.path));
        let numbers = [num_nodes, files.num_procs, gets, cycles].map(|n| n.to_string());
        command.arg(&files.nodes).arg(&files.procs);
        command.args(numbers).args(extra);
        let text = process::output(&mut command)?;
        Ok(Figures::parse(&String::from_utf8_lossy(&text)))
    }
}

/// Returns the command with an environment that holds only the variables set here.
pub(super) fn clean(mut command: Command) -> Command {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PMIX_") {
            command.env_remove(name);
        }
    }
    // The plain datastore, as in our own store.
    command.env("PMIX_MCA_gds", "hash");
    command
}

/// The number of gets of each kind.
const GETS: u32 = 2000;

/// Builds our program.
///
/// # Errors
/// Returns an error if the program cannot be built.
pub(super) fn ours() -> Result<Program, String> {
    let path = bench_program("gds-hash", "gds")?;
    Ok(Program {
        name: "ours".to_owned(),
        replies: path.clone(),
        path,
    })
}

/// Builds the program with each installed library and prints the missing ones.
pub(super) fn theirs() -> Vec<Program> {
    install::packages(install::INTEROP);
    let build = |peer: peers::Peer| around(&peer.version, &peer.library);
    let found = peers::find().into_iter().map(|peer| peer.and_then(build));
    found
        .filter_map(|peer| peer.map_err(|why| println!("without a peer: {why}")).ok())
        .collect()
}

/// Builds the program with one library.
///
/// # Errors
/// Returns an error if the program does not compile.
pub(super) fn around(name: &str, library: &Library) -> Result<Program, String> {
    let program = |what: &str| {
        let path = install::scratch("bench")?.join(format!("{what}-{name}"));
        let mut sources = vec![process::root().join(format!("benches/peers/{what}.c"))];
        sources.extend(SHARED.iter().map(|f| process::root().join(f)));
        library.compile(&path, &sources)?;
        Ok::<_, String>(path)
    };
    let (path, replies) = (program("gds")?, program("reply")?);
    Ok(Program {
        name: name.to_owned(),
        path,
        replies,
    })
}

#[cfg(test)]
mod tests {
    use super::Figures;

    #[test]
    fn a_get_that_found_nothing_has_no_figure() {
        let figures = Figures::parse("memory 4096 4096\nget_job 65.5 70\nget_node status -46\n");
        assert_eq!(figures.get("get_job").map(|t| t.least), Ok(65.5));
        assert!(figures.get("get_node").is_err());
    }
}
