// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run of a launcher at a terminal, with files or with pipes, and the time at which its output arrives.

use std::fmt;
use std::fs::{self, File};
use std::io::{Read, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// The time after which a run counts as hanging.
const LIMIT: Duration = Duration::from_secs(9);

/// The interval at which files are read and the end of a launcher is tested.
const LOOK: Duration = Duration::from_millis(3);

/// The streams of a launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// All three are a terminal, which `script` of util-linux provides.
    Terminal,
    File,
    Pipe,
}

/// Bytes with the time of their arrival.
type Pieces = Vec<(SystemTime, Vec<u8>)>;

/// The result of a run.
pub(super) struct Seen {
    /// The exit code; `None` if the launcher did not end.
    pub(super) code: Option<i32>,
    output: Pieces,
    errors: Pieces,
}

impl Place {
    pub(super) const ALL: [Self; 3] = [Self::Terminal, Self::File, Self::Pipe];

    /// Returns the name in reports and in the list of deviations.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Terminal => "terminal",
            Self::File => "file",
            Self::Pipe => "pipe",
        }
    }

    /// Runs a launcher with this input. Files are in a directory that no other run uses.
    ///
    /// # Errors
    /// Returns a message if the launcher cannot be started or a file cannot be used.
    pub(super) fn run(self, command: Command, input: &str, home: &Path) -> Result<Seen, String> {
        match self {
            Self::Terminal => piped(terminal(&command), input),
            Self::Pipe => piped(command, input),
            Self::File => in_files(command, input, home),
        }
    }
}

/// Returns the command that runs another one at a terminal.
fn terminal(command: &Command) -> Command {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let quoted = words.map(|word| format!("'{}'", word.to_string_lossy().replace('\'', r"'\''")));
    let line = quoted.collect::<Vec<_>>().join(" ");
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--flush", "--command"]);
    // The shell is replaced, so that the launcher leads the session of the terminal.
    script.arg(format!("exec {line}")).arg("/dev/null");
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => script.env(name, value),
            None => script.env_remove(name),
        };
    }
    script
}

fn piped(mut command: Command, input: &str) -> Result<Seen, String> {
    command.stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|e| fault(&command, &e))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A launcher that has ended reads nothing, and its exit code tells why.
        let _ = stdin.write_all(input.as_bytes());
    }
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (code, output, errors) = thread::scope(|scope| {
        let output = scope.spawn(|| stdout.map(read_all).unwrap_or_default());
        let errors = scope.spawn(|| stderr.map(read_all).unwrap_or_default());
        let code = wait(&mut child, || {});
        (code, output.join(), errors.join())
    });
    let lost = "a thread of the checks panicked";
    Ok(Seen {
        code,
        output: output.map_err(|_| lost)?,
        errors: errors.map_err(|_| lost)?,
    })
}

fn in_files(mut command: Command, input: &str, home: &Path) -> Result<Seen, String> {
    let at = |e: std::io::Error| format!("{}: {e}", home.display());
    fs::create_dir_all(home).map_err(at)?;
    fs::write(home.join("input"), input).map_err(at)?;
    command.stdin(File::open(home.join("input")).map_err(at)?);
    command.stdout(File::create(home.join("output")).map_err(at)?);
    command.stderr(File::create(home.join("errors")).map_err(at)?);
    let mut files = [
        File::open(home.join("output")).map_err(at)?,
        File::open(home.join("errors")).map_err(at)?,
    ];
    let mut read: [Pieces; 2] = Default::default();
    let mut look = || {
        for (file, pieces) in files.iter_mut().zip(&mut read) {
            let mut bytes = Vec::new();
            if file.read_to_end(&mut bytes).is_ok_and(|len| len > 0) {
                pieces.push((SystemTime::now(), bytes));
            }
        }
    };
    let mut child = command.spawn().map_err(|e| fault(&command, &e))?;
    let code = wait(&mut child, &mut look);
    look();
    let [output, errors] = read;
    Ok(Seen {
        code,
        output,
        errors,
    })
}

/// Waits for the end of a launcher, and returns its exit code.
fn wait(child: &mut Child, mut look: impl FnMut()) -> Option<i32> {
    let end = Instant::now() + LIMIT;
    while Instant::now() < end {
        look();
        match child.try_wait() {
            Ok(None) => thread::sleep(LOOK),
            Ok(Some(status)) => return status.code(),
            Err(_) => break,
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

fn read_all(mut stream: impl Read) -> Pieces {
    let mut pieces = Pieces::new();
    let mut buffer = vec![0; 1 << 16];
    while let Ok(len @ 1..) = stream.read(&mut buffer) {
        pieces.push((SystemTime::now(), buffer[..len].to_vec()));
    }
    pieces
}

fn fault(command: &Command, error: &std::io::Error) -> String {
    format!("{}: {error}", command.get_program().display())
}

impl Seen {
    /// Returns the bytes of standard output, or of the terminal.
    pub(super) fn output(&self) -> Vec<u8> {
        joined(&self.output)
    }

    /// Returns the bytes of standard error.
    pub(super) fn errors(&self) -> Vec<u8> {
        joined(&self.errors)
    }

    /// Returns the text of both streams without colors.
    pub(super) fn text(&self) -> String {
        let bytes = [self.output(), b"\n".to_vec(), self.errors()].concat();
        let text = String::from_utf8_lossy(&bytes);
        let mut parts = text.split("\u{1b}[");
        let first = parts.next().unwrap_or_default().to_owned();
        let rest = parts.map(|part| part.split_once('m').map_or(part, |(_, rest)| rest));
        first + &rest.collect::<String>()
    }

    /// Returns the longest time between the output of a process and its arrival. The processes print it after `at`.
    pub(super) fn latest(&self) -> Option<Duration> {
        let mut latest = None;
        for (arrived, bytes) in &self.output {
            let text = String::from_utf8_lossy(bytes);
            let since = arrived.duration_since(SystemTime::UNIX_EPOCH).ok()?;
            for part in text.split(" at ").skip(1) {
                let printed = part.split_whitespace().next().unwrap_or_default();
                if let Ok(printed) = printed.parse::<f64>() {
                    let took = (since.as_secs_f64() - printed).max(0.0);
                    latest = latest.max(Some(Duration::from_secs_f64(took)));
                }
            }
        }
        latest
    }
}

fn joined(pieces: &Pieces) -> Vec<u8> {
    pieces
        .iter()
        .flat_map(|(_, bytes)| bytes)
        .copied()
        .collect()
}

/// Shows the end of the output on one line.
impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text();
        let start = text.char_indices().rev().nth(700).map_or(0, |(at, _)| at);
        let text = text.get(start..).unwrap_or_default();
        write!(f, "{:?}", text.trim())?;
        match self.latest() {
            Some(latest) => write!(f, ", at latest {} ms", latest.as_millis()),
            None => Ok(()),
        }
    }
}
