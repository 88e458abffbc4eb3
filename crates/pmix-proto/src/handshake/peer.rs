// SPDX-License-Identifier: MIT OR Apache-2.0
//! The form of a peer: how it packs, and its release.
//!
//! Source: OpenPMIx, what a peer of each release says of itself in its hello.

use bfrops::Layout;
use pmix_types::Release;

/// Describes what a peer understands: how it packs and which release it has.
///
/// The layout says how data are packed. Where releases expect other data the version text of the
/// hello decides, not the layout: 4.2 and 5.0 pack alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerForm {
    /// The layout in which it packs.
    pub layout: Layout,
    /// The release of the tables that is nearest to its own; it says which keys the peer knows.
    pub release: Release,
    /// The first number of its version.
    pub major: u32,
    /// The second number of its version.
    pub minor: u32,
}

impl PeerForm {
    /// Creates the form of a peer from its layout and version, for example `4.2.2rc2`.
    ///
    /// What is no number counts as 0, so that text nobody understands is the oldest release.
    #[must_use]
    pub fn new(layout: Layout, version: &[u8]) -> Self {
        let version = version.strip_prefix(b"v").unwrap_or(version);
        let mut parts = version.split(|byte| *byte == b'.').map(number);
        let major = parts.next().unwrap_or_default();
        let minor = parts.next().unwrap_or_default();
        Self {
            layout,
            release: release(major),
            major,
            minor,
        }
    }

    /// Creates the form of a peer of a release of the tables.
    #[must_use]
    pub fn of(layout: Layout, release: Release) -> Self {
        let version = match release {
            Release::Seed | Release::Master => "7.0",
            other => other.as_str(),
        };
        Self {
            release,
            ..Self::new(layout, version.as_bytes())
        }
    }
}

/// The number that text begins with.
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

#[cfg(test)]
mod tests {
    use super::*;
    use bfrops::Module;

    #[test]
    fn a_version_is_read_as_far_as_it_is_one() {
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
    fn releases_of_the_tables_have_their_numbers() {
        for release in Release::ALL {
            let form = PeerForm::of(Layout::new(Module::V41), release);
            assert_eq!(form.release, release);
            assert!((4..=7).contains(&form.major));
        }
    }
}
