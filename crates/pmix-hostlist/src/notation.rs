// SPDX-License-Identifier: MIT OR Apache-2.0
//! The differences between the bracket lists of several programs.

/// The maximum number of brackets in a name.
pub(crate) const MAX_BRACKETS: usize = 16;

/// The program that reads or writes a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notation {
    /// Slurm. A name ends with its last bracket, because `scontrol` 22.05 rejects `n[1-2]-ib`.
    /// Ranges have no step. Names are written with at most two brackets, which all programs expand
    /// in the same order. Of three and more brackets, Slurm varies the last one fastest, and then
    /// the first.
    Slurm,
    /// ClusterShell. Text may follow the last bracket. A name may have several brackets. The
    /// rightmost one varies fastest. Ranges are written with steps if that is shorter.
    ClusterShell,
}

impl Notation {
    /// Returns `true` if a name may end with this text after its last bracket.
    pub(crate) fn ends_with(self, text: &[u8]) -> bool {
        text.is_empty() || self == Self::ClusterShell
    }

    /// Returns the maximum number of brackets in a written name.
    pub(crate) fn max_brackets(self) -> usize {
        match self {
            Self::Slurm => 2,
            Self::ClusterShell => MAX_BRACKETS,
        }
    }
}
