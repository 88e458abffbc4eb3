// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data of further processes behind those of a get, for clients that ask for them.
//!
//! Processes that read what all others put would ask once for each: half the time of such an exchange
//! is asking. A client of this project says how many bytes of other processes it takes with an answer
//! ([`PREFETCH`](pmix_proto::request::PREFETCH)) and decides by what it has read of them how many it
//! asks for next. Clients of other releases never ask for any: what they have stored they do not ask
//! for again, so they would not see what a process puts later under the same key.

use gds_hash::ModexStore;
use pmix_proto::reply::Object;
use pmix_types::Proc;

use super::get_request::Form;
use super::state::{Exchange, PendingGet};
use crate::Error;
use crate::cx::Cx;
use crate::registry::ClientState;

/// How many other processes are looked at for one answer.
const MAX_RANKS: usize = 4096;

impl Exchange {
    /// Appends the data of processes of the client's own job, from the next rank on, that are known here
    /// and that the client may see: at most as many bytes as it asks for and the server gives.
    pub(super) fn prefetch(
        cx: &Cx,
        pending: &PendingGet,
        puts: &ModexStore,
        payload: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let request = &pending.request;
        let limit = (request.prefetch as usize).min(cx.config.prefetch_bytes);
        let member = cx.member(&pending.ticket)?;
        let is_plain = request.form == Form::Objects && request.named.is_none();
        if limit == 0 || !is_plain || request.scope.is_some() || !request.is_of_proc() {
            return Ok(());
        }
        let nspace = &request.proc.nspace;
        if member.proc.nspace != *nspace {
            return Ok(());
        }
        let (form, codec) = (member.form, cx.codec(&member.form));
        let end = payload.len().saturating_add(limit);
        for rank in puts.others_after(request.proc.rank).take(MAX_RANKS) {
            let of = Proc::new(nspace.clone(), rank);
            if rank == member.proc.rank || !Self::is_complete(cx, &of) {
                continue;
            }
            // What cannot be packed for this client is an error for who asks for it.
            let kvals = puts.kvals(&codec, rank, Self::scope_to_see(cx, &of));
            let Some(kvals) = kvals.ok().filter(|kvals| !kvals.is_empty()) else {
                continue;
            };
            let object = Object { of, kvals: &kvals }.encode(&form)?;
            if payload.len() + object.len() > end {
                break;
            }
            payload.extend_from_slice(&object);
        }
        Ok(())
    }

    /// Whether a get of the process would be answered with what is known here: one of another node
    /// brought it as a whole, one of this node has committed and was not lost.
    fn is_complete(cx: &Cx, proc: &Proc<'_>) -> bool {
        let client = cx.registry.client_of(proc);
        client.is_none_or(|client| client.has_committed && client.state != ClientState::Lost)
    }
}
