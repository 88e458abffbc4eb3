// SPDX-License-Identifier: MIT OR Apache-2.0
//! Output and input between peers and the host.

use pmix_proto::{Output, Tag, reply, request};
use pmix_types::{Bytes, Info, IntoOwned, IofChannel, Nspace, Proc, Status, keys};

use super::{Addressed, Ended, Piece};
use crate::host::{IofPull, PushStdin};
use crate::infos::with_user;
use crate::peers::{PeerId, Ticket};
use crate::pending::Pending;
use crate::{Engine, Error};

impl Engine {
    /// Output of a process, from the host: peers that pull it are sent it, and if there are none
    /// some of it is kept until there is one (PMIx Standard, `PMIx_server_IOF_deliver`). No bytes
    /// are the end of the stream.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` if the channel is none, or that of input.
    pub fn iof_deliver(
        &mut self,
        source: &Proc<'_>,
        channel: IofChannel,
        data: Vec<u8>,
        infos: &[Info<'_>],
    ) -> Result<(), Error> {
        if channel == IofChannel::NO_CHANNELS || channel == IofChannel::STDIN_CHANNEL {
            return Err(Error::bad(format!("{channel} is no output")));
        }
        let peers = self.forwarding.deliver(Piece {
            source: source.clone().into_owned(),
            channel,
            infos: infos.to_vec().into_owned(),
            data,
        });
        for peer in peers {
            self.pump_output(peer);
        }
        self.close_refused();
        Ok(())
    }

    /// Sends a peer as much output as may be on its way to it.
    pub(crate) fn pump_output(&mut self, peer: PeerId) {
        let on_their_way = self.cx.peers.queued_bytes(peer);
        let sent = self.forwarding.pump(peer, on_their_way);
        self.send_output(peer, sent);
    }

    fn send_output(&mut self, peer: PeerId, pieces: Vec<Addressed>) {
        let Some(form) = self.cx.form(peer) else {
            return;
        };
        for (local_id, piece) in pieces {
            let output = Output {
                source: piece.source.clone(),
                channel: piece.channel,
                local_id,
                infos: piece.infos.clone(),
                data: Bytes::Borrowed(&piece.data),
            };
            match output.encode(&form, Some(self.cx.framer())) {
                Ok(bytes) => self.cx.send(peer, Tag::OUTPUT, bytes),
                Err(error) => tracing::warn!(%peer, %error, "output cannot be packed"),
            }
        }
    }

    /// A peer wants output. It comes behind the answer, what was kept for it in front.
    pub(crate) fn iof_pull(&mut self, ticket: Ticket, request: &request::IofPull<'_>) {
        match self.begin_pull(&ticket, request) {
            Err(error) => self.cx.reply_error(ticket, &error),
            Ok((number, call)) => {
                self.cx.call_host(call, Pending::IofPull(ticket, number));
            }
        }
    }

    fn begin_pull(
        &mut self,
        ticket: &Ticket,
        request: &request::IofPull<'_>,
    ) -> Result<(u64, IofPull), Error> {
        let member = self.cx.member(ticket)?;
        let user = member.user;
        for proc in &request.procs {
            self.cx.check_reads(member, &proc.nspace)?;
        }
        let procs = request.procs.clone().into_owned();
        let number = self.forwarding.pull(
            ticket.peer(),
            request.local_id,
            procs.clone(),
            request.channels,
            &request.infos,
        )?;
        let call = IofPull {
            procs,
            directives: with_user(&request.infos, user),
            channels: request.channels,
        };
        Ok((number, call))
    }

    pub(crate) fn pulled(&mut self, ticket: Ticket, number: u64, status: Status) {
        let peer = ticket.peer();
        let form = self.cx.form(peer);
        let Some(form) = form.filter(|_| status.is_success()) else {
            self.forwarding.refuse(number);
            return self.cx.reply_status(ticket, status);
        };
        let reply = reply::Pulled {
            status,
            remote_id: Some(number),
        };
        let packed = reply.encode(&form, Some(self.cx.framer()));
        self.cx.reply_packed(ticket, packed);
        self.forwarding.open(number);
        self.pump_output(peer);
    }

    /// Forwards output to a peer that need not ask for it, under the number of what nobody asked
    /// for.
    pub(crate) fn forward_unasked(
        &mut self,
        peer: PeerId,
        source: Proc<'static>,
        channels: IofChannel,
    ) {
        match self.forwarding.pull(peer, 0, vec![source], channels, &[]) {
            Ok(number) => {
                self.forwarding.open(number);
                self.pump_output(peer);
            }
            Err(error) => tracing::warn!(%peer, %error, "output is not forwarded"),
        }
    }

    /// A peer has had enough output: what was held back for it stands in front of the answer.
    pub(crate) fn iof_deregister(&mut self, ticket: Ticket, request: &request::IofDeregister<'_>) {
        let peer = ticket.peer();
        match self.forwarding.end(peer, request.remote_id) {
            Err(error) => self.cx.reply_error(ticket, &error),
            Ok((ended, held)) => {
                self.send_output(peer, held);
                self.cx.reply_status(ticket, Status::SUCCESS);
                self.stop_forwarding(ended);
            }
        }
    }

    fn stop_forwarding(&mut self, ended: Ended) {
        let call = IofPull {
            procs: ended.sources,
            directives: vec![Info::new(keys::IOF_STOP, true)],
            channels: ended.channels,
        };
        self.cx.call_host(call, Pending::Informed);
    }

    /// A peer has input for processes.
    pub(crate) fn iof_push(&mut self, ticket: Ticket, request: &request::IofPush<'_>) {
        match self.begin_push(&ticket, request) {
            Err(error) => self.cx.reply_error(ticket, &error),
            Ok(None) => self.cx.reply_status(ticket, Status::SUCCESS),
            Ok(Some(call)) => {
                self.cx.call_host(call, Pending::Status(ticket));
            }
        }
    }

    fn begin_push(
        &self,
        ticket: &Ticket,
        request: &request::IofPush<'_>,
    ) -> Result<Option<PushStdin>, Error> {
        let member = self.cx.member(ticket)?;
        for proc in &request.procs {
            self.cx.check_reads(member, &proc.nspace)?;
        }
        let says = |key| {
            let info = request.infos.iter().find(|info| info.key.is(key));
            info.is_some_and(|info| info.truth().is_true())
        };
        // A tool that says it is going to push has no input yet, and not the end of it either.
        let has_more = says(keys::IOF_PUSH_STDIN) && !says(keys::IOF_COMPLETE);
        let data = request.data.as_deref().unwrap_or_default();
        if data.is_empty() && has_more {
            return Ok(None);
        }
        Ok(Some(PushStdin {
            source: member.proc.clone(),
            targets: request.procs.clone().into_owned(),
            directives: with_user(&request.infos, member.user),
            data: data.to_vec(),
        }))
    }

    /// A peer is gone: nothing is forwarded to it any longer.
    pub(crate) fn iof_left(&mut self, peer: PeerId) {
        for ended in self.forwarding.forget(peer) {
            self.stop_forwarding(ended);
        }
    }

    /// A job is deregistered.
    pub(crate) fn iof_job_gone(&mut self, nspace: &Nspace<'_>) {
        self.forwarding.forget_nspace(nspace);
    }
}
