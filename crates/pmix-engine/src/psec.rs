// SPDX-License-Identifier: MIT OR Apache-2.0
//! How peers show who they are.

use pmix_proto::Role;
use pmix_types::Proc;

use crate::{Error, Origin};

/// A way to show who one is; a peer names the one it uses in its hello.
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

/// What a peer says about itself.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'c> {
    /// What kind of peer it says it is.
    pub role: Role,
    /// The process that it says it is; none if it asks for a name.
    pub proc: Option<&'c Proc<'c>>,
    /// The user that it says it is, apart from the credential; clients do not say it.
    pub uid: Option<u32>,
    /// The group that it says it is in, apart from the credential.
    pub gid: Option<u32>,
    /// Where it comes from.
    pub origin: Origin,
}

/// What a credential shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// The user; none if the credential says nothing about it.
    pub uid: Option<u32>,
    /// The group; none if the credential says nothing about it.
    pub gid: Option<u32>,
}
