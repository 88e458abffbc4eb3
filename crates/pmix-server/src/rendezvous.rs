// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rendezvous files, by which tools find servers.
//!
//! | file | directory | users |
//! | --- | --- | --- |
//! | `pmix.sys.<host>` | system | tools of the system server |
//! | `pmix.sched.<host>` | system | tools of the scheduler |
//! | `pmix.sysctrlr.<host>` | system | tools of the system controller |
//! | `pmix.<host>.tool` | server | tools of the session server |
//! | `pmix.<host>.tool.<pid>` | server | tools that know the process id |
//! | `pmix.<host>.tool.<nspace>` | server | tools that know the nspace |
//! | as configured | as configured | the program that starts the server (`PMIX_LAUNCHER_RENDEZVOUS_FILE`) |
//!
//! A file is created atomically, and removed when the server ends if it is still its own. The file of a dead
//! server is replaced, or removed by the next server in the same directory; the file of a running server
//! causes an error that names it.

mod directory;
mod file;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pmix_proto::Contact;
use rustix::fs::{AtFlags, Dir, Mode, OFlags, openat, unlinkat};

use self::directory::Directory;
use self::file::RendezvousFile;
use crate::Error;
use file::{is_left_over, move_in};

/// The roles of a server for tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offers {
    /// `true` if it serves tools.
    pub(crate) tools: bool,
    /// `true` for the server of the session.
    pub(crate) session: bool,
    /// `true` for the server of the system.
    pub(crate) system: bool,
    /// `true` for the server of the scheduler.
    pub(crate) scheduler: bool,
    /// `true` for the server of the system controller.
    pub(crate) controller: bool,
}

/// The directories and names of the rendezvous files.
#[derive(Clone, Debug)]
pub(crate) struct Locations<'a> {
    pub(crate) server_dir: &'a Path,
    pub(crate) system_dir: &'a Path,
    pub(crate) host: &'a str,
    pub(crate) nspace: String,
    /// The permission bits of the files.
    pub(crate) mode: u32,
}

/// The files of a server, which are removed when this value is dropped.
#[derive(Debug, Default)]
pub(crate) struct Rendezvous(Vec<RendezvousFile>);

impl Rendezvous {
    /// Writes the files of a server: all of them, or none.
    ///
    /// # Errors
    /// Returns an error if a directory is not safe, a name is taken, or a file cannot be written.
    pub(crate) fn open(
        offers: Offers,
        places: &Locations<'_>,
        contact: &Contact,
    ) -> Result<Self, Error> {
        let Locations { host, nspace, .. } = places;
        let mut files = Self::default();
        let in_system: Vec<_> = [
            (offers.system, format!("pmix.sys.{host}")),
            (offers.scheduler, format!("pmix.sched.{host}")),
            (offers.controller, format!("pmix.sysctrlr.{host}")),
        ]
        .into();
        let tools = offers.tools;
        let in_server: Vec<_> = [
            (offers.session, format!("pmix.{host}.tool")),
            (tools, format!("pmix.{host}.tool.{}", contact.pid)),
            (tools, format!("pmix.{host}.tool.{nspace}")),
        ]
        .into();
        // A failure drops `files`, which removes those that exist already, so a tool does not find half a server.
        files.place_all(places.system_dir, in_system, contact, places.mode)?;
        files.place_all(places.server_dir, in_server, contact, places.mode)?;
        if let Some(placed) = files.0.last().filter(|_| tools) {
            // Servers that were killed leave files with names that no later server takes.
            remove(placed.directory(), &format!("pmix.{host}.tool."));
        }
        Ok(files)
    }

    /// Writes one file at any path.
    ///
    /// # Errors
    /// Returns the errors of [`Self::open`].
    pub(crate) fn add(&mut self, path: &Path, contact: &Contact, mode: u32) -> Result<(), Error> {
        let directory = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let files = vec![(true, name.into_owned())];
        self.place_all(
            directory.unwrap_or_else(|| Path::new(".")),
            files,
            contact,
            mode,
        )
    }

    fn place_all(
        &mut self,
        directory: &Path,
        files: Vec<(bool, String)>,
        contact: &Contact,
        mode: u32,
    ) -> Result<(), Error> {
        let mut wanted = files.into_iter().filter(|(wanted, _)| *wanted).peekable();
        if wanted.peek().is_none() {
            return Ok(());
        }
        let directory = Arc::new(Directory::open(directory)?);
        // Only the owner can write them, because tools trust their contents; they are never executable.
        let mode = Mode::from_raw_mode(mode) & Mode::from_raw_mode(0o644);
        for (_, name) in wanted {
            let placed = file::place(&directory, &name, contact, mode | Mode::RUSR)?;
            self.0.push(placed);
        }
        Ok(())
    }

    /// Returns the paths of the files.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        self.0.iter().map(RendezvousFile::path).collect()
    }
}

// The files of killed servers. Their names contain the nspace or process id of their server, so no later server has
// the same name and replaces them.

/// Removes the files of this user in a directory whose names have this prefix and whose servers have exited.
/// Files that cannot be removed are ignored.
fn remove(directory: &Directory, prefix: &str) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let listed = openat(directory, c".", flags, Mode::empty()).and_then(Dir::new);
    let Ok(entries) = listed else {
        return tracing::debug!("{} cannot be listed", directory.path().display());
    };
    let is_one = |name: &&str| name.trim_start_matches('.').starts_with(prefix);
    for entry in entries.flatten() {
        if let Some(name) = entry.file_name().to_str().ok().filter(is_one) {
            remove_one(directory, name);
        }
    }
}

fn remove_one(directory: &Directory, name: &str) {
    if !is_left_over(directory, name) {
        return;
    }
    // A new server may have taken the name since the check, so the file is renamed before it is removed.
    let aside = format!(".{name}.{}.left", std::process::id());
    if move_in(directory, name, &aside).is_err() {
        return;
    }
    let done = match is_left_over(directory, &aside) {
        true => unlinkat(directory, &*aside, AtFlags::empty()),
        false => move_in(directory, &aside, name),
    };
    let path = directory.path().join(name);
    match done {
        Ok(()) => tracing::info!("{}: file of a server that has exited", path.display()),
        Err(error) => tracing::debug!(%error, "{}", path.display()),
    }
}

#[cfg(test)]
mod tests;
