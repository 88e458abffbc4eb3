// SPDX-License-Identifier: MIT OR Apache-2.0
//! The layout of ranks over nodes, instead of a process map.

use clap::Args;
use pmix_hostlist::Layout;

/// Options that derive a process map from a node map.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct LayoutArgs {
    /// Instead of --procs: N ranks on each node, or one number per node in Slurm's notation, 2(x3),1. The
    /// default is the number of slots in hostfile:FILE, slurm:, pbs:, lsf: or flux:FILE.
    #[arg(long, value_name = "N", conflicts_with = "procs")]
    pub(crate) ppn: Option<String>,
    /// Instead of --procs: the order in which ranks fill nodes: block (the default), cyclic, or plane=N for N
    /// ranks per node in turn.
    #[arg(long, value_name = "ORDER", value_parser = LayoutArg::parse, conflicts_with = "procs")]
    pub(crate) layout: Option<LayoutArg>,
}

impl LayoutArgs {
    /// Returns `true` if a process map is to be derived.
    pub(crate) fn is_asked(&self) -> bool {
        self.ppn.is_some() || self.layout.is_some()
    }
}

/// The order in which ranks fill nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LayoutArg(pub(crate) Layout);

impl LayoutArg {
    fn parse(text: &str) -> Result<Self, String> {
        let layout = match text {
            "block" => Layout::Block,
            "cyclic" => Layout::Cyclic,
            text => {
                let ranks = text.strip_prefix("plane=").and_then(|n| n.parse().ok());
                let ranks = ranks.filter(|ranks| *ranks > 0);
                Layout::Plane(ranks.ok_or("expected block, cyclic or plane=N")?)
            }
        };
        Ok(Self(layout))
    }
}
