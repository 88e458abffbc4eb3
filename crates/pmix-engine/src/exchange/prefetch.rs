// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data of further processes in the reply to a get, up to the number of bytes that the client requested.
//!
//! A process that reads the data of all others would send one request for each, which takes half of the time of such an
//! exchange. A client of this project states the number of bytes of other processes that it accepts
//! ([`PREFETCH`](pmix_proto::request::PREFETCH)), and adapts it to the data that it has used. Clients of OpenPMIx
//! cannot state it; for them see [`unasked`](super::unasked).

use gds_hash::ModexStore;
use pmix_proto::PeerForm;
use pmix_proto::reply::Object;
use pmix_types::Proc;

use super::get_request::Form;
use super::state::{Exchange, PendingGet};
use crate::Error;
use crate::cx::Cx;

/// The limit of processes considered for one reply.
const MAX_RANKS: usize = 4096;

impl Exchange {
    /// Appends the known data of processes of the client's own job, from the next rank on, as far as the client may see
    /// them. The bytes are limited by the request and by the configuration.
    pub(super) fn prefetch(
        cx: &Cx,
        pending: &PendingGet,
        puts: &ModexStore,
        more: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let request = &pending.request;
        let limit = request.prefetch.unwrap_or(0) as usize;
        let limit = limit.min(cx.config.prefetch_bytes);
        let member = cx.member(&pending.ticket)?;
        let is_plain = request.form == Form::Objects && request.named.is_none();
        if limit == 0 || !is_plain || request.scope.is_some() || !request.is_of_proc() {
            return Ok(());
        }
        let nspace = &request.proc.nspace;
        if member.proc.nspace != *nspace {
            return Ok(());
        }
        for rank in puts.others_after(request.proc.rank).take(MAX_RANKS) {
            let of = Proc::new(nspace.clone(), rank);
            // A client has its own data, and a get for an incomplete process would wait.
            if rank == member.proc.rank || !cx.is_complete(&of) {
                continue;
            }
            // The stored size shows that the data are too long without packing them.
            if puts.num_bytes(rank) > limit.saturating_sub(more.len()) {
                break;
            }
            let Some(object) = Self::object_of(cx, &member.form, puts, of)? else {
                continue;
            };
            if more.len() + object.len() > limit {
                break;
            }
            more.extend_from_slice(&object);
        }
        Ok(())
    }

    /// Packs the data of a process that the client may see, if there are any.
    pub(super) fn object_of(
        cx: &Cx,
        form: &PeerForm,
        puts: &ModexStore,
        of: Proc<'_>,
    ) -> Result<Option<Vec<u8>>, Error> {
        // Data that cannot be packed for this client are an error only for a get that requests them.
        let kvals = puts.kvals(&cx.codec(form), of.rank, cx.scope_to_see(&of));
        match kvals.ok().filter(|kvals| !kvals.is_empty()) {
            Some(kvals) => Ok(Some(Object { of, kvals: &kvals }.encode(form)?)),
            None => Ok(None),
        }
    }
}
