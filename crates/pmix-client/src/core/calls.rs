// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calls of a process that wait for one reply.
//!
//! Source: PMIx Standard, the chapter of the function that each method names.

use std::time::Instant;

use pmix_proto::{Command, Request, Tag, request};
use pmix_types::{DataRange, Info, Key, Proc, Scope, Status};

use super::operation::{Answer, OperationId, Waiting};
use super::{Core, Link};
use crate::{Ask, Error, Fence};

/// Until when an operation is to end; without a time it waits for as long as its server is there.
type End = Option<Instant>;

impl Core {
    /// Puts a value for the processes that the scope names; they can see it after a
    /// [`commit`](Self::commit) (`PMIx_Put`). One for fewer processes than before removes the key for the others
    /// where the server does that; else they keep the value that was committed for them.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` for a scope that is none, for a key that is empty or too long, and for arrays of which
    /// more than 64 stand in one another; what cannot be packed for the server; `PMIX_ERR_OUT_OF_RESOURCE` for a
    /// value that a message of 64 MiB has no room for; `PMIX_ERR_NOT_SUPPORTED` for the removal (`PMIX_DEL_GLOBAL`
    /// and its like) of a key that was committed, if the server removes no keys (see
    /// [`Settings::removes_keys`](crate::Settings::removes_keys)). Nothing has changed then.
    pub fn put(&mut self, scope: Scope, info: Info<'_>) -> Result<(), Error> {
        self.known.put(scope, info)
    }

    /// Hands what was put since the last commit to the server (`PMIx_Commit`): [`Answer::Done`], at once if nothing
    /// was. What a message of 64 MiB has no room for goes in as many as it takes; global data are twice in them. All of
    /// them are sent before whatever is asked next, so that who meets this process in a fence that it begins after
    /// this call finds all that it put. If it fails in any way, what the server has not stored is part of the next
    /// commit. All messages are in memory until they are written: global data as three copies, up to what the server
    /// takes of a process (`Config::put_bytes_per_process`, 256 MiB).
    ///
    /// # Errors
    ///
    /// What cannot be packed, or the loss of the connection to the server; nothing has begun then. This holds
    /// for all calls that begin an operation.
    pub fn commit(&mut self, end: End) -> Result<OperationId, Error> {
        if let Link::Lost(error) = &self.link {
            return Err(error.clone());
        }
        let mut commit = self.known.commit()?;
        if self.is_singleton() {
            commit.keep_here();
            return Ok(self.ended(Ok(Answer::Done)));
        }
        let tags = commit.send(|blocks| self.send(&Request::Commit(request::Commit { blocks })))?;
        if tags.is_empty() {
            return Ok(self.ended(Ok(Answer::Done)));
        }
        let id = self.operations.begin(Waiting::Commit(commit), end);
        for tag in tags {
            self.operations.ask(id, tag, None);
        }
        Ok(id)
    }

    /// Takes the server's answer to a message of a commit, which ends with the last of them.
    pub(super) fn committed(&mut self, id: OperationId, tag: Tag, payload: &[u8]) {
        let done = self.read_done(Command::COMMIT, payload).map(drop);
        let commit = self.operations.commit_mut(id);
        if let Some(outcome) = commit.and_then(|commit| commit.answered(tag, done)) {
            let outcome = outcome.map(|()| Answer::Done);
            self.operations.complete(id, outcome);
        }
    }

    /// Waits until all participants of a fence have arrived (`PMIx_Fence`): [`Answer::Done`].
    ///
    /// # Errors
    ///
    /// As [`commit`](Self::commit).
    pub fn fence(&mut self, fence: &Fence<'_>, end: End) -> Result<OperationId, Error> {
        let request = fence.request(self.job());
        self.done(&request, end)
    }

    /// Joins a connect; the job info of each participant is known afterwards (`PMIx_Connect`):
    /// [`Answer::Done`].
    ///
    /// # Errors
    ///
    /// As [`commit`](Self::commit).
    pub fn connect(
        &mut self,
        procs: &[Proc<'_>],
        infos: &[Info<'_>],
        end: End,
    ) -> Result<OperationId, Error> {
        self.ask(Ask::connect(procs.to_vec(), infos.to_vec()), end)
    }

    /// Publishes data of a user (`PMIx_Publish`): [`Answer::Done`].
    ///
    /// # Errors
    ///
    /// As [`commit`](Self::commit).
    pub fn publish(
        &mut self,
        uid: u32,
        infos: &[Info<'_>],
        end: End,
    ) -> Result<OperationId, Error> {
        let infos = infos.to_vec();
        let publish = request::Publish { uid, infos };
        self.done(&Request::Publish(publish), end)
    }

    /// Looks for what was published under these keys (`PMIx_Lookup`): [`Answer::Found`].
    ///
    /// # Errors
    ///
    /// As [`commit`](Self::commit).
    pub fn lookup(
        &mut self,
        uid: u32,
        keys: &[&str],
        infos: &[Info<'_>],
        end: End,
    ) -> Result<OperationId, Error> {
        let keys = keys.iter().copied().map(Key::from).collect();
        let infos = infos.to_vec();
        let lookup = Request::Lookup(request::Lookup { uid, keys, infos });
        self.begin(&lookup, Waiting::Found, end)
    }

    /// Withdraws what this process published under these keys (`PMIx_Unpublish`): [`Answer::Done`].
    ///
    /// # Errors
    ///
    /// As [`commit`](Self::commit).
    pub fn unpublish(
        &mut self,
        uid: u32,
        keys: &[&str],
        infos: &[Info<'_>],
        end: End,
    ) -> Result<OperationId, Error> {
        let keys = keys.iter().copied().map(Key::from).collect();
        let infos = infos.to_vec();
        let unpublish = request::Unpublish { uid, keys, infos };
        self.done(&Request::Unpublish(unpublish), end)
    }

    /// Registers for events, for all if no codes are named (`PMIx_Register_event_handler`):
    /// [`Answer::Done`].
    ///
    /// # Errors
    ///
    /// As [`commit`](Self::commit).
    pub fn register_events(
        &mut self,
        codes: &[Status],
        infos: &[Info<'_>],
        end: End,
    ) -> Result<OperationId, Error> {
        self.ask(Ask::register_events(codes.to_vec(), infos.to_vec()), end)
    }

    /// Reports an event to others (`PMIx_Notify_event`): [`Answer::Done`].
    ///
    /// # Errors
    ///
    /// As [`commit`](Self::commit).
    pub fn notify(
        &mut self,
        status: Status,
        range: DataRange,
        infos: &[Info<'_>],
        end: End,
    ) -> Result<OperationId, Error> {
        self.ask(Ask::notify(status, range, infos.to_vec()), end)
    }

    /// Leaves the server (`PMIx_Finalize`): [`Answer::Done`]. The stream is to be closed then.
    ///
    /// # Errors
    ///
    /// As [`commit`](Self::commit).
    pub fn finalize(&mut self, end: End) -> Result<OperationId, Error> {
        self.done(&Request::Finalize, end)
    }

    /// Makes a request that is answered with a status alone: [`Answer::Done`].
    ///
    /// # Errors
    ///
    /// As [`commit`](Self::commit); `PMIX_ERR_BAD_PARAM` for a request that has no reply.
    pub fn done(&mut self, request: &Request<'_>, end: End) -> Result<OperationId, Error> {
        self.begin(request, Waiting::Done(request.command()), end)
    }

    /// Makes any request: [`Answer::Payload`], to be read by the types in [`pmix_proto::reply`].
    ///
    /// # Errors
    ///
    /// As [`commit`](Self::commit); `PMIX_ERR_BAD_PARAM` for a request that has no reply.
    pub fn request(&mut self, request: &Request<'_>, end: End) -> Result<OperationId, Error> {
        self.begin(request, Waiting::Payload(request.command()), end)
    }
}
