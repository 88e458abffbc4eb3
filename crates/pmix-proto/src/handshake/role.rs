// SPDX-License-Identifier: MIT OR Apache-2.0
//! The roles of peers: client, tool, launcher and others.
//!
//! Source: OpenPMIx, `ptl/base`.

use std::fmt;

use super::{PeerForm, WelcomeForm};

/// Names the kind of peer that connects, by the number in its hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Role(pub u8);

impl Role {
    /// Names a client: a process that the host registered before it was started.
    pub const CLIENT: Self = Self(0);
    /// Names a tool of a release before roles were told apart.
    pub const LEGACY_TOOL: Self = Self(1);
    /// Names a launcher of such a release.
    pub const LEGACY_LAUNCHER: Self = Self(2);
    /// Names a tool; the server gives it a name.
    pub const TOOL: Self = Self(3);
    /// Names a tool that brings a name.
    pub const TOOL_WITH_ID: Self = Self(4);
    /// Names a tool that was started by a server.
    pub const STARTED_TOOL: Self = Self(5);
    /// Names a launcher; the server gives it a name.
    pub const LAUNCHER: Self = Self(6);
    /// Names a launcher that brings a name.
    pub const LAUNCHER_WITH_ID: Self = Self(7);
    /// Names a launcher that was started by a server.
    pub const STARTED_LAUNCHER: Self = Self(8);
    /// Names a singleton: a process that no host started.
    pub const SINGLETON: Self = Self(9);
    /// Names a scheduler, since 5.0.
    pub const SCHEDULER: Self = Self(10);

    /// Returns the name of the role, if it has one.
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

    /// Returns whether a peer of the role states its user and group apart from its credential: all
    /// but clients do.
    #[must_use]
    pub const fn says_ids(self) -> bool {
        !matches!(self, Self::CLIENT)
    }

    /// Returns whether a peer of the role states which process it is.
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

    /// Returns the form of the welcome that a peer of the role and release waits for.
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
