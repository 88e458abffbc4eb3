// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands: what a client asks of its server.

use std::fmt;

macro_rules! commands {
    ($($(#[$doc:meta])* $name:ident = $number:literal;)*) => {
        /// What a client asks of its server; the number that every request begins with.
        ///
        /// The type is open: a newer client may send a number that has no name here.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct Command(pub u8);

        impl Command {
            $($(#[$doc])* pub const $name: Self = Self($number);)*

            /// Every command that has a name, by number.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The name; none if nobody knows the command.
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
    /// What is known of my job?
    REQ = 0;
    /// End these processes.
    ABORT = 1;
    /// This is what I put.
    COMMIT = 2;
    /// Tell me when all have arrived.
    FENCENB = 3;
    /// What did that process put, or what is known of it?
    GETNB = 4;
    /// I am about to leave.
    FINALIZE = 5;
    /// Publish this.
    PUBLISH = 6;
    /// What was published under these keys?
    LOOKUP = 7;
    /// Withdraw these keys.
    UNPUBLISH = 8;
    /// Start these applications.
    SPAWN = 9;
    /// Treat us as one job.
    CONNECT = 10;
    /// Treat us so no longer.
    DISCONNECT = 11;
    /// Tell others of this event.
    NOTIFY = 12;
    /// Tell me of these events.
    REGEVENTS = 13;
    /// Tell me of these no longer.
    DEREGEVENTS = 14;
    /// What do you know about this?
    QUERY = 15;
    /// Log this.
    LOG = 16;
    /// Change my allocation.
    ALLOC = 17;
    /// Do this to these processes.
    JOB_CONTROL = 18;
    /// Watch me.
    MONITOR = 19;
    /// Give me a credential.
    GET_CREDENTIAL = 20;
    /// Is this credential good?
    VALIDATE_CRED = 21;
    /// Send me the output of these processes.
    IOF_PULL = 22;
    /// Give this to these processes as input.
    IOF_PUSH = 23;
    /// Make a group of us.
    GROUP_CONSTRUCT = 24;
    /// Join a group; sent as an event instead.
    GROUP_JOIN = 25;
    /// Invite into a group; sent as an event instead.
    GROUP_INVITE = 26;
    /// I leave this group.
    GROUP_LEAVE = 27;
    /// End this group.
    GROUP_DESTRUCT = 28;
    /// Send me that output no longer.
    IOF_DEREG = 29;
    /// What is known of the fabric?
    FABRIC_REGISTER = 30;
    /// What of the fabric has changed?
    FABRIC_UPDATE = 31;
    /// How far is it from here to the devices?
    DEVICE_DISTANCES = 32;
    /// What does that process have by now? Since 5.0.
    REFRESH_CACHE = 33;
    /// Define or change a block of resources. Since 6.0.
    RESBLK = 34;
    /// Do this to a session. Since 6.0.
    SESSION_CTRL = 35;
    /// What is known of this system? Since 6.0.
    REQ_SYSINFO = 36;
    /// Which processes are on that node? Since 5.0.
    RESOLVE_PEERS = 37;
    /// Which nodes does that job run on? Since 5.0.
    RESOLVE_NODE = 38;
    /// Tell me about my job in the form of this data store. Since 7.0.
    GDS_FALLBACK = 39;
}

impl Command {
    /// Whether a reply follows the request; the tag is used up in any case.
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
    fn commands_are_numbered_without_a_gap() {
        let numbers = Command::ALL.iter().map(|command| command.0);
        assert!(numbers.eq(0..40));
        assert_eq!(Command(40).name(), None);
        assert_eq!(Command(40).to_string(), "command 40");
        assert_eq!(Command(4).to_string(), "GETNB");
    }
}
