// SPDX-License-Identifier: MIT OR Apache-2.0
//! Making a file where others can write, too.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::Fault;
use crate::walk::{Writers, is_ours, kind, untrusted, walk};

/// Links to what is open already, which only the kernel can follow.
const OPEN_ALREADY: &[&str] = &["/dev/stdout", "/dev/stderr", "/dev/fd", "/proc/self/fd"];

/// Opens a file for writing behind what it holds, otherwise as [`create`] does.
///
/// # Errors
/// As of [`create`].
pub fn append(path: &Path) -> io::Result<File> {
    let file = open(path, false)?;
    let flags = rustix::fs::fcntl_getfl(&file)?;
    rustix::fs::fcntl_setfl(&file, flags | OFlags::APPEND)?;
    Ok(file)
}

/// Opens a file for writing, for its owner alone (mode 0600), empty, made if it is not there.
///
/// In a directory that others can write to no symbolic link is followed but those of root and the
/// user in one with the sticky bit, and what is there must be a file of the user's with that one
/// name.
///
/// # Errors
/// The file cannot be made, or somebody else put something in its place.
pub fn create(path: &Path) -> io::Result<File> {
    open(path, true)
}

/// Opens a file as [`create`] does, which is emptied or keeps what it holds.
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
    // Only opening was not to wait, for a pipe that nobody reads.
    let flags = rustix::fs::fcntl_getfl(&file)?;
    rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    Ok(file)
}

/// Whether what is there may be written to.
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
