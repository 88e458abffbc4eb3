// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commits of local processes that are stored in more than one part.
//!
//! A part is one step of the engine, between messages of other peers ([`gds_hash::StagedCommit`]). Most commits have one
//! part. Until the last part of a longer one, further messages of its peer wait.
//!
//! | state | event | next state |
//! | --- | --- | --- |
//! | none | the first part of a message is stored, and there is room for the message beside other unfinished commits | running |
//! | none | the first part is stored, and there is no room | completed: the other parts are stored in the same step |
//! | running | a part is stored | running |
//! | running | all parts are stored, but the data of the process were changed since the first part by a group that shares data | running, from the first part |
//! | running | all parts are stored | notifying |
//! | running | a part is refused | completed, with an error |
//! | notifying | the clients of this node are informed of a part of the removed keys | notifying; completed after the last part |
//! | running, notifying | another program of the process commits | completed: the other parts are stored first, in one step |
//! | running | the connection is removed | none |
//! | notifying | the connection is removed | none; the clients are informed of the rest of the removed keys |
//!
//! At completion the peer gets its reply, and the requests that wait for the keys are tried again.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use gds_hash::StagedCommit;
use pmix_proto::PeerForm;
use pmix_types::{Key, Proc};

use crate::cx::Cx;
use crate::ids::ClientId;
use crate::peers::{PeerId, Ticket};
use crate::recount::Recount;

/// The bytes of messages of all unfinished commits. One message may be longer.
const MAX_BYTES: usize = 16 << 20;

/// The number of unfinished commits. Each may have decoded 65,536 keys, which take 16 MiB.
const MAX_COMMITS: usize = 8;

/// The requests that wait for the keys of a commit, in order of arrival.
#[derive(Debug, Default)]
pub(super) struct Awaited {
    pub(super) gets: BTreeSet<u64>,
    pub(super) inbound: BTreeSet<u64>,
}

/// The commits that are stored in more than one part, by their peers.
#[derive(Debug, Default)]
pub(super) struct UnfinishedCommits {
    pub(super) all: BTreeMap<PeerId, UnfinishedCommit>,
    /// Their peers, by process.
    pub(super) by_proc: HashMap<Proc<'static>, PeerId>,
    num_bytes: usize,
}

/// A commit that is stored in parts.
#[derive(Debug)]
pub(super) struct UnfinishedCommit {
    pub(super) ticket: Ticket,
    pub(super) client: ClientId,
    pub(super) proc: Proc<'static>,
    pub(super) form: PeerForm,
    /// The message, once there is more than one part. It ends with the data.
    pub(super) message: Vec<u8>,
    /// The length of the data of the message in bytes.
    pub(super) len: usize,
    /// An upper limit of the bytes that the process has put before, as far as they were counted.
    pub(super) put_bytes: usize,
    /// The parts that are stored; `None` before the first one.
    pub(super) staged: Option<StagedCommit>,
    /// `true` if the limit of the job is the tighter one.
    pub(super) is_short: bool,
    /// The bytes of the process's data before the commit.
    pub(super) before: usize,
    /// The last identifiers of requests before the commit.
    pub(super) since: [u64; 2],
    pub(super) awaited: Awaited,
    /// The keys that requests wait for.
    pub(super) keys: HashSet<Key<'static>>,
    pub(super) removed: Vec<Key<'static>>,
    /// The number of removed keys of which clients were informed; `None` until all is stored.
    pub(super) num_notified: Option<usize>,
    /// `true` if the commit completes the first one of the process.
    pub(super) is_first: bool,
}

impl UnfinishedCommits {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Adds the requests of the unfinished commits to a recount, and compares the counters of these commits.
    pub(super) fn recount(&self, recount: &mut Recount) {
        self.all
            .values()
            .for_each(|commit| recount.request(&commit.ticket));
        recount.compare("processes with commits", self.by_proc.len(), self.all.len());
        let bytes = self.all.values().map(|commit| commit.len).sum();
        recount.compare("bytes of unfinished commits", self.num_bytes, bytes);
    }

    /// Returns `true` if a message may be unfinished beside the others.
    pub(super) fn has_room(&self, len: usize) -> bool {
        let has_bytes = self.num_bytes.saturating_add(len) <= MAX_BYTES;
        self.all.is_empty() || (has_bytes && self.all.len() < MAX_COMMITS)
    }

    /// Adds a commit of a process that has no other.
    pub(super) fn add(&mut self, cx: &mut Cx, commit: UnfinishedCommit) {
        let peer = commit.ticket.peer();
        cx.peers.set_unfinished(peer, true);
        self.by_proc.insert(commit.proc.clone(), peer);
        self.num_bytes += commit.len;
        self.all.insert(peer, commit);
    }

    /// Removes the commit of a peer.
    pub(super) fn remove(&mut self, cx: &mut Cx, peer: PeerId) -> Option<UnfinishedCommit> {
        let commit = self.all.remove(&peer)?;
        cx.peers.set_unfinished(peer, false);
        self.by_proc.remove(&commit.proc);
        self.num_bytes = self.num_bytes.saturating_sub(commit.len);
        Some(commit)
    }
}
