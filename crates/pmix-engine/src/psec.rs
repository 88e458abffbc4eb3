// SPDX-License-Identifier: MIT OR Apache-2.0
//! The trait of security modules.
//!
//! Source: PMIx Standard, chapter "Security"; OpenPMIx, the framework `psec`.

use pmix_proto::Role;
use pmix_types::Proc;

use crate::{Error, Origin, PeerId};

/// Verifies the credential of a peer: a security module. A peer names its module in its hello.
pub trait Psec: Send {
    /// The name that peers call it by, for example `native`.
    fn name(&self) -> &str;

    /// Verifies a credential, or begins to.
    ///
    /// The engine waits for this call, and with it all other peers do. A module that has to ask
    /// somebody else starts that, returns [`Verification::Pending`], and its answer is handed to
    /// [`Engine::handle_verified`](crate::Engine::handle_verified).
    ///
    /// What the credential says is compared with the registration and with what the system says
    /// of the socket afterwards, by the engine.
    ///
    /// # Errors
    ///
    /// Why it is not believed: the peer is refused then.
    fn verify(&self, credential: &[u8], claim: &Claim<'_>) -> Result<Verification, Error>;
}

/// Says whether a security module has verified a credential yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verification {
    /// The credential is good, and proves this.
    Done(Verified),
    /// The answer comes later. A peer that has none within
    /// [`Config::handshake_time`](crate::Config::handshake_time) is refused.
    Pending,
}

impl From<Verified> for Verification {
    fn from(verified: Verified) -> Self {
        Self::Done(verified)
    }
}

/// Holds what a peer states about itself in its hello.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'c> {
    /// The connection of the peer, by which an answer that comes later names it.
    pub peer: PeerId,
    /// The kind of peer that it states to be.
    pub role: Role,
    /// The process that it states to be; none if it asks for a name.
    pub proc: Option<&'c Proc<'c>>,
    /// The user id that it states apart from the credential; clients state none.
    pub uid: Option<u32>,
    /// The group id that it states apart from the credential.
    pub gid: Option<u32>,
    /// The origin of its connection.
    pub origin: Origin,
}

/// Holds the user and group that a credential proves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// The user id; none if the credential has none.
    pub uid: Option<u32>,
    /// The group id; none if the credential has none.
    pub gid: Option<u32>,
}
