// SPDX-License-Identifier: MIT OR Apache-2.0
//! The differences between the bracket lists of several programs.

/// The most brackets of a name.
pub(crate) const MAX_BRACKETS: usize = 16;

/// The program that reads or writes a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notation {
    /// Slurm: a name ends with its last bracket, because `scontrol` of 22.05 rejects `n[1-2]-ib`,
    /// and ranges have no step. Names are written with at most two brackets, whose order is the
    /// same for every reader; of three and more, Slurm varies the last one fastest, and then the
    /// first.
    Slurm,
    /// ClusterShell: text may follow the last bracket, a name has any number of brackets, of which
    /// the rightmost varies fastest, and ranges have steps if that is shorter.
    ClusterShell,
}

impl Notation {
    /// Returns `true` if a name may end with this text after its last bracket.
    pub(crate) fn ends_with(self, text: &[u8]) -> bool {
        text.is_empty() || self == Self::ClusterShell
    }

    /// Returns the most brackets of a written name.
    pub(crate) fn max_brackets(self) -> usize {
        match self {
            Self::Slurm => 2,
            Self::ClusterShell => MAX_BRACKETS,
        }
    }
}
