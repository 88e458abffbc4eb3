// SPDX-License-Identifier: MIT OR Apache-2.0
//! The component `native`: a peer sends the numbers of its user and group.
//!
//! | bytes | field, in the writer's byte order |
//! | --- | --- |
//! | 4 | effective user |
//! | 4 | effective group |
//!
//! Frozen: append only.

use pmix_engine::{Claim, Error, Origin, Psec, Verification, Verified};
use pmix_types::Status;

pub(super) struct Native {
    /// `true` to reject a peer of this node if the kernel has no information about its user.
    pub(super) require_owner: bool,
}

impl Psec for Native {
    fn name(&self) -> &str {
        "native"
    }

    fn verify(&self, credential: &[u8], claim: &Claim<'_>) -> Result<Verification, Error> {
        self.read(credential, claim.origin).map(Verification::Done)
    }
}

impl Native {
    /// Decodes the credential of a peer with this origin.
    fn read(&self, credential: &[u8], origin: Origin) -> Result<Verified, Error> {
        let refused = |why: String| Err(Error::new(Status::ERR_INVALID_CRED, why));
        // Both sides are on one node, so their byte order is the same.
        let Ok::<[u8; 8], _>(bytes) = credential.try_into() else {
            let len = credential.len();
            return refused(format!(
                "a native credential has 8 bytes, this one has {len}"
            ));
        };
        let [uid @ .., _, _, _, _] = bytes;
        let [_, _, _, _, gid @ ..] = bytes;
        if self.require_owner && origin.loopback && origin.uid.is_none() {
            let why = "the kernel does not report the owner of the socket, which is required";
            return refused(why.to_owned());
        }
        Ok(Verified {
            uid: Some(u32::from_ne_bytes(uid)),
            gid: Some(u32::from_ne_bytes(gid)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verify(credential: &[u8], require_owner: bool, uid: Option<u32>) -> Result<Verified, Error> {
        let origin = Origin {
            uid,
            gid: None,
            loopback: true,
        };
        Native { require_owner }.read(credential, origin)
    }

    #[test]
    fn a_credential_is_a_user_and_a_group() {
        let credential = [1000_u32.to_ne_bytes(), 1001_u32.to_ne_bytes()].concat();
        let verified = verify(&credential, false, None).unwrap();
        assert_eq!((verified.uid, verified.gid), (Some(1000), Some(1001)));
        for len in [0, 7, 9] {
            let error = verify(&vec![0; len], false, None).unwrap_err();
            assert_eq!(error.status(), Status::ERR_INVALID_CRED);
        }
    }

    #[test]
    fn the_word_of_the_kernel_can_be_required() {
        assert!(verify(&[0; 8], true, None).is_err());
        assert!(verify(&[0; 8], true, Some(0)).is_ok());
    }
}
