// SPDX-License-Identifier: MIT OR Apache-2.0
//! What tells the bracket lists of one program from those of another.

/// The most brackets in one name.
pub(crate) const MAX_BRACKETS: usize = 16;

/// Names the reader that a list is written for, or the writer that it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notation {
    /// Slurm: a name ends with its last bracket, since `scontrol` of 22.05 refuses `n[1-2]-ib`, and no range
    /// has a step. Names are written with two brackets at most, which every reader takes in one order; of
    /// three and more Slurm counts the last one fastest, and behind it the first.
    Slurm,
    /// ClusterShell: text may follow the last bracket, a name has any number of brackets of which the
    /// rightmost counts fastest, and ranges have steps where that is shorter.
    ClusterShell,
}

impl Notation {
    /// Whether a name may end with this text behind its last bracket.
    pub(crate) fn ends_with(self, text: &[u8]) -> bool {
        text.is_empty() || self == Self::ClusterShell
    }

    /// How many brackets a name has at most.
    pub(crate) fn max_brackets(self) -> usize {
        match self {
            Self::Slurm => 2,
            Self::ClusterShell => MAX_BRACKETS,
        }
    }
}
