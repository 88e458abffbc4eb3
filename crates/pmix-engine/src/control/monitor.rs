// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes watched for signs of life.

use pmix_proto::request;
use pmix_types::{Info, IntoOwned, Status, Value, keys};

use super::heartbeat::{Promise, name};
use super::user::with_user;
use crate::alarm::Alarm;
use crate::events::{Notice, Reporter};
use crate::host::Monitor;
use crate::peers::{PeerId, Ticket};
use crate::{Engine, Error};

impl Engine {
    /// A process wants something watched. Signs of life of its own are watched here, all else is
    /// the host's.
    pub(crate) fn monitor(&mut self, ticket: Ticket, request: &request::Monitor<'_>) {
        let served = match request.monitor.key.as_text().as_str() {
            _ if !self.config.watches_heartbeats => Ok(false),
            Some(keys::MONITOR_HEARTBEAT) => self.promise(ticket.peer(), request).map(|()| true),
            Some(keys::SEND_HEARTBEAT) => {
                self.heartbeat(ticket.peer());
                Ok(true)
            }
            Some(keys::MONITOR_CANCEL) => self.cancel_promise(ticket.peer(), &request.monitor),
            _ => Ok(false),
        };
        match served {
            Ok(true) => self.reply_infos(ticket, Status::SUCCESS, Vec::new()),
            Ok(false) => self.pass_monitor(ticket, request),
            Err(error) => self.reply_error(ticket, &error),
        }
    }

    fn pass_monitor(&mut self, ticket: Ticket, request: &request::Monitor<'_>) {
        let Ok(member) = self.member(&ticket) else {
            return self.reply_status(ticket, Status::ERR_LOST_CONNECTION);
        };
        let call = Monitor {
            proc: member.proc.clone(),
            monitor: request.monitor.clone().into_owned(),
            error: request.error,
            directives: with_user(&request.infos, member.user),
        };
        self.ask_for_infos(ticket, call);
    }

    fn promise(&mut self, peer: PeerId, request: &request::Monitor<'_>) -> Result<(), Error> {
        let promise = Promise::read(request.error, &request.infos)?;
        let Some(now) = self.now else {
            return Ok(());
        };
        let most = self.config.control.promises_per_peer;
        self.control.hearts.promise(peer, promise, most, now)?;
        self.watch(peer);
        Ok(())
    }

    /// Takes back what a peer has promised. A name that is not known here may be the host's.
    fn cancel_promise(&mut self, peer: PeerId, monitor: &Info<'_>) -> Result<bool, Error> {
        let id = name(monitor)?;
        let had_any = self.control.hearts.cancel(peer, id.as_ref());
        self.watch(peer);
        Ok(had_any)
    }

    /// A sign of life of a peer. There is no answer to it.
    pub(crate) fn heartbeat(&mut self, peer: PeerId) {
        if let Some(now) = self.now
            && self.control.hearts.beat(peer, now)
        {
            self.watch(peer);
        }
    }

    /// Sets the alarm for the next sign of life that a peer owes. An earlier one is left where it is:
    /// when it is due, the signs that came since are looked at.
    fn watch(&mut self, peer: PeerId) {
        let due = self.control.hearts.due(peer);
        let set = self.control.watched.get(&peer).copied();
        if set.is_some() && set <= due {
            return;
        }
        self.unwatch(peer);
        if let Some(due) = due {
            self.control.watched.insert(peer, due);
            self.alarms.set(due, Alarm::Heartbeat(peer));
        }
    }

    fn unwatch(&mut self, peer: PeerId) {
        if let Some(due) = self.control.watched.remove(&peer) {
            self.alarms.cancel(due, Alarm::Heartbeat(peer));
        }
    }

    /// A peer may have missed signs of life: if so, its job is told, itself included.
    pub(crate) fn heartbeat_due(&mut self, peer: PeerId) {
        self.control.watched.remove(&peer);
        let Some(now) = self.now else {
            return;
        };
        let broken = self.control.hearts.broken(peer, now);
        self.watch(peer);
        for promise in broken {
            self.tell_broken(peer, promise);
        }
    }

    fn tell_broken(&mut self, peer: PeerId, promise: Promise) {
        let Some(member) = self.peers.member(peer) else {
            return;
        };
        let only = self.only_user(member);
        let source = member.proc.clone();
        let mut infos = vec![Info::new(keys::EVENT_AFFECTED_PROC, source.clone())];
        if let Some(id) = promise.id {
            infos.push(Info::new(keys::MONITOR_ID, Value::String(Some(id))));
        }
        infos.extend(promise.infos);
        let (event, range) = (promise.event, promise.range);
        match Notice::new(Reporter::Server, event, source, range, infos) {
            Ok(notice) => self.raise(notice.only(only)),
            Err(error) => tracing::warn!(%peer, %error, "missed signs of life cannot be told"),
        }
    }

    /// A peer is gone: nothing of it is watched any longer.
    pub(crate) fn control_left(&mut self, peer: PeerId) {
        self.unwatch(peer);
        self.control.hearts.forget(peer);
    }
}
