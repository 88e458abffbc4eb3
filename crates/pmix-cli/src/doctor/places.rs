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

/// A directory in which this user makes files that others must not replace.
fn directory(check: &'static str, path: &Path) -> Finding {
    let shown = path.display();
    let about = match fs::metadata(path) {
        Ok(about) => about,
        Err(error) => {
            let help = match check {
                "shm" => {
                    "MPI libraries share memory there; mount a tmpfs, or name another with --shm"
                }
                _ => "make it, or name another with TMPDIR",
            };
            return Finding::fault(check, format!("{shown}: {error}"), help);
        }
    };
    if !about.is_dir() {
        let found = format!("{shown} is no directory");
        return Finding::fault(check, found, "name another with TMPDIR");
    }
    let (uid, mode) = (about.uid(), about.permissions().mode() & 0o7777);
    let own = rustix::process::geteuid().as_raw();
    let known = format!("{shown}: user {uid}, mode {mode:04o}");
    if uid != 0 && uid != own {
        let help = "whoever owns it can replace what is in it: take one of root or of this user";
        return Finding::fault(check, format!("{known}, of another user"), help);
    }
    if mode & WRITE_OF_OTHERS != 0 && mode & STICKY == 0 {
        let help = format!("others can replace what is in it: chmod +t {shown}");
        return Finding::fault(check, format!("{known}, open to others"), help);
    }
    let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    if let Err(error) = rustix::fs::access(path, access) {
        let help = "this user cannot make files there: name another with TMPDIR";
        return Finding::fault(check, format!("{known}: {error}"), help);
    }
    room(check, path, &known)
}

fn room(check: &'static str, path: &Path, known: &str) -> Finding {
    let Ok(system) = rustix::fs::statvfs(path) else {
        return Finding::warning(check, format!("{known}, room unknown"), "see `df`");
    };
    let bytes = system.f_bavail.saturating_mul(system.f_frsize);
    let found = format!("{known}, {} MiB free", bytes >> 20);
    // File systems that count no files say that there are none at all.
    let has_files = system.f_files == 0 || system.f_favail >= FEWEST_FILES;
    let help = "remove what is not needed, or name another directory with TMPDIR";
    if !has_files {
        let found = format!("{found}, room for {} files", system.f_favail);
        return Finding::fault(check, found, help);
    }
    match (bytes < LEAST_ROOM, bytes < LITTLE_ROOM) {
        (true, _) => Finding::fault(check, found, help),
        (_, true) => Finding::warning(check, found, help),
        _ => Finding::ok(check, found),
    }
}
