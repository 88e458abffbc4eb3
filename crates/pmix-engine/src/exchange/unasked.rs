// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data of further processes in the answer to a get of a client of OpenPMIx, which cannot ask for them.
//!
//! The client libraries of the releases 3.2 to 5.0 keep every object that an answer to GETNB has and ask
//! again only for what they do not find there. So one answer can have what a process that reads all
//! others would ask for next: local processes first, and processes of other nodes when the client asks
//! about one. How much is up to [`Portions`](super::portions::Portions).
//!
//! What a client keeps it never asks for again, unless its program says `PMIX_GET_REFRESH_CACHE`. So
//! nothing more is sent once a process of the job has put another value under a key, has taken one
//! back, or was lost: docs/decisions/0024.

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

/// How many other processes are looked at for one answer.
const MAX_RANKS: usize = 4096;

impl Exchange {
    /// Adds to what stands behind an answer about a process, which has so many bytes, what others of the client's
    /// job put and the client was not sent yet, if its release keeps it.
    ///
    /// DEVIATION: a client that was sent a value before its process puts another one reads the old one
    /// until it refreshes its cache, though it has not read it before; with OpenPMIx only who has;
    /// `what_is_put_again_is_read_old_by_who_was_brought_it`.
    pub(super) fn bring_unasked(
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
        if !keeps_objects(&member.form) || !may_bring(member, request) {
            return Ok(());
        }
        let portions = self.portions.entry(peer).or_default();
        let room = portions.asked(request.proc.rank, cx.config.unasked);
        let room = room.min(cx.config.reply_window.saturating_sub(len));
        // Who asks for several things at once has asked for what it wants.
        let is_pending = self.due.get(&peer).is_some_and(|due| !due.is_empty());
        if room == 0 || puts.has_changed() || is_pending || cx.peers.has_more(peer) {
            return Ok(());
        }
        let mut ranks = local(cx, &request.proc);
        // Where a process elsewhere is, a client of a large job is sent with the answer about it alone.
        let is_remote = !cx.registry.was_here(&request.proc);
        if is_remote && Self::told_to(cx, member, job.job()) != Remote::Nothing {
            let nspace = &request.proc.nspace;
            let others = puts.others_after(request.proc.rank).take(MAX_RANKS);
            ranks.extend(others.filter(|rank| !was_here(cx, nspace, *rank)));
        }
        ranks.retain(|rank| *rank != member.proc.rank && !portions.has(*rank));
        ranks.truncate(MAX_RANKS);
        let nspace = member.proc.nspace.clone();
        ranks.retain(|rank| !self.gets.waits(peer, &Proc::new(nspace.clone(), *rank)));
        Self::append_unasked(cx, member, &ranks, puts, portions, room, more)
    }

    fn append_unasked(
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
            // What is far too long is not packed to find that out.
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
            portions.bring(*rank, object.len());
        }
        if has_more {
            portions.grow();
        }
        Ok(())
    }
}

/// Whether clients of a release keep every object of an answer: tried with 3.2, 4.2 and 5.0.
const fn keeps_objects(form: &PeerForm) -> bool {
    match form.major {
        3 => form.minor >= 2,
        4 | 5 => true,
        _ => false,
    }
}

/// Whether a request is one for what a process of the own job put, which says nothing of others.
fn may_bring(member: &Member, request: &GetRequest) -> bool {
    let is_put = request.key.is_some() && !request.is_reserved() && request.is_of_proc();
    let is_plain = request.form == Form::Objects
        && request.named.is_none()
        && request.scope.is_none()
        && request.prefetch.is_none();
    let is_own = member.client.is_some() && member.proc.nspace == request.proc.nspace;
    is_put && is_plain && is_own
}

/// The local processes of a job that have committed and were not lost, from the next rank on.
fn local(cx: &Cx, asked: &Proc<'_>) -> Vec<Rank> {
    let Some(job) = cx.registry.job(&asked.nspace) else {
        return Vec::new();
    };
    let above = job.clients.range((Excluded(asked.rank), Unbounded));
    let below = job.clients.range(..asked.rank);
    let there = above.chain(below).filter(|(_, id)| {
        let client = cx.registry.client(**id);
        client.is_some_and(|client| {
            let was_lost = matches!(client.state, ClientState::Lost | ClientState::Expected);
            client.has_committed && !was_lost
        })
    });
    there.map(|(rank, _)| *rank).take(MAX_RANKS).collect()
}

/// Whether a process is registered here, or was.
fn was_here(cx: &Cx, nspace: &Nspace<'_>, rank: Rank) -> bool {
    cx.registry.was_here(&Proc::new(nspace.clone(), rank))
}
