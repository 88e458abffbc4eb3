// SPDX-License-Identifier: MIT OR Apache-2.0
//! The verified identity of a peer.

use pmix_proto::Hello;
use pmix_types::{Info, Status, keys};

use crate::{Claim, Error, Origin, PeerId, Psec, Verification, Verified};

/// The verified user and group of a peer; `None` without evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
}

impl Identity {
    /// Verifies the credential of a hello with the security module that the hello names.
    pub(super) fn verify(
        modules: &[Box<dyn Psec>],
        peer: PeerId,
        hello: &Hello<'_>,
        origin: Origin,
    ) -> Result<Verification, Error> {
        let module = modules.iter().find(|module| hello.psec == *module.name());
        let module = module.ok_or_else(|| {
            let message = format!("the security module {} is not active", hello.psec);
            Error::new(Status::ERR_NOT_SUPPORTED, message)
        })?;
        let claim = Claim {
            peer,
            role: hello.role,
            proc: hello.proc.as_ref(),
            uid: hello.ids.map(|(uid, _)| uid),
            gid: hello.ids.map(|(_, gid)| gid),
            origin,
        };
        module.verify(hello.credential, &claim)
    }

    /// Checks that the user and group of a credential match the socket and the hello.
    pub(super) fn of(
        Verified { uid, gid }: Verified,
        hello: &Hello<'_>,
        origin: Origin,
    ) -> Result<Self, Error> {
        let (claimed_uid, claimed_gid) = hello.ids.unzip();
        // The kernel reports the owner of the socket, so a credential of another user is stolen or forged.
        agree("the user", "its socket", uid, origin.uid)?;
        agree("the group", "its socket", gid, origin.gid)?;
        let shown = Self {
            uid: uid.or(origin.uid),
            gid: gid.or(origin.gid),
        };
        shown.check("its hello", claimed_uid, claimed_gid)?;
        let stated = |key| number(&hello.infos, key);
        shown.check("its infos", stated(keys::USERID)?, stated(keys::GRPID)?)?;
        Ok(Self {
            // Without evidence the claim is compared with the registration, or with the user of the server.
            uid: shown.uid.or(claimed_uid),
            gid: shown.gid.or(claimed_gid),
        })
    }

    /// Compares the identity with another source.
    pub(super) fn check(
        &self,
        other: &str,
        uid: Option<u32>,
        gid: Option<u32>,
    ) -> Result<(), Error> {
        agree("the user", other, self.uid, uid)?;
        agree("the group", other, self.gid, gid)
    }
}

/// Checks that two numbers are equal if both are known.
fn agree(what: &str, other: &str, shown: Option<u32>, stated: Option<u32>) -> Result<(), Error> {
    match (shown, stated) {
        (Some(shown), Some(stated)) if shown != stated => Err(Error::denied(format!(
            "{what} of the credential is {shown}, but that of {other} is {stated}"
        ))),
        _ => Ok(()),
    }
}

fn number(infos: &[Info<'_>], key: &str) -> Result<Option<u32>, Error> {
    let Some(info) = infos.iter().find(|info| info.key.is(key)) else {
        return Ok(None);
    };
    let number = info.value.to_number::<u32>();
    number
        .map(Some)
        .map_err(|_| Error::denied(format!("{key} is not a user or group ID")))
}
