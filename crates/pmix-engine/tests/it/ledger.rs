// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of upcalls, and of messages that clients receive without a request.

use std::cell::RefCell;
use std::rc::Rc;

use pmix_engine::{HostReply, Upcall};
use pmix_proto::{Event, Hello, Output, Role, Tag};
use pmix_types::{Info, IntoOwned, Proc, Status};

use crate::world::{Reaction, Who, World, hello};

/// The upcalls made to a host.
#[derive(Clone, Default)]
pub(crate) struct Ledger(Rc<RefCell<Vec<Upcall>>>);

impl Ledger {
    /// Records all upcalls from now on; the host replies according to a rule.
    pub(crate) fn open(
        world: &mut World,
        mut rule: impl FnMut(&Upcall) -> Reaction + 'static,
    ) -> Self {
        let ledger = Self::default();
        let pages = Rc::clone(&ledger.0);
        world.rule(move |_, call| {
            pages.borrow_mut().push(call.clone());
            rule(call)
        });
        ledger
    }

    /// Records all upcalls; the host sends the same reply to each.
    pub(crate) fn answering(world: &mut World, answer: HostReply) -> Self {
        Self::open(world, move |_| Reaction::HostReply(answer.clone()))
    }

    /// Removes and returns the upcalls with a name.
    pub(crate) fn take(&self, name: &str) -> Vec<Upcall> {
        let mut pages = self.0.borrow_mut();
        let (taken, left) = pages.drain(..).partition(|call| call.name() == name);
        *pages = left;
        taken
    }

    /// Removes and returns the only upcall with a name.
    pub(crate) fn one(&self, name: &str) -> Upcall {
        let mut calls = self.take(name);
        assert_eq!(calls.len(), 1, "{calls:?}");
        calls.remove(0)
    }
}

/// A decoded event of a client.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Told {
    pub(crate) status: Status,
    pub(crate) source: Proc<'static>,
    pub(crate) infos: Vec<Info<'static>>,
}

/// Removes and returns the events that a client received.
pub(crate) fn events(world: &mut World, who: Who) -> Vec<Told> {
    let client = &mut world.clients[who];
    let form = *client.session.form();
    let frames = client
        .notices
        .extract_if(.., |frame| frame.header.tag == Tag::EVENT);
    let told = frames.map(|frame| {
        let event = Event::decode(&form, None, &frame.payload).unwrap();
        Told {
            status: event.status,
            source: event.source.into_owned(),
            infos: event.infos.into_owned(),
        }
    });
    told.collect()
}

/// Removes the events that a client received and returns their codes.
pub(crate) fn codes(world: &mut World, who: Who) -> Vec<i32> {
    let events = events(world, who).into_iter();
    events.map(|event| event.status.as_raw()).collect()
}

/// Removes and returns the output that a client received: number of the pull, rank, data.
pub(crate) fn output(world: &mut World, who: Who) -> Vec<(u64, u32, Vec<u8>)> {
    let client = &mut world.clients[who];
    let form = *client.session.form();
    let frames = client
        .notices
        .extract_if(.., |frame| frame.header.tag == Tag::OUTPUT);
    let output = frames.map(|frame| {
        let output = Output::decode(&form, None, &frame.payload).unwrap();
        let rank = output.source.rank.as_raw();
        (output.local_id, rank, output.data.into_owned())
    });
    output.collect()
}

/// Connects a tool that the engine names.
pub(crate) fn tool(world: &mut World, node: usize) -> Who {
    let who = world.connect(node, &tool_hello());
    world.run();
    assert!(world.clients[who].is_in());
    who
}

pub(crate) fn tool_hello() -> Hello<'static> {
    Hello {
        role: Role::TOOL,
        ids: Some((crate::world::UID, crate::world::UID)),
        proc: None,
        ..hello("", 0)
    }
}
