// SPDX-License-Identifier: MIT OR Apache-2.0
//! The directories that servers and MPI libraries write to: who owns them, who may write, what room is left.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use super::{Finding, Subject};

/// A session needs more than that.
const LEAST_ROOM: u64 = 1 << 20;
/// A job with output in files soon needs more than that.
const LITTLE_ROOM: u64 = 64 << 20;
/// Files of a small job.
const FEWEST_FILES: u64 = 100;

/// The bits of a mode by which everybody may write, but remove only what is his own.
const WRITE_OF_OTHERS: u32 = 0o022;
const STICKY: u32 = 0o1000;

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let session = subject.directory(&["PMIX_SERVER_TMPDIR", "TMPDIR", "TEMP", "TMP"]);
    let system = subject.directory(&["PMIX_SYSTEM_TMPDIR", "TMPDIR", "TEMP", "TMP"]);
    let mut findings = vec![directory("tmpdir", &session)];
    if system != session {
        findings.push(directory("system-tmpdir", &system));
    }
    findings.push(directory("shm", &subject.shm));
    findings
}

/// Checks a directory in which this user creates files that others must not replace.
fn directory(check: &'static str, path: &Path) -> Finding {
    let shown = path.display();
    let about = match fs::metadata(path) {
        Ok(about) => about,
        Err(error) => {
            let help = match check {
                "shm" => {
                    "MPI libraries need it for shared memory; mount a tmpfs, or name another directory with --shm"
                }
                _ => "create it, or set TMPDIR to another directory",
            };
            return Finding::fault(check, format!("{shown}: {error}"), help);
        }
    };
    if !about.is_dir() {
        let found = format!("{shown} is not a directory");
        return Finding::fault(check, found, "set TMPDIR to another directory");
    }
    let (uid, mode) = (about.uid(), about.permissions().mode() & 0o7777);
    let own = rustix::process::geteuid().as_raw();
    let known = format!("{shown}: user {uid}, mode {mode:04o}");
    if uid != 0 && uid != own {
        let help = "its owner can replace the files in it: use a directory of root or of this user";
        return Finding::fault(check, format!("{known}, owned by another user"), help);
    }
    if mode & WRITE_OF_OTHERS != 0 && mode & STICKY == 0 {
        let help = format!("other users can replace the files in it: chmod +t {shown}");
        return Finding::fault(check, format!("{known}, writable by other users"), help);
    }
    let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    if let Err(error) = rustix::fs::access(path, access) {
        let help = "this user cannot make files there: set TMPDIR to another directory";
        return Finding::fault(check, format!("{known}: {error}"), help);
    }
    room(check, path, &known)
}

fn room(check: &'static str, path: &Path, known: &str) -> Finding {
    let Ok(system) = rustix::fs::statvfs(path) else {
        return Finding::warning(check, format!("{known}, free space unknown"), "see `df`");
    };
    let bytes = system.f_bavail.saturating_mul(system.f_frsize);
    let found = format!("{known}, {} MiB free", bytes >> 20);
    // File systems that count no files say that there are none at all.
    let has_files = system.f_files == 0 || system.f_favail >= FEWEST_FILES;
    let help = "remove unneeded files, or set TMPDIR to another directory";
    if !has_files {
        let found = format!("{found}, {} free inodes", system.f_favail);
        return Finding::fault(check, found, help);
    }
    match (bytes < LEAST_ROOM, bytes < LITTLE_ROOM) {
        (true, _) => Finding::fault(check, found, help),
        (_, true) => Finding::warning(check, found, help),
        _ => Finding::ok(check, found),
    }
}
