// SPDX-License-Identifier: MIT OR Apache-2.0
//! A node of a host with several nodes: its server, and the link to the controller.
//!
//! [`NodeLink`] passes the upcalls of the server to the controller and completes them with the replies. It serves what
//! the controller requests of the server: direct modexes and events.
//!
//! | upcall of the server | service |
//! | --- | --- |
//! | `ClientConnected`, `ClientFinalized`, `RegisterEvents`, `DeregisterEvents` | success, without the controller |
//! | all others | passed to the controller, which replies |
//!
//! | event | call of the host |
//! | --- | --- |
//! | the server's descriptor is readable, or the time of the last `drive` has passed | [`drive`](NodeLink::drive) |
//! | the transport has bytes, or takes some | [`link`](NodeLink::link), for example [`Link::transfer`] |
//! | after that | [`poll_message`](NodeLink::poll_message) until `None`, then `drive` |
//! | a process has ended | [`proc_ended`](NodeLink::proc_ended) |
//!
//! The host registers the job with [`server`](NodeLink::server), starts the processes, and ends them when the link
//! ends: the controller counts the node as lost then.
//!
//! Source: this project.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use pmix_server::upcall::{HostReply, Upcall};
use pmix_server::{Builder, Server, ServerEvent, UntypedCompletion, UpcallHost};
use pmix_types::{Proc, Status};

use crate::Error;
use crate::link::{CallNumber, Link, LinkLimits, LinkMessage};

/// The largest number of turns in which the server reads what an ended process sent before. Each has a limit of time.
const MAX_TURNS: usize = 64;

/// The server of a node, and its end of the link to the controller.
#[derive(Debug)]
pub struct NodeLink {
    server: Server,
    link: Link<UntypedCompletion>,
    upcalls: Receiver<(Upcall, UntypedCompletion)>,
    /// The results of direct modexes, which the server returns while it is driven.
    data: Receiver<(CallNumber, HostReply)>,
    data_sender: Sender<(CallNumber, HostReply)>,
}

impl NodeLink {
    /// Builds the server of the node, which the host drives. `events` is called as
    /// [`Host::server_event`](pmix_server::Host::server_event).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Builder::build`].
    pub fn build(
        server: Builder,
        events: impl Fn(ServerEvent) + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let (sender, upcalls) = channel();
        let (data_sender, data) = channel();
        // Without a receiver the completion is dropped, which fails the request.
        let pass = move |upcall, done| drop(sender.send((upcall, done)));
        let server = server.host(UpcallHost::new(pass, events));
        Ok(Self {
            server: server.external_progress(true).build()?,
            link: Link::default(),
            upcalls,
            data,
            data_sender,
        })
    }

    /// Sets the limits of the link, which the controller also has. The host calls it before it uses the link.
    #[must_use]
    pub fn with_limits(self, limits: LinkLimits) -> Self {
        let link = Link::new(limits);
        Self { link, ..self }
    }

    /// Returns the server.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Returns the end of the link, for the transport and for messages of the host's own form.
    pub fn link(&mut self) -> &mut Link<UntypedCompletion> {
        &mut self.link
    }

    /// Lets the server work without waiting ([`Server::drive`]), and passes on its upcalls and replies. Returns the time of
    /// its next work; the link may have output.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Server::drive`].
    pub fn drive(&mut self, now: Instant) -> Result<Option<Instant>, Error> {
        let next = self.server.drive(now)?;
        for (upcall, done) in self.upcalls.try_iter() {
            match upcall {
                // The server delivers events of other nodes even without a registration at the controller.
                Upcall::ClientConnected(_)
                | Upcall::ClientFinalized(_)
                | Upcall::RegisterEvents(_)
                | Upcall::DeregisterEvents(_) => done.complete(HostReply::Done(Status::SUCCESS)),
                upcall => self.link.call(upcall, done),
            }
        }
        for (number, reply) in self.data.try_iter() {
            self.link.reply(number, &reply);
        }
        Ok(next)
    }

    /// Returns the next message of the controller that has the host's own form. Handles all others: replies complete
    /// upcalls, events are delivered, direct modexes are requested from the server.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Link::poll_message`]; the link is not usable any more.
    pub fn poll_message(&mut self) -> Result<Option<Vec<u8>>, Error> {
        while let Some(message) = self.link.poll_message()? {
            match message {
                LinkMessage::Own(message) => return Ok(Some(message)),
                LinkMessage::Reply(done, reply) => done.complete(reply),
                LinkMessage::Event(event) => {
                    let (source, infos) = (&event.source, &event.infos);
                    let told = self.server.notify(event.status, source, event.range, infos);
                    if let Err(error) = told {
                        tracing::warn!(%error, status = %event.status, "an event of the controller is dropped");
                    }
                }
                LinkMessage::Call(number, Upcall::DirectModex(call)) => {
                    let sender = self.data_sender.clone();
                    // Without a receiver the link has ended.
                    let answer = move |result| drop(sender.send((number, HostReply::Data(result))));
                    let asked = self.server.dmodex_request(&call.proc, &call.infos, answer);
                    if let Err(error) = asked {
                        self.link.reply(number, &HostReply::Done(error.status()));
                    }
                }
                LinkMessage::Call(number, _) => self.link.reply(number, &HostReply::NotSupported),
                // Only nodes report the ends of processes.
                LinkMessage::Ended(..) => {}
            }
        }
        Ok(None)
    }

    /// Deregisters a process that has ended, and reports the end to the controller. The server first handles what the
    /// process sent before its end, for a bounded time, so the controller gets the upcalls of the process before its end.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`drive`](Self::drive) and [`Server::deregister_client`].
    pub fn proc_ended(
        &mut self,
        proc: &Proc<'_>,
        exit_code: i32,
        now: Instant,
    ) -> Result<(), Error> {
        self.drive_fully(now)?;
        // Collectives that wait for a process which never connected end by this.
        self.server.deregister_client(proc)?;
        self.drive_fully(now)?;
        self.link.proc_ended(proc, exit_code);
        Ok(())
    }

    /// Drives the server until it has no work, or has had its turns.
    fn drive_fully(&mut self, now: Instant) -> Result<(), Error> {
        for _ in 0..MAX_TURNS {
            let next = self.drive(now)?;
            if next.is_none_or(|next| next > now) {
                break;
            }
        }
        Ok(())
    }
}
