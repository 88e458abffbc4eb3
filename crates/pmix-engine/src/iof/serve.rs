// SPDX-License-Identifier: MIT OR Apache-2.0
//! The requests about output and input, and the output of the host.

use pmix_proto::{Output, Tag, reply, request};
use pmix_types::{Bytes, Info, InfoFlags, IntoOwned, IofChannel, Nspace, Proc, Rank, Status, keys};

use super::{Addressed, EndedPull, Forwarding, Piece};
use crate::cx::Cx;
use crate::host::{HostReply, IofPull, PushStdin};
use crate::infos::{try_to_owned, with_user};
use crate::peers::{PeerId, Ticket};
use crate::pending::Pending;
use crate::{Error, obeyed, relay};

impl Forwarding {
    /// Forwards output of the host (PMIx Standard, `PMIx_server_IOF_deliver`) to the peers that pull it. Without such
    /// peers, a limited amount is kept for the first one. No bytes mean the end of the stream.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` if the channel is unknown or that of input, and `PMIX_ERR_NOMEM` if there is no
    /// memory for a copy of the infos.
    pub(crate) fn handle_output(
        &mut self,
        cx: &mut Cx,
        source: &Proc<'_>,
        channel: IofChannel,
        data: Vec<u8>,
        infos: &[Info<'_>],
    ) -> Result<(), Error> {
        if channel == IofChannel::NO_CHANNELS || channel == IofChannel::STDIN_CHANNEL {
            return Err(Error::bad(format!("{channel} is not an output channel")));
        }
        let piece = Piece {
            source: source.clone().into_owned(),
            channel,
            infos: try_to_owned(infos)?,
            data,
        };
        let peers = self.deliver(piece, |peer, nspace| may_read(cx, peer, nspace));
        for peer in peers {
            self.pump_output(cx, peer);
        }
        Ok(())
    }

    /// Sends output to a peer, up to the window of unread bytes.
    pub(crate) fn pump_output(&mut self, cx: &mut Cx, peer: PeerId) {
        let queued_bytes = cx.peers.queued_bytes(peer);
        let sent = self.pump(peer, queued_bytes);
        Self::send_output(cx, peer, sent);
    }

    fn send_output(cx: &mut Cx, peer: PeerId, pieces: Vec<Addressed>) {
        let Some(form) = cx.form(peer) else {
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
            match output.encode(&form, Some(cx.framer())) {
                Ok(bytes) => cx.send(peer, Tag::OUTPUT, bytes),
                Err(error) => tracing::warn!(%peer, %error, "cannot pack output"),
            }
        }
    }

    /// Handles a pull. Output follows the reply, with kept output first.
    pub(crate) fn iof_pull(&mut self, cx: &mut Cx, ticket: Ticket, request: &request::IofPull<'_>) {
        match self.begin_pull(cx, &ticket, request) {
            Err(error) => cx.reply_error(ticket, &error),
            Ok((number, call)) => {
                cx.call_host(call, Pending::IofPull(ticket, number));
            }
        }
    }

    fn begin_pull(
        &mut self,
        cx: &mut Cx,
        ticket: &Ticket,
        request: &request::IofPull<'_>,
    ) -> Result<(u64, IofPull), Error> {
        let member = cx.member(ticket)?;
        let user = member.user;
        for proc in &request.procs {
            // The owner of a job may become known later, so each piece of output is checked again.
            cx.check_reads(member, &proc.nspace)?;
        }
        let procs = Proc::owned_list(&request.procs);
        let number = self.pull(
            ticket.peer(),
            request.local_id,
            procs.clone(),
            request.channels,
            &request.infos,
        )?;
        let call = IofPull {
            procs,
            directives: for_host(&request.infos, user),
            channels: request.channels,
        };
        Ok((number, call))
    }

    pub(crate) fn pulled(&mut self, cx: &mut Cx, ticket: Ticket, number: u64, status: Status) {
        let peer = ticket.peer();
        let form = cx.form(peer);
        let Some(form) = form.filter(|_| status.is_success()) else {
            self.refuse(number);
            return cx.reply_status(ticket, status);
        };
        let reply = reply::Pulled {
            status,
            remote_id: Some(number),
        };
        let packed = reply.encode(&form, Some(cx.framer()));
        cx.reply_packed(ticket, packed);
        // The reply tells the peer the number of its pull, which the output carries.
        self.open(number, |peer, nspace| may_read(cx, peer, nspace));
        self.pump_output(cx, peer);
    }

    /// Handles the host's reply to a spawn: replies to the requestor, and forwards the output of the job.
    pub(crate) fn spawned(
        &mut self,
        cx: &mut Cx,
        ticket: Ticket,
        channels: IofChannel,
        reply: HostReply,
    ) {
        let peer = ticket.peer();
        if let Some(nspace) = relay::spawned(cx, ticket, reply) {
            self.forward_spawned(cx, peer, &nspace, channels);
        }
    }

    /// Forwards the output of a spawned job to the tool that requested it, under number 0, since the tool did not pull
    /// it.
    fn forward_spawned(
        &mut self,
        cx: &mut Cx,
        peer: PeerId,
        nspace: &Nspace<'static>,
        channels: IofChannel,
    ) {
        let is_tool = cx.peers.member(peer).is_some_and(|m| m.client.is_none());
        if !is_tool || channels == IofChannel::NO_CHANNELS {
            return;
        }
        let source = Proc::new(nspace.as_text().clone(), Rank::WILDCARD);
        match self.pull(peer, 0, vec![source], channels, &[]) {
            Ok(number) => {
                self.open(number, |peer, nspace| may_read(cx, peer, nspace));
                self.pump_output(cx, peer);
            }
            Err(error) => tracing::warn!(%peer, %error, "cannot forward output"),
        }
    }

    /// Handles the end of a pull. The held output is sent before the reply.
    pub(crate) fn iof_deregister(
        &mut self,
        cx: &mut Cx,
        ticket: Ticket,
        request: &request::IofDeregister<'_>,
    ) {
        let peer = ticket.peer();
        match self.end(peer, request.remote_id) {
            Err(error) => cx.reply_error(ticket, &error),
            Ok((ended, held)) => {
                Self::send_output(cx, peer, held);
                cx.reply_status(ticket, Status::SUCCESS);
                Self::stop_forwarding(cx, ended);
            }
        }
    }

    fn stop_forwarding(cx: &mut Cx, ended: EndedPull) {
        let call = IofPull {
            procs: ended.sources,
            directives: vec![Info::new(keys::IOF_STOP, true)],
            channels: ended.channels,
        };
        cx.call_host(call, Pending::Informed);
    }

    /// Handles input of a peer for processes.
    pub(crate) fn iof_push(&mut self, cx: &mut Cx, ticket: Ticket, request: &request::IofPush<'_>) {
        match Self::begin_push(cx, &ticket, request) {
            Err(error) => cx.reply_error(ticket, &error),
            Ok(None) => cx.reply_status(ticket, Status::SUCCESS),
            Ok(Some(call)) => self.push(cx, ticket, call),
        }
    }

    fn begin_push(
        cx: &Cx,
        ticket: &Ticket,
        request: &request::IofPush<'_>,
    ) -> Result<Option<PushStdin>, Error> {
        let member = cx.member(ticket)?;
        for proc in &request.procs {
            cx.check_reads(member, &proc.nspace)?;
        }
        let says = |key| {
            let info = request.infos.iter().find(|info| info.key.is(key));
            info.is_some_and(|info| info.truth().is_true())
        };
        // A tool announces its input by a push without data; that is not the end of its input.
        let has_more = says(keys::IOF_PUSH_STDIN) && !says(keys::IOF_COMPLETE);
        let data = request.data.as_deref().unwrap_or_default();
        if data.is_empty() && has_more {
            obeyed::check("PMIx_IOF_push", &request.infos)?;
            return Ok(None);
        }
        Ok(Some(PushStdin {
            source: member.proc.clone(),
            targets: Proc::owned_list(&request.procs),
            directives: with_user(&request.infos, member.user),
            data: data.to_vec(),
        }))
    }

    /// Ends the forwarding to and from a disconnected peer.
    pub(crate) fn peer_left(&mut self, cx: &mut Cx, peer: PeerId) {
        self.forget_input(cx, peer);
        for ended in self.forget(peer) {
            Self::stop_forwarding(cx, ended);
        }
    }

    /// Removes the kept output of a deregistered job.
    pub(crate) fn job_gone(&mut self, nspace: &Nspace<'_>) {
        self.forget_nspace(nspace);
    }
}

/// Returns the infos of a pull for the host. Attributes that this server supports are not required of the host.
fn for_host(infos: &[Info<'_>], user: (u32, u32)) -> Vec<Info<'static>> {
    let mut infos = with_user(infos, user);
    for info in &mut infos {
        if super::OBEYED.iter().any(|key| info.key.is(*key)) {
            info.flags = info.flags.without(InfoFlags::REQD);
        }
    }
    infos
}

/// Returns `true` if a peer may read the output of a job, as far as its owner is known now.
fn may_read(cx: &Cx, peer: PeerId, nspace: &Nspace<'_>) -> bool {
    let member = cx.peers.member(peer);
    member.is_some_and(|member| cx.check_reads(member, nspace).is_ok())
}
