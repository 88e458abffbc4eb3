// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands: the numbers of requests.
//!
//! Source: OpenPMIx, `pmix_cmd_t` of its sources.

use std::fmt;

macro_rules! commands {
    ($($(#[$doc:meta])* $name:ident = $number:literal;)*) => {
        /// The number of a request of a client (`pmix_cmd_t`), with which its payload begins.
        ///
        /// A newer client may send a number that has no name here.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct Command(pub u8);

        impl Command {
            $($(#[$doc])* pub const $name: Self = Self($number);)*

            /// All named commands, by number.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Returns the name of the command, if it has one.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

commands! {
    /// Requests the job info of the client's own job (`PMIx_Init`).
    REQ = 0;
    /// Requests that the host abort processes (`PMIx_Abort`).
    ABORT = 1;
    /// Sends the server the data that the process has put (`PMIx_Commit`).
    COMMIT = 2;
    /// Joins a fence (`PMIx_Fence`).
    FENCENB = 3;
    /// Requests a value that a process put, or job info (`PMIx_Get`).
    GETNB = 4;
    /// Announces that the process will disconnect (`PMIx_Finalize`).
    FINALIZE = 5;
    /// Publishes data (`PMIx_Publish`).
    PUBLISH = 6;
    /// Requests published data by keys (`PMIx_Lookup`).
    LOOKUP = 7;
    /// Withdraws published data (`PMIx_Unpublish`).
    UNPUBLISH = 8;
    /// Requests that the host start a job (`PMIx_Spawn`).
    SPAWN = 9;
    /// Joins a connect, after which the participants are treated as one job (`PMIx_Connect`).
    CONNECT = 10;
    /// Joins a disconnect, which ends a connect (`PMIx_Disconnect`).
    DISCONNECT = 11;
    /// Generates an event (`PMIx_Notify_event`).
    NOTIFY = 12;
    /// Registers the peer for events (`PMIx_Register_event_handler`).
    REGEVENTS = 13;
    /// Deregisters the peer from events (`PMIx_Deregister_event_handler`). This is the only request
    /// without a reply.
    DEREGEVENTS = 14;
    /// Requests information about the system (`PMIx_Query_info`).
    QUERY = 15;
    /// Requests that the host log data (`PMIx_Log`).
    LOG = 16;
    /// Requests a change of an allocation (`PMIx_Allocation_request`).
    ALLOC = 17;
    /// Requests control of processes, such as a signal or a cleanup (`PMIx_Job_control`).
    JOB_CONTROL = 18;
    /// Requests monitoring of the process (`PMIx_Process_monitor`).
    MONITOR = 19;
    /// Requests a credential from the host (`PMIx_Get_credential`).
    GET_CREDENTIAL = 20;
    /// Requests that the host validate a credential (`PMIx_Validate_credential`).
    VALIDATE_CRED = 21;
    /// Requests the output of processes (`PMIx_IOF_pull`).
    IOF_PULL = 22;
    /// Sends input to processes (`PMIx_IOF_push`).
    IOF_PUSH = 23;
    /// Joins the construction of a group (`PMIx_Group_construct`).
    GROUP_CONSTRUCT = 24;
    /// Answers an invitation to a group (`PMIx_Group_join`). Since 7.0; earlier libraries use an event.
    GROUP_JOIN = 25;
    /// Invites processes to a group (`PMIx_Group_invite`). Since 7.0; earlier libraries use an event.
    GROUP_INVITE = 26;
    /// Leaves a group (`PMIx_Group_leave`).
    GROUP_LEAVE = 27;
    /// Joins the destruction of a group (`PMIx_Group_destruct`).
    GROUP_DESTRUCT = 28;
    /// Ends a pull of output (`PMIx_IOF_deregister`).
    IOF_DEREG = 29;
    /// Requests a description of the fabric (`PMIx_Fabric_register`).
    FABRIC_REGISTER = 30;
    /// Requests the current description of a fabric (`PMIx_Fabric_update`).
    FABRIC_UPDATE = 31;
    /// Requests the distances of devices from a cpuset (`PMIx_Compute_distances`).
    DEVICE_DISTANCES = 32;
    /// Requests all data that a process has put, regardless of caches. Since 5.0.
    REFRESH_CACHE = 33;
    /// Defines or changes a block of resources (`PMIx_Resource_block`). Since 6.0.
    RESBLK = 34;
    /// Requests control of a session (`PMIx_Session_control`). Since 6.0.
    SESSION_CTRL = 35;
    /// Requests information about the system that belongs to no job. Since 6.0.
    REQ_SYSINFO = 36;
    /// Requests the processes of a job on a node (`PMIx_Resolve_peers`). Since 5.0.
    RESOLVE_PEERS = 37;
    /// Requests the nodes of a job (`PMIx_Resolve_nodes`). Since 5.0.
    RESOLVE_NODE = 38;
    /// Requests the job info in the form of another datastore. Since 7.0.
    GDS_FALLBACK = 39;
}

impl Command {
    /// Returns `true` if the request has a reply. A request without a reply still uses a tag.
    #[must_use]
    pub const fn is_answered(self) -> bool {
        !matches!(self, Self::DEREGEVENTS)
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => write!(f, "command {}", self.0),
        }
    }
}

impl From<pmix_types::Command> for Command {
    fn from(number: pmix_types::Command) -> Self {
        Self(number.as_raw())
    }
}

impl From<Command> for pmix_types::Command {
    fn from(command: Command) -> Self {
        Self::from_raw(command.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_numbered_without_gaps() {
        let numbers = Command::ALL.iter().map(|command| command.0);
        assert!(numbers.eq(0..40));
        assert_eq!(Command(40).name(), None);
        assert_eq!(Command(40).to_string(), "command 40");
        assert_eq!(Command(4).to_string(), "GETNB");
    }
}
