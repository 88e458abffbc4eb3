// SPDX-License-Identifier: MIT OR Apache-2.0
//! Layouts: the module of a peer, and the choices it makes on top.
//!
//! Source: OpenPMIx, the framework `bfrops`: components `v12` to `v61`, and the two kinds of
//! buffers.

use crate::module::{Integers, Module};

/// Says whether a buffer names the type of each call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BufferKind {
    /// The reader knows what comes. What every released library does by default.
    #[default]
    NonDescribed,
    /// A type code stands before each count and before the data.
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

/// Describes how a peer packs: its module, its buffers and its integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// The module of the peer.
    pub module: Module,
    /// Whether its buffers name the type of each call.
    pub buffer: BufferKind,
    /// The form of its integers. Modules before the fourth know one way only.
    pub integers: Integers,
}

impl Layout {
    /// Creates the layout that peers with a module have by default.
    #[must_use]
    pub const fn new(module: Module) -> Self {
        Self {
            module,
            buffer: BufferKind::NonDescribed,
            integers: module.integers(),
        }
    }

    /// Sets the kind of buffer.
    #[must_use]
    pub const fn with_buffer(mut self, buffer: BufferKind) -> Self {
        self.buffer = buffer;
        self
    }

    /// Sets the form of integers, where the module leaves the choice.
    #[must_use]
    pub const fn with_integers(mut self, integers: Integers) -> Self {
        if matches!(self.module.integers(), Integers::Flex) {
            self.integers = integers;
        }
        self
    }
}
