// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data of further processes in the answer to a get, as many bytes as the client asked for.
//!
//! Processes that read what all others put would ask once for each: half the time of such an exchange
//! is asking. A client of this project says how many bytes of other processes it takes with an answer
//! ([`PREFETCH`](pmix_proto::request::PREFETCH)) and decides by what it has read of them how many it
//! asks for next. Clients of OpenPMIx cannot ask; for them see [`unasked`](super::unasked).

use gds_hash::ModexStore;
use pmix_proto::PeerForm;
use pmix_proto::reply::Object;
use pmix_types::Proc;

use super::get_request::Form;
use super::state::{Exchange, PendingGet};
use crate::Error;
use crate::cx::Cx;

/// How many other processes are looked at for one answer.
const MAX_RANKS: usize = 4096;

impl Exchange {
    /// Appends the data of processes of the client's own job, from the next rank on, that are known here
    /// and that the client may see: at most as many bytes as it asks for and the server gives.
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
            if rank == member.proc.rank || !cx.is_complete(&of) {
                continue;
            }
            // What is far too long is not packed to find that out.
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

    /// Packs what a process put for the client, if that is anything.
    pub(super) fn object_of(
        cx: &Cx,
        form: &PeerForm,
        puts: &ModexStore,
        of: Proc<'_>,
    ) -> Result<Option<Vec<u8>>, Error> {
        // What cannot be packed for this client is an error for who asks for it.
        let kvals = puts.kvals(&cx.codec(form), of.rank, cx.scope_to_see(&of));
        match kvals.ok().filter(|kvals| !kvals.is_empty()) {
            Some(kvals) => Ok(Some(Object { of, kvals: &kvals }.encode(form)?)),
            None => Ok(None),
        }
    }
}
