// SPDX-License-Identifier: MIT OR Apache-2.0
//! The servers of other users, which root sees.
//!
//! A rendezvous file of another user may name any process and any address. Root believes it no further than its owner:
//! only the owner and root may have written the file, the process that it names belongs to the owner, and so does the
//! socket that listens at its address. Root thus connects to no process that the owner does not control.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use pmix_files::{Trust, process_user};
use pmix_server::Listeners;

use super::{Search, Unused};
use crate::rendezvous::{FoundServer, PassedOver};

/// Maximum number of servers of other users.
const MAX_SERVERS: usize = 1024;

impl Search {
    /// Returns the servers of other users, and adds the files that are not used to `passed_over`, up to `max_passed_over`
    /// with a line of their own.
    pub(super) fn of_others(
        &self,
        files: Vec<(u32, PathBuf)>,
        num_more: &mut Unused,
        passed_over: &mut Vec<PassedOver>,
        max_passed_over: usize,
    ) -> Vec<FoundServer> {
        if files.is_empty() {
            return Vec::new();
        }
        // Servers listen before they write their files, so the table has the socket of every file that was found.
        let listeners = Listeners::read();
        let mut servers: Vec<FoundServer> = Vec::new();
        for (owner, path) in files {
            if servers.len() >= MAX_SERVERS {
                num_more.others += 1;
                continue;
            }
            let mut reasons = Vec::new();
            let found = self.read_with(&path, Trust::in_user(owner), &mut reasons);
            match found.map(|found| verify(found, owner, &listeners)) {
                Some(Ok(found)) => servers.push(found),
                Some(Err(reason)) => reasons.push(PassedOver {
                    path,
                    reason,
                    is_dead: false,
                    num_files: 1,
                }),
                None => {}
            }
            for passed in reasons {
                match passed_over.len() < max_passed_over {
                    true => passed_over.push(passed),
                    false => num_more.add(&passed),
                }
            }
        }
        servers
    }

    /// Returns the user whose rendezvous file this is, if its server is another user's and root looks for those.
    pub(super) fn other_owner(&self, path: &Path) -> Option<u32> {
        let about = path.symlink_metadata().ok()?;
        (self.is_of_all && about.is_file() && about.uid() != 0).then_some(about.uid())
    }

    /// Returns the server of an explicitly named file of another user.
    ///
    /// # Errors
    ///
    /// The reason for which the file is not used.
    pub(super) fn of_file_of(&self, path: &Path, owner: u32) -> Result<FoundServer, String> {
        match FoundServer::read(path, Trust::in_user(owner)) {
            Some(Ok(found)) => verify(found, owner, &Listeners::read()),
            Some(Err(passed)) => Err(passed.reason),
            None => Err("no such file".to_owned()),
        }
    }
}

/// Returns the server if its process and its address belong to the owner of its file.
fn verify(
    mut found: FoundServer,
    owner: u32,
    listeners: &Listeners,
) -> Result<FoundServer, String> {
    let Some(pid) = found.pid else {
        return Err(format!(
            "user {owner} wrote it and it states no process of its server"
        ));
    };
    match process_user(pid) {
        Some(user) if user == owner => {}
        Some(user) => {
            return Err(format!(
                "user {owner} wrote it, but process {pid}, which it names, belongs to user {user}"
            ));
        }
        None => return Err(format!("process {pid}, which it names, has exited")),
    }
    let address = found.uri.address;
    if !listeners.has(address, owner) {
        return Err(format!(
            "user {owner} wrote it, but no socket of this user listens at {address}"
        ));
    }
    found.owner = Some(owner);
    Ok(found)
}
