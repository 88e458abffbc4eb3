// SPDX-License-Identifier: MIT OR Apache-2.0
//! Layouts: the module of a peer, and the options that it has besides.
//!
//! Source: OpenPMIx, the framework `bfrops`: components `v12` to `v61`, and the two kinds of
//! buffers.

use crate::module::{Integers, Module};

/// The kind of a buffer: with or without the type of each call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BufferKind {
    /// No types: the reader knows them. This is the default of every released library.
    #[default]
    NonDescribed,
    /// A type code precedes each count and the data.
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

/// The packing of a peer: its module, its buffers and its integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// The module of the peer.
    pub module: Module,
    /// The kind of its buffers.
    pub buffer: BufferKind,
    /// The form of its integers. Modules before the fourth have one form only.
    pub integers: Integers,
}

impl Layout {
    /// Creates the default layout of a module.
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

    /// Sets the form of integers, if the module has a choice.
    #[must_use]
    pub const fn with_integers(mut self, integers: Integers) -> Self {
        if matches!(self.module.integers(), Integers::Flex) {
            self.integers = integers;
        }
        self
    }
}
