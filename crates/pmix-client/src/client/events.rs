// SPDX-License-Identifier: MIT OR Apache-2.0
//! Event notification in the blocking client.
//!
//! Source: PMIx Standard, chapter "Event Notification".

use std::time::Duration;

use pmix_proto::Event;
use pmix_types::{DataRange, Info, Status};

use super::Client;
use crate::Error;
use crate::connection::Deadline;

impl Client {
    /// Registers for events with these codes, or for all events if `codes` is empty (`PMIx_Register_event_handler`).
    ///
    /// # Errors
    ///
    /// Returns the server's status if it rejects the request, or an error if no reply arrives.
    pub fn register_events(&mut self, codes: &[Status], infos: &[Info<'_>]) -> Result<(), Error> {
        self.wait(|core, end| core.register_events(codes, infos, end))?;
        Ok(())
    }

    /// Deregisters from events (`PMIx_Deregister_event_handler`).
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_UNREACH` if the connection is lost, or `PMIX_ERR_TIMEOUT` if the server does not read the
    /// message in time. The message has no reply.
    pub fn deregister_events(&mut self, codes: &[Status]) -> Result<(), Error> {
        self.say("the end of a registration", |core| {
            core.deregister_events(codes)
        })
    }

    /// Notifies the processes in `range` of an event (`PMIx_Notify_event`).
    ///
    /// # Errors
    ///
    /// Returns the server's status if it rejects the event, or an error if no reply arrives.
    pub fn notify(
        &mut self,
        status: Status,
        range: DataRange,
        infos: &[Info<'_>],
    ) -> Result<(), Error> {
        self.wait(|core, end| core.notify(status, range, infos, end))?;
        Ok(())
    }

    /// Returns the next event, or `None` if none arrives within the time.
    ///
    /// Events that arrive during other calls are queued, at most 4096 of them and 68 MiB of messages.
    /// [`num_lost_events`](Self::num_lost_events) returns the number of dropped events.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_UNREACH` if the connection is lost and no event is queued.
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
        // Other processes may have committed while this call waited.
        self.core.drop_prefetched();
        Ok(event)
    }

    /// Returns the number of events dropped because the queue for [`Self::next_event`] was full.
    #[must_use]
    pub const fn num_lost_events(&self) -> u64 {
        self.core.num_lost_events()
    }
}
