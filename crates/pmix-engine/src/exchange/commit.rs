// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commits of local processes.

use std::collections::{BTreeSet, HashSet};

use gds_hash::{CommitLimits, CommitPart, KeyChange};
use pmix_proto::request;
use pmix_types::{Key, Nspace, Proc, Scope, Status};

use super::notify_removed;
use super::state::Exchange;
use crate::Error;
use crate::cx::Cx;
use crate::ids::ClientId;
use crate::peers::Ticket;

/// The greatest ratio of a value's size in memory to its packed size.
const MAX_GROWTH: usize = 8;

/// The requests that wait for the keys of a commit, in order of arrival.
#[derive(Debug, Default)]
pub(super) struct Awaited {
    pub(super) gets: BTreeSet<u64>,
    pub(super) inbound: BTreeSet<u64>,
}

impl Exchange {
    /// Handles COMMIT: stores one message of a commit and retries the gets that wait for its keys, or for the first
    /// commit once that is complete. Clients up to 5.0 repeat all of their data in each commit.
    pub(crate) fn commit(&mut self, cx: &mut Cx, ticket: Ticket, request: &request::Commit<'_>) {
        match self.store_commit(cx, &ticket, request) {
            Ok((proc, awaited)) => {
                cx.reply_status(ticket, Status::SUCCESS);
                match awaited {
                    Some(awaited) => self.keys_committed(cx, &proc, awaited),
                    None => self.proc_changed(cx, &proc),
                }
            }
            Err(error) => {
                let ended = Self::end_commit(cx, &ticket);
                cx.reply_error(ticket, &error);
                if let Some(proc) = ended {
                    self.proc_changed(cx, &proc);
                }
            }
        }
    }

    /// Ends a partially stored first commit after a refused message, because the message that ends it may never arrive
    /// and gets must not wait for it. Returns the process in that case.
    fn end_commit(cx: &mut Cx, ticket: &Ticket) -> Option<Proc<'static>> {
        let id = cx.member(ticket).ok()?.client?;
        let client = cx.registry.client_mut(id)?;
        if !std::mem::take(&mut client.has_begun_commit) {
            return None;
        }
        client.has_committed = true;
        let proc = client.proc.clone();
        cx.shared.puts_changed(&proc);
        Some(proc)
    }

    /// Stores a message of a commit. Returns its process and the requests that wait for its keys; after the first
    /// commit of a process, all requests wait for keys. Returns `None` instead of requests for the message that ends
    /// the first commit.
    fn store_commit(
        &self,
        cx: &mut Cx,
        ticket: &Ticket,
        request: &request::Commit<'_>,
    ) -> Result<(Proc<'static>, Option<Awaited>), Error> {
        let member = cx.member(ticket)?;
        let Some(client) = member.client else {
            return Err(Error::denied("tools cannot commit data"));
        };
        let (proc, form) = (member.proc.clone(), member.form);
        let len = request.blocks.len();
        let put_bytes = Self::put_room(cx, client, len)?;
        let room = Self::job_room(cx, &proc.nspace, len);
        let wire = cx.codec(&form);
        let mut limits = CommitLimits {
            bytes: cx.config.put_bytes_per_process,
            keys: cx.config.put_keys_per_process,
        };
        let before = Self::num_put_bytes(cx, &proc);
        let is_short = before.saturating_add(room) < limits.bytes;
        // The room left for the job is the tighter limit.
        if is_short {
            limits.bytes = before + room;
        }
        let (mut awaited, mut keys) = (Awaited::default(), HashSet::new());
        let mut removed = Vec::new();
        let stored = cx.store.update_modex(&proc.nspace, |puts| {
            let note = |key: &Key<'static>, change| {
                self.add_awaited(&proc, key, &mut keys, &mut awaited);
                if change == KeyChange::Removed {
                    removed.push(key.clone());
                }
            };
            let part = puts.commit_telling(&wire, proc.rank, request.blocks, limits, note)?;
            Ok((puts.num_bytes(proc.rank), part))
        });
        let (after, part) = stored.map_err(|error| match error.status() {
            Status::ERR_OUT_OF_RESOURCE if is_short => Error::new(
                Status::ERR_OUT_OF_RESOURCE,
                format!(
                    "{error}; the processes of {} can put at most {} bytes in total",
                    proc.nspace, cx.config.put_bytes_per_job
                ),
            ),
            _ => error.into(),
        })?;
        // Outdated shared data are removed before the reply: afterwards other processes may rely on the new data.
        cx.shared.puts_changed(&proc);
        removed.sort_unstable();
        removed.dedup();
        notify_removed(cx, &proc, Scope::DEL_LOCAL, &removed, Some(ticket.peer()));
        if let Some(job) = cx.registry.job_mut(&proc.nspace) {
            job.put_bytes += after.saturating_sub(before);
        }
        let mut is_first = true;
        if let Some(client) = cx.registry.client_mut(client) {
            let had_committed = client.has_committed;
            client.has_committed |= part == CommitPart::End;
            client.has_begun_commit = !client.has_committed;
            is_first = client.has_committed && !had_committed;
            client.put_bytes = put_bytes + len;
        }
        Ok((proc, (!is_first).then_some(awaited)))
    }

    /// Adds the requests that wait for a key of a commit.
    fn add_awaited(
        &self,
        proc: &Proc<'static>,
        key: &Key<'static>,
        keys: &mut HashSet<Key<'static>>,
        awaited: &mut Awaited,
    ) {
        // A commit may repeat a key that many requests wait for; searching them again each time would take too long.
        if keys.contains(key) {
            return;
        }
        let mut gets = self.gets.of_key(proc, key).peekable();
        let mut inbound = self.inbound.of_key(proc, key).peekable();
        if gets.peek().is_some() || inbound.peek().is_some() {
            keys.insert(key.clone());
            awaited.gets.extend(gets);
            awaited.inbound.extend(inbound);
        }
    }

    /// Returns an upper limit of the bytes that a process has put, if `len` more are within the limit.
    ///
    /// Clients up to 5.0 repeat all data in each commit, so the sum of the messages exceeds the stored size. The stored
    /// size is computed only when the sum exceeds the limit.
    fn put_room(cx: &Cx, client: ClientId, len: usize) -> Result<usize, Error> {
        let most = cx.config.put_bytes_per_process;
        let client = cx.registry.client(client);
        let client = client.ok_or_else(|| Error::not_found("the process is deregistered"))?;
        if client.put_bytes.saturating_add(len) <= most {
            return Ok(client.put_bytes);
        }
        let num_bytes = Self::num_put_bytes(cx, &client.proc);
        match num_bytes.saturating_add(len) <= most {
            true => Ok(num_bytes),
            false => Err(Error::new(
                Status::ERR_OUT_OF_RESOURCE,
                format!("{len} bytes in addition to {num_bytes} exceed the limit of {most}"),
            )),
        }
    }

    /// Returns the number of bytes that the processes of a job may still put.
    ///
    /// The stored size is recomputed only when the sum of the additions leaves no room for a commit of this length. The
    /// values of a commit may need eight times as much memory as its bytes.
    fn job_room(cx: &mut Cx, nspace: &Nspace<'_>, len: usize) -> usize {
        let most = cx.config.put_bytes_per_job;
        let store = cx.store.job(nspace);
        let Some(job) = cx.registry.job_mut(nspace) else {
            return most;
        };
        let wanted = len.saturating_mul(MAX_GROWTH);
        if job.put_bytes.saturating_add(wanted) > most {
            let puts = store.map(|job| job.modex_store());
            let ranks = job.clients.keys().chain(&job.deregistered);
            job.put_bytes = puts.map_or(0, |puts| ranks.map(|rank| puts.num_bytes(*rank)).sum());
        }
        most.saturating_sub(job.put_bytes)
    }

    /// Returns the stored bytes of a process, which the datastore counts.
    fn num_put_bytes(cx: &Cx, proc: &Proc<'_>) -> usize {
        let job = cx.store.job(&proc.nspace);
        job.map_or(0, |job| job.modex_store().num_bytes(proc.rank))
    }
}
