// SPDX-License-Identifier: MIT OR Apache-2.0
//! Putting a file in its place: written whole under another name, then renamed, and never over
//! a file of a live server or of another user.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pmix_files::was_there;
use pmix_proto::{Contact, ContactLines};
use pmix_types::Status;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, fchmod, fstat, linkat, openat, renameat_with,
    statat, unlinkat,
};
use rustix::io::Errno;

use super::directory::{Directory, failed, is_link};
use crate::Error;
use crate::net::owner::is_listened_at;

/// A rendezvous file is a few lines.
const MAX_LEN: u64 = 4096;

/// Not following a link, nor waiting for the other end of a pipe.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);

/// Number of attempts at a path that other servers create and remove concurrently.
const TRIES: usize = 16;

/// A file in its place. It is removed with this value, if it is still the same file.
#[derive(Debug)]
pub(super) struct RendezvousFile {
    directory: Arc<Directory>,
    name: String,
    text: String,
}

impl RendezvousFile {
    /// Returns the path of the file.
    pub(super) fn path(&self) -> PathBuf {
        self.directory.path().join(&self.name)
    }

    /// Returns the directory of the file.
    pub(super) fn directory(&self) -> &Directory {
        &self.directory
    }
}

impl Drop for RendezvousFile {
    fn drop(&mut self) {
        // A file that was removed may leave its number to the next one, but not its text.
        let found = openat(&self.directory, &*self.name, READ, Mode::empty());
        if found.is_ok_and(|file| read(file) == self.text) {
            // What cannot be removed is stale for the next server.
            let _ = unlinkat(&self.directory, &*self.name, AtFlags::empty());
        }
    }
}

/// Puts the contact of a server in a directory.
///
/// DEVIATION: what a dead server left is replaced, and a live one is named; OpenPMIx 4.2 writes
/// over any file, 5.0 does not start; files_of_dead_servers_are_replaced,
/// a_second_server_reports_the_first_one
///
/// # Errors
/// The name is taken by a live server, which the message names, or by something that is not to be
/// replaced; or the file cannot be written.
pub(super) fn place(
    directory: &Arc<Directory>,
    name: &str,
    contact: &Contact,
    mode: Mode,
) -> Result<RendezvousFile, Error> {
    let temporary = Temporary::write(directory, name, contact, mode)?;
    let path = directory.path().join(name);
    for _ in 0..TRIES {
        match move_in(directory, &temporary.name, name) {
            Ok(()) => return Ok(temporary.placed(name)),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(failed(&path, error)),
        }
        if is_stale(directory, name, &path)? && replace(directory, &temporary.name, name)? {
            tracing::info!(
                "{}: replaced the file of a server that has exited",
                path.display()
            );
            return Ok(temporary.placed(name));
        }
    }
    let why = format!(
        "{}: other servers keep creating a file with this name",
        path.display()
    );
    Err(Error::new(Status::ERR_RESOURCE_BUSY, why))
}

/// Gives a file its name, unless that is taken.
pub(super) fn move_in(directory: &Directory, from: &str, to: &str) -> Result<(), Errno> {
    match renameat_with(directory, from, directory, to, RenameFlags::NOREPLACE) {
        // This file system cannot; a link is refused in the same way where the name is taken.
        Err(Errno::INVAL | Errno::NOSYS) => {
            linkat(directory, from, directory, to, AtFlags::empty())?;
            unlinkat(directory, from, AtFlags::empty())
        }
        other => other,
    }
}

/// Replaces a stale file. Returns `false` if the file does not exist any more.
///
/// # Errors
/// As [`is_stale`]: another server was faster, and has its place back.
fn replace(directory: &Directory, from: &str, to: &str) -> Result<bool, Error> {
    let path = directory.path().join(to);
    let exchange = || renameat_with(directory, from, directory, to, RenameFlags::EXCHANGE);
    match exchange() {
        Ok(()) => match is_stale(directory, from, &path) {
            Ok(_) => Ok(true),
            Err(error) => {
                exchange().map_err(|e| failed(&path, e))?;
                Err(error)
            }
        },
        Err(Errno::NOENT) => Ok(false),
        // This file system cannot.
        Err(Errno::INVAL | Errno::NOSYS) => {
            let removed = unlinkat(directory, to, AtFlags::empty());
            removed.map(|()| false).map_err(|e| failed(&path, e))
        }
        Err(error) => Err(failed(&path, error)),
    }
}

/// Returns whether a file that has a name may be replaced; `false` if it went away meanwhile. Messages call it `path`.
///
/// Root replaces whatever another user has put in the place of its file, unless that is the file of a live server: any
/// user of a shared directory could keep the server of the system away otherwise.
///
/// # Errors
/// A live server has it, or it is not to be replaced.
fn is_stale(directory: &Directory, name: &str, path: &Path) -> Result<bool, Error> {
    let refused = |status, why: String| Error::new(status, format!("{} {why}", path.display()));
    let is_root = rustix::process::geteuid().is_root();
    let is_planted = |uid: u32| is_root && uid != 0;
    let file = match openat(directory, name, READ, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(false),
        Err(error) => {
            let found = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
            return match found {
                // Links, and what cannot be opened, such as the socket of a file system.
                Ok(stat) if is_planted(stat.st_uid) => Ok(true),
                Ok(stat) if is_link(&stat) => {
                    let why = "is a symbolic link: remove it".to_owned();
                    Err(refused(Status::ERR_NO_PERMISSIONS, why))
                }
                _ => Err(failed(path, error)),
            };
        }
    };
    let stat = fstat(&file).map_err(|e| failed(path, e))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        if is_planted(stat.st_uid) {
            return Ok(true);
        }
        let why = "is not a regular file: remove it".to_owned();
        return Err(refused(Status::ERR_EXISTS, why));
    }
    let text = read(file);
    let written = UNIX_EPOCH + Duration::from_secs(u64::try_from(stat.st_mtime).unwrap_or(0));
    let live = holder(&text).filter(|(uri, pid)| {
        was_there(*pid, written) && (!is_planted(stat.st_uid) || serves(*pid, uri, stat.st_uid))
    });
    if let Some((uri, pid)) = live {
        let user = match stat.st_uid == rustix::process::geteuid().as_raw() {
            true => String::new(),
            false => format!(" of user {}", stat.st_uid),
        };
        let why = format!("is in use by another server: process {pid}{user}, {uri}");
        return Err(refused(Status::ERR_EXISTS, why));
    }
    if stat.st_uid != rustix::process::geteuid().as_raw() && !is_root {
        let why = format!("is left over from user {}: remove it", stat.st_uid);
        return Err(refused(Status::ERR_NO_PERMISSIONS, why));
    }
    Ok(true)
}

/// Returns whether a process of a user is the server at an address: the process is that user's, and so is the socket
/// that listens there. A file can name any process.
fn serves(pid: u32, uri: &str, uid: u32) -> bool {
    let of_user = std::fs::metadata(format!("/proc/{pid}")).is_ok_and(|about| about.uid() == uid);
    let address = uri
        .split_once("://")
        .and_then(|(_, address)| address.parse().ok());
    of_user && address.is_some_and(|address| is_listened_at(address, uid))
}

/// Returns whether a file is one of a server of this user that has ended.
pub(super) fn is_left_over(directory: &Directory, name: &str) -> bool {
    let Ok(file) = openat(directory, name, READ, Mode::empty()) else {
        return false;
    };
    let own = rustix::process::geteuid().as_raw();
    let is_own = fstat(&file).is_ok_and(|stat| stat.st_uid == own);
    let names_one = holder(&read(file)).is_some();
    is_own && names_one && is_stale(directory, name, &directory.path().join(name)).unwrap_or(false)
}

/// Returns the address and the process id in the text of a file, if both are there.
fn holder(text: &str) -> Option<(&str, u32)> {
    let lines = ContactLines::read(text)?;
    Some((lines.uri, lines.pid?))
}

fn read(file: OwnedFd) -> String {
    let mut bytes = Vec::new();
    // An unreadable file names no server.
    let _ = File::from(file).take(MAX_LEN).read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A file that is written and has no place yet.
struct Temporary<'d> {
    directory: &'d Arc<Directory>,
    name: String,
    text: String,
}

impl<'d> Temporary<'d> {
    fn write(
        directory: &'d Arc<Directory>,
        name: &str,
        contact: &Contact,
        mode: Mode,
    ) -> Result<Self, Error> {
        let clock = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let unique = format!("{}.{}", contact.pid, clock.as_nanos());
        let name = format!(".{name}.{unique}");
        let path = directory.path().join(&name);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let owner_only = Mode::RUSR | Mode::WUSR;
        let file = openat(directory, &*name, flags | OFlags::CLOEXEC, owner_only);
        let file = File::from(file.map_err(|e| failed(&path, e))?);
        let temporary = Self {
            directory,
            name,
            text: contact.text(),
        };
        let written = (&file).write_all(contact.text().as_bytes());
        written.map_err(|e| Error::io(&path.display().to_string(), e))?;
        fchmod(&file, mode).map_err(|e| failed(&path, e))?;
        Ok(temporary)
    }

    /// Returns the file at its final path.
    fn placed(&self, name: &str) -> RendezvousFile {
        RendezvousFile {
            directory: Arc::clone(self.directory),
            name: name.to_owned(),
            text: self.text.clone(),
        }
    }
}

impl Drop for Temporary<'_> {
    /// Removes an incomplete file; after a successful rename this name does not exist any more.
    fn drop(&mut self) {
        if let Err(Errno::ISDIR) = unlinkat(self.directory, &*self.name, AtFlags::empty()) {
            // Another user had created a directory at the path of the file. A nonempty directory stays under
            // this name.
            let _ = unlinkat(self.directory, &*self.name, AtFlags::REMOVEDIR);
        }
    }
}
