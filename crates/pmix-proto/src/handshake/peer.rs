// SPDX-License-Identifier: MIT OR Apache-2.0
//! The form of a peer: its layout of packed data, and its release.
//!
//! Source: OpenPMIx, the fields of a hello of each release.

use bfrops::Layout;
use pmix_types::Release;

/// The data that a peer understands: its layout and its release.
///
/// The layout determines the packing. Where releases expect different data, the version text of the
/// hello decides instead: 4.2 and 5.0 pack alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerForm {
    /// The layout of packed data.
    pub layout: Layout,
    /// The release of the tables that is nearest to the peer's; it determines the keys that the
    /// peer knows.
    pub release: Release,
    /// The first number of the peer's version.
    pub major: u32,
    /// The second number of the peer's version.
    pub minor: u32,
}

impl PeerForm {
    /// Creates the form of a peer from its layout and version, for example `4.2.2rc2`.
    ///
    /// Text that is not a number counts as 0, so an unintelligible version is the oldest release.
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

    /// Creates the form of a peer with a release of the tables.
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

#[cfg(test)]
mod tests {
    use super::*;
    use bfrops::Module;

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
    fn releases_of_the_tables_have_their_numbers() {
        for release in Release::ALL {
            let form = PeerForm::of(Layout::new(Module::V41), release);
            assert_eq!(form.release, release);
            assert!((4..=7).contains(&form.major));
        }
    }
}
