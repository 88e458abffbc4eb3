// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stop in init: a process under a debugger waits at the end of init until the debugger releases it.
//!
//! Source: PMIx Standard, chapter "Tools and Debuggers", `PMIX_DEBUG_STOP_IN_INIT`.

use pmix_proto::Role;
use pmix_types::{BREAKPOINT_IN_INIT, DataRange, Info, Status, keys};

use super::Client;
use crate::Error;
use crate::connection::Deadline;

impl Client {
    /// Waits for the release by a debugger if the job info requests the stop for this process.
    ///
    /// OpenPMIx stops every process regardless of the value; here only the processes that the value names stop. The
    /// directive is part of the job info that init has received, so the server is not asked for it.
    pub(super) fn stop_in_init(&mut self) -> Result<(), Error> {
        let settings = self.core.settings();
        let is_started = [Role::CLIENT, Role::STARTED_TOOL, Role::STARTED_LAUNCHER];
        if !settings.stops_in_init || !is_started.contains(&settings.role) {
            return Ok(());
        }
        let only_here = [Info::new(keys::OPTIONAL, true)];
        let known = self.core.known_data();
        let found = known.get(&self.job(), keys::DEBUG_STOP_IN_INIT, &only_here);
        match found {
            Some(Ok(value)) if value.is_for(self.proc()) => self.wait_for_release(),
            _ => Ok(()),
        }
    }

    fn wait_for_release(&mut self) -> Result<(), Error> {
        let release = [Status::DEBUGGER_RELEASE];
        self.register_events(&release, &[])?;
        let ready = [
            Info::new(keys::EVENT_NON_DEFAULT, true),
            Info::new(keys::EVENT_DO_NOT_CACHE, true),
            Info::new(keys::BREAKPOINT, BREAKPOINT_IN_INIT),
        ];
        self.notify(Status::READY_FOR_DEBUG, DataRange::RM, &ready)?;
        // The event ends init. Handlers that the program registers later must not receive it.
        while !self.core.take_event(Status::DEBUGGER_RELEASE) {
            if let Some(error) = self.core.lost() {
                return Err(error.clone());
            }
            self.turn(Deadline::after(None));
        }
        self.deregister_events(&release)
    }
}
