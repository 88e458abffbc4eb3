// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kinds of faults, and their numbers.

use std::fmt;

use crate::random::Random;

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A kind of fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Fault {
            $($(#[$doc])* $name,)*
        }

        impl Fault {
            pub(crate) const ALL: &[Self] = &[$(Self::$name),*];
        }
    };
}

faults! {
    /// A connection breaks; data in transit are truncated.
    Drop,
    /// A connection stalls for some time.
    Delay,
    /// A message arrives in pieces.
    Cut,
    /// Messages of different connections overtake each other.
    Reorder,
    /// A process crashes.
    Crash,
    /// A process finalizes earlier than others expect.
    Quit,
    /// A server crashes with all its clients and calls, and another one replaces it.
    CrashServer,
    /// A terminated process is restarted.
    Again,
    /// The host replies late.
    HostLate,
    /// The host never replies.
    HostSilent,
    /// The host drops a call.
    HostDrops,
    /// The host replies with an error.
    HostError,
    /// The host replies twice.
    HostTwice,
    /// The host returns invalid bytes.
    HostNonsense,
    /// Invalid bytes arrive on the connection of a process.
    Garbage,
    /// An unknown peer sends an invalid or partial hello.
    Stranger,
    /// A connection sends nothing.
    Mute,
    /// A process does not read for some time.
    Slow,
    /// A process opens a second connection.
    Duplicate,
    /// A process sends a request and disconnects at once.
    HitAndRun,
    /// A job is deregistered while it runs.
    Deregister,
    /// A process is deregistered while it runs.
    Dismiss,
    /// A job is registered after its processes have connected.
    LateJob,
    /// The clock of a node jumps forward.
    Jump,
    /// A process sends many requests without waiting.
    Flood,
    /// Messages of a server arrive corrupted, or twice.
    Lie,
    /// A process cancels an operation, or sets a short time limit.
    Haste,
    /// A tool crashes.
    ToolCrash,
    /// A tool claims another identity.
    ToolClaim,
}

impl Fault {
    /// The faults of runs without tools.
    pub(crate) const WITHOUT_TOOLS: &[Self] = Self::ALL.split_at(Self::ToolCrash as usize).0;

    /// The faults that occur at a time, not with a message.
    pub(crate) const STRIKES: &[Self] = &[
        Self::Drop,
        Self::Crash,
        Self::Quit,
        Self::CrashServer,
        Self::Garbage,
        Self::Stranger,
        Self::Mute,
        Self::Slow,
        Self::Duplicate,
        Self::HitAndRun,
        Self::Deregister,
        Self::Dismiss,
        Self::Jump,
        Self::Flood,
        Self::ToolCrash,
        Self::ToolClaim,
    ];

    const fn bit(self) -> u64 {
        1 << (self as u32)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The set of faults that a run may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan(pub(crate) u64);

impl Plan {
    /// Draws a few faults; some runs have none, so that faultless runs are tested, too.
    pub(crate) fn draw(random: &mut Random, faults: &[Fault]) -> Self {
        let num_faults = random.below(7);
        let faults = (0..num_faults).map(|_| random.pick(faults).bit());
        Self(faults.fold(0, |plan, bit| plan | bit))
    }

    pub(crate) const fn has(self, fault: Fault) -> bool {
        self.0 & fault.bit() != 0
    }

    pub(crate) const fn with(self, fault: Fault) -> Self {
        Self(self.0 | fault.bit())
    }

    pub(crate) const fn without(self, fault: Fault) -> Self {
        Self(self.0 & !fault.bit())
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults = Fault::ALL.iter().filter(|fault| self.has(**fault));
        f.debug_set().entries(faults).finish()
    }
}

/// The number of occurrences of each fault.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally([u64; Fault::ALL.len()]);

impl Tally {
    pub(crate) fn count(&mut self, fault: Fault) {
        self.0[fault as usize] += 1;
    }

    pub(crate) fn of(&self, fault: Fault) -> u64 {
        self.0[fault as usize]
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum += more;
        }
    }
}
