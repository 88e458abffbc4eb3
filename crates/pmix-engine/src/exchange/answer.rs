// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bytes of answers: a status, and objects behind it.

use bfrops::{Encoder, RegexFramer, wire_type};
use pmix_proto::{PeerForm, reply};
use pmix_types::{Bytes, Kval, Proc, Status};

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
    encoder.one::<wire_type::Proc>(proc)?;
    for kval in kvals {
        encoder.one::<wire_type::Kval>(kval)?;
    }
    enclosed(form, inner)
}

/// Packs bytes as an object.
pub(crate) fn enclosed(form: &PeerForm, bytes: Vec<u8>) -> Result<Vec<u8>, Error> {
    let mut out = Vec::with_capacity(bytes.len() + 8);
    let mut encoder = Encoder::new(form.layout, &mut out);
    encoder.one::<wire_type::ByteObject>(&Bytes::Owned(bytes))?;
    Ok(out)
}

/// A reply of success, with the parts behind it: objects, or data alone.
pub(super) fn success(form: &PeerForm, parts: &[&[u8]]) -> Result<Vec<u8>, Error> {
    let mut out = reply::status(form, Status::SUCCESS)?;
    out.reserve_exact(parts.iter().map(|part| part.len()).sum());
    parts.iter().for_each(|part| out.extend_from_slice(part));
    Ok(out)
}
