// SPDX-License-Identifier: MIT OR Apache-2.0
//! The nodes that `--host` and `--hostfile` name. Each must be this node, because processes start on this node only.
//! Their slots are the number of processes without `-n`.

use std::net::{IpAddr, ToSocketAddrs as _, UdpSocket};
use std::path::Path;

use pmix_map::Limits;

use crate::args::AppArgs;
use crate::failure::Failure;
use crate::input::{Form, Source, allocation};

/// The names of this node.
pub(super) struct ThisNode {
    names: Vec<String>,
}

/// The names that every system has for itself.
const LOOPBACK: &[&str] = &[
    "localhost",
    "localhost.localdomain",
    "localhost4",
    "localhost6",
    "ip6-localhost",
    "ip6-loopback",
];

impl ThisNode {
    /// Returns the node with these names, the name of the system first.
    pub(super) fn new(names: Vec<String>) -> Self {
        Self { names }
    }

    /// Returns `true` if a name or address is one of this node. A name is compared up to its first dot, then resolved.
    pub(super) fn is_named(&self, node: &str) -> bool {
        if let Ok(address) = node.parse() {
            return is_own(address);
        }
        let short = |name: &str| {
            name.split('.')
                .next()
                .unwrap_or_default()
                .to_ascii_lowercase()
        };
        if LOOPBACK.contains(&node) || self.names.iter().any(|name| short(node) == short(name)) {
            return true;
        }
        // The port is not used; the function needs one.
        let found = (node, 0).to_socket_addrs().into_iter().flatten();
        found.map(|address| address.ip()).any(is_own)
    }

    /// Returns the names for a message.
    pub(super) fn named(&self) -> String {
        self.names.join(" or ")
    }
}

/// Returns `true` if an address belongs to this node: only then can a socket be bound to it.
fn is_own(address: IpAddr) -> bool {
    !address.is_unspecified() && UdpSocket::bind((address, 0)).is_ok()
}

/// Returns the number of slots that `--host` and `--hostfile` give to this node, or `None` without these options.
///
/// # Errors
/// The processes would need another node, an option or file is invalid, or the file cannot be read.
pub(super) fn slots(
    args: &AppArgs,
    here: &ThisNode,
    limits: &Limits,
    is_part: bool,
) -> Result<Option<u32>, Failure> {
    let num_procs = args.num_procs;
    let check = |option: &str, source: &Source| -> Result<u32, Failure> {
        warn_of_users(option, source);
        let found = allocation(source, limits).map_err(|failure| {
            failure.misuse("name this node, for example --host localhost:4, or `localhost slots=4` in a hostfile")
        })?;
        let slots = found.slots.unwrap_or_default();
        let nodes = found.nodes.iter().zip(slots.per_node());
        let nodes = nodes.map(|(name, slots)| (String::from_utf8_lossy(&name).into_owned(), slots));
        match is_part {
            true => among(option, nodes, here),
            false => filled(option, nodes, num_procs, here),
        }
    };
    let of_file = match &args.hostfile {
        Some(file) => {
            let option = format!("--hostfile {}", file.display());
            Some(check(&option, &read(file)?)?)
        }
        None => None,
    };
    let of_host = match &args.host {
        Some(hosts) => {
            let source = Source {
                origin: "--host".to_owned(),
                bytes: hosts.clone().into_bytes(),
                comments: false,
                form: Form::Hosts,
            };
            Some(check(&format!("--host {hosts}"), &source)?)
        }
        None => None,
    };
    Ok(match (of_host, of_file) {
        // A single name in `--host` selects a node of the file, with its slots.
        (Some(1), Some(slots)) => Some(slots),
        (of_host, of_file) => of_host.or(of_file),
    })
}

/// The maximum size of a hostfile in bytes.
const MOST: u64 = 16 << 20;

fn read(file: &Path) -> Result<Source, Failure> {
    let bytes = pmix_files::read_regular(file, MOST);
    let bytes =
        bytes.map_err(|e| Failure::usage(format!("cannot read {}: {e}", file.display())))?;
    Ok(Source {
        origin: file.display().to_string(),
        bytes,
        comments: true,
        form: Form::Hostfile,
    })
}

/// Warns if a node has the name of a user (`user@n1`, `user=me`).
fn warn_of_users(option: &str, source: &Source) {
    let text = String::from_utf8_lossy(&source.bytes);
    let lines = text.lines().map(|line| match source.comments {
        true => line.split('#').next().unwrap_or_default(),
        false => line,
    });
    let mut words = lines.flat_map(|line| line.split([' ', '\t', ',']));
    let is_user = |word: &&str| {
        let key = word.split('=').next().unwrap_or_default();
        word.find('@').is_some_and(|at| at > 0) || key == "user" || key == "username"
    };
    if let Some(word) = words.find(is_user) {
        tracing::warn!(
            "{option}: the user in `{word}` is not used, because all processes run as the user of the launcher"
        );
    }
}

/// Returns the slots of this node in the list of a larger job.
///
/// # Errors
/// This node is not in the list.
fn among(
    option: &str,
    nodes: impl Iterator<Item = (String, u32)>,
    here: &ThisNode,
) -> Result<u32, Failure> {
    let (mut first, mut found) = (None, None);
    for (name, slots) in nodes {
        match here.is_named(&name) {
            true => found = Some(found.unwrap_or(0_u32).saturating_add(slots)),
            false => first = first.or(Some(name)),
        }
    }
    found.ok_or_else(|| other_node(option, &first.unwrap_or_default(), here))
}

/// Returns the slots of this node, where processes fill the nodes in their order.
///
/// # Errors
/// The number of processes, or all slots without a number, needs another node.
fn filled(
    option: &str,
    nodes: impl Iterator<Item = (String, u32)>,
    num_procs: Option<u32>,
    here: &ThisNode,
) -> Result<u32, Failure> {
    let mut found = 0_u32;
    for (name, slots) in nodes {
        if !here.is_named(&name) {
            return Err(other_node(option, &name, here));
        }
        found = found.saturating_add(slots);
        if num_procs.is_some_and(|wanted| wanted <= found) {
            break;
        }
    }
    match (found, num_procs) {
        (0, None) => {
            let failure = Failure::usage(format!("{option}: no node in the list has a slot"));
            Err(failure.cure("use -n N for the number of processes"))
        }
        _ => Ok(found),
    }
}

fn other_node(option: &str, node: &str, here: &ThisNode) -> Failure {
    let here = here.named();
    if let Some(group) = node.strip_prefix('@') {
        let message = format!("{option}: `{node}` is a group of nodes of ClusterShell");
        return Failure::usage(message).cure(format!(
            "`nodeset -S, -e @{group}` prints its nodes: use --host \"$(nodeset -S, -e @{group})\""
        ));
    }
    if node.starts_with('+') {
        let message = format!("{option}: `{node}` is a place in an allocation of mpirun");
        return Failure::usage(message).cure("use the name of this node, or --host localhost");
    }
    let message = format!(
        "{option}: pmix run starts processes on this node only, and {node} is another node than {here}"
    );
    Failure::usage(message).cure(
        "use --node-name NAME if the list has another name of this node; use srun, prterun or mpirun to \
        start processes on other nodes",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser as _;

    /// Returns the slots of this node for a command line.
    fn of(line: &str, names: &[&str]) -> Result<Option<u32>, Failure> {
        let words = ["pmix", "run"].into_iter().chain(line.split(' '));
        let Command::Run(run) = Cli::try_parse_from(words).unwrap().command else {
            unreachable!("the words name the command")
        };
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let is_part = run.nodes.is_some();
        slots(&run.app, &ThisNode::new(names), &Limits::default(), is_part)
    }

    #[test]
    fn any_name_and_address_of_this_node_counts() {
        for (hosts, slots) in [
            ("n1.cluster:4", 4),
            ("n1,N1,localhost:2", 4),
            ("me@n1", 1),
            ("127.0.0.1,127.0.1.1:8", 9),
            ("ip6-localhost", 1),
            ("localhost.localdomain:3", 3),
        ] {
            let found = of(&format!("--host {hosts} true"), &["n1"]).unwrap();
            assert_eq!(found, Some(slots), "{hosts}");
        }
        assert_eq!(of("true", &["n1"]).unwrap(), None);
    }

    #[test]
    fn processes_that_need_another_node_are_refused_by_its_name() {
        for (line, node) in [
            ("--host n2", "n2"),
            ("--host n1:2,n2:2", "n2"),
            ("-n 3 --host n1:2,n2:2", "n2"),
            ("-n 1 --host n2,n1", "n2"),
            ("--host n11", "n11"),
            ("--host 192.0.2.200", "192.0.2.200"),
            ("--nodes n2,n3 --procs 0;1 --host n2,n3", "n2"),
        ] {
            let failure = of(&format!("{line} true"), &["n1"]).unwrap_err();
            let message = format!("{failure:?}");
            assert!(
                message.contains(&format!("and {node} is another node than n1")),
                "{line}: {message}"
            );
        }
        // The slots of this node suffice.
        assert_eq!(of("-n 2 --host n1:2,n2:2 true", &["n1"]).unwrap(), Some(2));
        let part = "--nodes n1,n2 --procs 0;1 --host n1,n2 true";
        assert_eq!(of(part, &["n1"]).unwrap(), Some(1));
        assert_eq!(of("--host n2:2,n1 true", &["n1", "n2"]).unwrap(), Some(3));
    }

    #[test]
    fn a_group_and_a_relative_node_are_refused_with_their_replacement() {
        for (hosts, hint) in [
            ("@compute", "nodeset -S, -e @compute"),
            ("+n0", "--host localhost"),
            ("n1:x", "name this node"),
            ("n1:0", "use -n N"),
        ] {
            let failure = of(&format!("--host {hosts} true"), &["n1"]).unwrap_err();
            let message = format!("{failure:?}");
            assert!(message.contains(hint), "{hosts}: {message}");
        }
    }
}
