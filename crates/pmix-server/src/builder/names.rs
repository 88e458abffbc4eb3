// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names and directories of the server and its node.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use gds_hash::LocalNode;
use pmix_mca::Environment;
use pmix_types::{Nspace, Proc, Status};

use super::Builder;
use crate::Error;

/// The node of a server, and its directories.
#[derive(Debug)]
pub(super) struct Place {
    /// The name of the node, as in the files that tools look for.
    pub(super) hostname: String,
    /// The name with its domain, if the system has one.
    pub(super) qualified: Option<String>,
    pub(super) server_dir: PathBuf,
    pub(super) system_dir: PathBuf,
}

impl Place {
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

#[cfg(test)]
mod tests {
    use super::*;
    use pmix_types::Rank;

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
