// SPDX-License-Identifier: MIT OR Apache-2.0
//! The modules, one for each packing format that a release introduced, and the layouts of peers.
//!
//! Source: OpenPMIx, the components of the framework `bfrops`; no document describes them, so their
//! output is recorded in `testdata/bfrops`.

use std::fmt;

use pmix_types::DataType;

/// The packed form of integers of more than one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Integers {
    /// As many groups of seven bits as the number needs (`psquash` component `flex128`).
    Flex,
    /// The full width of the type, highest byte first (`psquash` component `native`).
    Fixed,
}

/// A module of bfrops: the types that a range of releases can pack, and their packed form. Its name
/// is that of the first release.
///
/// From v4 on, modules differ only in their types.
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
    /// PMIx 4.1 up to 5.0: the module of all current clients.
    V41,
    /// PMIx 5.1.
    V51,
    /// PMIx 6.1 and later.
    V61,
}

impl Module {
    /// All modules, oldest first.
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

    /// Returns the name of the module in a handshake.
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

    /// Returns the module with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|m| m.name() == name)
    }

    /// Returns the newest known module of a comma-separated list in any order, as OpenPMIx does.
    /// For an empty list, returns the newest module. Returns `None` if the list has no known
    /// module.
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

    /// Returns the default form of integers in the module.
    #[must_use]
    pub const fn integers(self) -> Integers {
        match self {
            Self::V12 | Self::V20 | Self::V21 | Self::V3 => Integers::Fixed,
            Self::V4 | Self::V41 | Self::V51 | Self::V61 => Integers::Flex,
        }
    }

    /// Returns `true` if the module has a type.
    #[must_use]
    pub const fn registers(self, data_type: DataType) -> bool {
        self.types().contains(data_type)
    }

    /// Returns the types of the module.
    pub(crate) const fn types(self) -> Types {
        let mut types = match self {
            Self::V12 => Types::up_to(41),
            Self::V20 | Self::V21 => Types::up_to(43),
            Self::V3 => Types::up_to(46),
            Self::V4 => Types::up_to(59),
            Self::V41 => Types::up_to(69),
            Self::V51 => Types::up_to(72),
            Self::V61 => Types::up_to(75),
        };
        // Code 0 is no type. The codes 29 (`PMIX_MODEX`) and 44 (array of infos) were dropped in
        // v3.
        types.0[0] &= !(1 | 1 << 29 | 1 << 44);
        if !matches!(self, Self::V41) {
            // Later modules dropped the statistics.
            types.0[0] &= !(0b111 << 61);
            types.0[1] &= !1;
        }
        types
    }

    /// Returns the types of the newest module, for data that only readers of this release unpack.
    /// Empty before v4, where the types have other forms.
    pub(crate) const fn beyond(self) -> Types {
        match self {
            Self::V12 | Self::V20 | Self::V21 | Self::V3 => Types::NONE,
            Self::V4 | Self::V41 | Self::V51 | Self::V61 => {
                Self::V41.types().union(Self::V61.types())
            }
        }
    }

    /// Returns the form of arrays without a type in the first release with the module.
    const fn untyped_arrays(self) -> UntypedArrays {
        match self {
            Self::V51 | Self::V61 => UntypedArrays::Bare,
            _ => UntypedArrays::Sized,
        }
    }
}

/// A set of types, as one bit for each type code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Types([u64; 2]);

impl Types {
    /// The empty set.
    pub(crate) const NONE: Self = Self([0, 0]);

    /// Returns all types up to a number from 0 to 127.
    const fn up_to(newest: u32) -> Self {
        match newest {
            0..=63 => Self([u64::MAX >> (63 - newest), 0]),
            _ => Self([u64::MAX, u64::MAX >> (127 - newest)]),
        }
    }

    /// Returns the union of both sets.
    pub(crate) const fn union(self, other: Self) -> Self {
        Self([self.0[0] | other.0[0], self.0[1] | other.0[1]])
    }

    /// Returns `true` if the set contains a type.
    #[inline]
    pub(crate) const fn contains(self, data_type: DataType) -> bool {
        match data_type.as_raw() {
            number @ 0..=63 => self.0[0] >> number & 1 == 1,
            number @ 64..=127 => self.0[1] >> (number - 64) & 1 == 1,
            _ => false,
        }
    }
}

impl fmt::Display for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

// Layouts: the module of a peer with its options.
//
// Source: OpenPMIx, the framework `bfrops`: components `v12` to `v61`, and the two kinds of
// buffers.

/// The kind of a buffer: with or without a type code before the data of each `PMIx_Data_pack`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BufferKind {
    /// Without type codes: the reader must know the types. The default of every release.
    #[default]
    NonDescribed,
    /// With a type code before each count, and again before the data.
    Described,
}

impl BufferKind {
    /// Returns the number of the kind in a handshake (OpenPMIx `pmix_bfrop_buffer_type_t`).
    #[must_use]
    pub const fn as_raw(self) -> u8 {
        match self {
            Self::NonDescribed => 1,
            Self::Described => 2,
        }
    }

    /// Returns the kind with this number in a handshake.
    #[must_use]
    pub const fn from_raw(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::NonDescribed),
            2 => Some(Self::Described),
            _ => None,
        }
    }
}

/// The packing format of a peer: module, kind of buffer and form of integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// The module of the peer.
    pub module: Module,
    /// The kind of the peer's buffers.
    pub buffer: BufferKind,
    /// The form of the peer's integers. Modules before v4 have only `Fixed`.
    pub integers: Integers,
    /// The form of the peer's arrays without a type. It depends on the release of the peer, not on
    /// the module: modules from v3 on share the code.
    pub untyped: UntypedArrays,
}

/// The packed form of arrays of type `PMIX_UNDEF`, which have no elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UntypedArrays {
    /// The code of the type and the number of elements: releases before 6.1.
    Sized,
    /// The code of the type: since 6.1.
    Bare,
}

impl Layout {
    /// Creates the default layout of a module.
    #[must_use]
    pub const fn new(module: Module) -> Self {
        Self {
            module,
            buffer: BufferKind::NonDescribed,
            integers: module.integers(),
            untyped: module.untyped_arrays(),
        }
    }

    /// Sets the form of arrays without a type. Has no effect for modules before v3, whose code did
    /// not change.
    #[must_use]
    pub const fn with_untyped(mut self, untyped: UntypedArrays) -> Self {
        if !matches!(self.module, Module::V12 | Module::V20 | Module::V21) {
            self.untyped = untyped;
        }
        self
    }

    /// Sets the kind of buffer.
    #[must_use]
    pub const fn with_buffer(mut self, buffer: BufferKind) -> Self {
        self.buffer = buffer;
        self
    }

    /// Sets the form of integers. Has no effect for modules before v4, which have only one.
    #[must_use]
    pub const fn with_integers(mut self, integers: Integers) -> Self {
        if matches!(self.module.integers(), Integers::Flex) {
            self.integers = integers;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selects_the_newest_module_that_a_peer_names() {
        assert_eq!(Module::select("v12,v41,v3"), Some(Module::V41));
        assert_eq!(Module::select("v99, v20"), Some(Module::V20));
        assert_eq!(Module::select(""), Some(Module::V61));
        assert_eq!(Module::select(",,"), Some(Module::V61));
        assert_eq!(Module::select("V41"), None);
    }
}
