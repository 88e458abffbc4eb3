// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names, directories and contact information of the server and its node.

use std::fs::File;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use gds_hash::LocalNode;
use pmix_mca::Environment;
use pmix_proto::{Contact, RELEASE};
use pmix_types::{Nspace, Proc, Status};

use super::Builder;
use crate::Error;
use crate::rendezvous::{Locations, Rendezvous};

/// The node of a server, and its directories.
#[derive(Debug)]
pub(super) struct ServerNode {
    /// The name of the node, as in the files that tools look for.
    pub(super) hostname: String,
    /// The name with its domain, if the system has one.
    pub(super) qualified: Option<String>,
    pub(super) server_dir: PathBuf,
    pub(super) system_dir: PathBuf,
}

impl ServerNode {
    /// Returns the names from the settings, otherwise from the environment, otherwise from the system.
    ///
    /// # Errors
    /// Returns an error for a name that cannot be part of a file name.
    pub(super) fn new(settings: &mut Builder, environment: &Environment) -> Result<Self, Error> {
        let set = || Some(environment.first_of(&["PMIX_HOSTNAME"])?.to_string_lossy());
        let given = settings.hostname.take().or_else(|| set().map(Into::into));
        let system = rustix::system::uname();
        let system = system.nodename().to_string_lossy();
        let (hostname, qualified) = match given {
            Some(name) => (name, None),
            None => without_domain(&system),
        };
        // The name becomes a part of file names and of lines in files.
        if hostname.is_empty() || hostname.contains(['/', '\n']) {
            let why = format!("invalid name of a node: {hostname:?}");
            return Err(Error::new(Status::ERR_BAD_PARAM, why));
        }
        let or = |given: Option<PathBuf>, variable| {
            given.unwrap_or_else(|| directory(environment, variable))
        };
        Ok(Self {
            hostname,
            qualified,
            server_dir: or(settings.server_tmpdir.take(), "PMIX_SERVER_TMPDIR"),
            system_dir: or(settings.system_tmpdir.take(), "PMIX_SYSTEM_TMPDIR"),
        })
    }

    /// Returns the node with all its names.
    pub(super) fn node(&self) -> LocalNode {
        let node = LocalNode::new(self.hostname.as_str());
        match &self.qualified {
            Some(name) => node.alias(name.as_str()),
            None => node,
        }
    }
}

/// Splits a host name of the system into the name that tools use and its domain; an address has no domain.
fn without_domain(system: &str) -> (String, Option<String>) {
    match system.split_once('.') {
        Some((name, _)) if system.parse::<IpAddr>().is_err() => {
            (name.to_owned(), Some(system.to_owned()))
        }
        _ => (system.to_owned(), None),
    }
}

/// Returns a temporary directory from the environment: from `variable`, otherwise from the usual variables.
fn directory(environment: &Environment, variable: &str) -> PathBuf {
    let found = environment.first_of(&[variable, "TMPDIR", "TEMP", "TMP"]);
    found.map_or_else(|| PathBuf::from("/tmp"), PathBuf::from)
}

/// Returns the nspace of the server itself, which is part of its URI and of file names.
///
/// # Errors
/// Returns an error if it has characters that these do not allow.
pub(super) fn own_nspace(given: Option<Nspace<'static>>) -> Result<Nspace<'static>, Error> {
    let nspace = given.unwrap_or_else(|| format!("pmix-server:{}", std::process::id()).into());
    let name = nspace.as_bytes();
    // A semicolon ends the name in a URI, and a slash would leave the directory of the files.
    let legal = |byte: &u8| byte.is_ascii_graphic() && !b";/".contains(byte);
    if name.is_empty() || name.len() > Nspace::MAX_LEN || !name.iter().all(legal) {
        let why = format!(
            "invalid name of a server {nspace:?}: expected 1 to {} printable characters without ; and /",
            Nspace::MAX_LEN
        );
        return Err(Error::new(Status::ERR_BAD_PARAM, why));
    }
    Ok(nspace)
}

/// Returns the URI of a server: `<nspace>.<rank>;tcp4://<address>:<port>`, or `tcp6`.
pub(super) fn uri(server: &Proc<'_>, address: SocketAddr) -> String {
    let Proc { nspace, rank } = server;
    let scheme = if address.is_ipv4() { "tcp4" } else { "tcp6" };
    format!("{nspace}.{rank};{scheme}://{address}")
}

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

#[cfg(test)]
mod tests {
    use pmix_types::Rank;

    use super::*;

    #[test]
    fn a_domain_is_left_out_and_remembered() {
        let both = (String::from("n01"), Some(String::from("n01.site.org")));
        assert_eq!(without_domain("n01.site.org"), both);
        for whole in ["n01", "10.0.0.1", "fe80::1"] {
            assert_eq!(without_domain(whole), (whole.to_owned(), None));
        }
    }

    #[test]
    fn addresses_name_the_server_and_its_family() {
        let server = Proc::new("rm", Rank::new(3));
        let v4 = uri(&server, "127.0.0.1:80".parse().unwrap());
        assert_eq!(v4, "rm.3;tcp4://127.0.0.1:80");
        let v6 = uri(&server, "[::1]:80".parse().unwrap());
        assert_eq!(v6, "rm.3;tcp6://[::1]:80");
    }
}
