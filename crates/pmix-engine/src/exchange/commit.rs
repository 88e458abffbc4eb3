// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commits of local processes, which are stored in parts. [`super::unfinished`] has the table of their states.

use std::collections::HashSet;

use gds_hash::{CommitLimits, CommitPart, KeyChange, StagedCommit};
use pmix_proto::request;
use pmix_types::{Key, Nspace, Proc, Scope, Status};

use super::notify_removed;
use super::state::Exchange;
use super::unfinished::{Awaited, UnfinishedCommit};
use crate::Error;
use crate::cx::Cx;
use crate::ids::ClientId;
use crate::peers::{PeerId, Ticket};

/// The greatest ratio of a value's size in memory to its packed size.
const MAX_GROWTH: usize = 8;

/// The number of removed keys of which clients are informed in one part.
const KEYS_OF_A_PART: usize = 1024;

/// The state of a commit after a part.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    More,
    Completed,
}

impl Exchange {
    /// Handles COMMIT: stores the first part of a message of a commit. Once all is stored, retries the gets that wait
    /// for its keys, or for the first commit once that is complete. Clients up to 5.0 repeat all of their data in each
    /// commit.
    pub(crate) fn commit(&mut self, cx: &mut Cx, ticket: Ticket, request: &request::Commit<'_>) {
        let blocks = request.blocks;
        // Commits of a process are stored in order of arrival, and each counts the bytes of those before it.
        let proc = cx.member(&ticket).map(|member| member.proc.clone());
        while let Ok(proc) = &proc
            && let Some(peer) = self.commits.by_proc.get(proc).copied()
        {
            self.advance_commit(cx, peer);
        }
        let mut commit = match Self::begin_commit(cx, ticket, blocks.len()) {
            Ok(commit) => commit,
            Err((ticket, error)) => return self.refuse_commit(cx, ticket, &error),
        };
        loop {
            match self.store_part(cx, &mut commit, blocks) {
                Ok(Progress::Completed) => return self.end_commit(cx, commit),
                Ok(Progress::More) if self.commits.has_room(commit.len) => {
                    return self.commits.add(cx, commit);
                }
                Ok(Progress::More) => {}
                Err(error) => return self.refuse_commit(cx, commit.ticket, &error),
            }
        }
    }

    /// Keeps the message of the unfinished commit of a peer, which ends with the data.
    pub(crate) fn keep_message(&mut self, peer: PeerId, message: Vec<u8>) {
        if let Some(commit) = self.commits.all.get_mut(&peer) {
            commit.message = message;
        }
    }

    /// Stores the next part of the unfinished commit of a peer.
    pub(crate) fn advance_commit(&mut self, cx: &mut Cx, peer: PeerId) {
        let Some(mut commit) = self.commits.all.remove(&peer) else {
            return;
        };
        let message = std::mem::take(&mut commit.message);
        let start = message.len().saturating_sub(commit.len);
        let blocks = message.get(start..).unwrap_or_default();
        let progress = self.store_part(cx, &mut commit, blocks);
        commit.message = message;
        self.commits.all.insert(peer, commit);
        if let Ok(Progress::More) = progress {
            return;
        }
        let Some(commit) = self.commits.remove(cx, peer) else {
            return;
        };
        match progress {
            Ok(_) => self.end_commit(cx, commit),
            Err(error) => self.refuse_commit(cx, commit.ticket, &error),
        }
    }

    /// Drops the unfinished commit of a peer that has left.
    pub(super) fn drop_commit(&mut self, cx: &mut Cx, peer: PeerId) {
        if let Some(commit) = self.commits.remove(cx, peer) {
            if let Some(num_notified) = commit.num_notified {
                let rest = commit.removed.get(num_notified..).unwrap_or_default();
                notify_removed(cx, &commit.proc, Scope::DEL_LOCAL, rest, Some(peer));
            }
            cx.peers.settle(commit.ticket);
        }
    }

    fn refuse_commit(&mut self, cx: &mut Cx, ticket: Ticket, error: &Error) {
        let ended = Self::end_first_commit(cx, &ticket);
        cx.reply_error(ticket, error);
        if let Some(proc) = ended {
            self.proc_changed(cx, &proc);
        }
    }

    /// Replies to a stored message of a commit, and retries the requests that wait for it.
    fn end_commit(&mut self, cx: &mut Cx, commit: UnfinishedCommit) {
        let (proc, mut awaited) = (commit.proc, commit.awaited);
        cx.reply_status(commit.ticket, Status::SUCCESS);
        if commit.is_first {
            return self.proc_changed(cx, &proc);
        }
        // Requests that arrived after the first part may have missed their keys.
        let [gets, inbound] = commit.since;
        awaited.gets.extend(self.gets.of_proc_after(&proc, gets));
        awaited
            .inbound
            .extend(self.inbound.of_proc_after(&proc, inbound));
        self.keys_committed(cx, &proc, awaited);
    }

    /// Ends a partially stored first commit after a refused message, because the message that ends it may never arrive
    /// and gets must not wait for it. Returns the process in that case.
    fn end_first_commit(cx: &mut Cx, ticket: &Ticket) -> Option<Proc<'static>> {
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

    /// Checks that a process may commit a message of `len` bytes.
    ///
    /// # Errors
    ///
    /// Returns the ticket with the error.
    fn begin_commit(
        cx: &mut Cx,
        ticket: Ticket,
        len: usize,
    ) -> Result<UnfinishedCommit, (Ticket, Error)> {
        let checked = match cx.member(&ticket) {
            Ok(member) => match member.client {
                Some(client) => Ok((client, member.proc.clone(), member.form)),
                None => Err(Error::denied("tools cannot commit data")),
            },
            Err(error) => Err(error),
        };
        let checked = checked.and_then(|(client, proc, form)| {
            let put_bytes = Self::put_room(cx, client, len)?;
            Ok((client, proc, form, put_bytes))
        });
        let (client, proc, form, put_bytes) = match checked {
            Ok(checked) => checked,
            Err(error) => return Err((ticket, error)),
        };
        Ok(UnfinishedCommit {
            staged: None,
            ticket,
            client,
            proc,
            form,
            message: Vec::new(),
            len,
            put_bytes,
            is_short: false,
            before: 0,
            since: [0; 2],
            awaited: Awaited::default(),
            keys: HashSet::new(),
            removed: Vec::new(),
            num_notified: None,
            is_first: true,
        })
    }

    /// Prepares the first part of a commit with the present data of the process.
    fn stage(&self, cx: &mut Cx, commit: &mut UnfinishedCommit) -> StagedCommit {
        let proc = &commit.proc;
        let room = Self::job_room(cx, &proc.nspace, commit.len);
        let before = Self::num_put_bytes(cx, proc);
        let mut limits = CommitLimits {
            bytes: cx.config.put_bytes_per_process,
            keys: cx.config.put_keys_per_process,
        };
        let is_short = before.saturating_add(room) < limits.bytes;
        // The room left for the job is the tighter limit.
        if is_short {
            limits.bytes = before + room;
        }
        let job = cx.store.job(&proc.nspace);
        let puts = job.map(|job| job.modex_store()).unwrap_or_default();
        let staged = puts.begin_commit(proc.rank, limits);
        (commit.is_short, commit.before) = (is_short, before);
        commit.since = [self.gets.last(), self.inbound.last()];
        commit.awaited = Awaited::default();
        commit.keys.clear();
        commit.removed.clear();
        staged
    }

    /// Does one part of a commit: stores keys, or informs clients of removed keys.
    fn store_part(
        &self,
        cx: &mut Cx,
        commit: &mut UnfinishedCommit,
        blocks: &[u8],
    ) -> Result<Progress, Error> {
        let Some(num_notified) = commit.num_notified else {
            let staged = commit.staged.take();
            let mut staged = staged.unwrap_or_else(|| self.stage(cx, commit));
            let UnfinishedCommit {
                proc,
                keys,
                awaited,
                removed,
                ..
            } = commit;
            let note = |key: &Key<'static>, change| {
                self.add_awaited(proc, key, keys, awaited);
                if change == KeyChange::Removed {
                    removed.push(key.clone());
                }
            };
            let wire = cx.codec(&commit.form);
            let stored = staged.advance(&wire, blocks, note);
            return match stored.map_err(|error| Self::limit_of_job(cx, commit, error.into()))? {
                true => self.install(cx, commit, staged),
                false => {
                    commit.staged = Some(staged);
                    Ok(Progress::More)
                }
            };
        };
        let rest = commit.removed.get(num_notified..).unwrap_or_default();
        let keys = rest.get(..KEYS_OF_A_PART).unwrap_or(rest);
        let peer = commit.ticket.peer();
        notify_removed(cx, &commit.proc, Scope::DEL_LOCAL, keys, Some(peer));
        let num_notified = num_notified + keys.len();
        commit.num_notified = Some(num_notified);
        match num_notified < commit.removed.len() {
            true => Ok(Progress::More),
            false => Ok(Progress::Completed),
        }
    }

    /// Replaces the data of the process by the staged data.
    fn install(
        &self,
        cx: &mut Cx,
        commit: &mut UnfinishedCommit,
        mut staged: StagedCommit,
    ) -> Result<Progress, Error> {
        let after = staged.num_bytes();
        let more = after.saturating_sub(commit.before);
        // Other processes may have used the room of the job since the first part.
        if more > Self::job_room(cx, &commit.proc.nspace, more.div_ceil(MAX_GROWTH)) {
            commit.is_short = true;
            let error = Error::new(
                Status::ERR_OUT_OF_RESOURCE,
                format!("a commit that adds {more} bytes"),
            );
            return Err(Self::limit_of_job(cx, commit, error));
        }
        let is_stored = cx
            .store
            .update_modex(&commit.proc.nspace, |puts| Ok(puts.end_commit(&mut staged)))?;
        if !is_stored {
            // A group has shared data of the process meanwhile. The next part begins again with them.
            return Ok(Progress::More);
        }
        // Outdated shared data are removed before the reply: afterwards other processes may rely on the new data.
        cx.shared.puts_changed(&commit.proc);
        if let Some(job) = cx.registry.job_mut(&commit.proc.nspace) {
            job.put_bytes += more;
        }
        if let Some(client) = cx.registry.client_mut(commit.client) {
            let had_committed = client.has_committed;
            client.has_committed |= staged.part() == CommitPart::End;
            client.has_begun_commit = !client.has_committed;
            commit.is_first = client.has_committed && !had_committed;
            client.put_bytes = commit.put_bytes.saturating_add(commit.len);
        }
        commit.num_notified = Some(0);
        match commit.removed.is_empty() {
            true => Ok(Progress::Completed),
            // Few keys are reported in the same part.
            false if commit.removed.len() <= KEYS_OF_A_PART / 8 => self.store_part(cx, commit, &[]),
            false => Ok(Progress::More),
        }
    }

    /// Adds the limit of the job to an error, if it is the tighter one.
    fn limit_of_job(cx: &Cx, commit: &UnfinishedCommit, error: Error) -> Error {
        match error.status() {
            Status::ERR_OUT_OF_RESOURCE if commit.is_short => Error::new(
                Status::ERR_OUT_OF_RESOURCE,
                format!(
                    "{error}; the processes of {} can put at most {} bytes in total",
                    commit.proc.nspace, cx.config.put_bytes_per_job
                ),
            ),
            _ => error,
        }
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
