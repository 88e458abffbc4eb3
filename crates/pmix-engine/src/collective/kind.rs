// SPDX-License-Identifier: MIT OR Apache-2.0
//! What processes do together.
//!
//! Source: PMIx Standard, chapters "Synchronization", "Process Management" and "Process Sets and
//! Groups".

use std::fmt;

use pmix_types::Text;

/// Names a collective operation: what processes do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Collective {
    /// They wait for each other, and may exchange what they put.
    Fence,
    /// They are treated as one job from now on.
    Connect,
    /// They are treated so no longer.
    Disconnect,
    /// They form a group.
    GroupConstruct,
    /// They take their group apart.
    GroupDestruct,
}

impl Collective {
    /// Whether it makes or ends a group, which has a name.
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

/// The name of the group that is made or ended; none for anything else.
pub(crate) type GroupName = Option<Text<'static>>;
