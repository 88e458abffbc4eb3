// SPDX-License-Identifier: MIT OR Apache-2.0
//! Publication of the server's URI.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use pmix_mca::Environment;
use pmix_proto::Contact;
use pmix_types::Status;

use super::Builder;
use crate::Error;
use crate::fork::RELEASE;
use crate::rendezvous::{Locations, Rendezvous};

/// Writes the rendezvous files, and the URI to the destination that the host has set.
///
/// # Errors
/// Returns an error if a required file cannot be written.
pub(super) fn publish(
    settings: &Builder,
    places: &Locations<'_>,
    named: Option<NamedFile>,
    uri: &str,
    started: SystemTime,
) -> Result<Rendezvous, Error> {
    let contact = Contact {
        uri: uri.to_owned(),
        release: RELEASE.to_owned(),
        pid: std::process::id(),
        user: user(),
        started,
    };
    let opened = Rendezvous::open(settings.offers, places, &contact);
    let opened = opened.and_then(|files| report(files, settings, places, &contact));
    let mut files = match opened {
        // A node has one scheduler and one controller: a second server in that role does not start.
        Err(error) if has_role(settings) && error.status() == Status::ERR_EXISTS => {
            return Err(error);
        }
        Err(error) if !settings.rendezvous_required => {
            tracing::warn!(%error, "tools cannot find this server");
            Rendezvous::default()
        }
        other => other?,
    };
    if let Some(named) = named {
        named.write(&mut files, &contact, places.mode)?;
    }
    Ok(files)
}

/// Returns `true` if the server has a role that exists once on a node.
fn has_role(settings: &Builder) -> bool {
    settings.offers.scheduler || settings.offers.controller
}

/// A rendezvous file for the program that starts the server.
pub(super) struct NamedFile {
    path: PathBuf,
    /// `true` if the path is from the environment, which may belong to another server.
    is_inherited: bool,
}

/// Returns the file in the settings, otherwise the one in the environment.
pub(super) fn named_file(settings: &Builder, environment: &Environment) -> Option<NamedFile> {
    let given = settings.rendezvous_file.clone();
    let found = || environment.first_of(&["PMIX_LAUNCHER_RENDEZVOUS_FILE"]);
    let is_inherited = given.is_none();
    let path = given.or_else(|| found().map(PathBuf::from))?;
    Some(NamedFile { path, is_inherited })
}

impl NamedFile {
    /// Writes the file.
    ///
    /// DEVIATION: if the environment names the file of a live server, the file is kept and the server starts without
    /// one. OpenPMIx 4.2 overwrites it, and 5.0 does not start;
    /// a_file_that_the_environment_names_may_be_another_servers
    ///
    /// # Errors
    /// Returns the errors of [`Rendezvous::add`].
    fn write(&self, files: &mut Rendezvous, contact: &Contact, mode: u32) -> Result<(), Error> {
        match files.add(&self.path, contact, mode) {
            Err(error) if self.is_inherited && error.status() == Status::ERR_EXISTS => {
                tracing::warn!("cannot write the file of PMIX_LAUNCHER_RENDEZVOUS_FILE: {error}");
                Ok(())
            }
            other => other,
        }
    }
}

fn report(
    mut files: Rendezvous,
    settings: &Builder,
    places: &Locations<'_>,
    contact: &Contact,
) -> Result<Rendezvous, Error> {
    let line = format!("{}\n", contact.uri);
    let written = match settings.report_uri.as_deref() {
        None => Ok(()),
        Some("-") => io::stdout().write_all(line.as_bytes()),
        Some("+") => io::stderr().write_all(line.as_bytes()),
        Some(number) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
            // The descriptor belongs to the caller, so its file is opened again and only this copy is closed.
            let path = Path::new("/dev/fd").join(number);
            let open = File::options().write(true).open(path);
            open.and_then(|mut file| file.write_all(line.as_bytes()))
        }
        Some(path) => {
            return files
                .add(Path::new(path), contact, places.mode)
                .map(|()| files);
        }
    };
    written.map_err(|e| Error::io("cannot report the address of the server", e))?;
    Ok(files)
}

/// Returns the user and the group that this process runs as.
pub(super) fn user() -> (u32, u32) {
    use rustix::process::{getegid, geteuid};
    (geteuid().as_raw(), getegid().as_raw())
}
