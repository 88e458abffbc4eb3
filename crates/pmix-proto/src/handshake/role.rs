// SPDX-License-Identifier: MIT OR Apache-2.0
//! What kind of peer connects.

use std::fmt;

use super::{PeerForm, WelcomeForm};

/// What kind of peer connects; the number in its hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Role(pub u8);

impl Role {
    /// A process that a server of this node was asked to start.
    pub const CLIENT: Self = Self(0);
    /// A tool of a release that asked for nothing but to be one.
    pub const LEGACY_TOOL: Self = Self(1);
    /// A launcher of such a release.
    pub const LEGACY_LAUNCHER: Self = Self(2);
    /// A tool; the server gives it a name.
    pub const TOOL: Self = Self(3);
    /// A tool that brings a name.
    pub const TOOL_WITH_ID: Self = Self(4);
    /// A tool that was started by a server.
    pub const STARTED_TOOL: Self = Self(5);
    /// A launcher; the server gives it a name.
    pub const LAUNCHER: Self = Self(6);
    /// A launcher that brings a name.
    pub const LAUNCHER_WITH_ID: Self = Self(7);
    /// A launcher that was started by a server.
    pub const STARTED_LAUNCHER: Self = Self(8);
    /// A process that nobody started.
    pub const SINGLETON: Self = Self(9);
    /// A scheduler, since 5.0.
    pub const SCHEDULER: Self = Self(10);

    /// In words; none if nobody knows what it is.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::CLIENT => "client",
            Self::LEGACY_TOOL => "legacy tool",
            Self::LEGACY_LAUNCHER => "legacy launcher",
            Self::TOOL => "tool",
            Self::TOOL_WITH_ID => "tool with an id",
            Self::STARTED_TOOL => "tool that a server started",
            Self::LAUNCHER => "launcher",
            Self::LAUNCHER_WITH_ID => "launcher with an id",
            Self::STARTED_LAUNCHER => "launcher that a server started",
            Self::SINGLETON => "singleton",
            Self::SCHEDULER => "scheduler",
            _ => return None,
        })
    }

    /// Whether such a peer says its user and group apart from its credential: all but clients do.
    #[must_use]
    pub const fn says_ids(self) -> bool {
        !matches!(self, Self::CLIENT)
    }

    /// Whether such a peer says which process it is.
    #[must_use]
    pub const fn says_proc(self) -> bool {
        matches!(
            self,
            Self::CLIENT
                | Self::TOOL_WITH_ID
                | Self::STARTED_TOOL
                | Self::LAUNCHER_WITH_ID
                | Self::STARTED_LAUNCHER
                | Self::SINGLETON
                | Self::SCHEDULER
        )
    }

    /// The form of the welcome that such a peer of a release waits for.
    #[must_use]
    pub const fn welcome(self, peer: &PeerForm) -> WelcomeForm {
        match self {
            Self::CLIENT => WelcomeForm::Index,
            // Releases before 5.0 take a singleton for a tool.
            Self::SINGLETON if peer.major >= 5 => WelcomeForm::Index,
            Self::TOOL | Self::LAUNCHER => WelcomeForm::Assigned,
            _ => WelcomeForm::Server,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => write!(f, "peer of kind {}", self.0),
        }
    }
}
