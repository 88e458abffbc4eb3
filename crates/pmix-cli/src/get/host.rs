// SPDX-License-Identifier: MIT OR Apache-2.0
//! The node that answers.

use gds_hash::LocalNode;

/// Stands for the name of this node in a job that is to work on any.
const THIS_HOST: &str = "THISHOST";

/// The name of this node as the system has it.
pub(crate) fn name() -> Option<String> {
    let paths = ["/proc/sys/kernel/hostname", "/etc/hostname"];
    let text = paths.iter().find_map(|p| std::fs::read_to_string(p).ok())?;
    let name = text.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

/// The node for somebody who asks by hand: it has the name it was given.
pub(super) fn for_people(named: Option<&str>) -> LocalNode {
    match named.map(str::to_owned).or_else(name) {
        Some(name) => LocalNode::new(name).alias(THIS_HOST),
        None => LocalNode::new(THIS_HOST),
    }
}

/// The node for a program that replays jobs: it is called as the jobs call it.
pub(super) fn for_programs(named: Option<&str>) -> LocalNode {
    let host = LocalNode::new(THIS_HOST);
    match named.map(str::to_owned).or_else(name) {
        Some(name) => host.alias(name),
        None => host,
    }
}
