// SPDX-License-Identifier: MIT OR Apache-2.0
//! The node that answers.

use gds_hash::LocalNode;

/// Stands for the name of this node in a job that is to work on any.
const THIS_HOST: &str = "THISHOST";

/// Returns the host name of this node.
pub(crate) fn name() -> Option<String> {
    let paths = ["/proc/sys/kernel/hostname", "/etc/hostname"];
    let text = paths.iter().find_map(|p| std::fs::read_to_string(p).ok())?;
    let name = text.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

/// Returns the node for an interactive user: the named one, or this node.
pub(super) fn for_people(named: Option<&str>) -> LocalNode {
    match named.map(str::to_owned).or_else(name) {
        Some(name) => LocalNode::new(name).alias(THIS_HOST),
        None => LocalNode::new(THIS_HOST),
    }
}

/// Returns the node for a program that replays jobs, with the name that the jobs use.
pub(super) fn for_programs(named: Option<&str>) -> LocalNode {
    let host = LocalNode::new(THIS_HOST);
    match named.map(str::to_owned).or_else(name) {
        Some(name) => host.alias(name),
        None => host,
    }
}
