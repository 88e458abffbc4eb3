// SPDX-License-Identifier: MIT OR Apache-2.0
//! Running of programs, and the paths of the repository.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// The time limits of a command that runs unattended.
#[derive(Clone, Copy)]
struct Limits {
    /// The limit from the start to the end, or from the last line if lines are read.
    run: Duration,
    /// The limit from one line to the next; builds print none, whatever their length.
    silence: Duration,
}

impl Limits {
    fn unattended() -> Option<Self> {
        in_ci().then_some(Self {
            run: Duration::from_secs(3 * 60 * 60),
            silence: Duration::from_secs(12 * 60),
        })
    }
}

/// Returns the top of the repository.
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_owned()
}

/// Returns the cargo that runs this task, at the top of the repository.
pub fn cargo<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    command
}

/// Returns the options with which cargo builds a target of a package in a profile.
///
/// In the profile of the tests they name the whole workspace. Its crates then have the features that they have in the
/// tests; for a package alone, cargo would build them a second time with fewer.
pub fn selection<'a>(profile: &'a str, package: &'a str) -> Vec<&'a str> {
    let packages = match profile {
        "dev" => ["--workspace"].as_slice(),
        _ => &["--package", package],
    };
    [&["--quiet", "--locked", "--profile", profile], packages].concat()
}

/// Formats a command as a user would type it.
pub fn shown(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|a| a.to_string_lossy().into_owned()));
    if let Some(name) = Path::new(&words[0]).file_name() {
        words[0] = name.to_string_lossy().into_owned();
    }
    words.join(" ")
}

/// Runs a command with our standard output.
///
/// # Errors
/// Returns a message if the command cannot run or fails. Unattended, it also fails after 3 hours.
pub fn run(command: &mut Command) -> Result<(), String> {
    println!("$ {}", shown(command));
    let limits = Limits::unattended();
    let mut child = spawn(command.stdin(Stdio::null()), limits)?;
    ended(command, &mut child, limits)
}

/// Runs a command, prints each line of its standard output and passes it to `line`.
///
/// # Errors
/// Returns a message if the command cannot run or fails. Unattended, it also fails after 12 minutes without output, so
/// that a test that hangs does not use up the time of all.
pub fn run_lines(command: &mut Command, line: impl FnMut(&str)) -> Result<(), String> {
    println!("$ {}", shown(command));
    read_lines(command, Limits::unattended(), line)
}

fn read_lines(
    command: &mut Command,
    limits: Option<Limits>,
    mut line: impl FnMut(&str),
) -> Result<(), String> {
    let mut child = spawn(command.stdin(Stdio::null()).stdout(Stdio::piped()), limits)?;
    let (sender, lines) = mpsc::channel();
    let stdout = child.stdout.take();
    let reader = move || {
        for line in stdout
            .into_iter()
            .flat_map(|s| BufReader::new(s).split(b'\n'))
        {
            let Ok(line) = line else { return };
            if sender.send(line).is_err() {
                return;
            }
        }
    };
    // Read in a thread: a pipe cannot be read with a time limit, but a channel can.
    std::thread::spawn(reader);
    loop {
        let next = match limits {
            Some(limits) => lines.recv_timeout(limits.silence),
            None => lines.recv().map_err(RecvTimeoutError::from),
        };
        match next {
            Ok(bytes) => {
                let shown = String::from_utf8_lossy(&bytes);
                println!("{shown}");
                line(&shown);
            }
            Err(RecvTimeoutError::Disconnected) => return ended(command, &mut child, limits),
            Err(RecvTimeoutError::Timeout) => {
                kill(&mut child);
                return Err(format!("{} printed nothing for too long", shown(command)));
            }
        }
    }
}

/// Starts a command. With limits, the command leads its own process group, so that all its
/// processes can be killed.
fn spawn(command: &mut Command, limits: Option<Limits>) -> Result<Child, String> {
    if limits.is_some() {
        command.process_group(0);
    }
    command
        .spawn()
        .map_err(|e| format!("{} cannot run: {e}", shown(command)))
}

/// Waits for the end of a command.
fn ended(command: &Command, child: &mut Child, limits: Option<Limits>) -> Result<(), String> {
    let text = shown(command);
    let cannot = |e: std::io::Error| format!("{text} cannot be waited for: {e}");
    let begun = Instant::now();
    let mut pause = Duration::from_millis(1);
    let status = loop {
        let Some(limits) = limits else {
            break child.wait().map_err(cannot)?;
        };
        // Poll, as the standard library has no wait with a time limit.
        if let Some(status) = child.try_wait().map_err(cannot)? {
            break status;
        }
        if begun.elapsed() >= limits.run {
            kill(child);
            return Err(format!("{text} did not end in {} s", limits.run.as_secs()));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(100));
    };
    match status.success() {
        true => Ok(()),
        false => Err(format!("{text} ended with {status}")),
    }
}

/// Kills a command that was started with limits, and its process group.
fn kill(child: &mut Child) {
    let group = format!("-{}", child.id());
    let told = Command::new("kill").args(["-KILL", "--", &group]).status();
    if !told.is_ok_and(|status| status.success()) {
        // The group has ended, or there is no `kill` program.
        let _ = child.kill();
    }
    let _ = child.wait();
}

/// Runs a command and returns its standard output.
///
/// # Errors
///
/// Returns a message with the output if the command cannot be started or fails.
pub fn output(command: &mut Command) -> Result<Vec<u8>, String> {
    let text = shown(command);
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("{text} cannot run: {e}"))?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(format!(
            "{text} ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        ))
    }
}

/// Returns `true` if this runs unattended: a missing peer is then a failure, and seeds are fixed.
pub fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|v| !v.is_empty() && v != "false" && v != "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(run: u64, silence: u64) -> Option<Limits> {
        Some(Limits {
            run: Duration::from_millis(run),
            silence: Duration::from_millis(silence),
        })
    }

    fn shell(text: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", text]);
        command
    }

    #[test]
    fn a_command_that_falls_silent_is_ended_and_its_lines_are_kept() {
        let mut lines = Vec::new();
        let result = read_lines(
            &mut shell("echo one; sleep 1000"),
            limits(60_000, 500),
            |l| {
                lines.push(l.to_owned());
            },
        );
        assert!(
            result
                .unwrap_err()
                .ends_with("printed nothing for too long")
        );
        assert_eq!(lines, ["one"]);
    }

    #[test]
    fn a_command_that_does_not_end_is_ended() {
        let mut command = shell("exec >&-; sleep 1000");
        let result = read_lines(&mut command, limits(200, 60_000), |_| ());
        assert!(result.unwrap_err().ends_with("did not end in 0 s"));
    }

    #[test]
    fn a_command_within_its_limits_is_judged_by_its_status() {
        for limits in [None, limits(60_000, 60_000)] {
            assert_eq!(read_lines(&mut shell("echo one"), limits, |_| ()), Ok(()));
            let failed = read_lines(&mut shell("exit 3"), limits, |_| ());
            assert!(failed.unwrap_err().ends_with("exit status: 3"));
        }
    }
}
