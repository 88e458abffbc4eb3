// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recipients of the events of processes.

use pmix_proto::{Event, PeerForm};
use pmix_types::{Info, Proc, Status, Value};

use crate::client::{Asked, What, Who};
use crate::own::EVENT;
use crate::tool::STRANGER;
use crate::world::World;

/// The key of the unique number of an event.
pub(crate) const NUMBER: &str = "number";

/// An event that a server has processed.
#[derive(Debug)]
pub(crate) struct Taken {
    number: u32,
    /// The node, and the incarnation of its server.
    node: usize,
    life: u32,
    /// The peer, or the process name, that has already received it at its source.
    by: Reporter,
    /// The connection that raised it, here or on another node.
    raiser: Who,
}

#[derive(Clone, Debug)]
pub(crate) enum Reporter {
    Peer(Who),
    /// The host, on behalf of a process or tool.
    Host(Proc<'static>),
}

impl World {
    /// Records an event that a server has processed.
    pub(crate) fn event_taken(&mut self, node: usize, by: Reporter, number: u32) {
        let life = self.nodes[node].life;
        let raiser = match by {
            Reporter::Peer(who) => who,
            Reporter::Host(_) => self.raiser(number),
        };
        let event = Taken {
            number,
            node,
            life,
            by,
            raiser,
        };
        self.oracle.taken.push(event);
    }

    /// Checks that an event sent to a client was requested and is sent once.
    pub(super) fn event_sent(&mut self, who: Who, form: &PeerForm, payload: &[u8]) {
        let event = Event::decode(form, None, payload).expect("an event that can be read");
        let Some(number) = number(&event.infos).filter(|_| event.status == EVENT) else {
            return;
        };
        let node = self.clients[who].node;
        let place = (node, self.nodes[node].life);
        let here = |taken: &Taken| (taken.node, taken.life) == place && taken.number == number;
        if !self.oracle.taken.iter().any(here) {
            self.taken_of_closed(node, number);
        }
        let client = &mut self.clients[who];
        assert!(
            client.wants_events,
            "connection {who} did not ask for events"
        );
        assert!(
            !client.heard.contains(&number),
            "connection {who} got event {number} twice"
        );
        client.heard.push(number);
    }

    /// Records an event of a connection that closed before the reply: messages sent before the end are handled.
    fn taken_of_closed(&mut self, node: usize, number: u32) {
        let raised = |asked: &Asked| {
            matches!(asked.what, What::Report(raised) if raised == number) && asked.answer.is_none()
        };
        let mut clients = self.clients.iter();
        let by = clients.position(|client| !client.is_known && client.asked.values().any(raised));
        let by = by.expect("a client raised this event");
        self.event_taken(node, Reporter::Peer(by), number);
    }

    /// Returns the connection that raised an event.
    fn raiser(&self, number: u32) -> Who {
        let raised = |asked: &Asked| matches!(asked.what, What::Report(raised) if raised == number);
        let mut clients = self.clients.iter();
        let by = clients.position(|client| client.asked.values().any(raised));
        by.expect("a client raised this event")
    }

    /// Returns `true` for a tool of root or of the servers' user.
    fn is_trusted_tool(&self, who: Who) -> bool {
        self.clients[who].tool.is_some() && self.user_of(who) != STRANGER
    }

    /// Checks that a registered client has received all events that its server processed, in order.
    pub(super) fn check_heard(&self, who: Who) {
        let client = &self.clients[who];
        if !client.is_member() || !client.gets_events {
            return;
        }
        let user = self.user_of(who);
        let (node, life) = (client.node, self.nodes[client.node].life);
        let own = |taken: &Taken| match &taken.by {
            Reporter::Peer(by) => *by == who,
            Reporter::Host(source) => self.name_of(who).as_ref() == Some(source),
        };
        // Events of a process are for processes of its user and for trusted tools; those of a trusted tool are for all.
        // The host forwards the user with the event.
        let hears_all = self.is_trusted_tool(who);
        let is_for = |taken: &Taken| {
            let by = taken.raiser;
            hears_all || self.user_of(by) == user || self.is_trusted_tool(by)
        };
        let taken = self.oracle.taken.iter();
        let taken = taken.filter(|taken| {
            (taken.node, taken.life) == (node, life) && !own(taken) && is_for(taken)
        });
        let mut expected: Vec<_> = taken.map(|taken| taken.number).collect();
        if self.jobs.iter().any(|job| job.is_gone) {
            // Its cached events were removed with it.
            expected.retain(|number| client.heard.contains(number));
        }
        assert_eq!(client.heard, expected, "events that connection {who} got");
    }
}

/// Returns the number of an event.
pub(crate) fn number(infos: &[Info<'_>]) -> Option<u32> {
    let number = infos.iter().find(|info| info.key.is(NUMBER))?;
    match number.value {
        Value::Uint32(number) => Some(number),
        _ => None,
    }
}

/// Returns `true` if codes include the event of processes.
pub(crate) fn names_it(codes: &[Status]) -> bool {
    codes.contains(&EVENT)
}
