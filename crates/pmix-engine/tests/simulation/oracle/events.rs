// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who hears of the events that processes report.

use pmix_proto::{Event, PeerForm};
use pmix_types::{Info, Proc, Status, Value};

use crate::client::{Asked, What, Who};
use crate::own::EVENT;
use crate::tool::STRANGER;
use crate::world::World;

/// The key of the number that an event has; no two have the same.
pub(crate) const NUMBER: &str = "number";

/// An event that a server has taken in.
#[derive(Debug)]
pub(crate) struct Taken {
    number: u32,
    /// The server's node, and the number of the server among those of the node.
    node: usize,
    life: u32,
    /// Who has seen it where it was raised: a connection, or a process of that name.
    by: Reporter,
    /// The connection that raised it, here or on another node.
    raiser: Who,
}

#[derive(Clone, Debug)]
pub(crate) enum Reporter {
    Peer(Who),
    /// The host, of a process or tool.
    Host(Proc<'static>),
}

impl World {
    /// A server has taken an event in.
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

    /// A server sends an event to a client: one that it asked for, and once.
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
            "connection {who} is told of event {number} twice"
        );
        client.heard.push(number);
    }

    /// A server has taken in an event of a connection that was closed before it could be told so:
    /// what a process said before its end is handled.
    fn taken_of_closed(&mut self, node: usize, number: u32) {
        let raised = |asked: &Asked| {
            matches!(asked.what, What::Report(raised) if raised == number) && asked.answer.is_none()
        };
        let mut clients = self.clients.iter();
        let by = clients.position(|client| !client.is_known && client.asked.values().any(raised));
        let by = by.expect("an event that nobody raised");
        self.event_taken(node, Reporter::Peer(by), number);
    }

    /// Who raised an event.
    fn raiser(&self, number: u32) -> Who {
        let raised = |asked: &Asked| matches!(asked.what, What::Report(raised) if raised == number);
        let mut clients = self.clients.iter();
        let by = clients.position(|client| client.asked.values().any(raised));
        by.expect("an event that somebody raised")
    }

    /// Whether who is at the end of a connection is a tool of root or of the servers' user.
    fn is_trusted_tool(&self, who: Who) -> bool {
        self.clients[who].tool.is_some() && self.user_of(who) != STRANGER
    }

    /// A client that wants events, and is served until now, has been told of all that its server
    /// took in, in the order in which it did.
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
        // What a process says is for processes of its user and for tools that their server trusts; what such a tool
        // says is for all. The host brings it from another node, and whose it is with it.
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
            // What was kept of its events went with it.
            expected.retain(|number| client.heard.contains(number));
        }
        assert_eq!(client.heard, expected, "what connection {who} is told of");
    }
}

/// The number of an event.
pub(crate) fn number(infos: &[Info<'_>]) -> Option<u32> {
    let number = infos.iter().find(|info| info.key.is(NUMBER))?;
    match number.value {
        Value::Uint32(number) => Some(number),
        _ => None,
    }
}

/// Whether codes name the event that processes report.
pub(crate) fn names_it(codes: &[Status]) -> bool {
    codes.contains(&EVENT)
}
