// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests about events, logs and monitoring.
//!
//! Source: OpenPMIx for the bytes; PMIx Standard, chapters "Event Notification" and "Job Management
//! and Reporting", for their meaning.

use pmix_types::{DataRange, Info, Status};

use crate::codec::{EachToEnd, Many, One, message};
use crate::wire_type;

message! {
    /// Reports an event to others.
    Notify<'a> {
        /// The code of the event.
        status: Status = One<wire_type::Status>,
        /// The range of the processes that are notified.
        range: DataRange = One<wire_type::DataRange>,
        /// The infos of the event.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// Registers the peer for events by their codes.
    RegisterEvents<'a> {
        /// The codes; an empty list means all.
        codes: Vec<Status> = Many<wire_type::Status>,
        /// The directives of the registration.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// Deregisters from events. There is no reply.
    DeregisterEvents {
        /// The codes; [`DEFAULT`](Self::DEFAULT) deregisters a default handler.
        codes: Vec<Status> = EachToEnd<wire_type::Status>,
    }

    /// Asks the host to log data.
    Log<'a> {
        /// The time of the call, in seconds since the epoch.
        time: i64 = One<wire_type::Time>,
        /// The data to log; the keys name the channels.
        data: Vec<Info<'a>> = Many<wire_type::Info>,
        /// The directives of the log request.
        directives: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// Starts or ends monitoring of the process.
    Monitor<'a> {
        /// The subject of the monitoring: a heartbeat or a file.
        monitor: Info<'a> = One<wire_type::Info>,
        /// The event to generate if the monitored condition fails.
        error: Status = One<wire_type::Status>,
        /// The directives of the monitoring.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }
}

impl DeregisterEvents {
    /// The code of a default handler, which is registered without a code.
    pub const DEFAULT: Status = Status::from_raw(i32::MIN);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PeerForm, Request};
    use bfrops::{Layout, Module};

    #[test]
    fn the_default_handler_has_the_lowest_code_as_in_open_mpi() {
        let form = PeerForm::new(Layout::new(Module::V41), b"4.1.4");
        let sent = b"\x02\x0e\x02\xff\xff\xff\xff\x0f";
        let expected = Request::DeregisterEvents(DeregisterEvents {
            codes: vec![DeregisterEvents::DEFAULT],
        });
        assert_eq!(Request::decode(&form, None, sent).unwrap(), expected);
    }
}
