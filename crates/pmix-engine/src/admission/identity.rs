// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which user a peer has shown to be.

use pmix_proto::Hello;
use pmix_types::{Info, Status, keys};

use crate::{Claim, Error, Origin, Psec, Verified};

/// Which user a peer has shown to be, and in which group; none where nothing shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
}

impl Identity {
    /// Looks into the credential of a hello, and whether all that is said of the peer agrees.
    pub(super) fn of(
        modules: &[Box<dyn Psec>],
        hello: &Hello<'_>,
        origin: Origin,
    ) -> Result<Self, Error> {
        let module = modules.iter().find(|module| hello.psec == *module.name());
        let module = module.ok_or_else(|| {
            let message = format!("the security module {} is not active", hello.psec);
            Error::new(Status::ERR_NOT_SUPPORTED, message)
        })?;
        let claim = Claim {
            role: hello.role,
            proc: hello.proc.as_ref(),
            uid: hello.ids.map(|(uid, _)| uid),
            gid: hello.ids.map(|(_, gid)| gid),
            origin,
        };
        let Verified { uid, gid } = module.verify(hello.credential, &claim)?;
        agree("the user", "its socket", uid, origin.uid)?;
        agree("the group", "its socket", gid, origin.gid)?;
        let shown = Self {
            uid: uid.or(origin.uid),
            gid: gid.or(origin.gid),
        };
        shown.check("its hello", claim.uid, claim.gid)?;
        let said = |key| number(&hello.infos, key);
        shown.check("its infos", said(keys::USERID)?, said(keys::GRPID)?)?;
        Ok(Self {
            uid: shown.uid.or(claim.uid),
            gid: shown.gid.or(claim.gid),
        })
    }

    /// Compares with what something else says of the peer.
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

/// Whether two numbers are the same, where both are known.
fn agree(what: &str, other: &str, shown: Option<u32>, said: Option<u32>) -> Result<(), Error> {
    match (shown, said) {
        (Some(shown), Some(said)) if shown != said => Err(Error::denied(format!(
            "{what} of the credential is {shown}, of {other} {said}"
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
        .map_err(|_| Error::denied(format!("{key} is no number of a user or group")))
}
