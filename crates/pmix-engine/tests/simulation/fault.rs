// SPDX-License-Identifier: MIT OR Apache-2.0
//! What goes wrong, and how often it did.

use std::fmt;

use crate::random::Random;

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What goes wrong.
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
    /// A connection breaks; what is on its way is cut off anywhere.
    Drop,
    /// A connection stands still for a while.
    Delay,
    /// A message comes in pieces.
    Cut,
    /// Messages of different connections overtake each other.
    Reorder,
    /// A process ends without a word.
    Crash,
    /// A process leaves as it should, but before the others expect it.
    Quit,
    /// A server ends, and all its clients and calls with it; another one takes its place.
    CrashServer,
    /// A process that ended starts again, as another incarnation.
    Again,
    /// The host answers late.
    HostLate,
    /// The host never answers.
    HostSilent,
    /// The host gives up a call.
    HostDrops,
    /// The host answers an error.
    HostError,
    /// The host answers twice.
    HostTwice,
    /// The host brings bytes that nobody sent.
    HostNonsense,
    /// Bytes that are no messages come over the connection of a process.
    Garbage,
    /// A stranger sends bytes that are no hello, or half of one.
    Stranger,
    /// A connection says nothing.
    Mute,
    /// A process does not read for a while.
    Slow,
    /// A second connection of a process.
    Duplicate,
    /// A process asks and leaves at once.
    HitAndRun,
    /// A job is deregistered while it runs.
    Deregister,
    /// A process is deregistered while it runs.
    Dismiss,
    /// A job is registered after its processes have come.
    LateJob,
    /// The clock of a node jumps forward.
    Jump,
    /// A process asks much without waiting for answers.
    Flood,
    /// What a server sends comes changed, or twice.
    Lie,
    /// A process gives up what it waits for, or has little time for it.
    Haste,
    /// A tool ends without a word.
    ToolCrash,
    /// A tool says that it is somebody else.
    ToolClaim,
}

impl Fault {
    /// Those of runs without tools.
    pub(crate) const WITHOUT_TOOLS: &[Self] = Self::ALL.split_at(Self::ToolCrash as usize).0;

    /// Those that happen at a time, and not to a message.
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

/// What may go wrong in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan(pub(crate) u64);

impl Plan {
    /// A few faults; in some runs none, so that what goes right is tested too.
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

/// How often faults happened.
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
