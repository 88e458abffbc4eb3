// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds the measured programs: ours, those with the real libraries, and those compared with the command.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use pmix_interop::harness::Harness;
use pmix_interop::ours::Ours;
use pmix_interop::peers;
use pmix_interop::peers::Peer;
use xtask::install;
use xtask::process;

/// The Debian packages of the compared programs.
const PACKAGES: &[&str] = &[
    "gcc",
    "libc6-dev",
    "libpmix-dev",
    "libslurm-dev",
    "python3-venv",
    "valgrind",
    "zlib1g-dev",
];

/// The line that every timing program prints.
#[derive(Clone, Debug)]
pub(crate) struct Timing {
    /// The least time of all runs, in nanoseconds.
    pub(crate) least: f64,
    /// The median.
    pub(crate) median: f64,
    /// The number of bytes that the call returned or used.
    pub(crate) bytes: f64,
    /// The name of the value, if the program prints one.
    pub(crate) framing: String,
}

impl Timing {
    /// Returns the times divided by `count`.
    pub(super) fn for_each(mut self, count: usize) -> Self {
        let count = u32::try_from(count).map_or(f64::MAX, f64::from);
        self.least /= count;
        self.median /= count;
        self
    }

    fn parse(line: &str) -> Result<Self, String> {
        let words: Vec<_> = line.split_whitespace().collect();
        let number = |i: usize| words.get(i).and_then(|w| w.parse::<f64>().ok());
        match (words.first(), number(1), number(2), number(4)) {
            (Some(&"0"), Some(least), Some(median), Some(bytes)) => Ok(Self {
                least,
                median,
                bytes,
                framing: words.get(5).copied().unwrap_or_default().to_owned(),
            }),
            _ => Err(format!("the timing program answered {line:?}")),
        }
    }
}

/// The limits of the repetitions of a call.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    /// The limit of the number of runs.
    pub(crate) runs: u32,
    /// The time after which no further run starts, in milliseconds.
    pub(crate) cap_ms: u32,
}

impl Effort {
    /// The limits for calls that take milliseconds.
    pub(crate) const USUAL: Self = Self {
        runs: 25,
        cap_ms: 1500,
    };
    /// The limits for calls that take seconds.
    pub(crate) const ONCE: Self = Self { runs: 1, cap_ms: 1 };

    pub(super) fn words(self) -> [String; 2] {
        [self.runs.to_string(), self.cap_ms.to_string()]
    }
}

/// All measured programs that are available.
pub(crate) struct Tools {
    /// The directory of the lists.
    pub(crate) lists: PathBuf,
    /// The command.
    pub(crate) pmix: PathBuf,
    ours: PathBuf,
    zlib: Option<PathBuf>,
    process: PathBuf,
    peers: Vec<Peer>,
}

impl Tools {
    /// Installs and builds the programs, and prints those that are not available.
    ///
    /// # Errors
    /// Returns an error if our own programs cannot be built.
    pub(crate) fn prepare() -> Result<Self, String> {
        install::packages(PACKAGES);
        let mut found = Vec::new();
        for peer in peers::find() {
            match peer {
                Ok(peer) => found.push(peer),
                Err(why) => println!("without a peer: {why}"),
            }
        }
        let zlib = compile("zlib", &["bytes.c", "timing.c"], &["-lz"]);
        Ok(Self {
            lists: install::scratch("bench/lists")?,
            pmix: Ours::build("dist")?.program,
            ours: bench_program("pmix-builtin", "preg")?,
            zlib: zlib.map_err(|e| println!("without zlib: {e}")).ok(),
            process: compile("process", &["timing.c"], &[])?,
            peers: found,
        })
    }

    /// Times one of our operations on a file, with one scheme only (`-`: all).
    ///
    /// # Errors
    /// Returns an error if the program fails.
    pub(crate) fn ours(
        &self,
        operation: &str,
        scheme: &str,
        file: &Path,
        effort: Effort,
    ) -> Result<Timing, String> {
        let mut command = Command::new(&self.ours);
        command
            .args([operation, scheme])
            .arg(file)
            .args(effort.words());
        timing(&mut command)
    }

    /// Encodes a file with one of our encoders and writes the result beside the file.
    ///
    /// # Errors
    /// Returns an error if the program fails.
    pub(crate) fn encoded(
        &self,
        operation: &str,
        scheme: &str,
        file: &Path,
    ) -> Result<PathBuf, String> {
        let out = file.with_extension(scheme);
        let mut command = Command::new(&self.ours);
        command
            .args([operation, scheme])
            .arg(file)
            .args(Effort::ONCE.words())
            .arg(&out);
        timing(&mut command)?;
        Ok(out)
    }

    /// Counts the instructions of one of our encoders on a file, without those that read the file.
    ///
    /// # Errors
    /// Returns an error if valgrind is missing or fails.
    pub(crate) fn instructions(
        &self,
        operation: &str,
        scheme: &str,
        file: &Path,
    ) -> Result<f64, String> {
        Ok(self.counted(operation, scheme, file)? - self.counted("read", scheme, file)?)
    }

    fn counted(&self, operation: &str, scheme: &str, file: &Path) -> Result<f64, String> {
        let mut command = Command::new("valgrind");
        command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
        command
            .arg(&self.ours)
            .args([operation, scheme])
            .arg(file)
            .args(["1", "1"]);
        let done = command.output().map_err(|e| format!("valgrind: {e}"))?;
        let text = String::from_utf8_lossy(&done.stderr).into_owned();
        text.lines()
            .find_map(|l| l.split_once("Collected : ")?.1.trim().parse().ok())
            .ok_or_else(|| format!("valgrind counted nothing: {}", text.trim()))
    }

    /// Times zlib or a plain copy on a file: `deflate` (level 9), `inflate` or `memcpy`.
    ///
    /// # Errors
    /// Returns an error if zlib is missing.
    pub(crate) fn zlib(
        &self,
        operation: &str,
        file: &Path,
        effort: Effort,
    ) -> Result<Timing, String> {
        let program = self.zlib.as_ref().ok_or("no zlib: install zlib1g-dev")?;
        timing(
            Command::new(program)
                .arg(operation)
                .arg(file)
                .args(effort.words()),
        )
    }

    /// Times a whole process, whose standard input is a file or empty.
    ///
    /// # Errors
    /// Returns an error if the process cannot run or exits with a status other than 0.
    pub(crate) fn process<S: AsRef<OsStr>>(
        &self,
        effort: Effort,
        command: &[S],
    ) -> Result<Timing, String> {
        timing(
            Command::new(&self.process)
                .args(effort.words())
                .arg("-")
                .args(command),
        )
    }

    /// Times a public call of a real library on a file: `regex`, `ppn` or `register`. The library is the first whose
    /// release begins with `release`.
    ///
    /// # Errors
    /// Returns an error if the library is missing or the call fails.
    pub(crate) fn peer(
        &self,
        release: &str,
        what: &str,
        file: &Path,
        effort: Effort,
    ) -> Result<Timing, String> {
        let mut found = self.peers.iter().filter(|p| p.version.starts_with(release));
        let peer = found
            .next()
            .ok_or_else(|| format!("no libpmix {release} here"))?;
        let mut harness = Harness::new(&peer.program);
        if what != "register" {
            harness = harness.with("preg", "native");
        }
        let [runs, cap] = effort.words();
        Timing::parse(&harness.ask(&format!("time {what} {} {runs} {cap}", file.display()))?)
    }

    /// Returns the libraries that are installed.
    pub(crate) fn releases(&self) -> Vec<&str> {
        self.peers.iter().map(|p| p.version.as_str()).collect()
    }
}

pub(super) fn timing(command: &mut Command) -> Result<Timing, String> {
    let text = process::output(command)?;
    Timing::parse(&String::from_utf8_lossy(&text))
}

/// Builds a benchmark of a package and returns its path, which cargo prints.
pub(super) fn bench_program(package: &str, bench: &str) -> Result<PathBuf, String> {
    let mut cargo = process::cargo(["bench", "--quiet", "--no-run", "--message-format=json"]);
    cargo.args(["--package", package, "--bench", bench]);
    let text = process::output(&mut cargo)?;
    String::from_utf8_lossy(&text)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| {
            message["target"]["kind"][0] == "bench" && message["target"]["name"] == bench
        })
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .ok_or_else(|| "cargo built no benchmark".to_owned())
}

/// Compiles a program of `benches/peers` together with the files that it shares with the interop peer.
pub(crate) fn compile(name: &str, shared: &[&str], libraries: &[&str]) -> Result<PathBuf, String> {
    let parts = process::root().join("tests/interop");
    let source = process::root().join(format!("benches/peers/{name}.c"));
    let program = install::scratch("bench")?.join(name);
    let mut gcc = Command::new("gcc");
    gcc.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-I"])
        .arg(&parts);
    gcc.arg("-o").arg(&program).arg(source);
    gcc.args(shared.iter().map(|f| parts.join(f)))
        .args(libraries);
    process::output(&mut gcc)?;
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::Timing;

    #[test]
    fn a_timing_is_read_only_if_the_call_succeeded() {
        let read =
            Timing::parse("0 100 150 9 24 pmix").map(|t| (t.least, t.median, t.bytes, t.framing));
        assert_eq!(read, Ok((100.0, 150.0, 24.0, "pmix".to_owned())));
        assert!(Timing::parse("-27 100 150 1 0").is_err());
        assert!(Timing::parse("0 100").is_err());
    }
}
