// SPDX-License-Identifier: MIT OR Apache-2.0
//! Admission of clients and tools.
//!
//! | compared property | client | tool |
//! | --- | --- | --- |
//! | security module | active in the server | active in the server |
//! | process | registered, and not connected | not connected |
//! | user and group of the credential | as registered | the server's user, root, or any if configured |
//! | user and group in the hello | as registered, if present | as in the credential |
//! | user of the socket, as the system reports it | as in the credential | as in the credential |
//!
//! A refused client gets no reply: clients of 4.2 ignore the status and then wait forever. A refused tool gets the
//! status.

mod client;
mod identity;
mod tool;

use std::collections::{BTreeSet, HashMap};
use std::mem;
use std::time::Instant;

use pmix_proto::{Frame, Hello, Inbox, Role, Welcome, WelcomeForm};
use pmix_types::Status;

use self::identity::Identity;
use crate::cx::Cx;
use crate::peers::{Member, Peer, PeerId, Phase};
use crate::recount::Recount;
use crate::timer::Timer;
use crate::{Error, Origin, Psec, Stats, Verification, Verified};

/// The greatest hello, in bytes, that is stored while its credential is being verified. A peer sends a few hundred
/// bytes, and a user may have many connections in their handshake.
const MAX_KEPT_HELLO: usize = 64 << 10;

/// The admission of peers: clients that the host registered, and tools that the host admits.
pub(crate) struct Admission {
    psec: Vec<Box<dyn Psec>>,
    /// Connections in their handshake.
    handshaking: Handshaking,
    /// The number of tools that the engine has named.
    num_tools: u64,
}

impl Admission {
    pub(crate) fn new(psec: Vec<Box<dyn Psec>>) -> Self {
        Self {
            psec,
            handshaking: Handshaking::default(),
            num_tools: 0,
        }
    }

    /// Adds the connections in their handshake to the counts of a server.
    pub(crate) fn count(&self, stats: &mut Stats) {
        stats.num_handshaking = self.handshaking.len();
    }

    /// Compares the number of connections by user with the number of handshakes.
    pub(crate) fn recount(&self, cx: &Cx, recount: &mut Recount) {
        let found = cx.peers.num_handshaking();
        recount.compare("connections of users", self.handshaking.len(), found);
    }

    /// Adds a connection with a time limit for its handshake. Refuses the oldest handshake of the user if there are too
    /// many.
    pub(crate) fn open(&mut self, cx: &mut Cx, origin: Origin, now: Instant) -> PeerId {
        let until = now + cx.config.handshake_time;
        let inbox = Inbox::of_server(cx.config.max_message);
        let peer = cx.peers.add(Peer::new(origin, inbox, until));
        // A peer that never sends its hello would otherwise keep its memory and descriptor.
        cx.timers.set(until, Timer::Handshake(peer));
        let most = cx.config.handshakes_per_user;
        // The oldest handshake has had the most time, so it is the likeliest to hang.
        if let Some(oldest) = self.handshaking.add(origin.uid, peer, most) {
            let message = "its user has too many connections that have not completed the handshake";
            cx.refuse(oldest, Error::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        peer
    }

    /// Releases a closed connection that was not admitted.
    pub(crate) fn peer_left(&mut self, cx: &mut Cx, peer: PeerId, closed: &Peer) {
        if closed.phase.is_handshake() {
            self.handshaking.remove(closed.origin.uid, peer);
        }
        if let Some(until) = closed.phase.deadline() {
            cx.timers.cancel(until, Timer::Handshake(peer));
        }
    }

    /// Handles the hello, the first message of a connection.
    pub(crate) fn handle_hello(&mut self, cx: &mut Cx, peer: PeerId, frame: &Frame) {
        let hello = match Hello::decode(&frame.payload) {
            Ok(hello) => hello,
            Err(error) => {
                // Without a hello, the role of the peer and so the form of a refusal are unknown.
                return cx.refuse(peer, error.into());
            }
        };
        let origin = cx.peers.get(peer).map(|peer| peer.origin);
        let origin = origin.unwrap_or_default();
        let outcome = match Identity::verify(&self.psec, peer, &hello, origin) {
            Ok(Verification::Done(verified)) => self.consider(cx, peer, &hello, verified),
            Ok(Verification::Pending) => Self::keep_hello(cx, peer, frame),
            Err(error) => Err(error),
        };
        if let Err(reason) = outcome {
            Self::refuse_with_status(cx, peer, &hello, reason);
        }
    }

    /// Stores a hello until its security module has verified the credential.
    fn keep_hello(cx: &mut Cx, peer: PeerId, frame: &Frame) -> Result<(), Error> {
        let len = frame.payload.len();
        if len > MAX_KEPT_HELLO {
            return Err(Error::new(
                Status::ERR_OUT_OF_RESOURCE,
                format!(
                    "a hello of {len} bytes exceeds the limit of {MAX_KEPT_HELLO} for a security module that \
                    verifies it later"
                ),
            ));
        }
        if let Some(found) = cx.peers.get_mut(peer)
            && let Phase::Handshake(until) = found.phase
        {
            // The deadline of the handshake stays: a module that never replies must not keep the connection.
            found.phase = Phase::Verifying(until, Box::new(frame.clone()));
        }
        Ok(())
    }

    /// Handles the result of a security module; a peer that has disconnected is ignored.
    pub(crate) fn handle_verified(
        &mut self,
        cx: &mut Cx,
        peer: PeerId,
        verified: Result<Verified, Error>,
    ) {
        let Some(found) = cx.peers.get_mut(peer) else {
            return;
        };
        let Phase::Verifying(until, _) = found.phase else {
            return;
        };
        // The frame is removed, so that a second result finds no pending verification.
        let Phase::Verifying(_, frame) = mem::replace(&mut found.phase, Phase::Handshake(until))
        else {
            return;
        };
        let hello = match Hello::decode(&frame.payload) {
            Ok(hello) => hello,
            Err(error) => return cx.refuse(peer, error.into()),
        };
        if let Err(reason) = verified.and_then(|user| self.consider(cx, peer, &hello, user)) {
            Self::refuse_with_status(cx, peer, &hello, reason);
        }
    }

    /// Refuses a peer, and sends the status to peers that read it.
    fn refuse_with_status(cx: &mut Cx, peer: PeerId, hello: &Hello<'_>, reason: Error) {
        if Self::reads_refusal(hello) {
            Self::welcome(cx, peer, &Welcome::Refused(reason.status()));
        }
        cx.refuse(peer, reason);
    }

    /// Returns `true` if a refused peer reads the status.
    fn reads_refusal(hello: &Hello<'_>) -> bool {
        // Tools read the status of a refusal. A client of 4.2 ignores it and would wait; the closed connection ends its
        // init.
        hello.role.says_ids() && hello.role != Role::SINGLETON
    }

    /// Decides about a peer with a verified credential.
    fn consider(
        &mut self,
        cx: &mut Cx,
        peer: PeerId,
        hello: &Hello<'_>,
        verified: Verified,
    ) -> Result<(), Error> {
        let form = hello.form()?;
        let origin = cx.peers.get(peer).map(|peer| peer.origin);
        let identity = Identity::of(verified, hello, origin.unwrap_or_default())?;
        let client = hello.proc.as_ref();
        let client = client.and_then(|proc| cx.registry.find(&proc.nspace, proc.rank));
        // A registered name requires the identity of its client, whatever role the peer claims.
        match client {
            Some(client) => self.admit_client(cx, peer, hello, form, identity, client)?,
            None if hello.role == Role::CLIENT => return Err(unregistered(hello)),
            None => self.admit_tool(cx, peer, hello, form, identity)?,
        }
        let gds = &hello.gds;
        let mut modules = gds.as_bytes().split(|byte| *byte == b',');
        // The peer is admitted nevertheless: only job info has a form that it cannot read.
        if !modules.any(|name| name == b"hash") {
            tracing::info!(%peer, %gds, "the peer does not support the hash component of gds, so it cannot \
            read the job info");
        }
        Ok(())
    }

    /// Admits a peer and sends the welcome.
    fn admit(&mut self, cx: &mut Cx, peer: PeerId, member: Member) {
        self.end_handshake(cx, peer);
        let (proc, form, role) = (member.proc.clone(), member.form, member.role);
        let (rank, nspace, release) = (proc.rank, &proc.nspace, form.release);
        tracing::info!(%peer, %nspace, %rank, %role, %release, "connected");
        if let Some(found) = cx.peers.get_mut(peer) {
            found.phase = Phase::Member(Box::new(member));
        }
        let server = cx.config.server.clone();
        let index = peer.index();
        let welcome = match role.welcome(&form) {
            WelcomeForm::Index => Welcome::Index { index },
            WelcomeForm::Server => Welcome::Server { server },
            WelcomeForm::Assigned => Welcome::Assigned { proc, server },
        };
        Self::welcome(cx, peer, &welcome);
    }

    /// Sends the welcome.
    pub(crate) fn welcome(cx: &mut Cx, peer: PeerId, welcome: &Welcome<'_>) {
        match welcome.encode() {
            Ok(bytes) => cx.peers.send_bare(peer, bytes),
            Err(error) => tracing::error!(%peer, %error, "cannot pack the handshake reply"),
        }
    }

    /// Refuses a connection whose handshake did not complete in time.
    pub(crate) fn handshake_expired(&mut self, cx: &mut Cx, peer: PeerId) {
        match cx.peers.get(peer).map(|peer| &peer.phase) {
            Some(Phase::PendingTool(_)) => Self::refuse_pending_tool(cx, peer),
            Some(Phase::Verifying(_, frame)) => {
                let hello = Hello::decode(&frame.payload);
                let module = hello
                    .map(|hello| hello.psec.to_string())
                    .unwrap_or_default();
                let message =
                    format!("the security module {module} has not verified its credential in time");
                cx.refuse(peer, Error::new(Status::ERR_INVALID_CRED, message));
            }
            _ => {
                let message = "it did not complete the handshake in time";
                cx.refuse(peer, Error::new(Status::ERR_TIMEOUT, message));
            }
        }
    }

    /// Ends the handshake of a connection and cancels its timer.
    fn end_handshake(&mut self, cx: &mut Cx, peer: PeerId) {
        let Some(found) = cx.peers.get(peer) else {
            return;
        };
        if found.phase.is_handshake() {
            self.handshaking.remove(found.origin.uid, peer);
        }
        if let Some(until) = found.phase.deadline() {
            cx.timers.cancel(until, Timer::Handshake(peer));
        }
    }
}

fn unregistered(hello: &Hello<'_>) -> Error {
    let message = match &hello.proc {
        Some(proc) => format!("rank {} of {} is not registered", proc.rank, proc.nspace),
        None => "the client did not send its name".to_owned(),
    };
    Error::not_found(message)
}

/// The connections in their handshake, by user. Connections of unknown users count as those of one user.
#[derive(Debug, Default)]
struct Handshaking {
    by_user: HashMap<Option<u32>, BTreeSet<PeerId>>,
}

impl Handshaking {
    /// Adds a connection and removes and returns the oldest of its user if there are more than `most` now.
    fn add(&mut self, user: Option<u32>, peer: PeerId, most: usize) -> Option<PeerId> {
        let peers = self.by_user.entry(user).or_default();
        peers.insert(peer);
        // Identifiers increase, so the first is the oldest.
        let oldest = peers.first().copied().filter(|_| peers.len() > most)?;
        peers.remove(&oldest);
        Some(oldest)
    }

    /// Removes an admitted or closed connection.
    fn remove(&mut self, user: Option<u32>, peer: PeerId) {
        if let Some(peers) = self.by_user.get_mut(&user) {
            peers.remove(&peer);
            if peers.is_empty() {
                self.by_user.remove(&user);
            }
        }
    }

    fn len(&self) -> usize {
        self.by_user.values().map(BTreeSet::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_handshake_of_the_same_user_is_dropped() {
        let mut handshaking = Handshaking::default();
        let ids: Vec<_> = (0..6).map(PeerId::of).collect();
        assert_eq!(handshaking.add(Some(1), ids[0], 2), None);
        assert_eq!(handshaking.add(Some(2), ids[1], 2), None);
        assert_eq!(handshaking.add(None, ids[2], 2), None);
        assert_eq!(handshaking.add(Some(1), ids[3], 2), None);
        assert_eq!(handshaking.add(Some(1), ids[4], 2), Some(ids[0]));
        handshaking.remove(Some(1), ids[3]);
        assert_eq!(handshaking.add(Some(1), ids[5], 2), None);
        for (user, id) in [(1, 4), (1, 5), (2, 1)] {
            handshaking.remove(Some(user), ids[id]);
        }
        handshaking.remove(None, ids[2]);
        assert!(handshaking.by_user.is_empty());
    }
}
