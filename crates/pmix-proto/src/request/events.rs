// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests about events, logs, monitoring, groups, and forwarded input and output.
//!
//! Source: OpenPMIx for the bytes; PMIx Standard, chapters "Event Notification" and "Job Management
//! and Reporting", for their meaning.

use pmix_types::{Bytes, DataRange, Info, IofChannel, Proc, Status, Text};

use crate::codec::{EachToEnd, Given, Many, Maybe, One, Since, message};
use crate::wire_type;

message! {
    /// Generates an event.
    Notify<'a> {
        /// The code of the event.
        status: Status = One<wire_type::Status>,
        /// The range of processes that are notified.
        range: DataRange = One<wire_type::DataRange>,
        /// The infos of the event.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// Registers the peer for events by their codes.
    RegisterEvents<'a> {
        /// The codes. An empty list means all codes.
        codes: Vec<Status> = Many<wire_type::Status>,
        /// The directives of the registration.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// Deregisters from events. There is no reply.
    DeregisterEvents {
        /// The codes. [`DEFAULT`](Self::DEFAULT) deregisters a default handler.
        codes: Vec<Status> = EachToEnd<wire_type::Status>,
    }

    /// Requests that the host log data.
    Log<'a> {
        /// The time of the call, in seconds since the epoch.
        time: i64 = One<wire_type::Time>,
        /// The data to log. Their keys are the channels.
        data: Vec<Info<'a>> = Many<wire_type::Info>,
        /// The directives of the log request.
        directives: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// Starts or ends monitoring of the process.
    Monitor<'a> {
        /// The monitored object: a heartbeat or a file.
        monitor: Info<'a> = One<wire_type::Info>,
        /// The code of the event to generate when the heartbeat is missing or the file does not
        /// change.
        error: Status = One<wire_type::Status>,
        /// The directives of the monitoring.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }
}

impl DeregisterEvents {
    /// The code of a default handler, which is registered without a code.
    pub const DEFAULT: Status = Status::from_raw(i32::MIN);
}

message! {
    /// Joins the construction of a group.
    GroupConstruct<'a> {
        /// The name of the group.
        group: Option<Text<'a>> = One<wire_type::String>,
        /// The members.
        procs: Vec<Proc<'a>> = Many<wire_type::Proc>,
        /// The directives of the construction.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// Invites processes to a group. The server collects the answers and reports the group or the abort
    /// as events. Since 7.0; clients of earlier releases collect the answers themselves.
    GroupInvite<'a> {
        /// The name of the group.
        group: Option<Text<'a>> = One<wire_type::String>,
        /// The invited processes, with the caller.
        procs: Vec<Proc<'a>> = Many<wire_type::Proc>,
        /// The time limit for the answers in seconds; 0 for none.
        timeout: u32 = One<wire_type::Uint32>,
        /// `true` if the group is formed without the processes that do not accept.
        is_optional: bool = One<wire_type::Bool>,
        /// `true` if the group should have a context id.
        assigns_context_id: bool = One<wire_type::Bool>,
    }

    /// Answers an invitation to a group. Since 7.0; clients of earlier releases report an event.
    GroupJoin<'a> {
        /// The name of the group.
        group: Option<Text<'a>> = One<wire_type::String>,
        /// `PMIX_GROUP_INVITE_ACCEPTED` or `PMIX_GROUP_INVITE_DECLINED`.
        answer: Status = One<wire_type::Status>,
        /// The process that invites, if the caller names it.
        leader: Option<Proc<'a>> = Given<One<wire_type::Proc>>,
    }

    /// Leaves a group.
    GroupLeave<'a> {
        /// The name of the group.
        group: Option<Text<'a>> = One<wire_type::String>,
        /// The directives of the request.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// Joins the destruction of a group.
    GroupDestruct<'a> {
        /// The name of the group.
        group: Option<Text<'a>> = One<wire_type::String>,
        /// The members. Since 5.0.
        procs: Vec<Proc<'a>> = Since<5, Many<wire_type::Proc>>,
        /// The directives of the destruction.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }
}

message! {
    /// Requests the output of processes, which then arrives on [`Tag::OUTPUT`](crate::Tag::OUTPUT).
    IofPull<'a> {
        /// The processes.
        procs: Vec<Proc<'a>> = Many<wire_type::Proc>,
        /// The directives of the pull.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
        /// The streams.
        channels: IofChannel = One<wire_type::IofChannel>,
        /// The number that the client assigned to its handler. Forwarded output has the same
        /// number.
        local_id: u64 = One<wire_type::Size>,
    }

    /// Sends input to processes.
    IofPush<'a> {
        /// The processes that receive the input.
        procs: Vec<Proc<'a>> = Many<wire_type::Proc>,
        /// The directives of the delivery.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
        /// The input. `None` or no bytes mean the end of the input.
        data: Option<Bytes<'a>> = Maybe<One<wire_type::ByteObject>>,
    }

    /// Ends a pull of output.
    IofDeregister<'a> {
        /// The directives of the request.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
        /// The number in the server's reply to the pull.
        remote_id: u64 = One<wire_type::Size>,
    }
}

#[cfg(test)]
mod tests {
    use bfrops::{Layout, Module};

    use super::*;
    use crate::{PeerForm, Request};

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
