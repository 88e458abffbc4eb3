// SPDX-License-Identifier: MIT OR Apache-2.0
//! The requests about events, and the events of the host.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use bfrops::Layout;
use gds_hash::{Request, Store};
use pmix_proto::{Event, PeerForm, Tag, request};
use pmix_types::{DataRange, Info, IntoOwned, Nspace, Rank, Status, Value, keys};

use super::{Events, Listener, Notification, RELAYED, Reporter, is_environmental};
use crate::Error;
use crate::cx::Cx;
use crate::host::{DeregisterEvents, NotifyEvent, RegisterEvents};
use crate::obeyed;
use crate::peers::{Member, PeerId, Ticket};
use crate::pending::{Pending, PendingRegistration};

impl Events {
    /// Raises an event: notifies the peers that should receive it now, and the host if it should distribute it.
    pub(crate) fn raise(&mut self, cx: &mut Cx, notification: Notification) {
        let notification = &Arc::new(notification);
        if notification.concerns_host() {
            match notification.infos_for_host() {
                Ok(infos) => {
                    let call = NotifyEvent {
                        status: notification.status,
                        source: notification.source.clone(),
                        range: notification.range,
                        infos,
                    };
                    cx.call_host(call, Pending::Informed);
                }
                Err(error) => tracing::error!(%error, "cannot pass an event to the host"),
            }
        }
        if let Some(now) = cx.now {
            let sessions = sessions(&cx.store);
            let recipients = self.take(notification, &sessions, now);
            Self::send_event(cx, &recipients, notification);
        }
    }

    /// Returns `true` if a local process would receive an event.
    pub(crate) fn has_handler(&self, cx: &Cx, notification: &Notification) -> bool {
        let sessions = sessions(&cx.store);
        let mut interested = self.registry.interested(notification).into_iter();
        interested.any(|(peer, listener)| notification.is_for(peer, listener, &sessions))
    }

    /// Sends an event to peers, packed once for each layout.
    fn send_event(cx: &mut Cx, peers: &[PeerId], notification: &Notification) {
        let mut packed: Vec<(Layout, Arc<Vec<u8>>)> = Vec::new();
        for peer in peers {
            let Some(form) = cx.form(*peer) else {
                continue;
            };
            let known = packed.iter().find(|(layout, _)| *layout == form.layout);
            let bytes = match known {
                Some((_, bytes)) => Arc::clone(bytes),
                None => {
                    let Some(bytes) = Self::pack_event(cx, &form, notification) else {
                        continue;
                    };
                    let bytes: Arc<Vec<u8>> = bytes.into();
                    packed.push((form.layout, Arc::clone(&bytes)));
                    bytes
                }
            };
            cx.send(*peer, Tag::EVENT, bytes);
        }
    }

    /// Packs an event for a peer. An info of a type that the peer does not know is left out, because the event itself
    /// is more important than its infos.
    fn pack_event(cx: &Cx, form: &PeerForm, notification: &Notification) -> Option<Vec<u8>> {
        let failed = |error: Error| tracing::error!(%error, "cannot pack an event");
        let infos = notification.infos.try_clone();
        let mut event = Event {
            status: notification.status,
            source: notification.source.clone(),
            infos: infos.map_err(|error| failed(error.into())).ok()?,
            range: Some(notification.range),
        };
        let pack = |event: &Event<'_>| event.encode(form, Some(cx.framer()));
        if let Ok(bytes) = pack(&event) {
            return Some(bytes);
        }
        let alone = |info: &Info<'static>| Event {
            infos: vec![info.clone()],
            ..Event::default()
        };
        event.infos.retain(|info| pack(&alone(info)).is_ok());
        let packed = pack(&event);
        packed.map_err(|error| failed(error.into())).ok()
    }

    /// Handles an event registration. The reply is sent at once, unless the codes are environmental, which only the
    /// host can report. Cached events follow the reply.
    pub(crate) fn register_events(
        &mut self,
        cx: &mut Cx,
        ticket: Ticket,
        request: &request::RegisterEvents<'_>,
    ) {
        let Ok(user) = cx.member(&ticket).map(|member| member.user) else {
            return cx.reply_status(ticket, Status::ERR_LOST_CONNECTION);
        };
        let codes = request.codes.clone();
        let infos = request.infos.clone().into_owned();
        let asked = match self.ask_for(&codes) {
            Ok(asked) => asked,
            Err(error) => return cx.reply_error(ticket, &error),
        };
        let call = RegisterEvents {
            codes: asked.clone(),
            infos: crate::infos::with_user(&infos, user),
        };
        if !asked.iter().copied().any(is_environmental) {
            // For such codes the host is informed only, so required attributes must be supported here.
            if let Err(error) = obeyed::check("PMIx_Register_event_handler", &infos) {
                return cx.reply_error(ticket, &error);
            }
            if !asked.is_empty() {
                // Processes may raise such events, too, whether or not the host supports them.
                cx.call_host(call, Pending::HostedEvents(asked));
            }
            return self.registered(cx, ticket, &codes, &infos);
        }
        let registration = PendingRegistration {
            codes,
            infos,
            hosted: asked,
        };
        let pending = Pending::RegisterEvents(ticket, Box::new(registration));
        cx.call_host(call, pending);
    }

    /// Handles the host's reply to a registration of environmental codes.
    pub(crate) fn host_registered(
        &mut self,
        cx: &mut Cx,
        ticket: Ticket,
        registration: &PendingRegistration,
        status: Status,
    ) {
        if status.is_success() {
            return self.registered(cx, ticket, &registration.codes, &registration.infos);
        }
        self.host_declined(&registration.hosted);
        cx.reply_status(ticket, status);
    }

    /// Handles the host's reply to a request for codes that processes may raise, too.
    pub(crate) fn host_answered(&mut self, codes: &[Status], status: Status) {
        if !status.is_success() {
            tracing::debug!(%status, "the host rejected the registration for events");
            self.host_declined(codes);
        }
    }

    /// Registers a peer, replies, and sends the cached events.
    fn registered(&mut self, cx: &mut Cx, ticket: Ticket, codes: &[Status], infos: &[Info<'_>]) {
        let peer = ticket.peer();
        let Ok(listener) = cx.member(&ticket).map(|member| listener(cx, member)) else {
            return cx.reply_status(ticket, Status::ERR_LOST_CONNECTION);
        };
        if let Err(error) = self.register(peer, &listener, codes, infos) {
            cx.reply_error(ticket, &error);
            // The host was asked to report these codes before the registration failed.
            return self.release_events(cx);
        }
        cx.reply_status(ticket, Status::SUCCESS);
        let Some(now) = cx.now else {
            return;
        };
        let sessions = sessions(&cx.store);
        // Cached events follow the reply: the client has no handler for them before.
        let missed = self.replay(peer, &sessions, now);
        for notification in missed {
            Self::send_event(cx, &[peer], &notification);
        }
    }

    /// Handles a deregistration, the only request without a reply.
    pub(crate) fn deregister_events(
        &mut self,
        cx: &mut Cx,
        peer: PeerId,
        request: &request::DeregisterEvents,
    ) {
        self.deregister(peer, &request.codes);
        self.release_events(cx);
    }

    /// Informs the host of events that it need not report any more.
    fn release_events(&mut self, cx: &mut Cx) {
        let codes = self.no_longer_wanted();
        if !codes.is_empty() {
            cx.call_host(DeregisterEvents { codes }, Pending::Informed);
        }
    }

    /// Handles an event of a process. The reply is sent as soon as the event is raised.
    ///
    /// DEVIATION: OpenPMIx replies after the host. Neither guarantees the delivery, and here a slow host does not delay
    /// the process; `an_event_of_a_process_reaches_others_with_all_infos`.
    pub(crate) fn notify_event(
        &mut self,
        cx: &mut Cx,
        ticket: Ticket,
        request: &request::Notify<'_>,
    ) {
        let Ok(member) = cx.member(&ticket) else {
            return cx.reply_status(ticket, Status::ERR_LOST_CONNECTION);
        };
        let reporter = Reporter::Peer(ticket.peer());
        let only = cx.only_user(member);
        let source = member.proc.clone();
        let mut infos = request.infos.clone().into_owned();
        infos.push(Info::new(RELAYED, true));
        let notification =
            Notification::new(reporter, request.status, source, request.range, infos);
        match notification {
            Err(error) => cx.reply_error(ticket, &error),
            Ok(notification) => {
                cx.reply_status(ticket, Status::SUCCESS);
                // A relayed event that returns to a server must not be distributed again.
                let is_echo = request.infos.iter().any(|info| info.key.is(RELAYED));
                if !is_echo && request.range != DataRange::PROC_LOCAL {
                    self.raise(cx, notification.only(only));
                }
            }
        }
    }

    /// Removes the registrations of a disconnected peer.
    pub(crate) fn peer_left(&mut self, cx: &mut Cx, peer: PeerId) {
        self.forget(peer);
        self.release_events(cx);
    }

    /// Raises an event for the loss of a process: for the processes of its job that are registered for the code of a
    /// lost connection, and for the host, which knows the exit status and reports that.
    ///
    /// DEVIATION: OpenPMIx notifies only the host. Default handlers do not receive the event here, because a client
    /// takes it for the loss of its own connection; `the_loss_of_a_process_reaches_registered_peers`.
    pub(crate) fn process_lost(&mut self, cx: &mut Cx, member: &Member) {
        // A tool belongs to no known job, and the host does not wait for a deregistered client.
        let client = member.client.and_then(|id| cx.registry.client(id));
        if client.is_none() {
            return;
        }
        let source = member.proc.clone();
        let infos = vec![
            Info::new(keys::EVENT_AFFECTED_PROC, source.clone()),
            Info::new(keys::EVENT_NON_DEFAULT, true),
        ];
        let lost = Status::ERR_LOST_CONNECTION;
        let range = DataRange::NAMESPACE;
        if let Ok(notification) = Notification::new(Reporter::Server, lost, source, range, infos) {
            self.raise(cx, notification);
        }
    }

    /// Removes the cached events of a deregistered job.
    pub(crate) fn job_gone(&mut self, nspace: &Nspace<'_>) {
        self.forget_nspace(nspace);
    }
}

fn listener(cx: &Cx, member: &Member) -> Listener {
    Listener {
        proc: member.proc.clone(),
        uid: member.user.0,
        is_tool: member.client.is_none(),
        receives_all: cx.reads_all(member),
    }
}

/// Returns a function that looks up the session of a job once in the store.
fn sessions(store: &Arc<Store>) -> impl Fn(&Nspace<'_>) -> Option<u32> + use<> {
    let store = Arc::clone(store);
    let known = RefCell::new(HashMap::<Nspace<'static>, Option<u32>>::new());
    move |nspace| {
        if let Some(session) = known.borrow().get(nspace.as_bytes()) {
            return *session;
        }
        let request = Request::new(Rank::WILDCARD, keys::SESSION_ID);
        let session = match store.get(nspace, &request) {
            Ok(Value::Uint32(session)) => Some(session),
            _ => None,
        };
        let nspace = nspace.clone().into_owned();
        known.borrow_mut().insert(nspace, session);
        session
    }
}
