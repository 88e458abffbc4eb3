// SPDX-License-Identifier: MIT OR Apache-2.0
//! How ranks are laid out over nodes, in place of a process map.

use clap::Args;
use pmix_hostlist::Layout;

/// What makes a process map of a node map.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct LayoutArgs {
    /// In place of --procs: so many ranks on each node, or a number for each as Slurm writes them,
    /// 2(x3),1. Without it the slots that hostfile:FILE, slurm:, pbs:, lsf: or flux:FILE tell.
    #[arg(long, value_name = "N", conflicts_with = "procs")]
    pub(crate) ppn: Option<String>,
    /// In place of --procs: the order in which ranks fill nodes: block, cyclic, or plane=N for N
    /// ranks a node in turns. Block if --ppn stands alone.
    #[arg(long, value_name = "ORDER", value_parser = LayoutArg::parse, conflicts_with = "procs")]
    pub(crate) layout: Option<LayoutArg>,
}

impl LayoutArgs {
    /// Whether a process map is to be made.
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
                Layout::Plane(ranks.ok_or("it is block, cyclic or plane=N")?)
            }
        };
        Ok(Self(layout))
    }
}
