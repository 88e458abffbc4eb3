// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opening files that decide what a program does.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, Stat};

use crate::Fault;
use crate::walk::{End, is_ours, kind, mode, untrusted, walk};

/// Whose files are trusted: those of root and of one user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trust {
    user: u32,
}

/// A file that was found trustworthy, and is open.
#[derive(Debug)]
pub struct Trusted {
    /// The file.
    pub file: File,
    /// Its path without symbolic links.
    pub path: PathBuf,
    /// How many bytes it had when it was opened.
    pub len: u64,
}

impl Trust {
    /// Trusts root and the user with whose rights this process runs.
    #[must_use]
    pub fn of_process() -> Self {
        Self::in_user(rustix::process::geteuid().as_raw())
    }

    /// Trusts root and a user by number.
    #[must_use]
    pub fn in_user(user: u32) -> Self {
        Self { user }
    }

    /// Opens a file of at most so many bytes. A relative path starts at the current directory.
    ///
    /// # Errors
    /// There is no such file, it cannot be opened, or it is not to be trusted.
    pub fn open(self, path: &Path, most: u64) -> Result<Trusted, Fault> {
        let absolute = std::path::absolute(path)?;
        let end = walk(&absolute, self.user)?;
        let Some(found) = end.stat else {
            return Err(Fault::Missing);
        };
        // Before it is opened: to open a device may do something.
        self.check(&end, &found, most)?;
        // Something else may be there by now. A pipe has no reader to wait for then, and a link is
        // not followed.
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

    /// Reads a file of text of at most so many bytes.
    ///
    /// # Errors
    /// As [`Trust::open`], and the file cannot be read or is no UTF-8.
    pub fn read(self, path: &Path, most: u64) -> Result<String, Fault> {
        let trusted = self.open(path, most)?;
        let mut bytes = Vec::with_capacity(usize::try_from(trusted.len).unwrap_or_default());
        // It may have grown.
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

/// Reads a regular file of at most so many bytes, whoever it belongs to: one that a user names, and
/// that decides nothing about what runs. A pipe is not waited for.
///
/// # Errors
/// There is no such file, it cannot be read, it is no regular file, or it has more bytes.
pub fn read_regular(path: &Path, most: u64) -> Result<Vec<u8>, Fault> {
    // Before it is opened: to open a device may do something.
    check_regular(&rustix::fs::stat(path).map_err(Fault::of)?, most)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty()).map_err(Fault::of)?;
    check_regular(&rustix::fs::fstat(&opened).map_err(Fault::of)?, most)?;
    // It may have grown.
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

/// What a file is that is no regular one.
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
