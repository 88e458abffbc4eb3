// SPDX-License-Identifier: MIT OR Apache-2.0
//! The modules: one for each form of the wire that a release brought.

use std::fmt;

use pmix_types::DataType;

use crate::Integers;

/// A form of the wire, named after the release that brought it.
///
/// From the fourth on the bytes are the same for all and only the types differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Module {
    /// PMIx 1.2.
    V12,
    /// PMIx 2.0.
    V20,
    /// PMIx 2.1 and 2.2.
    V21,
    /// PMIx 3.
    V3,
    /// PMIx 4.0.
    V4,
    /// PMIx 4.1 up to 5.0: what every current client speaks.
    V41,
    /// PMIx 5.1.
    V51,
    /// PMIx 6.1 and later.
    V61,
}

impl Module {
    /// All modules, the oldest first.
    pub const ALL: [Self; 8] = [
        Self::V12,
        Self::V20,
        Self::V21,
        Self::V3,
        Self::V4,
        Self::V41,
        Self::V51,
        Self::V61,
    ];

    /// What a peer calls it in a handshake.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::V12 => "v12",
            Self::V20 => "v20",
            Self::V21 => "v21",
            Self::V3 => "v3",
            Self::V4 => "v4",
            Self::V41 => "v41",
            Self::V51 => "v51",
            Self::V61 => "v61",
        }
    }

    /// The module with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|m| m.name() == name)
    }

    /// The newest module of a comma-separated list that exists here, as OpenPMIx chooses: a peer
    /// names what it can speak, in any order. A peer that names nothing speaks the newest; none if
    /// nothing of what it names is known.
    #[must_use]
    pub fn select(names: &str) -> Option<Self> {
        let mut names = names.split(',').map(str::trim).filter(|n| !n.is_empty());
        let Some(first) = names.next() else {
            return Some(Self::V61);
        };
        std::iter::once(first)
            .chain(names)
            .filter_map(Self::from_name)
            .max()
    }

    /// How the module writes integers unless told otherwise.
    #[must_use]
    pub const fn integers(self) -> Integers {
        match self {
            Self::V12 | Self::V20 | Self::V21 | Self::V3 => Integers::Fixed,
            Self::V4 | Self::V41 | Self::V51 | Self::V61 => Integers::Flex,
        }
    }

    /// Whether the module knows a type.
    #[must_use]
    pub const fn registers(self, data_type: DataType) -> bool {
        let newest = match self {
            Self::V12 => 41,
            Self::V20 | Self::V21 => 44,
            Self::V3 => 46,
            Self::V4 => 59,
            Self::V41 => 69,
            Self::V51 => 72,
            Self::V61 => 75,
        };
        match data_type.as_raw() {
            0 => false,
            // A value of the first days, and an array of infos: as numbers they went with v3.
            29 | 44 => false,
            // Statistics came with v41 and went after it.
            61..=64 => matches!(self, Self::V41),
            number => number <= newest,
        }
    }

    /// Whether the number of data follows the type of an array that has none.
    pub(crate) const fn sends_size_of_untyped(self) -> bool {
        !matches!(self, Self::V51 | Self::V61)
    }
}

impl fmt::Display for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_module_that_a_peer_names_is_taken() {
        assert_eq!(Module::select("v12,v41,v3"), Some(Module::V41));
        assert_eq!(Module::select("v99, v20"), Some(Module::V20));
        assert_eq!(Module::select(""), Some(Module::V61));
        assert_eq!(Module::select(",,"), Some(Module::V61));
        assert_eq!(Module::select("V41"), None);
    }
}
