// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests about events, logs and monitoring.
//!
//! Source: OpenPMIx for the bytes; PMIx Standard, chapters "Event Notification" and "Job
//! Management and Reporting", for what they ask.

use pmix_types::{DataRange, Info, Status};

use crate::codec::{EachToEnd, Many, One, message};
use crate::wire_type;

message! {
    /// Reports an event to others.
    Notify<'a> {
        /// What happened.
        status: Status = One<wire_type::Status>,
        /// Who is to hear of it.
        range: DataRange = One<wire_type::DataRange>,
        /// What is to be said about it.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// Registers the peer for events by their codes.
    RegisterEvents<'a> {
        /// Of which; none stands for all.
        codes: Vec<Status> = Many<wire_type::Status>,
        /// Under which conditions.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// Takes back registrations for events. There is no reply.
    DeregisterEvents {
        /// Of which; [`DEFAULT`](Self::DEFAULT) stands for those of no code.
        codes: Vec<Status> = EachToEnd<wire_type::Status>,
    }

    /// Asks the host to log data.
    Log<'a> {
        /// When it asked, in seconds since the epoch.
        time: i64 = One<wire_type::Time>,
        /// What to log, the keys say where.
        data: Vec<Info<'a>> = Many<wire_type::Info>,
        /// How to log it.
        directives: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// Starts or ends monitoring of the process.
    Monitor<'a> {
        /// What to watch: a heartbeat, a file.
        monitor: Info<'a> = One<wire_type::Info>,
        /// The event to raise when it fails.
        error: Status = One<wire_type::Status>,
        /// How to watch it.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }
}

impl DeregisterEvents {
    /// Stands for a default handler, which is registered without a code.
    pub const DEFAULT: Status = Status::from_raw(i32::MIN);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PeerForm, Request};
    use bfrops::{Layout, Module};

    #[test]
    fn the_default_handler_is_the_lowest_code_as_open_mpi_sends_it() {
        let form = PeerForm::new(Layout::new(Module::V41), b"4.1.4");
        let sent = b"\x02\x0e\x02\xff\xff\xff\xff\x0f";
        let expected = Request::DeregisterEvents(DeregisterEvents {
            codes: vec![DeregisterEvents::DEFAULT],
        });
        assert_eq!(Request::decode(&form, None, sent).unwrap(), expected);
    }
}
