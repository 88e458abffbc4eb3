// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kinds of hardware objects for mapping, binding and locality.

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
