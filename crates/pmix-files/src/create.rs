// SPDX-License-Identifier: MIT OR Apache-2.0
//! The creation of files in directories that others may write to.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::Fault;
use crate::walk::{Writers, is_ours, kind, untrusted, walk};

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
