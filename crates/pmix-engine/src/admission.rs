// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who is let in.
//!
//! | what is compared | client | tool |
//! | --- | --- | --- |
//! | security module | one that the server has | the same |
//! | process | registered, and without another connection | not one that is connected |
//! | user and group of the credential | as registered | the server's user, root, or any if configured |
//! | user and group in the hello | as registered, if they are there | as in the credential |
//! | user of the socket, as the system says | as in the credential | the same |
//!
//! A client that is not let in is sent nothing: those of 4.2 ignore a status and then wait for
//! ever. A tool is sent the status.

mod client;
mod identity;
mod tool;

use pmix_proto::{Frame, Hello, Role, Welcome, WelcomeForm};
use pmix_types::Status;

use self::identity::Identity;
use crate::peers::{Member, PeerId, Phase};
use crate::timer::Timer;
use crate::{Engine, Error};

impl Engine {
    /// The first message of a connection.
    pub(crate) fn handle_hello(&mut self, peer: PeerId, frame: &Frame) {
        let hello = match Hello::decode(&frame.payload) {
            Ok(hello) => hello,
            Err(error) => {
                return self.cx.refuse(peer, error.into());
            }
        };
        if let Err(reason) = self.consider(peer, &hello) {
            if self.is_told_why(&hello) {
                self.welcome(peer, &Welcome::Refused(reason.status()));
            }
            self.cx.refuse(peer, reason);
        }
    }

    /// Whether a peer that is not let in looks at the reason.
    fn is_told_why(&self, hello: &Hello<'_>) -> bool {
        hello.role.says_ids() && hello.role != Role::SINGLETON
    }

    fn consider(&mut self, peer: PeerId, hello: &Hello<'_>) -> Result<(), Error> {
        let form = hello.form()?;
        let origin = self.cx.peers.get(peer).map(|peer| peer.origin);
        let identity = Identity::of(&self.psec, hello, origin.unwrap_or_default())?;
        let client = hello.proc.as_ref();
        let client = client.and_then(|proc| self.cx.registry.find(&proc.nspace, proc.rank));
        match client {
            Some(client) => self.admit_client(peer, hello, form, identity, client)?,
            None if hello.role == Role::CLIENT => return Err(unregistered(hello)),
            None => self.admit_tool(peer, hello, form, identity)?,
        }
        let gds = &hello.gds;
        let mut modules = gds.as_bytes().split(|byte| *byte == b',');
        if !modules.any(|name| name == b"hash") {
            tracing::info!(%peer, %gds, "a peer that may not read what it is told; it takes hash");
        }
        Ok(())
    }

    /// Makes a connection that of a member and answers its hello.
    fn let_in(&mut self, peer: PeerId, member: Member) {
        self.end_handshake(peer);
        let (proc, form, role) = (member.proc.clone(), member.form, member.role);
        let (rank, nspace, release) = (proc.rank, &proc.nspace, form.release);
        tracing::info!(%peer, %nspace, %rank, %role, %release, "connected");
        if let Some(found) = self.cx.peers.get_mut(peer) {
            found.phase = Phase::Member(Box::new(member));
        }
        let server = self.cx.config.server.clone();
        let index = peer.index();
        let welcome = match role.welcome(&form) {
            WelcomeForm::Index => Welcome::Index { index },
            WelcomeForm::Server => Welcome::Server { server },
            WelcomeForm::Assigned => Welcome::Assigned { proc, server },
        };
        self.welcome(peer, &welcome);
    }

    /// Answers a hello.
    pub(crate) fn welcome(&mut self, peer: PeerId, welcome: &Welcome<'_>) {
        match welcome.encode() {
            Ok(bytes) => self.cx.peers.send_bare(peer, bytes),
            Err(error) => tracing::error!(%peer, %error, "no welcome can be packed"),
        }
    }

    /// A connection has not come in in time.
    pub(crate) fn handshake_expired(&mut self, peer: PeerId) {
        match self.cx.peers.get(peer).map(|peer| &peer.phase) {
            Some(Phase::PendingTool(_)) => self.turn_away(peer),
            _ => {
                let message = "it has not said in time who it is";
                self.cx
                    .refuse(peer, Error::new(Status::ERR_TIMEOUT, message));
            }
        }
    }

    /// Takes a connection from those that are still to come in.
    fn end_handshake(&mut self, peer: PeerId) {
        let Some(found) = self.cx.peers.get(peer) else {
            return;
        };
        match found.phase {
            Phase::Handshake(until) => {
                self.handshaking.remove(found.origin.uid, peer);
                self.cx.timers.cancel(until, Timer::Handshake(peer));
            }
            Phase::PendingTool(until) => self.cx.timers.cancel(until, Timer::Handshake(peer)),
            Phase::Member(_) => {}
        }
    }
}

fn unregistered(hello: &Hello<'_>) -> Error {
    let message = match &hello.proc {
        Some(proc) => format!("rank {} of {} is not registered", proc.rank, proc.nspace),
        None => "a client without a name".to_owned(),
    };
    Error::not_found(message)
}
