// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data of further processes in the reply to a get of an OpenPMIx client, which cannot request them.
//!
//! The client libraries of the releases 3.2 to 5.0 store every byte object in a reply to GETNB, and send requests only
//! for data that are not stored. One reply can therefore contain the data that a process reading all others would
//! request next: the local processes first, and processes of other nodes when the client requests one of them.
//! [`Portions`](super::portions::Portions) decides the amount.
//!
//! A client never requests stored data again, unless its program uses `PMIX_GET_REFRESH_CACHE`. The server therefore
//! stops this once a process of the job has replaced or removed a value, or was lost: docs/decisions/0024.

use std::ops::Bound::{Excluded, Unbounded};

use gds_hash::{ModexStore, Registered, Remote};
use pmix_proto::PeerForm;
use pmix_types::{Nspace, Proc, Rank};

use super::get_request::{Form, GetRequest};
use super::portions::Portions;
use super::state::{Exchange, PendingGet};
use crate::Error;
use crate::cx::Cx;
use crate::peers::Member;
use crate::registry::ClientState;

/// The limit of processes considered for one reply.
const MAX_RANKS: usize = 4096;

impl Exchange {
    /// Appends data of other processes of the client's job to a reply of `len` bytes, if the client has not received
    /// them and its release stores them.
    ///
    /// DEVIATION: a client that received a value before its process replaced it reads the old value until it refreshes
    /// its cache, even if it had not read it; with OpenPMIx only a client that had read it does;
    /// `replaced_data_stays_old_in_a_client_that_prefetched_it`.
    pub(super) fn append_unrequested(
        &mut self,
        cx: &Cx,
        pending: &PendingGet,
        job: &Registered,
        puts: &ModexStore,
        len: usize,
        more: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let member = cx.member(&pending.ticket)?;
        let (request, peer) = (&pending.request, pending.ticket.peer());
        if !keeps_objects(&member.form) || !may_append(member, request) {
            return Ok(());
        }
        let portions = self.portions.entry(peer).or_default();
        let room = portions.record_request(request.proc.rank, cx.config.unasked);
        // Data without a request must not fill the window, which would delay other replies.
        let room = room.min(cx.config.reply_window.saturating_sub(len));
        // A client with several open requests requests everything that it needs itself.
        let is_pending = self.due.get(&peer).is_some_and(|due| !due.is_empty());
        // Once a value was replaced, data without a request could be outdated (docs/decisions/0024).
        if room == 0 || puts.has_changed() || is_pending || cx.peers.has_more(peer) {
            return Ok(());
        }
        let mut ranks = local(cx, &request.proc);
        // A client of a large job receives the location of a remote process only with the reply about that process.
        let is_remote = !cx.registry.was_here(&request.proc);
        if is_remote && Self::remote_data_for(cx, member, job.job()) != Remote::Nothing {
            let nspace = &request.proc.nspace;
            let others = puts.others_after(request.proc.rank).take(MAX_RANKS);
            ranks.extend(others.filter(|rank| !was_here(cx, nspace, *rank)));
        }
        ranks.retain(|rank| *rank != member.proc.rank && !portions.has(*rank));
        ranks.truncate(MAX_RANKS);
        let nspace = member.proc.nspace.clone();
        // The client has open gets for these processes, whose replies will have the data.
        ranks.retain(|rank| !self.gets.waits(peer, &Proc::new(nspace.clone(), *rank)));
        Self::append_objects(cx, member, &ranks, puts, portions, room, more)
    }

    fn append_objects(
        cx: &Cx,
        member: &Member,
        ranks: &[Rank],
        puts: &ModexStore,
        portions: &mut Portions,
        room: usize,
        more: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let end = more.len().saturating_add(room);
        let mut has_more = false;
        for rank in ranks {
            let of = Proc::new(member.proc.nspace.clone(), *rank);
            // The stored size shows that the data are too long without packing them.
            if puts.num_bytes(*rank) > end.saturating_sub(more.len()) {
                has_more = true;
                break;
            }
            let Some(object) = Self::object_of(cx, &member.form, puts, of)? else {
                continue;
            };
            has_more = true;
            if more.len() + object.len() > end {
                break;
            }
            more.extend_from_slice(&object);
            portions.record(*rank, object.len());
        }
        if has_more {
            portions.grow();
        }
        Ok(())
    }
}

/// Returns `true` if clients of this release store all byte objects in a reply to GETNB, including those of processes
/// that they did not request. Verified with 3.2, 4.2 and 5.0.
const fn keeps_objects(form: &PeerForm) -> bool {
    match form.major {
        3 => form.minor >= 2,
        4 | 5 => true,
        _ => false,
    }
}

/// Returns `true` for a plain request for data of a process of the client's own job.
fn may_append(member: &Member, request: &GetRequest) -> bool {
    let is_put = request.key.is_some() && !request.is_reserved() && request.is_of_proc();
    let is_plain = request.form == Form::Objects
        && request.named.is_none()
        && request.scope.is_none()
        && request.prefetch.is_none();
    let is_own = member.client.is_some() && member.proc.nspace == request.proc.nspace;
    is_put && is_plain && is_own
}

/// Returns the local processes of a job that have committed and were not lost, from the next rank on.
fn local(cx: &Cx, asked: &Proc<'_>) -> Vec<Rank> {
    let Some(job) = cx.registry.job(&asked.nspace) else {
        return Vec::new();
    };
    let above = job.clients.range((Excluded(asked.rank), Unbounded));
    let below = job.clients.range(..asked.rank);
    let committed = above.chain(below).filter(|(_, id)| {
        let client = cx.registry.client(**id);
        client.is_some_and(|client| {
            let was_lost = matches!(client.state, ClientState::Lost | ClientState::Expected);
            client.has_committed && !was_lost
        })
    });
    committed.map(|(rank, _)| *rank).take(MAX_RANKS).collect()
}

/// Returns `true` if a process is or was registered here.
fn was_here(cx: &Cx, nspace: &Nspace<'_>, rank: Rank) -> bool {
    cx.registry.was_here(&Proc::new(nspace.clone(), rank))
}
