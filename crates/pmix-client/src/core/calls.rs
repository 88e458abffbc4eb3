// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls that wait for a single reply.
//!
//! Source: PMIx Standard, the chapter of the function that each method names.

use std::time::Instant;

use pmix_proto::{Command, Request, Tag, request};
use pmix_types::{DataRange, Info, Key, Proc, Scope, Status};

use super::operation::{Answer, OperationId, Waiting};
use super::{Core, Link};
use crate::{Ask, Error, Fence};

/// The time limit of an operation. Without one it waits until the server is lost.
type End = Option<Instant>;

impl Core {
    /// Puts a value for the processes in `scope`, which can get it after a [`commit`](Self::commit) (`PMIx_Put`). If a
    /// key is put again for fewer processes, a server that can remove keys removes it for the others. Otherwise these
    /// keep the committed value.
    ///
    /// # Errors
    ///
    /// Returns one of these errors, without a change of the stored data:
    ///
    /// - `PMIX_ERR_BAD_PARAM` for an undefined scope, for an empty or too long key, and for arrays nested more than 64
    ///   deep;
    /// - `PMIX_ERR_OUT_OF_RESOURCE` for a value that does not fit into a message of 64 MiB;
    /// - `PMIX_ERR_NOT_SUPPORTED` for the removal (`PMIX_DEL_GLOBAL` and its like) of a committed key, if the server
    ///   cannot remove keys (see [`Settings::removes_keys`](crate::Settings::removes_keys));
    /// - a pack error if the value has no form in the layout of the server.
    pub fn put(&mut self, scope: Scope, info: Info<'_>) -> Result<(), Error> {
        self.known.put(scope, info)
    }

    /// Sends the values put since the last commit to the server (`PMIx_Commit`): [`Answer::Done`], at once if there are
    /// none.
    ///
    /// Data that do not fit into one message of 64 MiB are sent in several; global data count twice. All messages
    /// precede the next request. So a process that meets this one in a later fence finds all its data. After a failure,
    /// data that the server has not stored are part of the next commit.
    ///
    /// All messages are in memory until they are written, global data as three copies. The server accepts at most
    /// `Config::put_bytes_per_process` (256 MiB) of a process.
    ///
    /// # Errors
    ///
    /// Returns a pack error, or `PMIX_ERR_UNREACH` if the connection to the server is lost. No operation has begun
    /// then. This holds for all calls that begin an operation.
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

    /// Handles the reply to a message of a commit, which completes with the last of them.
    pub(super) fn committed(&mut self, id: OperationId, tag: Tag, payload: &[u8]) {
        let done = self.read_done(Command::COMMIT, payload).map(drop);
        let commit = self.operations.commit_mut(id);
        if let Some(outcome) = commit.and_then(|commit| commit.answered(tag, done)) {
            let outcome = outcome.map(|()| Answer::Done);
            self.operations.complete(id, outcome);
        }
    }

    /// Waits until all participants have entered the fence (`PMIx_Fence`): [`Answer::Done`].
    ///
    /// # Errors
    ///
    /// Returns the errors of [`commit`](Self::commit).
    pub fn fence(&mut self, fence: &Fence<'_>, end: End) -> Result<OperationId, Error> {
        let request = fence.request(self.job());
        self.done(&request, end)
    }

    /// Connects processes; the job info of each participant is cached afterwards (`PMIx_Connect`): [`Answer::Done`].
    ///
    /// # Errors
    ///
    /// Returns the errors of [`commit`](Self::commit).
    pub fn connect(
        &mut self,
        procs: &[Proc<'_>],
        infos: &[Info<'_>],
        end: End,
    ) -> Result<OperationId, Error> {
        self.ask(Ask::connect(procs.to_vec(), infos.to_vec()), end)
    }

    /// Publishes data for a user (`PMIx_Publish`): [`Answer::Done`].
    ///
    /// # Errors
    ///
    /// Returns the errors of [`commit`](Self::commit).
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

    /// Looks up the data published under these keys (`PMIx_Lookup`): [`Answer::Found`].
    ///
    /// # Errors
    ///
    /// Returns the errors of [`commit`](Self::commit).
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

    /// Removes the data that this process published under these keys (`PMIx_Unpublish`): [`Answer::Done`].
    ///
    /// # Errors
    ///
    /// Returns the errors of [`commit`](Self::commit).
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

    /// Registers for events with these codes, or for all events if `codes` is empty (`PMIx_Register_event_handler`):
    /// [`Answer::Done`].
    ///
    /// # Errors
    ///
    /// Returns the errors of [`commit`](Self::commit).
    pub fn register_events(
        &mut self,
        codes: &[Status],
        infos: &[Info<'_>],
        end: End,
    ) -> Result<OperationId, Error> {
        self.ask(Ask::register_events(codes.to_vec(), infos.to_vec()), end)
    }

    /// Notifies the processes in `range` of an event (`PMIx_Notify_event`): [`Answer::Done`].
    ///
    /// # Errors
    ///
    /// Returns the errors of [`commit`](Self::commit).
    pub fn notify(
        &mut self,
        status: Status,
        range: DataRange,
        infos: &[Info<'_>],
        end: End,
    ) -> Result<OperationId, Error> {
        self.ask(Ask::notify(status, range, infos.to_vec()), end)
    }

    /// Disconnects from the server (`PMIx_Finalize`): [`Answer::Done`]. The driver closes the stream then.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`commit`](Self::commit).
    pub fn finalize(&mut self, end: End) -> Result<OperationId, Error> {
        self.done(&Request::Finalize, end)
    }

    /// Sends a request whose reply is only a status: [`Answer::Done`].
    ///
    /// # Errors
    ///
    /// Returns the errors of [`commit`](Self::commit), and `PMIX_ERR_BAD_PARAM` for a request that has no reply.
    pub fn done(&mut self, request: &Request<'_>, end: End) -> Result<OperationId, Error> {
        self.begin(request, Waiting::Done(request.command()), end)
    }

    /// Sends any request: [`Answer::Payload`], which the types in [`pmix_proto::reply`] decode.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`commit`](Self::commit), and `PMIX_ERR_BAD_PARAM` for a request that has no reply.
    pub fn request(&mut self, request: &Request<'_>, end: End) -> Result<OperationId, Error> {
        self.begin(request, Waiting::Payload(request.command()), end)
    }
}
