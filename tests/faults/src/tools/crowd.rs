// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files of another user in shared directories, with names that tools look for and with that of the system server.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown, lchown, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::NOBODY;
use crate::launcher::build;
use crate::server::me;
use crate::wait::shown;
use crate::{Field, Verdict};

/// The time limit of a command beside any number of files.
const LIMIT: Duration = Duration::from_secs(2);

/// The limit of a command's output, in lines.
const LINES: usize = 40;

/// Runs tool commands after another user filled the shared directory with server names.
pub(crate) fn crowded(field: &Field) -> Result<Verdict, String> {
    if me().0 != 0 {
        return Ok(Verdict::Skipped("only root can be another user".to_owned()));
    }
    let pmix = build(field)?;
    let shared = shared(field, "tool-crowded")?;
    let names = field.count(100_000, 20_000);
    let text = format!(
        "planted.0;tcp4://127.0.0.1:9\n5.0.11\n{}\n0:0\n\n\n",
        std::process::id()
    );
    for number in 0..names {
        let path = shared.join(format!("pmix.n01.tool.{number}"));
        fs::write(&path, &text).map_err(|e| e.to_string())?;
        chown(&path, Some(NOBODY), None).map_err(|e| e.to_string())?;
    }
    let (mut longest, mut most) = (Duration::ZERO, 0);
    for words in [&["ps"][..], &["query", "QUERY_NAMESPACES"], &["doctor"]] {
        let mut command = command(&pmix, words, &shared);
        let begun = Instant::now();
        let output = command.output().map_err(|e| e.to_string())?;
        longest = longest.max(begun.elapsed());
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        let number = said.lines().count();
        most = most.max(number);
        if number > LINES {
            return Err(format!("{words:?} says {number} lines"));
        }
        let counts = |text: &&str| said.contains(text);
        let texts = [
            "more files below it are ignored",
            "rendezvous files are rejected",
        ];
        if words != ["ps"] && !texts.iter().any(counts) {
            return Err(format!("{words:?} does not count them: {said}"));
        }
    }
    let figures = format!("{names} names: {} at most, {most} lines", shown(longest));
    // Debug builds are slower, and other programs may load the machine.
    let limit = if field.short { LIMIT * 10 } else { LIMIT };
    match longest < limit {
        true => Ok(Verdict::Held(figures)),
        false => Err(figures),
    }
}

/// Starts the system server after another user planted an object in place of its file.
pub(crate) fn system_planted(field: &Field) -> Result<Verdict, String> {
    if me().0 != 0 {
        return Ok(Verdict::Skipped("only root can be another user".to_owned()));
    }
    let pmix = build(field)?;
    let shared = shared(field, "system-server-planted")?;
    let place = shared.join("pmix.sys.n01");
    let fault = |e: std::io::Error| e.to_string();
    let mut sleeper = Command::new("sleep");
    let mut sleeper = std::os::unix::process::CommandExt::uid(sleeper.arg("1000"), NOBODY)
        .spawn()
        .map_err(fault)?;
    let names = |pid: u32| format!("planted.0;tcp4://127.0.0.1:9\n5.0.11\n{pid}\n0:0\n\n\n");
    let of_process = names(std::process::id());
    // The name belongs to a process of that user that is no server.
    let of_user = names(sleeper.id());
    let plants: [&dyn Fn() -> std::io::Result<()>; 4] = [
        &|| fs::write(&place, &of_process),
        &|| fs::write(&place, &of_user),
        &|| symlink("/etc/passwd", &place),
        &|| fs::create_dir(&place),
    ];
    let tried = || {
        for (number, plant) in plants.iter().enumerate() {
            plant().map_err(fault)?;
            lchown(&place, Some(NOBODY), None).map_err(fault)?;
            let path = place.to_string_lossy();
            let job = ["grep", "-c", "^run-.*tcp4:", &*path];
            let options = ["run", "-n", "1", "--node-name", "n01", "--system-server"];
            let words = [&options[..], &job].concat();
            let output = command(&pmix, &words, &shared).output().map_err(fault)?;
            if output.status.code() != Some(0) || output.stdout != b"1\n" {
                return Err(format!("plant {number} keeps the server away: {output:?}"));
            }
            let left = fs::read_dir(&shared).map_err(fault)?.flatten();
            let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
            if !left.is_empty() {
                return Err(format!("plant {number}: {left:?} is left"));
            }
        }
        Ok(Verdict::Held(format!("{} kinds replaced", plants.len())))
    };
    let tried = tried();
    let _ = sleeper.kill();
    let _ = sleeper.wait();
    tried
}

/// Creates a directory in which every user may create files.
fn shared(field: &Field, name: &str) -> Result<std::path::PathBuf, String> {
    let shared = field.directory(name)?.join("shared");
    fs::create_dir(&shared).map_err(|e| e.to_string())?;
    fs::set_permissions(&shared, Permissions::from_mode(0o1777)).map_err(|e| e.to_string())?;
    Ok(shared)
}

fn command(pmix: &Path, words: &[&str], shared: &Path) -> Command {
    let mut command = Command::new(pmix);
    command
        .args(words)
        .env("TMPDIR", shared)
        .env("PMIX_SERVER_TMPDIR", shared)
        .env("PMIX_SYSTEM_TMPDIR", shared)
        .env("PMIX_HOSTNAME", "n01")
        .stdin(Stdio::null());
    command
}
