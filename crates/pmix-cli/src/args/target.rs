// SPDX-License-Identifier: MIT OR Apache-2.0
//! The output formats of maps.

use clap::ValueEnum;

/// Output formats of `convert`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Target {
    /// The expanded list on one line.
    List,
    /// A bracket list for Slurm; ranges of ranks for a process map.
    Slurm,
    /// A bracket list for ClusterShell: any number of brackets, text after them, steps.
    Clustershell,
    /// The range notation that every PMIx library reads.
    Pmix,
    /// A JSON array.
    Json,
}
