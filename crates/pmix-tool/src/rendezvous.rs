// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading one rendezvous file: what it says, whether it may be believed, and whether its server lives.
//!
//! Source: OpenPMIx, `ptl/base`; seen in files of 4.2.2, 5.0.11 and PRRTE.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use pmix_client::Uri;
use pmix_files::{Fault, Trust, Trusted, was_there};
use pmix_proto::ContactLines;

/// A rendezvous file is a few lines.
const MAX_LEN: u64 = 4096;

/// Describes a server that a tool may attach to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FoundServer {
    /// The name and the address of the server.
    pub uri: Uri,
    /// The rendezvous file that says so; none if the address was given.
    pub path: Option<PathBuf>,
    /// The release that the file states; empty if it states none.
    pub release: String,
    /// The process id of the server, if the file states it.
    pub pid: Option<u32>,
    /// The user and the group of the server, if the file states them.
    pub user: Option<(u32, u32)>,
    /// The start of the server as the file states it; empty if it does not.
    pub started: String,
    /// The other user that owns the server, if root found it by [`Search::all_users`](crate::Search::all_users).
    pub owner: Option<u32>,
}

/// Describes a rendezvous file that is not used, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PassedOver {
    /// The file.
    pub path: PathBuf,
    /// The reason, for people.
    pub reason: String,
    /// `true` if the server that wrote the file has exited.
    pub is_dead: bool,
    /// The number of files: 1, or the number of further files below a directory.
    pub num_files: usize,
}

impl FoundServer {
    /// Describes a server of which only the address is known.
    #[must_use]
    pub const fn at(uri: Uri) -> Self {
        Self {
            uri,
            path: None,
            release: String::new(),
            pid: None,
            user: None,
            started: String::new(),
            owner: None,
        }
    }

    /// Reads a rendezvous file; returns `None` if there is no file. `trust` selects the permitted owners.
    pub(crate) fn read(path: &Path, trust: Trust) -> Option<Result<Self, PassedOver>> {
        let passed_over = |reason: String| {
            Some(Err(PassedOver {
                num_files: 1,
                path: path.to_path_buf(),
                reason,
                is_dead: false,
            }))
        };
        let opened = match trust.open(path, MAX_LEN) {
            Ok(opened) => opened,
            Err(fault) if fault.is_absent() => return None,
            Err(fault @ Fault::Untrusted { .. }) => {
                return passed_over(format!("it is rejected: {fault}"));
            }
            Err(fault) => return passed_over(format!("{fault}")),
        };
        match Self::parse(path, opened) {
            Ok(found) => Some(Ok(found)),
            Err((is_dead, reason)) => Some(Err(PassedOver {
                num_files: 1,
                path: path.to_path_buf(),
                reason,
                is_dead,
            })),
        }
    }

    /// Reads what a file says. An error says whether its server is dead.
    fn parse(path: &Path, opened: Trusted) -> Result<Self, (bool, String)> {
        let wrong = |reason: String| (false, reason);
        let written = opened.file.metadata().and_then(|about| about.modified());
        let written = written.unwrap_or(SystemTime::UNIX_EPOCH);
        let mut bytes = Vec::new();
        let read = opened.file.take(MAX_LEN).read_to_end(&mut bytes);
        read.map_err(|error| wrong(format!("cannot read it: {error}")))?;
        let text = String::from_utf8_lossy(&bytes);
        let lines = ContactLines::read(&text)
            .ok_or_else(|| wrong("its first line is not the address of a server".to_owned()))?;
        let uri = lines.uri.parse::<Uri>();
        let uri = uri.map_err(|error| wrong(error.to_string()))?;
        if let Some(pid) = lines.pid
            && !was_there(pid, written)
        {
            let server = &uri.server.nspace;
            let reason = format!(
                "its server {server} is not running: process {pid}, which wrote the file, has exited"
            );
            return Err((true, reason));
        }
        Ok(Self {
            path: Some(path.to_path_buf()),
            release: lines.release.to_owned(),
            pid: lines.pid,
            user: lines.user,
            started: lines.started.to_owned(),
            ..Self::at(uri)
        })
    }
}
