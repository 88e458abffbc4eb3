// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bytes of answers: a status, and objects behind it.

use bfrops::{Encoder, RegexFramer, kind};
use pmix_proto::{PeerForm, reply};
use pmix_types::{Bytes, Kval, Proc, Status};

use super::question::Form;
use crate::Error;

/// Packs one object: a process and what is known of it.
pub(super) fn object(
    form: &PeerForm,
    framer: &dyn RegexFramer,
    proc: &Proc<'_>,
    kvals: &[Kval<'_>],
) -> Result<Vec<u8>, Error> {
    let mut inner = Vec::new();
    let mut encoder = Encoder::new(form.layout, &mut inner).with_framer(framer);
    encoder.one::<kind::Proc>(proc)?;
    for kval in kvals {
        encoder.one::<kind::Kval>(kval)?;
    }
    enclosed(form, inner)
}

/// Packs bytes as an object.
pub(crate) fn enclosed(form: &PeerForm, bytes: Vec<u8>) -> Result<Vec<u8>, Error> {
    let mut out = Vec::with_capacity(bytes.len() + 8);
    let mut encoder = Encoder::new(form.layout, &mut out);
    encoder.one::<kind::ByteObject>(&Bytes::Owned(bytes))?;
    Ok(out)
}

/// Packs data without an object around them.
pub(super) fn bare<'k>(
    form: &PeerForm,
    framer: &dyn RegexFramer,
    kvals: impl Iterator<Item = &'k Kval<'static>>,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let mut encoder = Encoder::new(form.layout, out).with_framer(framer);
    for kval in kvals {
        encoder.one::<kind::Kval>(kval)?;
    }
    Ok(())
}

/// The reply with objects, or with the data alone.
pub(super) fn success(
    form: &PeerForm,
    made_up: Form,
    content: &[u8],
) -> Result<Vec<u8>, pmix_proto::Error> {
    let status = Status::SUCCESS;
    match made_up {
        Form::Objects => {
            let objects = content;
            reply::Objects { status, objects }.encode(form, None)
        }
        Form::Kvals => {
            let kvals = content;
            reply::Kvals { status, kvals }.encode(form, None)
        }
    }
}
