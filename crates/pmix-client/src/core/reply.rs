// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decoding of replies for the operations that wait for them.

use pmix_proto::reply::{
    self, Credential, Distances, Done, Found, Infos, Objects, Pulled, Spawned,
};
use pmix_proto::{Command, Request, Tag, request};
use pmix_types::{IntoOwned as _, Status, memory};

use super::operation::{Answer, OperationId, Waiting};
use super::{Core, Link};
use crate::cache::JobCache;
use crate::known::read_job_info;
use crate::{Error, Group};

impl Core {
    /// Completes an operation by the reply to its request.
    pub(super) fn answer(&mut self, id: OperationId, tag: Tag, payload: &[u8]) {
        match self.operations.waiting(id) {
            Some(Waiting::JobInfoForGet(_)) => return self.handle_job_info(id, payload),
            Some(Waiting::Get(pending)) if pending.refreshes() && self.is_empty(payload) => {
                return self.repeat_get(id);
            }
            Some(Waiting::Commit(_)) => return self.committed(id, tag, payload),
            Some(Waiting::Done(Command::IOF_PUSH)) => return self.pushed(id, payload),
            _ => {}
        }
        let Some(waiting) = self.operations.end(id) else {
            return;
        };
        let is_init = matches!(waiting, Waiting::JobInfo);
        let outcome = self.read(waiting, payload);
        // No call can begin without the job info, so a failed init ends the connection.
        let refused = outcome.as_ref().err().filter(|_| is_init).cloned();
        self.operations.completed(id, outcome);
        if let Some(error) = refused {
            self.lose(&error);
        }
    }

    /// Returns `true` for the successful reply to a get that has no data.
    fn is_empty(&self, payload: &[u8]) -> bool {
        let objects = Objects::decode(&self.form, None, payload);
        objects.is_ok_and(|reply| reply.status.is_success() && reply.objects.is_empty())
    }

    /// Completes a push of input, or keeps it until the server accepts input again.
    fn pushed(&mut self, id: OperationId, payload: &[u8]) {
        let mut outcome = self.read_done(Command::IOF_PUSH, payload);
        let stops = |error: &Error| error.status() == Status::ERR_IOF_XOFF;
        if outcome.as_ref().is_err_and(stops) {
            // The server has accepted this input and accepts no more for now.
            self.operations.set_stopped(true);
            outcome = Ok(Answer::Done);
        }
        match outcome {
            Ok(_) if self.operations.is_stopped() => self.operations.keep_until_resumed(id),
            outcome => self.operations.complete(id, outcome),
        }
    }

    fn read(&mut self, waiting: Waiting, payload: &[u8]) -> Result<Answer, Error> {
        match waiting {
            Waiting::JobInfo => {
                let info = read_job_info(&self.form, payload)?;
                let host = self.settings.host.as_deref();
                let cache = JobCache::new(self.form, &self.settings.proc, host, &info)?;
                self.known.begin(cache);
                Ok(Answer::Done)
            }
            Waiting::Done(command) => self.read_done(command, payload),
            Waiting::Left(name) => {
                // A process whose leave was rejected is still a member, and a destruct needs the other members.
                let left = self.read_done(Command::GROUP_LEAVE, payload)?;
                self.known.groups().forget(&name);
                Ok(left)
            }
            // The server removes the group even if the destruct fails.
            Waiting::Destructed(name) => {
                self.known.groups().forget(&name);
                self.read_done(Command::GROUP_DESTRUCT, payload)
            }
            Waiting::Payload(_) => Ok(Answer::Payload(memory::copy(payload)?)),
            Waiting::Get(pending) => {
                let objects = Objects::decode(&self.form, None, payload)?;
                self.known
                    .store_reply(&pending, &objects)
                    .map(Answer::Value)
            }
            Waiting::Jobs => {
                let objects = Objects::decode(&self.form, None, payload)?;
                let status = objects.status;
                match self.known.cache() {
                    Some(cache) if status.is_success() => cache.absorb_jobs(&objects)?,
                    _ => return Err(Error::answered(status, Command::CONNECT)),
                }
                Ok(Answer::Done)
            }
            Waiting::Found => {
                let found = Found::decode(&self.form, None, payload)?;
                match found.status {
                    status if status.is_success() || status == Status::ERR_PARTIAL_SUCCESS => {
                        let data = found.data.unwrap_or_default().try_into_owned()?;
                        Ok(Answer::Found(status, data))
                    }
                    status => Err(Error::answered(status, Command::LOOKUP)),
                }
            }
            Waiting::Infos(_) => {
                let infos = Infos::decode(&self.form, None, payload)?;
                let all = infos.infos.unwrap_or_default().try_into_owned()?;
                // The status is part of the result, since a partial success has infos as well.
                Ok(Answer::Infos(infos.status, all))
            }
            Waiting::Distances => {
                let found = Distances::decode(&self.form, None, payload)?;
                match found.status.is_success() {
                    true => Ok(Answer::Distances(
                        found.distances.unwrap_or_default().try_into_owned()?,
                    )),
                    false => Err(Error::answered(found.status, Command::DEVICE_DISTANCES)),
                }
            }
            Waiting::Pulled => {
                let pulled = Pulled::decode(&self.form, None, payload)?;
                match pulled.remote_id {
                    Some(id) if pulled.status.is_success() => Ok(Answer::Pulled(id)),
                    _ => Err(Error::answered(pulled.status, Command::IOF_PULL)),
                }
            }
            Waiting::Job => {
                let spawned = Spawned::decode(&self.form, None, payload)?;
                match spawned.nspace {
                    Some(job) if spawned.status.is_success() => Ok(Answer::Job(job.into_owned())),
                    _ => Err(Error::answered(spawned.status, Command::SPAWN)),
                }
            }
            Waiting::Credential => {
                let made = Credential::decode(&self.form, None, payload)?;
                match made.credential {
                    Some(bytes) if made.status.is_success() => {
                        let infos = made.infos.unwrap_or_default().try_into_owned()?;
                        Ok(Answer::Credential(memory::copy(&bytes)?, infos))
                    }
                    _ => Err(Error::answered(made.status, Command::GET_CREDENTIAL)),
                }
            }
            Waiting::Constructed(name) => {
                let made = reply::Group::decode(&self.form, None, payload)?;
                let group = Group::constructed(name, made, Command::GROUP_CONSTRUCT)?;
                self.known.store_shared(&group)?;
                Ok(Answer::Group(self.known.groups().insert(group)))
            }
            // These have no reply, or it is handled elsewhere.
            Waiting::Welcome
            | Waiting::Group(_)
            | Waiting::JobInfoForGet(_)
            | Waiting::Resumed
            | Waiting::Commit(_) => Err(Error::new(
                Status::ERR_COMM_FAILURE,
                "a reply without a request",
            )),
        }
    }

    /// Decodes a reply that is only a status.
    pub(super) fn read_done(&self, command: Command, payload: &[u8]) -> Result<Answer, Error> {
        let status = Done::decode(&self.form, None, payload)?.status;
        match status {
            // `PMIX_OPERATION_SUCCEEDED` marks an operation that the server completed at once.
            Status::SUCCESS | Status::OPERATION_SUCCEEDED => Ok(Answer::Done),
            _ => Err(Error::answered(status, command)),
        }
    }

    /// Sends a message that has no reply.
    pub(super) fn send_unanswered(&mut self, request: &Request<'_>) -> Result<(), Error> {
        self.send(request).map(drop)
    }

    /// Sends a heartbeat (`PMIx_Heartbeat`), as [`Client::heartbeat`](crate::Client::heartbeat).
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_UNREACH` if the connection to the server is lost.
    pub fn heartbeat(&mut self) -> Result<(), Error> {
        match &mut self.link {
            Link::Lost(error) => Err(error.clone()),
            Link::Singleton => Err(Error::no_server()),
            Link::Open(connection) => Ok(connection.heartbeat()?),
        }
    }

    /// Deregisters from events (`PMIx_Deregister_event_handler`). The message has no reply.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_UNREACH` if the connection to the server is lost.
    pub fn deregister_events(&mut self, codes: &[Status]) -> Result<(), Error> {
        let codes = match codes.is_empty() {
            true => vec![request::DeregisterEvents::DEFAULT],
            // The operations on groups need their events further on.
            false => { codes.iter() }
                .filter(|code| !self.needs_event(**code))
                .copied()
                .collect(),
        };
        if codes.is_empty() {
            return Ok(());
        }
        let request = request::DeregisterEvents { codes };
        match self.link {
            // A singleton has no registration at a server.
            Link::Singleton => Ok(()),
            _ => self.send_unanswered(&Request::DeregisterEvents(request)),
        }
    }
}
