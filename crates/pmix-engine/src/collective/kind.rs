// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kinds of collectives.
//!
//! Source: PMIx Standard, chapters "Synchronization", "Process Management" and "Process Sets and
//! Groups".

use std::fmt;

use pmix_types::Text;

/// A collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Collective {
    /// A fence: the participants wait for each other, and may exchange data.
    Fence,
    /// A connect: the participants are treated as one job from then on.
    Connect,
    /// A disconnect, which ends that.
    Disconnect,
    /// The construct of a group.
    GroupConstruct,
    /// The destruct of a group.
    GroupDestruct,
}

impl Collective {
    /// Returns `true` for a construct or destruct, which has the name of a group.
    pub(crate) const fn is_of_group(self) -> bool {
        matches!(self, Self::GroupConstruct | Self::GroupDestruct)
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fence => "fence",
            Self::Connect => "connect",
            Self::Disconnect => "disconnect",
            Self::GroupConstruct => "group construct",
            Self::GroupDestruct => "group destruct",
        })
    }
}

/// The name of the group of a construct or destruct.
pub(crate) type GroupName = Option<Text<'static>>;
