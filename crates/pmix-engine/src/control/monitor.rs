// SPDX-License-Identifier: MIT OR Apache-2.0
//! Serves `PMIx_Process_monitor` and heartbeats.

use pmix_proto::request;
use pmix_types::{Info, IntoOwned, Status, Value, keys};

use super::heartbeat::{HeartbeatMonitor, name};
use crate::events::{Notification, Reporter};
use crate::host::Monitor;
use crate::infos::with_user;
use crate::peers::{PeerId, Ticket};
use crate::pending::Pending;
use crate::timer::Timer;
use crate::{Engine, Error};

impl Engine {
    /// Serves MONITOR: heartbeats of the process itself are watched here, all else is
    /// the host's.
    pub(crate) fn monitor(&mut self, ticket: Ticket, request: &request::Monitor<'_>) {
        let served = match request.monitor.key.as_text().as_str() {
            _ if !self.cx.config.watches_heartbeats => Ok(false),
            Some(keys::MONITOR_HEARTBEAT) => self
                .add_heartbeat_monitor(ticket.peer(), request)
                .map(|()| true),
            Some(keys::SEND_HEARTBEAT) => {
                self.heartbeat(ticket.peer());
                Ok(true)
            }
            Some(keys::MONITOR_CANCEL) => {
                self.cancel_heartbeat_monitor(ticket.peer(), &request.monitor)
            }
            _ => Ok(false),
        };
        match served {
            Ok(true) => self.cx.reply_infos(ticket, Status::SUCCESS, Vec::new()),
            Ok(false) => self.relay_monitor(ticket, request),
            Err(error) => self.cx.reply_error(ticket, &error),
        }
    }

    fn relay_monitor(&mut self, ticket: Ticket, request: &request::Monitor<'_>) {
        let Ok(member) = self.cx.member(&ticket) else {
            return self.cx.reply_status(ticket, Status::ERR_LOST_CONNECTION);
        };
        let call = Monitor {
            proc: member.proc.clone(),
            monitor: request.monitor.clone().into_owned(),
            error: request.error,
            directives: with_user(&request.infos, member.user),
        };
        self.cx.call_host(call, Pending::Infos(ticket));
    }

    fn add_heartbeat_monitor(
        &mut self,
        peer: PeerId,
        request: &request::Monitor<'_>,
    ) -> Result<(), Error> {
        let monitor = HeartbeatMonitor::read(request.error, &request.infos)?;
        let Some(now) = self.cx.now else {
            return Ok(());
        };
        let most = self.cx.config.control.monitors_per_peer;
        self.control.monitors.add(peer, monitor, most, now)?;
        self.watch(peer);
        Ok(())
    }

    /// Cancels heartbeat monitors of a peer. A name that is not known here may be the host's.
    fn cancel_heartbeat_monitor(
        &mut self,
        peer: PeerId,
        monitor: &Info<'_>,
    ) -> Result<bool, Error> {
        let id = name(monitor)?;
        let had_any = self.control.monitors.cancel(peer, id.as_ref());
        self.watch(peer);
        Ok(had_any)
    }

    /// A heartbeat of a peer. There is no answer to it.
    pub(crate) fn heartbeat(&mut self, peer: PeerId) {
        if let Some(now) = self.cx.now
            && self.control.monitors.beat(peer, now)
        {
            self.watch(peer);
        }
    }

    /// Sets the timer for the next heartbeat that a peer owes. An earlier one is left where it is:
    /// when it is due, the heartbeats that came since are looked at.
    fn watch(&mut self, peer: PeerId) {
        let due = self.control.monitors.due(peer);
        let set = self.control.watched.get(&peer).copied();
        if set.is_some() && set <= due {
            return;
        }
        self.unwatch(peer);
        if let Some(due) = due {
            self.control.watched.insert(peer, due);
            self.cx.timers.set(due, Timer::Heartbeat(peer));
        }
    }

    fn unwatch(&mut self, peer: PeerId) {
        if let Some(due) = self.control.watched.remove(&peer) {
            self.cx.timers.cancel(due, Timer::Heartbeat(peer));
        }
    }

    /// Raises an event in the job of a peer for each of its monitors that has expired.
    pub(crate) fn heartbeat_due(&mut self, peer: PeerId) {
        self.control.watched.remove(&peer);
        let Some(now) = self.cx.now else {
            return;
        };
        let missed = self.control.monitors.missed(peer, now);
        self.watch(peer);
        for monitor in missed {
            self.notify_missed(peer, monitor);
        }
    }

    fn notify_missed(&mut self, peer: PeerId, monitor: HeartbeatMonitor) {
        let Some(member) = self.cx.peers.member(peer) else {
            return;
        };
        let only = self.cx.only_user(member);
        let source = member.proc.clone();
        let mut infos = vec![Info::new(keys::EVENT_AFFECTED_PROC, source.clone())];
        if let Some(id) = monitor.id {
            infos.push(Info::new(keys::MONITOR_ID, Value::String(Some(id))));
        }
        infos.extend(monitor.infos);
        let (event, range) = (monitor.event, monitor.range);
        match Notification::new(Reporter::Server, event, source, range, infos) {
            Ok(notification) => self.raise(notification.only(only)),
            Err(error) => tracing::warn!(%peer, %error, "missed heartbeats cannot be told"),
        }
    }

    /// A peer is gone: nothing of it is watched any longer.
    pub(crate) fn control_left(&mut self, peer: PeerId) {
        self.unwatch(peer);
        self.control.monitors.forget(peer);
    }
}
