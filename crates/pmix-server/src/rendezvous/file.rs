// SPDX-License-Identifier: MIT OR Apache-2.0
//! The creation of a file: it is written under a temporary name and renamed. It never replaces a file of a live server
//! or of another user.

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
use crate::net::Listeners;

/// The largest length of a rendezvous file, which has a few lines.
const MAX_LEN: u64 = 4096;

/// Flags that neither follow a link nor block on a pipe.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);

/// Number of attempts at a path that other servers create and remove concurrently.
const TRIES: usize = 16;

/// A file in its place. It is removed when this value is dropped, if it is still the same file.
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
        // A new file may reuse the inode number of a removed one, so the text is compared.
        let found = openat(&self.directory, &*self.name, READ, Mode::empty());
        if found.is_ok_and(|file| read(file) == self.text) {
            // A file that cannot be removed is stale for the next server, which replaces it.
            let _ = unlinkat(&self.directory, &*self.name, AtFlags::empty());
        }
    }
}

/// Puts the contact of a server in a directory.
///
/// DEVIATION: the file of a dead server is replaced, and a live server is reported; OpenPMIx 4.2 overwrites any file,
/// 5.0 does not start; files_of_dead_servers_are_replaced, a_second_server_reports_the_first_one
///
/// # Errors
/// Returns an error if a live server, which the message names, or an object that must not be replaced has the name, or
/// if the file cannot be written.
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

/// Renames a file, unless the new name is taken.
pub(super) fn move_in(directory: &Directory, from: &str, to: &str) -> Result<(), Errno> {
    match renameat_with(directory, from, directory, to, RenameFlags::NOREPLACE) {
        // The file system does not support the flag. A link fails in the same way if the name is taken.
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
/// Returns the errors of [`is_stale`]. Another server was faster then, and its file is put back.
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
        // The file system does not support the exchange.
        Err(Errno::INVAL | Errno::NOSYS) => {
            let removed = unlinkat(directory, to, AtFlags::empty());
            removed.map(|()| false).map_err(|e| failed(&path, e))
        }
        Err(error) => Err(failed(&path, error)),
    }
}

/// Returns `true` if a file may be replaced, and `false` if it does not exist any more. `path` is for messages.
///
/// Root replaces any object of another user at the path of its file, unless it is the file of a live server. Otherwise
/// any user of a shared directory could block the server of the system.
///
/// # Errors
/// Returns an error if a live server has the file, or if it must not be replaced.
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
                // Links, and objects that cannot be opened, such as sockets.
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
    // A process that is younger than the file has only got the number of the dead server.
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

/// Returns `true` if a process of a user is the server at an address. The process and the socket that listens there
/// must belong to that user, since a file can name any process.
fn serves(pid: u32, uri: &str, uid: u32) -> bool {
    let of_user = std::fs::metadata(format!("/proc/{pid}")).is_ok_and(|about| about.uid() == uid);
    let address = uri
        .split_once("://")
        .and_then(|(_, address)| address.parse().ok());
    of_user && address.is_some_and(|address| Listeners::read().has(address, uid))
}

/// Returns `true` if a file belongs to a server of this user that has exited.
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
    // A file that cannot be read names no server.
    let _ = File::from(file).take(MAX_LEN).read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A written file that does not have its final name yet.
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
        // Other users may read the file only when it is complete.
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
