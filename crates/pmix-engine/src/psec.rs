// SPDX-License-Identifier: MIT OR Apache-2.0
//! The trait of security modules.
//!
//! Source: PMIx Standard, chapter "Security"; OpenPMIx, the framework `psec`.

use pmix_proto::Role;
use pmix_types::Proc;

use crate::{Error, Origin};

/// Verifies the credential of a peer: a security module. A peer names its module in its hello.
pub trait Psec: Send {
    /// The name that peers call it by, for example `native`.
    fn name(&self) -> &str;

    /// Looks into a credential.
    ///
    /// What the credential says is compared with the registration and with what the system says
    /// of the socket afterwards, by the engine.
    ///
    /// # Errors
    ///
    /// Why it is not believed: the peer is refused then.
    fn verify(&self, credential: &[u8], claim: &Claim<'_>) -> Result<Verified, Error>;
}

/// Holds what a peer states about itself in its hello.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'c> {
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
