// SPDX-License-Identifier: MIT OR Apache-2.0
//! The trait of security modules.
//!
//! Source: PMIx Standard, chapter "Security"; OpenPMIx, the framework `psec`.

use pmix_proto::Role;
use pmix_types::Proc;

use crate::{Error, Origin, PeerId};

/// A security module, which verifies the credentials of peers. A peer names its module in its hello.
pub trait Psec: Send {
    /// Returns the name of the module in hellos, for example `native`.
    fn name(&self) -> &str;

    /// Verifies a credential, or starts the verification.
    ///
    /// The engine and all other peers wait while this function runs. A module that depends on another process starts
    /// the request, returns [`Verification::Pending`], and the driver passes the result to
    /// [`Engine::handle_verified`](crate::Engine::handle_verified).
    ///
    /// The engine then compares the verified user with the registration and with the operating system's information
    /// about the socket.
    ///
    /// # Errors
    ///
    /// Returns the reason why the credential is invalid; the engine refuses the peer.
    fn verify(&self, credential: &[u8], claim: &Claim<'_>) -> Result<Verification, Error>;
}

/// The result of [`Psec::verify`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verification {
    /// The user and group that the valid credential proves.
    Done(Verified),
    /// The verification continues. A peer without a result within
    /// [`Config::handshake_time`](crate::Config::handshake_time) is refused.
    Pending,
}

impl From<Verified> for Verification {
    fn from(verified: Verified) -> Self {
        Self::Done(verified)
    }
}

/// The unverified statements of a peer in its hello.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'c> {
    /// The connection of the peer, for a later result.
    pub peer: PeerId,
    /// The claimed kind of peer.
    pub role: Role,
    /// The claimed process, or `None` if the peer requests a name.
    pub proc: Option<&'c Proc<'c>>,
    /// The claimed user id outside the credential; clients send none.
    pub uid: Option<u32>,
    /// The claimed group id outside the credential.
    pub gid: Option<u32>,
    /// The origin of its connection.
    pub origin: Origin,
}

/// The user and group that a credential proves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// The user id, if the credential has one.
    pub uid: Option<u32>,
    /// The group id, if the credential has one.
    pub gid: Option<u32>,
}
