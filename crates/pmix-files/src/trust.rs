// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that determine the behavior of a program, files that it creates, and the process that wrote a file.

use std::fs::{self, File, Permissions};
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::Fault;
use crate::walk::{End, Writers, is_ours, kind, mode, untrusted, walk};

/// The trusted owners: root and one user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trust {
    user: u32,
}

/// A trusted file that is open.
#[derive(Debug)]
pub struct Trusted {
    /// The file.
    pub file: File,
    /// The path of the file without symbolic links.
    pub path: PathBuf,
    /// The length of the file in bytes when it was opened.
    pub len: u64,
}

impl Trust {
    /// Trusts root and the effective user of this process.
    #[must_use]
    pub fn of_process() -> Self {
        Self::in_user(rustix::process::geteuid().as_raw())
    }

    /// Trusts root and the user with this id.
    #[must_use]
    pub fn in_user(user: u32) -> Self {
        Self { user }
    }

    /// Opens a file of at most `most` bytes. A relative path starts at the current directory.
    ///
    /// # Errors
    /// The file does not exist, cannot be opened, or is not trusted.
    pub fn open(self, path: &Path, most: u64) -> Result<Trusted, Fault> {
        let absolute = std::path::absolute(path)?;
        let end = walk(&absolute, self.user)?;
        let Some(found) = end.stat else {
            return Err(Fault::Missing);
        };
        // Checked before opening, because opening a device may have side effects.
        self.check(&end, &found, most)?;
        // The object may have been replaced meanwhile: a pipe must not block, and a link must not
        // be followed.
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&end.fd, &end.name, flags, Mode::empty());
        let opened = opened.map_err(Fault::of)?;
        let stat = rustix::fs::fstat(&opened).map_err(Fault::of)?;
        self.check(&end, &stat, most)?;
        Ok(Trusted {
            file: File::from(opened),
            path: end.path,
            len: u64::try_from(stat.st_size).unwrap_or(u64::MAX),
        })
    }

    /// Reads a text file of at most `most` bytes.
    ///
    /// # Errors
    /// As for [`Trust::open`]; or the file cannot be read or is not UTF-8.
    pub fn read(self, path: &Path, most: u64) -> Result<String, Fault> {
        let trusted = self.open(path, most)?;
        let mut bytes = Vec::with_capacity(usize::try_from(trusted.len).unwrap_or_default());
        // The file may have grown since it was opened.
        trusted.file.take(most + 1).read_to_end(&mut bytes)?;
        if u64::try_from(bytes.len()).is_ok_and(|len| len > most) {
            return Err(Fault::TooLarge { most });
        }
        String::from_utf8(bytes).map_err(|e| {
            let at = e.utf8_error().valid_up_to();
            let why = format!("it is not valid UTF-8 at byte {at}");
            Fault::Io(io::ErrorKind::InvalidData, why)
        })
    }

    fn check(self, end: &End, stat: &Stat, most: u64) -> Result<(), Fault> {
        check_regular(stat, u64::MAX)?;
        if !is_ours(stat, self.user) || mode(stat) & 0o022 != 0 {
            return Err(untrusted(&end.path, stat, self.user));
        }
        if let Some(fault) = &end.distrust {
            return Err(fault.clone());
        }
        match u64::try_from(stat.st_size) {
            Ok(len) if len <= most => Ok(()),
            _ => Err(Fault::TooLarge { most }),
        }
    }
}

/// Reads a regular file of at most `most` bytes. The owner is not checked: this function is for
/// input that a user names and that does not determine which programs run. Rejects a pipe without
/// blocking.
///
/// # Errors
/// The file does not exist, cannot be read, is not a regular file, or is too long.
pub fn read_regular(path: &Path, most: u64) -> Result<Vec<u8>, Fault> {
    // Checked before opening, because opening a device may have side effects.
    check_regular(&rustix::fs::stat(path).map_err(Fault::of)?, most)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty()).map_err(Fault::of)?;
    check_regular(&rustix::fs::fstat(&opened).map_err(Fault::of)?, most)?;
    // The file may have grown since it was opened.
    let mut bytes = Vec::new();
    let mut file = File::from(opened).take(most.saturating_add(1));
    file.read_to_end(&mut bytes)?;
    match u64::try_from(bytes.len()) {
        Ok(len) if len <= most => Ok(bytes),
        _ => Err(Fault::TooLarge { most }),
    }
}

fn check_regular(stat: &Stat, most: u64) -> Result<(), Fault> {
    if kind(stat) != FileType::RegularFile {
        return Err(Fault::NotRegular {
            kind: name_of(kind(stat)),
            owner: stat.st_uid,
            mode: mode(stat),
        });
    }
    match u64::try_from(stat.st_size) {
        Ok(len) if len <= most => Ok(()),
        _ => Err(Fault::TooLarge { most }),
    }
}

/// Returns the name of a kind of file, for messages.
fn name_of(kind: FileType) -> &'static str {
    match kind {
        FileType::Directory => "a directory",
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Symlink => "a symbolic link",
        _ => "something",
    }
}

/// Paths that are links to open files, which only the kernel can resolve.
const OPEN_ALREADY: &[&str] = &["/dev/stdout", "/dev/stderr", "/dev/fd", "/proc/self/fd"];

/// Opens a file for appending, otherwise like [`create`].
///
/// # Errors
/// As for [`create`].
pub fn append(path: &Path) -> io::Result<File> {
    let file = open(path, false)?;
    let flags = rustix::fs::fcntl_getfl(&file)?;
    rustix::fs::fcntl_setfl(&file, flags | OFlags::APPEND)?;
    Ok(file)
}

/// Opens an empty file for writing, for its owner alone (mode 0600), and creates it if it is
/// missing.
///
/// In a directory that others may write to, symbolic links are followed only if they belong to root
/// or the user and the directory has the sticky bit. An existing file must belong to the user and
/// have only one hard link.
///
/// # Errors
/// The file cannot be created, or another user has placed an object under its name.
pub fn create(path: &Path) -> io::Result<File> {
    open(path, true)
}

/// Opens a file like [`create`], and truncates it on request.
fn open(path: &Path, is_emptied: bool) -> io::Result<File> {
    if OPEN_ALREADY.iter().any(|link| path.starts_with(link)) {
        let mut options = File::options();
        return options
            .write(true)
            .create(true)
            .truncate(is_emptied)
            .open(path);
    }
    let user = rustix::process::geteuid().as_raw();
    let end = walk(&std::path::absolute(path)?, user)?;
    let flags =
        OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let (private, new) = (Mode::RUSR | Mode::WUSR, OFlags::CREATE | OFlags::EXCL);
    let fd = match &end.stat {
        None => rustix::fs::openat(&end.fd, &end.name, flags | new, private)?,
        Some(stat) => {
            check(stat, end.writers, &end.path, user)?;
            rustix::fs::openat(&end.fd, &end.name, flags, Mode::empty())?
        }
    };
    let stat = rustix::fs::fstat(&fd)?;
    check(&stat, end.writers, &end.path, user)?;
    let file = File::from(fd);
    if kind(&stat) == FileType::RegularFile {
        if stat.st_uid == user {
            file.set_permissions(Permissions::from_mode(0o600))?;
        }
        if is_emptied {
            file.set_len(0)?;
        }
    }
    // `O_NONBLOCK` is only needed for opening a pipe without a reader, so it is cleared.
    let flags = rustix::fs::fcntl_getfl(&file)?;
    rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    Ok(file)
}

/// Checks that an existing object may be written to.
fn check(stat: &Stat, writers: Writers, path: &Path, user: u32) -> io::Result<()> {
    if kind(stat) == FileType::Directory {
        return Err(Errno::ISDIR.into());
    }
    let only_name = kind(stat) != FileType::RegularFile || stat.st_nlink == 1;
    match writers {
        Writers::Ours => Ok(()),
        _ if !is_ours(stat, user) => Err(untrusted(path, stat, user).into()),
        _ if !only_name => {
            let why = format!("{} has other names elsewhere", path.display());
            Err(Fault::Io(io::ErrorKind::PermissionDenied, why).into())
        }
        _ => Ok(()),
    }
}

// The check that a process id still refers to the process that wrote a file.
//
// Source: proc(5).

/// The tolerance for comparing the start time of a process, which has whole seconds, with file
/// times, which are finer.
const SLACK: Duration = Duration::from_secs(2);

/// Returns `true` if a process is alive and already existed at a time. After a process has exited,
/// another one may get its id.
///
/// A process with an unknown start time counts as existing.
#[must_use]
pub fn was_there(pid: u32, at: SystemTime) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return false;
    };
    if let Err(Errno::SRCH) = test_kill_process(pid) {
        return false;
    }
    match ProcessStat::read(pid) {
        Some(stat) if stat.ended => false,
        Some(stat) => stat.started.is_none_or(|started| started <= at + SLACK),
        None => true,
    }
}

/// Returns the effective user of a process, or `None` if there is no such process or the kernel does not report it.
#[must_use]
pub fn process_user(pid: u32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let users = text.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    // The real user, then the effective one.
    users.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The fields of `/proc/PID/stat` that this module uses.
struct ProcessStat {
    /// `true` if the process has exited and its parent has not waited for it yet.
    ended: bool,
    started: Option<SystemTime>,
}

impl ProcessStat {
    fn read(pid: Pid) -> Option<Self> {
        let path = format!("/proc/{}/stat", pid.as_raw_nonzero());
        let text = fs::read(path).ok()?;
        let (state, ticks) = fields(&text)?;
        Some(Self {
            ended: matches!(state, b'Z' | b'X'),
            started: boot_time().map(|boot| boot + since_boot(ticks)),
        })
    }
}

/// Returns the state and the start of a process: the third and the twenty-second field. The second
/// field is a name in parentheses that may contain any bytes. Source: proc(5).
fn fields(stat: &[u8]) -> Option<(u8, u64)> {
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let text = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
    let mut fields = text.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

fn since_boot(ticks: u64) -> Duration {
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_secs(ticks / per_second)
}

fn boot_time() -> Option<SystemTime> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let seconds = text.lines().find_map(|line| line.strip_prefix("btime "))?;
    Some(UNIX_EPOCH + Duration::from_secs(seconds.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn this_process_exists_now_but_not_an_hour_before_its_start() {
        let me = std::process::id();
        assert!(was_there(me, SystemTime::now()));
        let mine = ProcessStat::read(rustix::process::getpid()).unwrap();
        let before = mine.started.unwrap() - Duration::from_secs(3600);
        assert!(!was_there(me, before));
    }

    #[test]
    fn a_process_has_the_user_that_runs_it() {
        let own = rustix::process::geteuid().as_raw();
        assert_eq!(process_user(std::process::id()), Some(own));
        assert_eq!(process_user(u32::MAX), None);
    }

    #[test]
    fn a_zombie_does_not_exist() {
        let mut child = Command::new("true").stdout(Stdio::piped()).spawn().unwrap();
        // At the end of the output the process has exited, but it remains in the process table
        // until it is waited for.
        let mut output = child.stdout.take().unwrap();
        std::io::copy(&mut output, &mut std::io::sink()).unwrap();
        while ProcessStat::read(Pid::from_child(&child)).is_some_and(|stat| !stat.ended) {
            std::thread::yield_now();
        }
        assert!(!was_there(child.id(), SystemTime::now()));
        child.wait().unwrap();
        assert!(!was_there(0, SystemTime::now()));
        assert!(!was_there(u32::MAX, SystemTime::now()));
    }

    #[test]
    fn a_name_may_contain_the_syntax_of_the_line() {
        let line = b"7 (a) R 1 2 (x)) Z 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 4711 8 9";
        assert_eq!(fields(line), Some((b'Z', 4711)));
        assert_eq!(fields(b"7 (a"), None);
    }
}
