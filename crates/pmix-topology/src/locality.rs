// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hardware that two processes share, according to their locality strings.
//!
//! Source: PMIx Standard, chapter "Process-Related Non-Reserved Keys", heading "Locality"; the
//! words of the strings are those of OpenPMIx 4.2.2, recorded in `testdata/topology`.

use pmix_types::Locality;

use crate::cpuset::is_hwloc;
use crate::{Cpuset, Error};

/// The words of a locality string in order. Each has its level, and its bit in the relative
/// locality. OpenPMIx writes memories last, because they are not levels of hwloc's tree.
pub(crate) const WORDS: [(&str, Level, Locality); 7] = [
    ("SK", Level::Package, Locality::SHARE_PACKAGE),
    ("L3", Level::L3Cache, Locality::SHARE_L3CACHE),
    ("L2", Level::L2Cache, Locality::SHARE_L2CACHE),
    ("L1", Level::L1Cache, Locality::SHARE_L1CACHE),
    ("CR", Level::Core, Locality::SHARE_CORE),
    ("HT", Level::HwThread, Locality::SHARE_HWTHREAD),
    ("NM", Level::Numa, Locality::SHARE_NUMA),
];

/// Returns the hardware that two processes of a node share, from their locality strings
/// (`PMIX_LOCALITY_STRING`).
///
/// The processes share the node, and each level for which both strings have an object in common.
/// Words that this release does not know are ignored. The string of an unbound process is empty.
///
/// DEVIATION: the prefix `hwloc:` is optional, and a result is returned with success; 4.2.2 and
/// 5.0.11 require the prefix, which they do not write, and never return success;
/// `localities_are_those_of_the_library`.
///
/// # Errors
/// `PMIX_ERR_BAD_PARAM`: a list in a string is invalid, or the string has another source.
pub fn relative_locality(one: &str, other: &str) -> Result<Locality, Error> {
    let (one, other) = (parts(one)?, parts(other)?);
    let shared = WORDS.iter().zip(one.iter().zip(&other));
    let shared = shared.filter(|(_, (mine, theirs))| mine.intersects(theirs));
    let all = shared.fold(Locality::SHARE_NODE, |all, ((.., bit), _)| all.union(*bit));
    Ok(all)
}

/// Returns, for each word, the numbers of the objects that a string has.
fn parts(text: &str) -> Result<[Cpuset; WORDS.len()], Error> {
    let mut found: [Cpuset; WORDS.len()] = Default::default();
    let text = match text.split_once(':') {
        Some((source, rest)) if is_hwloc(source) => rest,
        _ => text,
    };
    for word in text.split(':').filter(|word| !word.is_empty()) {
        let Some((name, list)) = word.split_at_checked(2) else {
            return Err(Error::malformed(format!("{word:?} names no level")));
        };
        // The numbers of objects have the form of a list of processors.
        let list = Cpuset::parse(list)?;
        let known = WORDS.iter().position(|(known, ..)| *known == name);
        if let Some(place) = known.and_then(|index| found.get_mut(index)) {
            *place = list;
        }
    }
    Ok(found)
}

/// A kind of hardware object of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The whole node.
    Node,
    /// A package: the processors in a socket.
    Package,
    /// A NUMA domain: the processors near a memory.
    Numa,
    /// A level 3 cache.
    L3Cache,
    /// A level 2 cache.
    L2Cache,
    /// A level 1 data cache.
    L1Cache,
    /// A core.
    Core,
    /// A hardware thread.
    HwThread,
}

impl Level {
    /// All levels, from the node to the hardware thread.
    pub const ALL: [Self; 8] = [
        Self::Node,
        Self::Package,
        Self::Numa,
        Self::L3Cache,
        Self::L2Cache,
        Self::L1Cache,
        Self::Core,
        Self::HwThread,
    ];

    /// Returns the name of the level on a command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Package => "package",
            Self::Numa => "numa",
            Self::L3Cache => "l3cache",
            Self::L2Cache => "l2cache",
            Self::L1Cache => "l1cache",
            Self::Core => "core",
            Self::HwThread => "hwthread",
        }
    }
}

#[cfg(test)]
mod tests {
    use pmix_types::Status;

    use super::*;

    fn shared(one: &str, other: &str) -> Vec<&'static str> {
        let both = relative_locality(one, other).unwrap();
        assert_eq!(relative_locality(other, one).unwrap(), both);
        assert!(both.contains(Locality::SHARE_NODE));
        let words = WORDS.iter().filter(|(.., bit)| both.contains(*bit));
        words.map(|(word, ..)| *word).collect()
    }

    #[test]
    fn a_level_is_shared_if_both_name_a_common_part() {
        let first = "SK0:L30:L20:L10:CR0:HT0-1:NM0";
        assert_eq!(
            shared(first, first),
            ["SK", "L3", "L2", "L1", "CR", "HT", "NM"]
        );
        assert_eq!(
            shared(first, "SK0:L30:L21:L11:CR1:HT2-3:NM0"),
            ["SK", "L3", "NM"]
        );
        assert_eq!(shared(first, "SK1:L31:L22:L12:CR2:HT4-5:NM1"), [""; 0]);
        assert_eq!(shared("CR0-3:HT0-7", "L30:CR2-9:HT8"), ["CR"]);
        assert_eq!(shared(first, ""), [""; 0]);
        assert_eq!(shared("", "hwloc:"), [""; 0]);
        assert_eq!(shared("hwloc:CR1", "CR1"), ["CR"]);
        assert_eq!(shared("CR1", "HT1:XX1:CR1"), ["CR"]);
    }

    #[test]
    fn rejects_invalid_localities() {
        for wrong in [
            "C",
            "CRx",
            "SK0:L3-",
            "CR1,,2",
            "other:CR1",
            "\u{e4}\u{f6}1",
            "CR65536",
        ] {
            let error = relative_locality(wrong, "CR1").unwrap_err();
            assert_eq!(error.status(), Status::ERR_BAD_PARAM, "{wrong}");
        }
    }
}
