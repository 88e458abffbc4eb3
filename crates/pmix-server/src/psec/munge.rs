// SPDX-License-Identifier: MIT OR Apache-2.0
//! The component `munge`: the daemon of the node says who made the credential.
//!
//! The library asks the daemon on the thread that drives the server. One that hangs holds up
//! everybody for as long as the library waits for it.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::path::Path;

use pmix_engine::{Claim, Psec, Verified};
use pmix_types::ErrorDetail;

use crate::Error;

pub(super) struct Munge(RefCell<pmix_mca::Munge>);

impl Munge {
    pub(super) fn open(library: &OsStr, socket: Option<&Path>) -> Result<Self, Error> {
        let munge = pmix_mca::Munge::open(library, socket)?;
        Ok(Self(RefCell::new(munge)))
    }
}

impl Psec for Munge {
    fn name(&self) -> &str {
        "munge"
    }

    fn verify(&self, credential: &[u8], _: &Claim<'_>) -> Result<Verified, pmix_engine::Error> {
        let decoded = self.0.borrow_mut().decode(credential);
        let (uid, gid) = decoded.map_err(|e| ErrorDetail::passed_on(e.status(), e))?;
        Ok(Verified {
            uid: Some(uid),
            gid: Some(gid),
        })
    }
}
