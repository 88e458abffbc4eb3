// SPDX-License-Identifier: MIT OR Apache-2.0
//! The properties of a peer: its layout of packed data, its release and its role.
//!
//! Source: OpenPMIx, the fields of a hello of each release.

use std::fmt;

use bfrops::{Layout, UntypedArrays};
use pmix_types::Release;

use super::WelcomeForm;

/// The release of OpenPMIx that the servers and clients of this project behave like, which they state to their peers.
///
/// Peers choose the form of their messages by this number. Below 3.1.100 and 4.2.0 clients use older forms. From 7.0.0
/// on they remove keys, and expect the server to inform the other clients ([`Tag::DELETED`](crate::Tag::DELETED)).
pub const RELEASE: &str = "7.0.0rc1";

/// The layout and the release of a peer.
///
/// The layout determines how data are packed. Releases may expect different data in the same
/// layout, as 4.2 and 5.0 do. Then the release decides, which is the version text of the hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerForm {
    /// The layout of packed data.
    pub layout: Layout,
    /// The known release that is nearest to that of the peer. It determines the keys that the peer
    /// knows.
    pub release: Release,
    /// The first number of the peer's version.
    pub major: u32,
    /// The second number of the peer's version.
    pub minor: u32,
    /// The third number of the peer's version.
    pub patch: u32,
    /// The number of the release candidate, for example 1 of `7.0.0rc1`; [`DEVELOPMENT`](Self::DEVELOPMENT) of another
    /// version before the release, for example `7.0.0a1`; [`u32::MAX`] of a release.
    pub candidate: u32,
}

impl PeerForm {
    /// The [`candidate`](Self::candidate) of a development version, which may have all that its release will have.
    pub const DEVELOPMENT: u32 = u32::MAX - 1;

    /// Creates the form of a peer from its layout and version, for example `4.2.2rc2`.
    ///
    /// Text that is not a number counts as 0, so a version that cannot be parsed is treated as the
    /// oldest release.
    #[must_use]
    pub fn new(layout: Layout, version: &[u8]) -> Self {
        let version = version.strip_prefix(b"v").unwrap_or(version);
        let mut parts = version.split(|byte| *byte == b'.');
        let mut next = || parts.next().unwrap_or_default();
        let (major, minor, last) = (number(next()), number(next()), next());
        // Later releases pack these arrays in the new form in the modules of earlier ones, too.
        let layout = match (major, minor) >= (6, 1) {
            true => layout.with_untyped(UntypedArrays::Bare),
            false => layout,
        };
        Self {
            layout,
            release: release(major),
            major,
            minor,
            patch: number(last),
            candidate: candidate(last),
        }
    }

    /// Creates the form of a peer of a known release.
    #[must_use]
    pub fn of(layout: Layout, release: Release) -> Self {
        let version = match release {
            Release::Seed | Release::Master => RELEASE,
            other => other.as_str(),
        };
        Self {
            release,
            ..Self::new(layout, version.as_bytes())
        }
    }

    /// Returns the version as text, for example `7.0.0rc1`.
    #[must_use]
    pub fn version(&self) -> String {
        let (major, minor, patch, candidate) = self.order();
        match candidate {
            u32::MAX => format!("{major}.{minor}.{patch}"),
            Self::DEVELOPMENT => format!("{major}.{minor}.{patch}-dev"),
            _ => format!("{major}.{minor}.{patch}rc{candidate}"),
        }
    }

    /// Returns `true` if the release of the peer is newer than [`RELEASE`]. The protocol is append-only, so the known
    /// part of a message of such a peer may be followed by fields that this project does not know.
    #[must_use]
    pub fn is_newer(&self) -> bool {
        let own = Self::new(self.layout, RELEASE.as_bytes());
        self.order() > own.order()
    }

    const fn order(&self) -> (u32, u32, u32, u32) {
        (self.major, self.minor, self.patch, self.candidate)
    }
}

/// Returns the number of the release candidate in the last part of a version; see [`PeerForm::candidate`].
fn candidate(part: &[u8]) -> u32 {
    let digits = part.iter().take_while(|byte| byte.is_ascii_digit()).count();
    match part.get(digits..).unwrap_or_default() {
        [] => u32::MAX,
        [b'r', b'c', rest @ ..] => number(rest),
        _ => PeerForm::DEVELOPMENT,
    }
}

/// Returns the number at the start of a text.
fn number(text: &[u8]) -> u32 {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |number: u32, digit| {
        number
            .saturating_mul(10)
            .saturating_add(u32::from(digit - b'0'))
    })
}

const fn release(major: u32) -> Release {
    match major {
        0..=4 => Release::V4_2_2,
        5 => Release::V5_0_11,
        6 => Release::V6_1_0,
        _ => Release::Master,
    }
}

// The roles of peers: client, tool, launcher and others.
//
// Source: OpenPMIx, `ptl/base`.

/// The kind of a connecting peer, as the number in its hello.
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

    /// Returns `true` if the hello of a peer with this role has a user and group id. All roles
    /// except clients have them.
    #[must_use]
    pub const fn says_ids(self) -> bool {
        !matches!(self, Self::CLIENT)
    }

    /// Returns `true` if the hello of a peer with this role has an nspace and rank.
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

    /// Returns the form of the welcome that a peer of this role and release expects.
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

#[cfg(test)]
mod tests {
    use bfrops::Module;

    use super::*;

    #[test]
    fn parses_the_valid_prefix_of_a_version() {
        let form = |text: &str| PeerForm::new(Layout::new(Module::V41), text.as_bytes());
        let numbers = |text| (form(text).major, form(text).minor);
        assert_eq!(numbers("4.2.2rc2"), (4, 2));
        assert_eq!(numbers("v5.0.11"), (5, 0));
        assert_eq!(numbers("7"), (7, 0));
        assert_eq!(numbers(""), (0, 0));
        assert_eq!(numbers("99999999999.1"), (u32::MAX, 1));
        assert_eq!(form("4.1.0").release, Release::V4_2_2);
        assert_eq!(form("5.0.11rc1").release, Release::V5_0_11);
        assert_eq!(form("7.0.0a1").release, Release::Master);
    }

    #[test]
    fn a_peer_is_newer_by_any_number_of_its_version() {
        let is_newer =
            |text: &str| PeerForm::new(Layout::new(Module::V41), text.as_bytes()).is_newer();
        let (own, candidate) = RELEASE.split_once("rc").unwrap_or((RELEASE, ""));
        let own: Vec<u32> = own.split('.').map(|n| n.parse().unwrap()).collect();
        let [major, minor, patch] = own[..] else {
            panic!("{RELEASE} has not three numbers");
        };
        assert!(!is_newer(RELEASE));
        assert!(is_newer(&format!("{major}.{minor}.{patch}a1")));
        assert!(!is_newer("5.0.11a1"));
        // Another candidate and the release itself may have fields that the first candidate has not.
        if let Ok(candidate) = candidate.parse::<u32>() {
            assert!(is_newer(&format!(
                "{major}.{minor}.{patch}rc{}",
                candidate + 1
            )));
            assert!(is_newer(&format!("{major}.{minor}.{patch}")));
        }
        assert!(!is_newer("4.2.2"));
        assert!(!is_newer("garbage"));
        assert!(is_newer(&format!("{major}.{minor}.{}", patch + 1)));
        assert!(is_newer(&format!("{major}.{}.0a1", minor + 1)));
        assert!(is_newer(&format!("{}.0.0", major + 1)));
    }

    #[test]
    fn releases_of_the_tables_have_their_numbers() {
        for release in Release::ALL {
            let form = PeerForm::of(Layout::new(Module::V41), release);
            assert_eq!(form.release, release);
            assert!((4..=7).contains(&form.major));
        }
    }
}
