// SPDX-License-Identifier: MIT OR Apache-2.0
//! The main function of the watcher process.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, BufRead as _, BufReader, Read};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration;

use nix::sys::signal::SigSet;
use pmix_host::cleanup::{self, ProtectedPaths};
use pmix_server::{Cleanup, CleanupDirectory};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};

use super::line::{Key, Received};
use crate::input::SavedModes;
use crate::session_dir;

/// The number of rounds in which the watcher kills processes. A killed process may have forked before, and the kernel
/// may need time to end it.
const ROUNDS: usize = 200;

/// The time between two rounds.
const PAUSE: Duration = Duration::from_millis(5);

/// The processes and files of a killed launcher.
#[derive(Default)]
struct Left {
    /// The process groups, by the process ids of their leaders.
    groups: BTreeSet<i32>,
    /// `true` if no process of a job runs. None is killed then, since their process ids may be reused.
    is_rest: bool,
    session: Option<PathBuf>,
    /// The modes of the terminal before the launcher changed them.
    terminal: Option<SavedModes>,
    /// The paths that users registered for removal.
    cleanups: BTreeMap<Key, Cleanup>,
    /// The directories that are never removed.
    kept: Vec<PathBuf>,
}

/// Waits until the launcher that started this process as its [`watcher`](crate::Plan::watcher) has exited. If the
/// launcher was killed, restores the modes of its terminal, and kills its process groups and every process that has the directory of its session in the
/// environment. Then removes that directory and the paths that processes registered (`PMIX_REGISTER_CLEANUP`),
/// without following links and only if they belong to the user. Returns the number of process groups that the
/// launcher named.
///
/// # Errors
/// Returns an error if standard input cannot be read or contains a line that no launcher writes. Nothing is killed or
/// removed then.
pub fn end_with_launcher(input: impl Read) -> io::Result<usize> {
    let mut left = Left::default();
    let mut input = BufReader::new(input);
    let mut line = Vec::new();
    loop {
        line.clear();
        input.read_until(b'\n', &mut line)?;
        // A last line without its end is incomplete: the launcher was killed while it wrote it.
        let Some(line) = line.strip_suffix(b"\n") else {
            break;
        };
        let received = Received::read(line).ok_or(io::ErrorKind::InvalidData)?;
        if received == Received::Over {
            // The launcher ended its jobs and removed their files itself.
            return Ok(left.groups.len());
        }
        left.register(received);
    }
    left.restore_terminal();
    if !left.is_rest {
        left.kill();
    }
    left.remove();
    Ok(left.groups.len())
}

impl Left {
    fn register(&mut self, received: Received) {
        match received {
            Received::Over | Received::Unusable => {}
            Received::Rest => self.is_rest = true,
            Received::Session(path) => self.session = Some(path),
            Received::Terminal(modes) => self.terminal = Some(modes),
            Received::Kept(path) => self.kept.push(path),
            Received::Started(pid) => {
                self.groups.insert(pid);
            }
            Received::Gone(pid) => {
                self.groups.remove(&pid);
            }
            Received::File(key, path) => self.cleanups.entry(key).or_default().files.push(path),
            Received::Ignored(key, path) => {
                self.cleanups.entry(key).or_default().ignored.push(path)
            }
            Received::Directory(key, directory) => {
                self.cleanups
                    .entry(key)
                    .or_default()
                    .directories
                    .push(directory);
            }
            Received::Removed(key) => {
                self.cleanups.remove(&key);
            }
        }
    }

    /// Restores the modes of the terminal of a killed launcher. This process is not in the foreground there, so the
    /// signal for a change from the background is blocked, which allows the change.
    fn restore_terminal(&self) {
        let Some(modes) = &self.terminal else {
            return;
        };
        let mut blocked = SigSet::empty();
        blocked.add(nix::sys::signal::Signal::SIGTTOU);
        // This process has no output for errors.
        let _ = blocked.thread_block().map(|()| modes.restore());
    }

    fn kill(&self) {
        for group in self.groups.iter().copied().filter_map(Pid::from_raw) {
            // The kill fails if the whole group has exited, which is expected.
            let _ = kill_process_group(group, Signal::KILL);
        }
        if let Some(session) = &self.session {
            for _ in 0..ROUNDS {
                if kill_of_session(session.as_os_str().as_bytes()) == 0 {
                    break;
                }
                std::thread::sleep(PAUSE);
            }
        }
    }

    /// Removes the files, after all processes that could create them again were killed.
    fn remove(&mut self) {
        let kept = ProtectedPaths::new(std::mem::take(&mut self.kept));
        for (key, cleanup) in &mut self.cleanups {
            keep_last(&mut cleanup.directories);
            // This process has no output for errors.
            let _ = cleanup::remove(cleanup, key.uid, &kept);
        }
        if let Some(session) = &self.session {
            session_dir::remove_of_killed(session);
        }
    }
}

/// Keeps one entry for each path, at the place of the first and with the flags of the last: a repeated registration
/// has widened flags.
fn keep_last(directories: &mut Vec<CleanupDirectory>) {
    let mut places = HashMap::new();
    let mut kept: Vec<CleanupDirectory> = Vec::with_capacity(directories.len());
    for directory in directories.drain(..) {
        let place = *places.entry(directory.path.clone()).or_insert(kept.len());
        match kept.get_mut(place) {
            Some(earlier) => *earlier = directory,
            None => kept.push(directory),
        }
    }
    *directories = kept;
}

/// Kills every process whose environment names the directory or a path in it. Returns their number.
fn kill_of_session(session: &[u8]) -> usize {
    let own = rustix::process::getpid();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let pids = pids.filter_map(Pid::from_raw).filter(|pid| *pid != own);
    let killed = pids.filter(|&pid| {
        // The descriptor ensures that the signal reaches the process whose environment was read, even if its id is
        // reused.
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else {
            return false;
        };
        let path = format!("/proc/{}/environ", pid.as_raw_nonzero());
        let environment = std::fs::read(path).unwrap_or_default();
        let mut vars = environment.split(|&byte| byte == 0);
        vars.any(|var| is_in(var, session)) && pidfd_send_signal(&process, Signal::KILL).is_ok()
    });
    killed.count()
}

/// Returns `true` if the value of a variable is that directory or a path in it.
fn is_in(var: &[u8], directory: &[u8]) -> bool {
    let value = var
        .iter()
        .position(|&byte| byte == b'=')
        .map(|at| &var[at + 1..]);
    let rest = value.and_then(|value| value.strip_prefix(directory));
    // Without the slash it may be another directory whose name begins in the same way.
    rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
    use std::path::Path;
    use std::process::{Child, Command};

    use pmix_types::{Proc, Rank};

    use super::super::line::{Line, Removal};
    use crate::session_dir::SessionDir;

    fn sleeper() -> Child {
        let mut command = Command::new("sleep");
        command.arg("1000").process_group(0).spawn().unwrap()
    }

    #[test]
    fn processes_are_killed_when_the_launcher_dies_without_a_final_line() {
        let mut child = sleeper();
        let text = format!("{}\n", child.id());
        assert_eq!(end_with_launcher(text.as_bytes()).unwrap(), 1);
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }

    #[test]
    fn processes_outside_their_group_are_found_by_their_session_variable() {
        let dir = tempfile::tempdir().unwrap();
        let session = dir.path().join("session").display().to_string();
        let start = |value: String| {
            let mut command = Command::new("sleep");
            let command = command.arg("1000").env("PMIX_SERVER_TMPDIR", value);
            command.process_group(0).spawn().unwrap()
        };
        let mut inside = [start(session.clone()), start(format!("{session}/rank.0"))];
        let mut outside = start(format!("{session}.other"));
        let text = format!("session {session}\n");
        assert_eq!(end_with_launcher(text.as_bytes()).unwrap(), 0);
        for child in &mut inside {
            assert_eq!(child.wait().unwrap().signal(), Some(9));
        }
        assert!(outside.try_wait().unwrap().is_none());
        let over = format!("session {}\nover\n", dir.path().display());
        assert_eq!(end_with_launcher(over.as_bytes()).unwrap(), 0);
        assert!(outside.try_wait().unwrap().is_none());
        outside.kill().unwrap();
        outside.wait().unwrap();
    }

    #[test]
    fn a_clean_exit_a_forgotten_process_and_a_malformed_line_kill_no_process() {
        let mut child = sleeper();
        let pid = child.id();
        assert_eq!(
            end_with_launcher(format!("{pid}\nover\n").as_bytes()).unwrap(),
            1
        );
        let forgotten = format!("{pid}\ngone {pid}\n");
        assert_eq!(end_with_launcher(forgotten.as_bytes()).unwrap(), 0);
        for bad in ["0", "1", "-1", "x", "", "gone x", "file x"] {
            let text = format!("{pid}\n{bad}\n");
            assert!(end_with_launcher(text.as_bytes()).is_err(), "{bad}");
        }
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_launcher_that_ends_by_itself_leaves_files_to_the_watcher_and_no_process() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().canonicalize().unwrap().join("file");
        fs::write(&file, "").unwrap();
        let mut child = sleeper();
        let key = Key::of(
            &Proc::new("job", Rank::WILDCARD),
            rustix::process::getuid().as_raw(),
        );
        let removal = Removal::File(file.as_os_str().as_bytes());
        let pid = i32::try_from(child.id()).unwrap();
        let lines = [Line::Started(pid), Line::Remove(&key, removal), Line::Rest];
        assert_eq!(end_with_launcher(&*bytes_of(&lines)).unwrap(), 1);
        assert!(!file.exists());
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn an_incomplete_line_of_a_killed_launcher_is_ignored() {
        let mut child = sleeper();
        let text = format!("{}", child.id());
        assert_eq!(end_with_launcher(text.as_bytes()).unwrap(), 0);
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Returns the bytes that a launcher writes for some lines.
    fn bytes_of(lines: &[Line<'_>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        lines.iter().for_each(|line| line.write(&mut bytes));
        bytes
    }

    #[test]
    fn only_registered_paths_are_removed_after_a_killed_launcher() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let path = |name: &str| root.join(name);
        let bytes = |path: &Path| path.as_os_str().as_bytes().to_vec();
        for name in ["own", "kept", "elsewhere"] {
            fs::create_dir(path(name)).unwrap();
            fs::write(path(name).join("x"), "").unwrap();
        }
        for name in ["shared", "removed before", "of another", "left"] {
            fs::write(path(name), "").unwrap();
        }
        symlink(path("elsewhere"), path("own/link")).unwrap();
        symlink(path("elsewhere"), path("link")).unwrap();
        let uid = rustix::process::getuid().as_raw();
        let key = |rank, uid| Key::of(&Proc::new("job 1", Rank::new(rank)), uid);
        let (own, again, other) = (key(0, uid), key(1, uid), key(0, uid + 1));
        let files = ["shared", "removed before", "of another", "link/x", "left"]
            .map(|name| bytes(&path(name)));
        let directories = ["own", "kept"].map(|name| bytes(&path(name)));
        let file = |key, at: usize| Line::Remove(key, Removal::File(&files[at]));
        let directory = |at: usize| {
            let directory = Removal::Directory {
                path: &directories[at],
                recursive: true,
                only_empty: false,
                leave_top: false,
            };
            Line::Remove(&own, directory)
        };
        let kept = path("kept/x");
        let lines = [
            Line::Kept(&kept),
            file(&own, 0),
            file(&again, 1),
            file(&other, 2),
            file(&own, 3),
            Line::Remove(&own, Removal::Ignored(&files[4])),
            file(&own, 4),
            directory(0),
            directory(1),
            Line::Removed(&again),
        ];
        end_with_launcher(&*bytes_of(&lines)).unwrap();
        let mut left: Vec<_> = { fs::read_dir(&root).unwrap() }
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort_unstable();
        let expected = [
            "elsewhere",
            "kept",
            "left",
            "link",
            "of another",
            "removed before",
        ];
        assert_eq!(left, expected);
        assert!(path("elsewhere/x").exists() && path("kept/x").exists());
    }

    #[test]
    fn a_line_with_the_root_or_a_relative_path_still_kills_the_processes() {
        let mut child = sleeper();
        let pid = child.id();
        let text = format!("session tmp/pmix\nkept /\nkept relative\n{pid}\n");
        assert_eq!(end_with_launcher(text.as_bytes()).unwrap(), 1);
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }

    #[test]
    fn a_directory_that_is_registered_again_is_removed_by_its_last_flags() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap().join("top");
        fs::create_dir_all(top.join("sub")).unwrap();
        let path = top.as_os_str().as_bytes();
        let uid = rustix::process::getuid().as_raw();
        let key = Key::of(&Proc::new("job", Rank::new(0)), uid);
        let registered = |leave_top| {
            let directory = Removal::Directory {
                path,
                recursive: true,
                only_empty: false,
                leave_top,
            };
            Line::Remove(&key, directory)
        };
        end_with_launcher(&*bytes_of(&[registered(false), registered(true)])).unwrap();
        assert!(top.exists() && !top.join("sub").exists());
    }

    #[test]
    fn only_a_session_directory_is_removed_after_a_killed_launcher() {
        let tmp = tempfile::tempdir().unwrap();
        let session = SessionDir::create(tmp.path()).unwrap();
        fs::write(session.path().join("left"), "x").unwrap();
        // The directory is locked while its launcher lives.
        let lines = bytes_of(&[Line::Session(session.path())]);
        end_with_launcher(&*lines).unwrap();
        assert!(session.path().join("left").exists());
        let path = session.path().to_owned();
        session.abandon();
        let other = tmp.path().join("precious");
        fs::create_dir(&other).unwrap();
        let link = path.with_extension("link");
        symlink(&other, &link).unwrap();
        for (named, is_removed) in [(&other, false), (&link, false), (&path, true)] {
            end_with_launcher(&*bytes_of(&[Line::Session(named)])).unwrap();
            assert_eq!(
                fs::symlink_metadata(named).is_err(),
                is_removed,
                "{named:?}"
            );
        }
        assert!(other.exists());
    }
}
