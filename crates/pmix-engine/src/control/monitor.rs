// SPDX-License-Identifier: MIT OR Apache-2.0
//! `PMIx_Process_monitor` and heartbeats.

use pmix_proto::request;
use pmix_types::{Info, IntoOwned, Status, Value, keys};

use super::Control;
use super::heartbeat::{HeartbeatMonitor, name};
use crate::Error;
use crate::cx::Cx;
use crate::events::{Notification, Reporter};
use crate::host::Monitor;
use crate::infos::with_user;
use crate::peers::{PeerId, Ticket};
use crate::pending::Pending;
use crate::timer::Timer;

/// Parts of the names of events by which servers and hosts report on processes, jobs, sessions, groups, nodes and
/// connections.
const OF_SERVERS: &[&str] = &[
    "ALLOC", "CONNECT", "DEBUG", "DVM_", "EVENT_", "EXIT_", "FABRIC_", "GROUP_", "IOF_", "JCTRL_",
    "JOB_", "LAUNCH", "LOST_", "MODEL_", "NODE_", "PROC", "SESSION_", "SYS_",
];

impl Control {
    /// Handles MONITOR: monitors heartbeats of the process itself, and passes other monitors to the host.
    pub(crate) fn monitor(&mut self, cx: &mut Cx, ticket: Ticket, request: &request::Monitor<'_>) {
        if let Err(error) = check_alert(request) {
            return cx.reply_error(ticket, &error);
        }
        let served = match request.monitor.key.as_text().as_str() {
            _ if !cx.config.watches_heartbeats => Ok(false),
            Some(keys::MONITOR_HEARTBEAT) => self
                .add_heartbeat_monitor(cx, ticket.peer(), request)
                .map(|()| true),
            Some(keys::SEND_HEARTBEAT) => {
                self.heartbeat(cx, ticket.peer());
                Ok(true)
            }
            Some(keys::MONITOR_CANCEL) => self.cancel_heartbeat_monitor(cx, &ticket, request),
            _ => Ok(false),
        };
        match served {
            Ok(true) => cx.reply_infos(ticket, Status::SUCCESS, Vec::new()),
            Ok(false) => Self::relay_monitor(cx, ticket, request),
            Err(error) => cx.reply_error(ticket, &error),
        }
    }

    fn relay_monitor(cx: &mut Cx, ticket: Ticket, request: &request::Monitor<'_>) {
        let Some(call) = Self::call(cx, &ticket, request) else {
            return cx.reply_status(ticket, Status::ERR_LOST_CONNECTION);
        };
        cx.call_host(call, Pending::Infos(ticket));
    }

    fn call(cx: &Cx, ticket: &Ticket, request: &request::Monitor<'_>) -> Option<Monitor> {
        let member = cx.member(ticket).ok()?;
        Some(Monitor {
            proc: member.proc.clone(),
            monitor: request.monitor.clone().into_owned(),
            error: request.error,
            directives: with_user(&request.infos, member.user),
        })
    }

    fn add_heartbeat_monitor(
        &mut self,
        cx: &mut Cx,
        peer: PeerId,
        request: &request::Monitor<'_>,
    ) -> Result<(), Error> {
        let monitor = HeartbeatMonitor::read(request.error, &request.infos)?;
        let Some(now) = cx.now else {
            return Ok(());
        };
        let most = cx.config.control.monitors_per_peer;
        self.monitors.add(peer, monitor, most, now)?;
        self.watch(cx, peer);
        Ok(())
    }

    /// Cancels heartbeat monitors of a peer. Returns `false` for a name unknown here, which may be a monitor of the
    /// host. Without a name, the host is informed to cancel its own monitors, too.
    fn cancel_heartbeat_monitor(
        &mut self,
        cx: &mut Cx,
        ticket: &Ticket,
        request: &request::Monitor<'_>,
    ) -> Result<bool, Error> {
        let id = name(&request.monitor)?;
        let peer = ticket.peer();
        let had_any = self.monitors.cancel(peer, id.as_ref());
        self.watch(cx, peer);
        if had_any
            && id.is_none()
            && let Some(call) = Self::call(cx, ticket, request)
        {
            cx.call_host(call, Pending::Informed);
        }
        Ok(had_any)
    }

    /// Records a heartbeat of a peer, which gets no reply.
    pub(crate) fn heartbeat(&mut self, cx: &mut Cx, peer: PeerId) {
        if let Some(now) = cx.now
            && self.monitors.beat(peer, now)
        {
            self.watch(cx, peer);
        }
    }

    /// Sets the timer for the next heartbeat of a peer. An earlier timer is kept, so that a heartbeat does not move the
    /// timer: when it expires, later heartbeats are taken into account.
    fn watch(&mut self, cx: &mut Cx, peer: PeerId) {
        let due = self.monitors.due(peer);
        let set = self.watched.get(&peer).copied();
        if set.is_some() && set <= due {
            return;
        }
        self.unwatch(cx, peer);
        if let Some(due) = due {
            self.watched.insert(peer, due);
            cx.timers.set(due, Timer::Heartbeat(peer));
        }
    }

    fn unwatch(&mut self, cx: &mut Cx, peer: PeerId) {
        if let Some(due) = self.watched.remove(&peer) {
            cx.timers.cancel(due, Timer::Heartbeat(peer));
        }
    }

    /// Returns a notification to the job of a peer for each of its expired monitors.
    pub(crate) fn heartbeat_due(&mut self, cx: &mut Cx, peer: PeerId) -> Vec<Notification> {
        // The timer has expired, so there is none to cancel.
        self.watched.remove(&peer);
        let Some(now) = cx.now else {
            return Vec::new();
        };
        let missed = self.monitors.missed(peer, now);
        self.watch(cx, peer);
        let missed = missed.into_iter();
        missed
            .filter_map(|monitor| Self::missed(cx, peer, monitor))
            .collect()
    }

    /// Creates the notification of missing heartbeats of a peer.
    fn missed(cx: &Cx, peer: PeerId, monitor: HeartbeatMonitor) -> Option<Notification> {
        let member = cx.peers.member(peer)?;
        // The server raises the alert for the process, so it reaches no user that the process could not notify itself.
        let only = cx.only_user(member);
        let source = member.proc.clone();
        let mut infos = vec![Info::new(keys::EVENT_AFFECTED_PROC, source.clone())];
        if let Some(id) = monitor.id {
            infos.push(Info::new(keys::MONITOR_ID, Value::String(Some(id))));
        }
        infos.extend(monitor.infos);
        let (event, range) = (monitor.event, monitor.range);
        match Notification::new(Reporter::Server, event, source, range, infos) {
            Ok(notification) => Some(notification.only(only)),
            Err(error) => {
                tracing::warn!(%peer, %error, "cannot notify of missed heartbeats");
                None
            }
        }
    }

    /// Removes the monitors of a disconnected peer.
    pub(crate) fn peer_left(&mut self, cx: &mut Cx, peer: PeerId) {
        self.unwatch(cx, peer);
        self.monitors.forget(peer);
    }
}

/// Refuses an alert code that servers use. The server is the source of the alert, so processes would take it for a
/// report of the server.
fn check_alert(request: &request::Monitor<'_>) -> Result<(), Error> {
    let alert = request.error;
    // These two requests raise no alert, so their code has no effect.
    let adds = ![keys::SEND_HEARTBEAT, keys::MONITOR_CANCEL]
        .iter()
        .any(|key| request.monitor.key.is(key));
    let is_of_servers = |name: &str| OF_SERVERS.iter().any(|part| name.contains(part));
    let mut names = alert.names().iter().map(pmix_types::Constant::name);
    match adds && names.any(is_of_servers) {
        true => Err(Error::bad(format!(
            "{alert} is reserved for events of servers: use a status of your own, or one like PMIX_MONITOR_FILE_ALERT"
        ))),
        false => Ok(()),
    }
}
