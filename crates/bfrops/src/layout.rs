// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a peer packs: its module and the choices on top of it.

use crate::Module;

/// Whether a buffer says which types it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BufferKind {
    /// The reader knows what comes. What every released library does by default.
    #[default]
    NonDescribed,
    /// A type code stands before each count and before the data.
    Described,
}

impl BufferKind {
    /// The number of the kind in a handshake (OpenPMIx `pmix_bfrop_buffer_type_t`).
    #[must_use]
    pub const fn as_raw(self) -> u8 {
        match self {
            Self::NonDescribed => 1,
            Self::Described => 2,
        }
    }

    /// The kind with this number in a handshake.
    #[must_use]
    pub const fn from_raw(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::NonDescribed),
            2 => Some(Self::Described),
            _ => None,
        }
    }
}

/// How integers of more than one byte are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Integers {
    /// Groups of seven bits, as many as the number needs (`psquash` component `flex128`).
    Flex,
    /// As many bytes as the type has, highest first (`psquash` component `native`).
    Fixed,
}

/// How a peer packs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// The module it speaks.
    pub module: Module,
    /// Whether its buffers say which types they hold.
    pub buffer: BufferKind,
    /// How it writes integers. Modules before the fourth know one way only.
    pub integers: Integers,
}

impl Layout {
    /// What a peer with this module does by default.
    #[must_use]
    pub const fn new(module: Module) -> Self {
        Self {
            module,
            buffer: BufferKind::NonDescribed,
            integers: module.integers(),
        }
    }

    /// The same with another kind of buffer.
    #[must_use]
    pub const fn with_buffer(mut self, buffer: BufferKind) -> Self {
        self.buffer = buffer;
        self
    }

    /// The same with another kind of integers, where the module leaves the choice.
    #[must_use]
    pub const fn with_integers(mut self, integers: Integers) -> Self {
        if matches!(self.module.integers(), Integers::Flex) {
            self.integers = integers;
        }
        self
    }
}
