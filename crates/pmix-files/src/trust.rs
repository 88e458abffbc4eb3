// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opening files that determine the behavior of a program.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, Stat};

use crate::Fault;
use crate::walk::{End, is_ours, kind, mode, untrusted, walk};

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
