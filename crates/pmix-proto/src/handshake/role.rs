// SPDX-License-Identifier: MIT OR Apache-2.0
//! The roles of peers: client, tool, launcher and others.
//!
//! Source: OpenPMIx, `ptl/base`.

use std::fmt;

use super::{PeerForm, WelcomeForm};

/// The kind of a connecting peer, as a number in its hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Role(pub u8);

impl Role {
    /// A client: a process that the host registered before its start.
    pub const CLIENT: Self = Self(0);
    /// A tool of a release that does not distinguish roles.
    pub const LEGACY_TOOL: Self = Self(1);
    /// A launcher of such a release.
    pub const LEGACY_LAUNCHER: Self = Self(2);
    /// A tool that gets its name from the server.
    pub const TOOL: Self = Self(3);
    /// A tool that has a name already.
    pub const TOOL_WITH_ID: Self = Self(4);
    /// A tool that a server started.
    pub const STARTED_TOOL: Self = Self(5);
    /// A launcher that gets its name from the server.
    pub const LAUNCHER: Self = Self(6);
    /// A launcher that has a name already.
    pub const LAUNCHER_WITH_ID: Self = Self(7);
    /// A launcher that a server started.
    pub const STARTED_LAUNCHER: Self = Self(8);
    /// A singleton: a process that no host started.
    pub const SINGLETON: Self = Self(9);
    /// A scheduler, since 5.0.
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

    /// Returns `true` if a peer of the role states its user and group besides its credential; all
    /// but clients do.
    #[must_use]
    pub const fn says_ids(self) -> bool {
        !matches!(self, Self::CLIENT)
    }

    /// Returns `true` if a peer of the role states its process.
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

    /// Returns the form of the welcome that a peer of the role and release expects.
    #[must_use]
    pub const fn welcome(self, peer: &PeerForm) -> WelcomeForm {
        match self {
            Self::CLIENT => WelcomeForm::Index,
            // Releases before 5.0 treat a singleton like a tool.
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
