// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run of a program under a launcher, which must end in time, and its judgment.

use std::fs::{File, OpenOptions};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::logs::Logs;

/// The expected result of a run.
#[derive(Clone, Debug)]
pub enum Judge {
    /// The run exits with this code.
    Code(i32),
    /// The run exits with one of these codes.
    OneOf(&'static [i32]),
    /// The run exits with any code but 0.
    Fails,
    /// The run ends in any way.
    Ends,
    /// The run exits with this code and prints this text.
    CodeSaying(i32, &'static str),
    /// The run exits with 0, prints each phrase this often, and prints none of the others.
    Says(Vec<(&'static str, usize)>, &'static [&'static str]),
    /// The run exits with this code and leaves nothing in a folder.
    Leaves(i32, PathBuf),
    /// The run exits with this code, and its analysis tool has found nothing.
    Logged(i32, Logs),
}

/// A run of a command.
pub struct Case {
    /// The row of the report.
    pub what: String,
    /// The name in failures.
    pub name: String,
    /// The command.
    pub command: Command,
    /// The time limit.
    pub limit: Duration,
    /// The expected result.
    pub judge: Judge,
    /// `true` if no library or program of ours takes part. Such a run proves that real libraries pass the check. It is
    /// repeated when it fails, as real libraries sometimes fail.
    pub is_control: bool,
}

/// The most runs of a command that may fail without any part of ours.
const ATTEMPTS: u32 = 3;

/// Slurm's message when it drops a message for another node after a few attempts. On a busy machine that node's part of
/// the step starts later than Slurm waits.
const DROPPED_BY_SLURM: &str = "exceeded the retry limit";

/// The time that a launcher has to clean up after its time limit.
const GRACE: Duration = Duration::from_secs(3);

impl Case {
    /// Runs the command with its output in a file. `home` is the working directory, and `until` the time limit of all
    /// runs.
    ///
    /// # Errors
    /// Returns a message if the result is not as expected, or if no time is left.
    pub fn run(&mut self, output: &Path, home: &Path, until: Instant) -> Result<(), String> {
        let mut attempts = ATTEMPTS;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(format!("{}: no time is left to run it", self.name));
            }
            let limit = self.limit.min(left);
            attempts -= 1;
            let ended = run_within(&mut self.command, limit, output, home);
            let hung = ended.is_err();
            let text = std::fs::read(output).unwrap_or_default();
            let text = String::from_utf8_lossy(&text).into_owned();
            let judged = ended.and_then(|status| self.judge.of(status, &text));
            match judged {
                Err(why)
                    if attempts > 0 && (self.is_control || hung && self.hung_by_itself(&text)) =>
                {
                    println!("again: {}: {}: {why}", self.what, self.name);
                }
                judged => {
                    break judged.map_err(|why| {
                        format!("{}: {why}; it wrote: {}", self.name, last_of(&text))
                    });
                }
            }
        }
    }
}

impl Case {
    /// Returns `true` if a hang proves nothing about the check. The wheel's prterun sometimes hangs by itself, and so
    /// does a step of Slurm after Slurm has dropped a message.
    fn hung_by_itself(&self, text: &str) -> bool {
        Path::new(self.command.get_program()).ends_with("prterun")
            || text.contains(DROPPED_BY_SLURM)
    }
}

impl Judge {
    fn of(&self, status: ExitStatus, text: &str) -> Result<(), String> {
        let expected = match self {
            Self::Fails if status.success() => return Err(format!("{status}")),
            Self::Fails | Self::Ends => return Ok(()),
            Self::OneOf(codes) => match status.code().is_some_and(|code| codes.contains(&code)) {
                true => return Ok(()),
                false => return Err(format!("{status}, not one of {codes:?}")),
            },
            Self::Code(code)
            | Self::CodeSaying(code, _)
            | Self::Leaves(code, _)
            | Self::Logged(code, _) => *code,
            Self::Says(..) => 0,
        };
        if let Self::Logged(_, logs) = self {
            logs.judge()?;
        }
        if status.code() != Some(expected) {
            return Err(format!("{status}, not {expected}"));
        }
        match self {
            Self::Code(_) | Self::OneOf(_) | Self::Fails | Self::Ends | Self::Logged(..) => Ok(()),
            Self::Leaves(_, folder) => {
                let left = std::fs::read_dir(folder).map_err(|e| e.to_string())?;
                let left: Vec<_> = left.flatten().map(|entry| entry.file_name()).collect();
                match left.is_empty() {
                    true => Ok(()),
                    false => Err(format!("{} is left in {}", left.len(), folder.display())),
                }
            }
            Self::CodeSaying(_, phrase) if text.contains(phrase) => Ok(()),
            Self::CodeSaying(_, phrase) => Err(format!("it does not say {phrase:?}")),
            Self::Says(phrases, never) => {
                for (phrase, times) in phrases {
                    let said = text.matches(phrase).count();
                    if said != *times {
                        return Err(format!("it says {phrase:?} {said} times, not {times}"));
                    }
                }
                match never.iter().find(|phrase| text.contains(**phrase)) {
                    Some(phrase) => Err(format!("it says {phrase:?}")),
                    None => Ok(()),
                }
            }
        }
    }
}

/// Returns the end of a text on one line.
fn last_of(text: &str) -> String {
    let lines: Vec<_> = text.lines().filter(|l| !l.trim().is_empty()).collect();
    let shown = lines.len().saturating_sub(6);
    let text = lines.get(shown..).unwrap_or_default().join(" | ");
    let start = text.len().saturating_sub(900);
    let start = (start..text.len())
        .find(|i| text.is_char_boundary(*i))
        .unwrap_or(0);
    text.get(start..).unwrap_or_default().to_owned()
}

/// Runs a command in a process group of its own with its output in a file, and ends it after the time limit.
///
/// # Errors
/// Returns a message if it cannot run or reaches the time limit.
pub fn run_within(
    command: &mut Command,
    limit: Duration,
    output: &Path,
    home: &Path,
) -> Result<ExitStatus, String> {
    let fault = |e: std::io::Error| format!("cannot run: {e}");
    drop(File::create(output).map_err(fault)?);
    let file = OpenOptions::new()
        .append(true)
        .open(output)
        .map_err(fault)?;
    let mut child = command
        .current_dir(home)
        .stdin(Stdio::null())
        .stdout(file.try_clone().map_err(fault)?)
        .stderr(file)
        .process_group(0)
        .spawn()
        .map_err(fault)?;
    if let Some(status) = wait(&mut child, limit)? {
        return Ok(status);
    }
    // SIGTERM first, so that a launcher can clean up its job and the report shows what it printed.
    signal(&child, "-TERM");
    if wait(&mut child, GRACE)?.is_none() {
        signal(&child, "-KILL");
        child.wait().map_err(fault)?;
    }
    let program = command.get_program().to_string_lossy();
    Err(format!("{program}: not done within {} s", limit.as_secs()))
}

/// Returns the exit status, or `None` after the time limit.
fn wait(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>, String> {
    let begun = Instant::now();
    loop {
        match child.try_wait().map_err(|e| e.to_string())? {
            Some(status) => return Ok(Some(status)),
            None if begun.elapsed() > limit => return Ok(None),
            None => sleep(Duration::from_millis(4)),
        }
    }
}

/// Signals a process and its group.
fn signal(child: &Child, name: &str) {
    let group = format!("-{}", child.id());
    // The signal fails if the process has just exited.
    let _ = Command::new("kill").args([name, "--", &group]).status();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(script: &str, limit: Duration, judge: Judge) -> Case {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Case {
            what: "a test".to_owned(),
            name: "a script".to_owned(),
            command,
            limit,
            judge,
            is_control: false,
        }
    }

    fn run(mut case: Case, file: &str) -> Result<(), String> {
        let dir = xtask::install::scratch("interop/server")?;
        case.run(&dir.join(file), &dir, Instant::now() + LONG)
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_program_that_does_not_end_is_ended() {
        let endless = case("sleep 600", Duration::from_millis(50), Judge::Code(0));
        let why = run(endless, "test-endless").expect_err("it does not end");
        assert!(why.contains("not done within"), "{why}");
    }

    #[test]
    fn nothing_runs_when_the_time_of_all_is_over() {
        let dir = xtask::install::scratch("interop/server").expect("a folder");
        let mut case = case("exit 0", LONG, Judge::Code(0));
        let why = case.run(&dir.join("test-late"), &dir, Instant::now());
        assert_eq!(why, Err("a script: no time is left to run it".to_owned()));
    }

    #[test]
    fn a_command_that_may_hang_is_run_again_when_it_does_not_end() {
        let dir = xtask::install::scratch("interop/server").expect("a folder");
        let program = dir.join("prterun");
        let text = "#!/bin/sh\nif mkdir again; then sleep 600; fi\nrmdir again\n";
        std::fs::write(&program, text).expect("a script");
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&program, executable).expect("its mode");
        let _ = std::fs::remove_dir(dir.join("again"));
        let mut case = case("", Duration::from_secs(2), Judge::Code(0));
        case.command = Command::new(&program);
        let until = Instant::now() + LONG;
        assert_eq!(case.run(&dir.join("test-again"), &dir, until), Ok(()));
    }

    #[test]
    fn a_step_is_run_again_that_does_not_end_as_slurm_dropped_a_message() {
        let script = |said: &str| {
            format!("if mkdir dropped; then echo '{said}'; sleep 600; fi; rmdir dropped")
        };
        // The limit leaves time for the second run on a busy machine.
        let limit = Duration::from_secs(10);
        let step = case(&script(DROPPED_BY_SLURM), limit, Judge::Code(0));
        assert_eq!(run(step, "test-dropped"), Ok(()));
        let limit = Duration::from_secs(1);
        let why = run(case(&script("a fault"), limit, Judge::Code(0)), "test-kept");
        assert!(why.is_err_and(|why| why.contains("not done within")));
        let dir = xtask::install::scratch("interop/server").expect("a folder");
        std::fs::remove_dir(dir.join("dropped")).expect("it was run once");
    }

    #[test]
    fn a_control_that_fails_is_run_again_and_others_are_not() {
        let script = "if mkdir control; then exit 1; fi; rmdir control";
        let mut control = case(script, LONG, Judge::Code(0));
        control.is_control = true;
        assert_eq!(run(control, "test-control"), Ok(()));
        assert!(run(case(script, LONG, Judge::Code(0)), "test-control").is_err());
        let dir = xtask::install::scratch("interop/server").expect("a folder");
        std::fs::remove_dir(dir.join("control")).expect("it was run once");
        let mut control = case("exit 1", LONG, Judge::Code(0));
        control.is_control = true;
        assert!(run(control, "test-control").is_err());
    }

    #[test]
    fn what_is_said_is_counted() {
        let judge = |times| Judge::Says(vec![("all is well", times)], &["failed"]);
        let script = "echo all is well; echo all is well";
        assert_eq!(run(case(script, LONG, judge(2)), "test-said"), Ok(()));
        assert!(run(case(script, LONG, judge(3)), "test-unsaid").is_err());
        let script = "echo all is well, but it failed";
        assert!(run(case(script, LONG, judge(1)), "test-never").is_err());
    }

    #[test]
    fn the_code_is_compared() {
        let judge = Judge::CodeSaying(7, "why");
        let told = case("echo why; exit 7", LONG, judge.clone());
        assert_eq!(run(told, "test-code"), Ok(()));
        assert!(run(case("exit 7", LONG, judge), "test-silent").is_err());
        assert_eq!(
            run(case("exit 3", LONG, Judge::Fails), "test-fails"),
            Ok(())
        );
        assert!(run(case("exit 0", LONG, Judge::Fails), "test-fails-not").is_err());
    }
}
