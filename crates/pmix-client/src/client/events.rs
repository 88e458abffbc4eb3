// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events: registration, reports, and those that arrive.
//!
//! Source: PMIx Standard, chapter "Event Notification".

use std::time::Duration;

use pmix_proto::Event;
use pmix_types::{DataRange, Info, Status};

use super::Client;
use crate::Error;
use crate::connection::Deadline;

impl Client {
    /// Registers for events, for all if no codes are named (`PMIx_Register_event_handler`).
    ///
    /// # Errors
    ///
    /// What the server answers, or that it does not.
    pub fn register_events(&mut self, codes: &[Status], infos: &[Info<'_>]) -> Result<(), Error> {
        self.wait(|core, end| core.register_events(codes, infos, end))?;
        Ok(())
    }

    /// Takes back the registration for events (`PMIx_Deregister_event_handler`).
    ///
    /// # Errors
    ///
    /// If the connection to the server is lost, or takes nothing in time; it does not answer.
    pub fn deregister_events(&mut self, codes: &[Status]) -> Result<(), Error> {
        self.say("the end of a registration", |core| {
            core.deregister_events(codes)
        })
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
        self.wait(|core, end| core.notify(status, range, infos, end))?;
        Ok(())
    }

    /// Returns the next event, if one comes within the time.
    ///
    /// Those that came during other calls are kept, up to 4096 of them and 68 MiB of messages;
    /// [`num_lost_events`](Self::num_lost_events) says how many were not.
    ///
    /// # Errors
    ///
    /// If the connection to the server is lost.
    pub fn next_event(&mut self, within: Duration) -> Result<Option<Event<'static>>, Error> {
        let end = Deadline::after(Some(within));
        let event = loop {
            if let Some(event) = self.core.poll_event() {
                break Some(event);
            }
            if let Some(error) = self.core.lost() {
                return Err(error.clone());
            }
            if end.has_passed() {
                break None;
            }
            self.turn(end);
        };
        // Time has passed, in which others may have committed.
        self.core.drop_prefetched();
        Ok(event)
    }

    /// Returns the number of events that were dropped because too many waited for
    /// [`Self::next_event`].
    #[must_use]
    pub const fn num_lost_events(&self) -> u64 {
        self.core.num_lost_events()
    }
}
