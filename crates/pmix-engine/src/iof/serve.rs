// SPDX-License-Identifier: MIT OR Apache-2.0
//! The requests about output and input, and the output of the host.

use pmix_proto::{Output, Tag, reply, request};
use pmix_types::{Bytes, Info, InfoFlags, IntoOwned, IofChannel, Nspace, Proc, Rank, Status, keys};

use super::{Addressed, Ended, Forwarding, Piece};
use crate::cx::Cx;
use crate::host::{Answer, IofPull, PushStdin};
use crate::infos::with_user;
use crate::peers::{PeerId, Ticket};
use crate::pending::Pending;
use crate::{Error, obeyed, relay};

impl Forwarding {
    /// Output of a process, from the host: peers that pull it are sent it, and if there are none
    /// some of it is kept until there is one (PMIx Standard, `PMIx_server_IOF_deliver`). No bytes
    /// are the end of the stream.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` if the channel is none, or that of input.
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
            infos: infos.to_vec().into_owned(),
            data,
        };
        let peers = self.deliver(piece, |peer, nspace| may_read(cx, peer, nspace));
        for peer in peers {
            self.pump_output(cx, peer);
        }
        Ok(())
    }

    /// Sends a peer as much output as may be on its way to it.
    pub(crate) fn pump_output(&mut self, cx: &mut Cx, peer: PeerId) {
        let on_their_way = cx.peers.queued_bytes(peer);
        let sent = self.pump(peer, on_their_way);
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

    /// A peer wants output. It comes behind the answer, what was kept for it in front.
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
        self.open(number, |peer, nspace| may_read(cx, peer, nspace));
        self.pump_output(cx, peer);
    }

    /// The host answered a spawn: who asked for it is told, and output of the job is forwarded.
    pub(crate) fn spawned(
        &mut self,
        cx: &mut Cx,
        ticket: Ticket,
        channels: IofChannel,
        answer: Answer,
    ) {
        let peer = ticket.peer();
        if let Some(nspace) = relay::spawned(cx, ticket, answer) {
            self.forward_spawned(cx, peer, &nspace, channels);
        }
    }

    /// Forwards the output of a job to the tool that had it started, under the number of a pull
    /// that no peer asked for.
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

    /// A peer has had enough output: what was held back for it stands in front of the answer.
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

    fn stop_forwarding(cx: &mut Cx, ended: Ended) {
        let call = IofPull {
            procs: ended.sources,
            directives: vec![Info::new(keys::IOF_STOP, true)],
            channels: ended.channels,
        };
        cx.call_host(call, Pending::Informed);
    }

    /// A peer has input for processes.
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
        // A tool that says it is going to push has no input yet, and not the end of it either.
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

    /// A peer is gone: nothing is forwarded to it any longer.
    pub(crate) fn peer_left(&mut self, cx: &mut Cx, peer: PeerId) {
        self.forget_input(cx, peer);
        for ended in self.forget(peer) {
            Self::stop_forwarding(cx, ended);
        }
    }

    /// A job is deregistered.
    pub(crate) fn job_gone(&mut self, nspace: &Nspace<'_>) {
        self.forget_nspace(nspace);
    }
}

/// What the host is told of a pull. It need not obey what this server does, though that be required.
fn for_host(infos: &[Info<'_>], user: (u32, u32)) -> Vec<Info<'static>> {
    let mut told = with_user(infos, user);
    for info in &mut told {
        if super::OBEYED.iter().any(|key| info.key.is(*key)) {
            info.flags = info.flags.without(InfoFlags::REQD);
        }
    }
    told
}

/// Whether a peer may have the output of a job, as far as it is known by now whose job that is.
fn may_read(cx: &Cx, peer: PeerId, nspace: &Nspace<'_>) -> bool {
    let member = cx.peers.member(peer);
    member.is_some_and(|member| cx.check_reads(member, nspace).is_ok())
}
