// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix run` whose terminal is closed, and whose processes ignore signals.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::{Launcher, OBEYED, PATIENCE, allowed, build, is_empty};
use crate::wait::{shown, until};
use crate::{Field, Verdict};

/// Closes the terminal of a launcher that no signal reaches.
pub(crate) fn hung_up(field: &Field) -> Result<Verdict, String> {
    let pmix = build(field)?;
    let directory = field.directory("launcher-hang-up")?;
    let code = directory.join("code");
    // The second job stops itself, as an interactive shell in the background does.
    let jobs = [
        "echo up; read x; sleep 1000",
        "echo up; kill -STOP $$; sleep 1000",
    ];
    let mut longest = Duration::ZERO;
    for job in jobs {
        let sessions = directory.join("sessions");
        fs::create_dir_all(&sessions).map_err(|e| e.to_string())?;
        let took = hang_up(&pmix, &sessions, &code, job)?;
        longest = longest.max(took);
        let said = fs::read_to_string(&code).unwrap_or_default();
        if said.trim() != "129" {
            return Err(format!("the launcher of {job:?} ended with {said:?}"));
        }
        is_empty(&sessions)?;
    }
    let figures = format!(
        "{} launchers ended after {} at most",
        jobs.len(),
        shown(longest)
    );
    match longest < allowed(field, OBEYED) {
        true => Ok(Verdict::Held(figures)),
        false => Err(figures),
    }
}

/// Starts a launcher in the foreground of a terminal whose session leader is a shell, and closes the terminal. Returns
/// the time until the launcher ended.
fn hang_up(pmix: &Path, sessions: &Path, code: &Path, job: &str) -> Result<Duration, String> {
    let fault = |e: std::io::Error| e.to_string();
    let system = |e: rustix::io::Errno| e.to_string();
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let side = openpt(flags).map_err(system)?;
    grantpt(&side).map_err(system)?;
    unlockpt(&side).map_err(system)?;
    let name = ptsname(&side, Vec::new()).map_err(system)?;
    let name = name.into_string().map_err(|e| e.to_string())?;
    let terminal = OpenOptions::new()
        .read(true)
        .write(true)
        .open(name)
        .map_err(fault)?;
    let stdio = || terminal.try_clone().map(Stdio::from);
    let script = "trap : HUP; \"$@\"; echo $? > \"$CODE\"";
    let mut command = Command::new("env");
    command
        .args([
            "--default-signal",
            "setsid",
            "--ctty",
            "sh",
            "-c",
            script,
            "sh",
        ])
        .arg(pmix)
        .args(["run", "-n", "1", "sh", "-c", job])
        .env("TMPDIR", sessions)
        .env("CODE", code)
        .stdin(stdio().map_err(fault)?)
        .stdout(stdio().map_err(fault)?)
        .stderr(stdio().map_err(fault)?);
    let mut shell = command.spawn().map_err(fault)?;
    drop((command, terminal));
    let mut screen = BufReader::new(File::from(side));
    let mut line = String::new();
    screen.read_line(&mut line).map_err(fault)?;
    let begun = Instant::now();
    drop(screen);
    let ended = until(PATIENCE, || shell.try_wait().ok().flatten());
    let took = begun.elapsed();
    if ended.is_none() {
        let _ = shell.kill();
        let _ = shell.wait();
        return Err(format!(
            "the launcher goes on without its terminal, which said {line:?}"
        ));
    }
    Ok(took)
}

/// Sends SIGTERM to launchers whose processes ignore it, and to launchers whose processes obey.
pub(crate) fn ignored(field: &Field) -> Result<Verdict, String> {
    const GRACE: Duration = Duration::from_secs(1);
    let pmix = build(field)?;
    let sessions = field.directory("launcher")?;
    let script = "[ $PMIX_RANK = 1 ] || trap '' TERM; echo $$ $$; exec sleep 1000";
    let options = [
        "-n",
        "3",
        "--keep-going",
        "--nspace",
        "deaf",
        "--grace",
        "1",
    ];
    let mut launcher = Launcher::start(field, &pmix, &options, &["sh", "-c", script])?;
    launcher.pids(3, PATIENCE)?;
    let begun = Instant::now();
    launcher.signal(Signal::TERM)?;
    let code = launcher.end(PATIENCE)?;
    let late = begun.elapsed().saturating_sub(GRACE);
    let said = launcher.errors(PATIENCE)?;
    is_empty(&sessions)?;
    for expected in [
        "SIGTERM was sent to deaf, but ranks 0, 2 did not exit yet and will be killed after 1s",
        "ranks 0, 2 of deaf did not exit within 1s after SIGTERM: killed (SIGKILL)",
    ] {
        if !said.contains(expected) {
            return Err(format!("{expected:?} is not said: {said}"));
        }
    }

    let mut launcher = Launcher::start(
        field,
        &pmix,
        &["-n", "3"],
        &["sh", "-c", "echo $$ $$; exec sleep 1000"],
    )?;
    launcher.pids(3, PATIENCE)?;
    let begun = Instant::now();
    launcher.signal(Signal::TERM)?;
    let obeying = launcher.end(PATIENCE)?;
    let obeyed = begun.elapsed();
    is_empty(&sessions)?;
    let figures = format!(
        "processes that ignore it ended {} after the grace, processes that obey after {}, exit codes {} and {}",
        shown(late),
        shown(obeyed),
        code.unwrap_or(-1),
        obeying.unwrap_or(-1),
    );
    let prompt = obeyed.max(late) < allowed(field, OBEYED);
    match prompt && code == Some(143) && obeying == Some(143) {
        true => Ok(Verdict::Held(figures)),
        false => Err(figures),
    }
}
