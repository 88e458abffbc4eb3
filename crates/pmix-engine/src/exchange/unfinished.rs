// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commits of local processes that are stored in more than one part.
//!
//! A part is one step of the engine, between messages of other peers ([`gds_hash::StagedCommit`]). Most commits have one
//! part. Until the last part of a longer one, further messages of its peer wait.
//!
//! | state | event | next state |
//! | --- | --- | --- |
//! | none | the message arrives | running; waiting if another commit of the process is unfinished |
//! | running | a part is stored, and there is room for the message beside other unfinished commits | running |
//! | running | a part is stored, and there is no room | waiting |
//! | running | all parts are stored, but the data of the process were changed by others since the first part | running, from the first part |
//! | running | all parts are stored | notifying |
//! | running | a part is refused | completed, with an error |
//! | notifying | the clients of this node are informed of a part of the removed keys | notifying; completed after the last part |
//! | waiting | another commit is completed, and nothing prevents this one | running |
//! | any | the connection is removed | none |
//!
//! At completion the peer gets its reply, and the requests that wait for the keys are tried again.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use gds_hash::{CommitLimits, StagedCommit};
use pmix_proto::PeerForm;
use pmix_types::{Key, Proc};

use crate::cx::Cx;
use crate::ids::ClientId;
use crate::peers::{PeerId, Ticket, Unfinished};
use crate::recount::Recount;

/// The bytes of messages of unfinished commits that run at the same time. One message may be longer.
const MAX_RUNNING_BYTES: usize = 64 << 20;

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
    /// The peers whose commits run, by process.
    pub(super) running: HashMap<Proc<'static>, PeerId>,
    running_bytes: usize,
    /// The peers whose commits wait, in order of arrival.
    waiting: VecDeque<PeerId>,
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
    pub(super) staged: StagedCommit,
    /// The limits of the process's data.
    pub(super) limits: CommitLimits,
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

    /// Adds the requests to a recount, and compares the counters.
    pub(super) fn recount(&self, recount: &mut Recount) {
        self.all
            .values()
            .for_each(|commit| recount.request(&commit.ticket));
        let (running, waiting) = (self.running.len(), self.waiting.len());
        recount.compare("unfinished commits", running + waiting, self.all.len());
        let bytes = { self.running.values() }.filter_map(|peer| self.all.get(peer));
        let bytes = bytes.map(|commit| commit.len).sum();
        recount.compare("bytes of unfinished commits", self.running_bytes, bytes);
    }

    fn has_room(&self, len: usize) -> bool {
        self.running_bytes == 0 || self.running_bytes.saturating_add(len) <= MAX_RUNNING_BYTES
    }

    /// Adds a commit, which runs or waits.
    pub(super) fn add(&mut self, cx: &mut Cx, commit: UnfinishedCommit) {
        let peer = commit.ticket.peer();
        match self.has_room(commit.len) && !self.running.contains_key(&commit.proc) {
            true => self.run(cx, peer, &commit.proc, commit.len),
            false => {
                self.waiting.push_back(peer);
                cx.peers.set_unfinished(peer, Unfinished::Waits);
            }
        }
        self.all.insert(peer, commit);
    }

    fn run(&mut self, cx: &mut Cx, peer: PeerId, proc: &Proc<'static>, len: usize) {
        self.running.insert(proc.clone(), peer);
        self.running_bytes += len;
        cx.peers.set_unfinished(peer, Unfinished::Runs);
    }

    /// Removes the commit of a peer. The ones that waited for it run.
    pub(super) fn remove(&mut self, cx: &mut Cx, peer: PeerId) -> Option<UnfinishedCommit> {
        let commit = self.all.remove(&peer)?;
        cx.peers.set_unfinished(peer, Unfinished::No);
        match self.running.get(&commit.proc) {
            Some(running) if *running == peer => {
                self.running.remove(&commit.proc);
                self.running_bytes = self.running_bytes.saturating_sub(commit.len);
            }
            _ => self.waiting.retain(|waiting| *waiting != peer),
        }
        let mut still_waiting = VecDeque::new();
        while let Some(next) = self.waiting.pop_front() {
            let Some(commit) = self.all.get(&next) else {
                continue;
            };
            let (proc, len) = (commit.proc.clone(), commit.len);
            if !self.has_room(len) {
                still_waiting.push_back(next);
                break;
            }
            match self.running.contains_key(&proc) {
                true => still_waiting.push_back(next),
                false => self.run(cx, next, &proc, len),
            }
        }
        still_waiting.append(&mut self.waiting);
        self.waiting = still_waiting;
        Some(commit)
    }
}
