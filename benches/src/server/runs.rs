// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs clients under the compared servers and reads the figures that the clients measured.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use pmix_interop::ours::Ours;
use pmix_interop::peers::{self, Peer};
use pmix_interop::server::case::run_within;
use pmix_interop::server::launcher::Launcher;
use pmix_interop::server::programs::compile;
use serde_json::Value;
use xtask::{install, process};

use crate::table::{self, Row, Verdict, factor, time};

/// The client programs with one library, and the servers of the same release.
pub(crate) struct Release {
    pub(crate) peer: Peer,
    /// The path of the client that measures.
    pub(crate) timing: PathBuf,
    /// The path of the client for whole commands.
    pub(crate) short: PathBuf,
    pub(crate) host: Launcher,
    pub(crate) prterun: Option<Launcher>,
}

/// All programs that the benchmark runs.
pub(crate) struct Field {
    pub(crate) ours: Launcher,
    /// The command.
    pub(crate) pmix: PathBuf,
    pub(crate) releases: Vec<Release>,
    home: PathBuf,
}

/// The time limit of a run.
const LIMIT: Duration = Duration::from_secs(180);

impl Field {
    /// Builds and installs the programs, and prints those that are not available.
    ///
    /// # Errors
    /// Returns an error if our command cannot be built.
    pub(crate) fn prepare() -> Result<Self, String> {
        install::packages(install::INTEROP);
        let pmix = Ours::build("dist")?.program;
        let mut releases = Vec::new();
        for peer in peers::find() {
            match peer.and_then(release) {
                Ok(release) => releases.push(release),
                Err(why) => println!("without a peer: {why}"),
            }
        }
        Ok(Self {
            ours: Launcher::Ours(pmix.clone()),
            pmix,
            releases,
            home: install::scratch("bench/server")?,
        })
    }

    /// Returns every server with a real library.
    pub(crate) fn theirs(&self) -> Vec<&Launcher> {
        let releases = self.releases.iter();
        releases
            .flat_map(|r| std::iter::once(&r.host).chain(r.prterun.as_ref()))
            .collect()
    }

    /// Returns the peer whose release begins with `release`.
    pub(crate) fn release(&self, name: &str) -> Result<&Release, String> {
        let mut found = self.releases.iter();
        found
            .find(|release| release.peer.version.starts_with(name))
            .ok_or_else(|| format!("no libpmix {name} here"))
    }

    /// Returns the working directory of the runs.
    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    /// Returns the figures of the measuring client under the server that `command` starts.
    ///
    /// # Errors
    /// Returns an error if the program fails.
    pub(crate) fn time(
        &self,
        mut command: Command,
        client: &Path,
        num_local: u32,
        fences: u32,
    ) -> Result<Figures, String> {
        let meeting = self.home.join("meeting");
        if meeting.exists() {
            std::fs::remove_file(&meeting).map_err(|e| format!("{}: {e}", meeting.display()))?;
        }
        command.arg(client).arg(&meeting);
        command.args([num_local.to_string(), fences.to_string()]);
        let text = self.run(&mut command)?;
        let line = text.lines().find_map(|line| {
            let start = line.find("{\"ranks\"")?;
            serde_json::from_str(line.get(start..)?).ok()
        });
        line.map(Figures)
            .ok_or_else(|| format!("no figures in {text:.300}"))
    }

    /// Returns the elapsed time of a whole command, in nanoseconds.
    ///
    /// # Errors
    /// Returns an error if the program fails.
    pub(crate) fn whole(&self, command: &mut Command) -> Result<f64, String> {
        Ok(self.timed(command)?.1)
    }

    /// Runs a command. Returns what it wrote on standard output and its elapsed time in
    /// nanoseconds.
    ///
    /// # Errors
    /// Returns an error if the program fails.
    pub(crate) fn timed(&self, command: &mut Command) -> Result<(String, f64), String> {
        self.timed_within(command, LIMIT)
    }

    /// Runs a command as [`Self::timed`] does, for a launcher that does not always end.
    ///
    /// # Errors
    /// Returns an error if the command fails or exceeds the time limit.
    pub(crate) fn timed_within(
        &self,
        command: &mut Command,
        limit: Duration,
    ) -> Result<(String, f64), String> {
        let begun = Instant::now();
        let text = self.run_within(command, limit)?;
        Ok((text, begun.elapsed().as_secs_f64() * 1e9))
    }

    /// Returns the standard output of a command.
    ///
    /// # Errors
    /// Returns an error if the program fails.
    pub(crate) fn run(&self, command: &mut Command) -> Result<String, String> {
        self.run_within(command, LIMIT)
    }

    fn run_within(&self, command: &mut Command, limit: Duration) -> Result<String, String> {
        let output = self.home.join("output");
        let status = run_within(command, limit, &output, &self.home)?;
        let text = std::fs::read(&output).map_err(|e| e.to_string())?;
        let text = String::from_utf8_lossy(&text).into_owned();
        match status.success() {
            true => Ok(text),
            false => Err(format!("{status}: {:.300}", text.trim())),
        }
    }
}

fn release(peer: Peer) -> Result<Release, String> {
    Ok(Release {
        timing: compile(&peer, "timing")?,
        short: compile(&peer, "short")?,
        host: Launcher::host(&peer)?,
        prterun: Launcher::prterun(&peer),
        peer,
    })
}

/// The members of a JSON object of numbers.
#[derive(Clone, Debug)]
pub(crate) struct Figures(Value);

impl Figures {
    /// Returns the figure with this name.
    ///
    /// # Errors
    /// Returns an error if no figure has this name.
    pub(crate) fn get(&self, name: &str) -> Result<f64, String> {
        self.0[name]
            .as_f64()
            .ok_or_else(|| format!("no figure {name}"))
    }

    /// Returns these figures and one more.
    pub(crate) fn with(mut self, name: &str, value: f64) -> Self {
        if let Some(members) = self.0.as_object_mut() {
            members.insert(name.to_owned(), value.into());
        }
        self
    }

    /// Parses a JSON object.
    ///
    /// # Errors
    /// Returns an error if the text is not an object of numbers.
    pub(crate) fn of_text(text: &str) -> Result<Self, String> {
        serde_json::from_str(text)
            .map(Self)
            .map_err(|e| format!("{e} in {text:.200}"))
    }

    /// Reads the object from the file that a host wrote.
    ///
    /// # Errors
    /// Returns an error if the file does not exist or holds no object.
    pub(crate) fn of_file(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Self::of_text(&text)
    }

    /// Returns the medians of the figures of several processes.
    pub(crate) fn medians(all: &[Self]) -> Self {
        let names = all.first().and_then(|one| one.0.as_object());
        let medians = names.into_iter().flatten().map(|(name, _)| {
            let mut values: Vec<f64> = all.iter().filter_map(|one| one.get(name).ok()).collect();
            values.sort_by(f64::total_cmp);
            let median = values.get(values.len() / 2).copied().unwrap_or_default();
            (name.clone(), median.into())
        });
        Self(Value::Object(medians.collect()))
    }

    /// Returns the lesser value of each figure.
    pub(crate) fn or_less(mut self, other: &Self) -> Self {
        let Some(members) = self.0.as_object_mut() else {
            return self;
        };
        for (name, value) in members {
            if let (Some(mine), Some(theirs)) = (value.as_f64(), other.0[name.as_str()].as_f64())
                && theirs < mine
            {
                *value = other.0[name.as_str()].clone();
            }
        }
        self
    }
}

/// One comparison of figures. The smaller figure is better.
pub(crate) struct Pair {
    pub(crate) figure: &'static str,
    pub(crate) input: String,
    pub(crate) ours: f64,
    pub(crate) peer: f64,
    /// The name of the peer.
    pub(crate) name: String,
    /// The promised ratio of the peer's figure to ours.
    pub(crate) bound: Option<f64>,
    /// The function that formats a figure.
    pub(crate) shown: fn(f64) -> String,
}

impl Pair {
    pub(crate) fn row(self) -> Row {
        let ratio = self.peer / self.ours;
        Row {
            figure: self.figure.to_owned(),
            input: self.input,
            ours: (self.shown)(self.ours),
            peer: format!("{}: {}", self.name, (self.shown)(self.peer)),
            ratio: factor(ratio),
            bound: self.bound.map_or_else(String::new, table::bound),
            verdict: self
                .bound
                .map_or(Verdict::Shown, |bound| Verdict::of(ratio >= bound)),
        }
    }
}

/// Formats KiB in the most readable unit.
pub(crate) fn kib(value: f64) -> String {
    crate::table::size(value * 1024.0)
}

/// The compiled loop of `tests/server/floor.c`.
pub(super) struct Floor(PathBuf);

impl Floor {
    /// Compiles the loop.
    ///
    /// # Errors
    /// Returns the compiler's error.
    pub(super) fn compile() -> Result<Self, String> {
        let program = install::scratch("bench/server")?.join("floor");
        let mut command = Command::new("gcc");
        command.args(["-std=gnu11", "-O2", "-o"]).arg(&program);
        command.arg(process::root().join("tests/server/floor.c"));
        process::output(&mut command)?;
        Ok(Self(program))
    }

    /// Returns the processor time of a round of `clients` clients, in nanoseconds.
    ///
    /// # Errors
    /// Returns an error if the program fails.
    fn time(&self, field: &Field, clients: u32) -> Result<f64, String> {
        let rounds = (20_000 / clients).to_string();
        let mut command = Command::new(&self.0);
        let text = field.run(command.args([clients.to_string(), rounds]))?;
        Figures::of_text(text.trim())?.get("cpu_ns")
    }

    /// Adds the row beside those of the servers.
    ///
    /// # Errors
    /// Returns an error if the program fails.
    pub(super) fn row(&self, field: &Field, clients: u32) -> Result<Row, String> {
        Ok(Row {
            figure: "empty fence, server time".to_owned(),
            input: format!("{clients} ranks, without PMIx"),
            ours: String::new(),
            peer: format!("loop in C: {}", time(self.time(field, clients)?)),
            ratio: String::new(),
            bound: String::new(),
            verdict: Verdict::Shown,
        })
    }

    /// Compares the cost of a client among many with the cost among few.
    ///
    /// # Errors
    /// Returns an error if the program fails.
    pub(super) fn growth(&self, field: &Field) -> Result<Row, String> {
        let each = |clients: u32| Ok::<_, String>(self.time(field, clients)? / f64::from(clients));
        let (few, many) = (each(64)?, each(1000)?);
        Ok(Row {
            figure: "server time of a fence for each rank".to_owned(),
            input: "64 and 1000 clients, without PMIx".to_owned(),
            ours: String::new(),
            peer: format!("loop in C: {} and {}", time(few), time(many)),
            ratio: factor(many / few),
            bound: String::new(),
            verdict: Verdict::Shown,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Figures;

    #[test]
    fn the_median_of_each_figure_counts() {
        let figures = [r#"{"a":3,"b":1}"#, r#"{"a":1,"b":5}"#, r#"{"a":2,"b":9}"#];
        let figures = figures.map(|text| Figures::of_text(text).expect("it is JSON"));
        let medians = Figures::medians(&figures);
        assert_eq!((medians.get("a"), medians.get("b")), (Ok(2.0), Ok(5.0)));
    }

    #[test]
    fn the_lesser_of_each_figure_counts() {
        let figures = |text: &str| serde_json::from_str(text).map(Figures).expect("it is JSON");
        let one = figures(r#"{"a":3,"b":1}"#);
        let less = one.or_less(&figures(r#"{"a":2,"b":4}"#));
        assert_eq!((less.get("a"), less.get("b")), (Ok(2.0), Ok(1.0)));
        assert!(less.get("c").is_err());
    }
}
