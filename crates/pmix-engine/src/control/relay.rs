// SPDX-License-Identifier: MIT OR Apache-2.0
//! Relays requests that the host serves: each upcall names the requestor, and its answer is the reply.

use pmix_proto::{reply, request};
use pmix_types::{FabricOperation, Info, IntoOwned, IofChannel, Nspace, Proc, Rank, Status, keys};

use crate::Engine;
use crate::host::{
    Alloc, Answer, Fabric, GetCredential, Log, ResourceBlock, SessionControl, Spawn,
    ValidateCredential,
};
use crate::infos::with_user;
use crate::peers::Ticket;
use crate::pending::Pending;

/// Requestor asks: the process, and its user and group.
type Requestor = (Proc<'static>, (u32, u32));

impl Engine {
    /// Requestor asks; the request of one that is gone is closed.
    fn requestor(&mut self, ticket: Ticket) -> Option<(Ticket, Requestor)> {
        match self.cx.member(&ticket) {
            Ok(member) => {
                let requestor = (member.proc.clone(), member.user);
                Some((ticket, requestor))
            }
            Err(error) => {
                self.cx.reply_error(ticket, &error);
                None
            }
        }
    }

    /// Answers a request with the infos of the host.
    pub(crate) fn answer_infos(&mut self, ticket: Ticket, answer: Answer) {
        let status = answer.status();
        let infos = match answer {
            Answer::Infos(_, infos) => infos,
            _ => Vec::new(),
        };
        self.cx.reply_infos(ticket, status, infos);
    }

    pub(crate) fn spawn(&mut self, ticket: Ticket, request: &request::Spawn<'_>) {
        let Some((ticket, (proc, user))) = self.requestor(ticket) else {
            return;
        };
        let channels = forwarded(&request.infos);
        let call = Spawn {
            proc,
            infos: with_user(&request.infos, user),
            apps: request.apps.clone().into_owned(),
        };
        self.cx.call_host(call, Pending::Spawn(ticket, channels));
    }

    /// The host has started a job, or not. Output that its tool wants forwarded follows the answer.
    pub(crate) fn spawned(&mut self, ticket: Ticket, answer: Answer, channels: IofChannel) {
        let peer = ticket.peer();
        let status = answer.status();
        let nspace = match answer {
            Answer::Spawned(_, nspace) if status.is_success() => nspace,
            _ => return self.cx.reply_status(ticket, refusal(status)),
        };
        let Some(form) = self.cx.form(peer) else {
            return self.cx.reply_status(ticket, status);
        };
        let reply = reply::Spawned {
            status,
            nspace: Some(nspace.clone()),
        };
        let packed = reply.encode(&form, Some(self.cx.framer()));
        self.cx.reply_packed(ticket, packed);
        self.forward_spawned(peer, &nspace, channels);
    }

    pub(crate) fn log(&mut self, ticket: Ticket, request: &request::Log<'_>) {
        let Some((ticket, (proc, user))) = self.requestor(ticket) else {
            return;
        };
        let mut directives = with_user(&request.directives, user);
        directives.push(Info::new(keys::LOG_SOURCE, proc.clone()));
        if request.time > 0 {
            let time = pmix_types::Value::Time(request.time);
            directives.push(Info::new(keys::LOG_TIMESTAMP, time));
        }
        let call = Log {
            proc,
            data: request.data.clone().into_owned(),
            directives,
        };
        self.cx.call_host(call, Pending::Status(ticket));
    }

    pub(crate) fn allocate(&mut self, ticket: Ticket, request: &request::Allocate<'_>) {
        if let Some((ticket, (proc, user))) = self.requestor(ticket) {
            let call = Alloc {
                proc,
                directive: request.directive,
                infos: with_user(&request.infos, user),
            };
            self.cx.call_host(call, Pending::Infos(ticket));
        }
    }

    pub(crate) fn get_credential(&mut self, ticket: Ticket, request: &request::GetCredential<'_>) {
        let Some((ticket, (proc, user))) = self.requestor(ticket) else {
            return;
        };
        let directives = with_user(&request.infos, user);
        let call = GetCredential { proc, directives };
        self.cx.call_host(call, Pending::Credential(ticket));
    }

    /// Answers a request with the credential of the host.
    pub(crate) fn answer_credential(&mut self, ticket: Ticket, answer: Answer) {
        let status = answer.status();
        let Some(form) = self.cx.form(ticket.peer()) else {
            return self.cx.reply_status(ticket, status);
        };
        let Answer::Credential(Ok(credential), infos) = answer else {
            return self.cx.reply_status(ticket, refusal(status));
        };
        let reply = reply::Credential {
            status,
            credential: Some(credential.into()),
            infos: Some(infos),
        };
        let packed = reply.encode(&form, Some(self.cx.framer()));
        self.cx.reply_packed(ticket, packed);
    }

    pub(crate) fn validate_credential(
        &mut self,
        ticket: Ticket,
        request: &request::ValidateCredential<'_>,
    ) {
        if let Some((ticket, (proc, user))) = self.requestor(ticket) {
            let call = ValidateCredential {
                proc,
                credential: request.credential.to_vec(),
                directives: with_user(&request.infos, user),
            };
            self.cx.call_host(call, Pending::Infos(ticket));
        }
    }

    pub(crate) fn register_fabric(
        &mut self,
        ticket: Ticket,
        request: &request::FabricRegister<'_>,
    ) {
        let operation = FabricOperation::REQUEST_INFO;
        self.fabric(ticket, operation, &request.infos);
    }

    pub(crate) fn update_fabric(&mut self, ticket: Ticket, request: &request::FabricUpdate) {
        let index = pmix_types::Value::Size(request.index);
        let infos = [Info::new(keys::FABRIC_INDEX, index)];
        self.fabric(ticket, FabricOperation::UPDATE_INFO, &infos);
    }

    fn fabric(&mut self, ticket: Ticket, operation: FabricOperation, infos: &[Info<'_>]) {
        if let Some((ticket, (proc, user))) = self.requestor(ticket) {
            let call = Fabric {
                proc,
                operation,
                directives: with_user(infos, user),
            };
            self.cx.call_host(call, Pending::Infos(ticket));
        }
    }

    pub(crate) fn control_session(
        &mut self,
        ticket: Ticket,
        request: &request::SessionControl<'_>,
    ) {
        if let Some((ticket, (proc, user))) = self.requestor(ticket) {
            let call = SessionControl {
                proc,
                session: request.session,
                directives: with_user(&request.infos, user),
            };
            self.cx.call_host(call, Pending::Infos(ticket));
        }
    }

    pub(crate) fn resource_block(&mut self, ticket: Ticket, request: &request::ResourceBlock<'_>) {
        if let Some((ticket, (proc, user))) = self.requestor(ticket) {
            let call = ResourceBlock {
                proc,
                directive: request.directive,
                block: request.block.clone().unwrap_or_default().into_owned(),
                units: request.units.clone(),
                directives: with_user(&request.infos, user),
            };
            self.cx.call_host(call, Pending::Status(ticket));
        }
    }

    /// Forwards the output of a job to the tool that had it started.
    fn forward_spawned(
        &mut self,
        peer: crate::PeerId,
        nspace: &Nspace<'static>,
        channels: IofChannel,
    ) {
        let is_tool = self
            .cx
            .peers
            .member(peer)
            .is_some_and(|m| m.client.is_none());
        if is_tool && channels != IofChannel::NO_CHANNELS {
            let all = Proc::new(nspace.as_text().clone(), Rank::WILDCARD);
            self.forward_unasked(peer, all, channels);
        }
    }
}

/// A status that is a failure, though the host said success and brought nothing.
const fn refusal(status: Status) -> Status {
    match status.is_success() {
        true => Status::ERR_NOT_FOUND,
        false => status,
    }
}

/// The streams that a spawn wants forwarded to who asked for it.
fn forwarded(infos: &[Info<'_>]) -> IofChannel {
    let mut channels = IofChannel::NO_CHANNELS;
    for info in infos {
        let channel = match info.key.as_text().as_str() {
            Some(keys::FWD_STDOUT) => IofChannel::STDOUT_CHANNEL,
            Some(keys::FWD_STDERR) => IofChannel::STDERR_CHANNEL,
            Some(keys::FWD_STDDIAG) => IofChannel::STDDIAG_CHANNEL,
            _ => continue,
        };
        if info.truth().is_true() {
            channels |= channel;
        }
    }
    channels
}
