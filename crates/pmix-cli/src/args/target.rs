// SPDX-License-Identifier: MIT OR Apache-2.0
//! The forms in which a map is written.

use clap::ValueEnum;

/// What `convert` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Target {
    /// The expanded list on one line.
    List,
    /// A bracket list that Slurm reads; ranges of ranks for a process map.
    Slurm,
    /// As ClusterShell reads it: any number of brackets, text behind them, steps.
    Clustershell,
    /// The range notation that every PMIx library reads.
    Pmix,
    /// A JSON array.
    Json,
}
