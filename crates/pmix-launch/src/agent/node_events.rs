// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events that pass between the servers of nodes.

use pmix_host::relay;
use pmix_server::EventSource;
use pmix_server::upcall::NotifyEvent;
use pmix_types::{DataRange, Info, IntoOwned as _, Proc, Status};

use super::Agent;
use super::places::number_of;
use crate::host::AtNode;
use crate::nodes::{ProcName, ToNode, pack_infos};

impl Agent<'_> {
    /// Notifies the clients and tools of all other nodes of an event of the session.
    pub(super) fn notify_nodes(&self, status: Status, source: &Proc<'static>, infos: &[Info<'_>]) {
        if self.others.nodes.is_empty() {
            return;
        }
        let infos = infos.iter().cloned().map(Info::into_owned).collect();
        let event = NotifyEvent::new(status, source.clone(), DataRange::SESSION, infos);
        self.pass_event(&event, 0..self.others.nodes.len());
    }

    /// Passes an event of a process of one node to the servers of the nodes that it may reach.
    pub(crate) fn relay_event(&self, from: AtNode, event: &NotifyEvent) {
        if self.others.nodes.is_empty() {
            return;
        }
        let numbers = relay::recipients(event, number_of(from), 0..=self.others.nodes.len());
        let numbers: Vec<_> = numbers.collect();
        if numbers.contains(&number_of(None)) {
            self.notify_here((event.status, &event.source, event.range), &event.infos);
        }
        let places = numbers
            .into_iter()
            .filter_map(|number| number.checked_sub(1));
        self.pass_event(event, places);
    }

    fn pass_event(&self, event: &NotifyEvent, places: impl Iterator<Item = usize>) {
        let infos = match pack_infos(&event.infos) {
            Ok(infos) => infos,
            Err(error) => return tracing::warn!("cannot pass on {}: {error}", event.status),
        };
        let message = ToNode::Event {
            status: event.status.as_raw(),
            source: ProcName::of(&event.source),
            range: event.range.as_raw(),
            infos,
        };
        for place in places {
            self.post(place, message.clone());
        }
    }

    /// Notifies the clients and tools of this node of an event that another node has reported.
    pub(crate) fn notify_here(&self, event: (Status, &Proc<'_>, DataRange), infos: &[Info<'_>]) {
        let (status, source, range) = event;
        let source = EventSource::from(source);
        if let Err(e) = self.server.notify(status, source, range, infos) {
            tracing::debug!("cannot notify clients of {status}: {e}");
        }
    }
}
