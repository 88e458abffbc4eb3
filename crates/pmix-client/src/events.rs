// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events: registration, reports, and those that arrive.
//!
//! Source: PMIx Standard, chapter "Event Notification".

use std::time::Duration;

use pmix_proto::{Event, Request, request};
use pmix_types::{DataRange, Info, Status};

use crate::connection::Deadline;
use crate::{Client, Error};

impl Client {
    /// Registers for events, for all if no codes are named (`PMIx_Register_event_handler`).
    ///
    /// # Errors
    ///
    /// What the server answers, or that it does not.
    pub fn register_events(&mut self, codes: &[Status], infos: &[Info<'_>]) -> Result<(), Error> {
        self.done(&Request::RegisterEvents(request::RegisterEvents {
            codes: codes.to_vec(),
            infos: infos.to_vec(),
        }))
    }

    /// Takes back the registration for events (`PMIx_Deregister_event_handler`).
    ///
    /// # Errors
    ///
    /// If the server was lost, or takes nothing in time; it does not answer.
    pub fn deregister_events(&mut self, codes: &[Status]) -> Result<(), Error> {
        let codes = match codes.is_empty() {
            true => vec![request::DeregisterEvents::DEFAULT],
            false => codes.to_vec(),
        };
        let request = request::DeregisterEvents { codes };
        let end = self.end();
        self.connection
            .say(&Request::DeregisterEvents(request), end)
    }

    /// Reports an event to others (`PMIx_Notify_event`).
    ///
    /// # Errors
    ///
    /// What the server answers, or that it does not.
    pub fn notify(
        &mut self,
        status: Status,
        range: DataRange,
        infos: &[Info<'_>],
    ) -> Result<(), Error> {
        self.done(&Request::Notify(request::Notify {
            status,
            range,
            infos: infos.to_vec(),
        }))
    }

    /// Returns the next event, if one comes within the time.
    ///
    /// Those that came during other calls are kept, up to 4096 of them and 16 MiB of messages;
    /// [`num_lost_events`](Self::num_lost_events) says how many were not.
    ///
    /// # Errors
    ///
    /// If the server was lost.
    pub fn next_event(&mut self, within: Duration) -> Result<Option<Event<'static>>, Error> {
        let event = self.connection.event(Deadline::after(Some(within)));
        self.prefetch.clear();
        if let Ok(Some(event)) = &event {
            self.hear_late(event);
        }
        event
    }

    /// Returns the number of events that were dropped because too many waited for
    /// [`Self::next_event`].
    #[must_use]
    pub const fn num_lost_events(&self) -> u64 {
        self.connection.num_lost_events()
    }
}
