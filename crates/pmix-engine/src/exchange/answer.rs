// SPDX-License-Identifier: MIT OR Apache-2.0
//! The replies to a get: a status followed by objects.

use pmix_proto::PeerForm;
use pmix_proto::reply::{self, Object, pack_kvals};
use pmix_types::{Kval, Proc, Status, memory};

use crate::Error;
use crate::cx::Cx;

/// Packs values as the object of a process.
pub(super) fn object(
    cx: &Cx,
    form: &PeerForm,
    proc: &Proc<'_>,
    kvals: &[Kval<'_>],
) -> Result<Vec<u8>, Error> {
    let kvals = &pack_kvals(form, Some(cx.framer()), kvals)?;
    let of = proc.clone();
    Ok(Object { of, kvals }.encode(form)?)
}

/// Packs a success reply followed by parts: objects, or data only.
pub(super) fn success(form: &PeerForm, parts: &[&[u8]]) -> Result<Vec<u8>, Error> {
    let mut out = reply::status(form, Status::SUCCESS)?;
    memory::reserve_exact(&mut out, parts.iter().map(|part| part.len()).sum())?;
    parts.iter().for_each(|part| out.extend_from_slice(part));
    Ok(out)
}
