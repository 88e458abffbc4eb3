// SPDX-License-Identifier: MIT OR Apache-2.0
//! Put and commit, finalize, and requests of any kind.
//!
//! Source: PMIx Standard, the chapter of the function that each method names.

use std::time::Instant;

use pmix_proto::{Command, Request, Tag, request};
use pmix_types::{Info, Scope, Status};

use super::operation::{Answer, OperationId, RequestCall, Waiting};
use super::{Core, Link, groups};
use crate::Error;

/// The time limit of an operation. Without one it waits until the server is lost.
type End = Option<Instant>;

impl Core {
    /// Puts a value as [`Client::put`](crate::Client::put) (`PMIx_Put`). If a key is put again for fewer processes, a
    /// server that can remove keys removes it for the others. Otherwise these keep the committed value.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Client::put`](crate::Client::put).
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
        // Packing takes the values out of the own puts, so it begins only if they can be sent.
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
            self.operations.add_request(id, tag, None);
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

    /// Disconnects from the server (`PMIx_Finalize`): [`Answer::Done`]. The driver closes the stream then.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`commit`](Self::commit).
    pub fn finalize(&mut self, end: End) -> Result<OperationId, Error> {
        self.call(Request::Finalize, end)
    }

    /// Sends any request: [`Answer::Payload`], which the types in [`pmix_proto::reply`] decode.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`commit`](Self::commit), and `PMIX_ERR_BAD_PARAM` for a request that has no reply.
    pub fn request(&mut self, request: &Request<'_>, end: End) -> Result<OperationId, Error> {
        self.begin(request, Waiting::Payload(request.command()), end)
    }

    /// Sends a request if init has completed.
    pub(super) fn send(&mut self, request: &Request<'_>) -> Result<Tag, Error> {
        match &mut self.link {
            Link::Lost(error) => Err(error.clone()),
            Link::Singleton => Err(Error::no_server()),
            Link::Open(_) if self.known.cache().is_none() => Err(Error::not_begun()),
            Link::Open(connection) => Ok(connection.request(request, None)?),
        }
    }

    /// Sends a request. Its answer is the variant of [`Answer`] for the request.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`commit`](Self::commit), and `PMIX_ERR_BAD_PARAM` for a request that has no reply.
    pub fn call(&mut self, request: Request<'_>, end: End) -> Result<OperationId, Error> {
        self.begin_call(request.into(), end)
    }

    /// Begins the operation of a request that a program made.
    pub(crate) fn begin_call(
        &mut self,
        call: RequestCall<'_>,
        end: End,
    ) -> Result<OperationId, Error> {
        let RequestCall {
            mut request,
            waiting,
        } = call;
        match &mut request {
            // Servers of OpenPMIx reject a fence without participants.
            Request::Fence(fence) if fence.procs.is_empty() => fence.procs.push(self.job()),
            // Servers of 5.0 require the list of the members.
            Request::GroupDestruct(destruct) if destruct.procs.is_empty() => {
                if let Some(name) = &destruct.group {
                    destruct.procs = self.known.groups().members(name);
                }
            }
            _ => {}
        }
        let begun = self.begin(&request, waiting, end);
        begun.map_err(|error| match (&request, error.status()) {
            // Layouts of releases up to 5 have no type for the request, so it cannot be packed.
            (Request::ResourceBlock(_), Status::ERR_UNKNOWN_DATA_TYPE) => {
                let message = "the server knows no blocks of resources (PMIx_Resource_block)";
                Error::new(Status::ERR_NOT_SUPPORTED, message)
            }
            _ => error,
        })
    }

    /// Begins an operation that waits for the reply to a request.
    pub(super) fn begin(
        &mut self,
        request: &Request<'_>,
        waiting: Waiting,
        end: Option<Instant>,
    ) -> Result<OperationId, Error> {
        let command = request.command();
        if !command.is_answered() {
            let message = format!("{command} has no reply to wait for");
            return Err(Error::new(Status::ERR_BAD_PARAM, message));
        }
        if let Link::Singleton = self.link {
            let outcome = self.answer_alone(request)?;
            return Ok(self.ended(outcome));
        }
        let resolved = groups::adapted(&self.known, request)?;
        let tag = self.send(resolved.as_ref().unwrap_or(request))?;
        let waiting = Waiting::of_group_end(request).unwrap_or(waiting);
        let id = self.operations.begin(waiting, end);
        self.operations.add_request(id, tag, None);
        Ok(id)
    }

    /// Begins an operation that is complete at once.
    pub(super) fn ended(&mut self, outcome: Result<Answer, Error>) -> OperationId {
        // The operation completes in the next line, so its purpose is never read.
        let id = self.operations.begin(Waiting::Welcome, None);
        self.operations.complete(id, outcome);
        id
    }
}
