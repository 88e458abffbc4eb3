// SPDX-License-Identifier: MIT OR Apache-2.0
//! The nodes that `--host` and `--hostfile` name, and their slots. The slots are the number of processes without `-n`.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::path::Path;

use pmix_hostlist::{Allocation, Slots};
use pmix_map::Limits;

use super::several::{JobNodes, NamedNodes};
use crate::args::AppArgs;
use crate::failure::Failure;
use crate::input::{Form, Source, allocation};

/// The maximum number of names that are resolved: each can take seconds.
const MOST_LOOKUPS: usize = 16;

/// The names of this node.
pub(super) struct ThisNode {
    names: Vec<String>,
    /// The addresses of its interfaces, once they are needed.
    addresses: OnceCell<Vec<IpAddr>>,
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
        let addresses = OnceCell::new();
        Self { names, addresses }
    }

    /// Returns `true` for each node of a list that is this node. The names are resolved only if none of them matches by
    /// its text.
    pub(super) fn find<'a>(&self, nodes: impl Iterator<Item = &'a str> + Clone) -> Vec<bool> {
        let found: Vec<_> = nodes.clone().map(|node| self.is_named(node)).collect();
        if found.contains(&true) {
            return found;
        }
        let resolved = nodes.take(MOST_LOOKUPS).map(|node| self.is_resolved(node));
        let rest = found.iter().skip(MOST_LOOKUPS).copied();
        resolved.chain(rest).collect()
    }

    /// Returns `true` if a name or address is one of this node. A name is compared up to its first dot.
    fn is_named(&self, node: &str) -> bool {
        if let Ok(address) = node.parse() {
            return self.has_address(address);
        }
        let short = |name: &str| {
            name.split('.')
                .next()
                .unwrap_or_default()
                .to_ascii_lowercase()
        };
        LOOPBACK.iter().any(|name| node.eq_ignore_ascii_case(name))
            || self.names.iter().any(|name| short(node) == short(name))
    }

    /// Returns `true` if a name has an address of this node.
    fn is_resolved(&self, node: &str) -> bool {
        if node.parse::<IpAddr>().is_ok() || node.starts_with(['@', '+']) {
            return false;
        }
        // The port is not used; the function needs one.
        let found = (node, 0).to_socket_addrs().into_iter().flatten();
        found
            .map(|address| address.ip())
            .any(|address| self.has_address(address))
    }

    /// Returns `true` if an interface of this node has an address.
    fn has_address(&self, address: IpAddr) -> bool {
        let addresses = || {
            let found = if_addrs::get_if_addrs().into_iter().flatten();
            found.map(|interface| interface.ip()).collect()
        };
        address.is_loopback() || self.addresses.get_or_init(addresses).contains(&address)
    }

    /// Returns the names for a message.
    pub(super) fn named(&self) -> String {
        self.names.join(" or ")
    }
}

/// A hostfile that a variable names for all applications without nodes of their own.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DefaultHostfile {
    pub(super) variable: String,
    pub(super) path: OsString,
}

/// This node, for the options that name nodes.
pub(super) struct Here<'a> {
    pub(super) node: ThisNode,
    pub(super) limits: &'a Limits,
    /// `true` if this node is a part of a larger job.
    pub(super) is_part: bool,
    /// The hostfile for applications without nodes, unless there is an allocation.
    pub(super) default: Option<DefaultHostfile>,
    /// The slots in this file, once they are needed.
    pub(super) of_default: OnceCell<Option<u32>>,
}

impl Here<'_> {
    /// Returns the slots of this node that the options of an application give.
    ///
    /// # Errors
    /// The processes would need another node, an option or file is invalid, or the file cannot be read.
    pub(super) fn slots(&self, app: &AppArgs) -> Result<Option<u32>, Failure> {
        slots(app, &self.node, self.limits, self.is_part)
    }

    /// Returns the nodes of the job if its options name others than this one. `host` is the name of this node in the maps.
    ///
    /// # Errors
    /// An option or file is invalid, or the file cannot be read.
    pub(super) fn several(&self, app: &AppArgs, host: &str) -> Result<Option<JobNodes>, Failure> {
        if self.is_part {
            return Ok(None);
        }
        let named = named(app, &self.node, self.limits)?;
        let is_no_name = |(name, ..): &&(String, u32, bool)| name.starts_with(['@', '+']);
        if let Some(named) = &named
            && let Some((name, ..)) = named.all.iter().find(is_no_name)
        {
            return Err(other_node(&named.origin, name, &self.node));
        }
        Ok(named.and_then(|named| JobNodes::of(named, host)))
    }

    /// Returns the slots of this node in the default hostfile. A warning says why a file is not used.
    pub(super) fn default_slots(&self) -> Option<u32> {
        let file = self.default.as_ref().filter(|_| !self.is_part)?;
        *self.of_default.get_or_init(|| {
            let DefaultHostfile { variable, path } = file;
            let shown = format!("{variable}={}", path.display());
            let found = self.of_file(&shown, path.as_ref());
            let slots = found.unwrap_or_else(|why| {
                tracing::warn!("{shown} is not used: {why}");
                None
            });
            slots.filter(|slots| *slots > 0)
        })
    }

    /// Returns the slots of this node in a hostfile, if it has entries.
    ///
    /// # Errors
    /// The message if the file cannot be read or has no entry for this node.
    fn of_file(&self, option: &str, path: &Path) -> Result<Option<u32>, String> {
        let source = read(path).map_err(|failure| failure.message().to_owned())?;
        let found = allocation(&source, self.limits);
        let nodes = Nodes::of(
            found.map_err(|failure| failure.message().to_owned())?,
            &self.node,
        );
        if nodes.all.is_empty() {
            return Ok(None);
        }
        let slots = among(option, &nodes, &self.node);
        slots.map(Some).map_err(|_| {
            let here = self.node.named();
            format!("the file has no entry for this node, {here}")
        })
    }
}

/// The nodes of a list with their slots; `true` for this node.
struct Nodes {
    all: Vec<(String, u32, bool)>,
}

impl Nodes {
    fn of(found: Allocation, here: &ThisNode) -> Self {
        let names = found.nodes.iter();
        let names = names.map(|name| String::from_utf8_lossy(&name).into_owned());
        let names: Vec<_> = names.collect();
        let are_here = here.find(names.iter().map(String::as_str));
        let slots = found.slots.unwrap_or_default();
        let all = names.into_iter().zip(slots.per_node()).zip(are_here);
        Self {
            all: all
                .map(|((name, slots), is_here)| (name, slots, is_here))
                .collect(),
        }
    }
}

/// Returns the nodes that `--host` and `--hostfile` name, or `None` without these options. `--host` selects from the
/// nodes of a file.
///
/// # Errors
/// An option or file is invalid, or the file cannot be read.
pub(super) fn named(
    args: &AppArgs,
    here: &ThisNode,
    limits: &Limits,
) -> Result<Option<NamedNodes>, Failure> {
    let of_file = match &args.hostfile {
        Some(file) => {
            let origin = format!("--hostfile {}", file.display());
            let source = read(file)?;
            let found = allocation(&source, limits).map_err(Failure::into_usage)?;
            let all = Nodes::of(found, here).all;
            if !all.iter().all(|(.., is_here)| *is_here) {
                warn_of_users(&origin, &source);
            }
            Some(NamedNodes { origin, all })
        }
        None => None,
    };
    let Some(hosts) = &args.host else {
        return Ok(of_file);
    };
    let origin = format!("--host {hosts}");
    let source = Source {
        origin: "--host".to_owned(),
        bytes: hosts.clone().into_bytes(),
        comments: false,
        form: Form::Hosts,
    };
    let found = allocation(&source, limits);
    let found =
        found.map_err(|failure| failure.misuse("name this node, for example --host localhost:4, or other nodes, as in --host n1:4,n2:4"))?;
    let has_counts = has_counts(hosts, &found);
    let mut all = Nodes::of(found, here).all;
    if !all.iter().all(|(.., is_here)| *is_here) {
        warn_of_users(&origin, &source);
    }
    if let Some(file) = of_file {
        for (name, slots, _) in &mut all {
            let mut entries = file.all.iter().filter(|(other, ..)| other == name);
            let of_file = entries
                .clone()
                .map(|(_, slots, _)| *slots)
                .reduce(u32::saturating_add);
            match of_file {
                _ if entries.next().is_none() => {
                    let message = format!("{origin}: {name} is not in the file of {}", file.origin);
                    return Err(Failure::usage(message)
                        .cure("name nodes of the file, or omit one of the options"));
                }
                Some(of_file) if !has_counts => *slots = of_file,
                _ => {}
            }
        }
    }
    Ok(Some(NamedNodes { origin, all }))
}

/// Returns the number of slots that `--host` and `--hostfile` give to this node, or `None` without these options.
///
/// # Errors
/// The processes would need another node, an option or file is invalid, or the file cannot be read.
fn slots(
    args: &AppArgs,
    here: &ThisNode,
    limits: &Limits,
    is_part: bool,
) -> Result<Option<u32>, Failure> {
    let num_procs = args.num_procs;
    let nodes = |option: &str, source: &Source| -> Result<Allocation, Failure> {
        warn_of_users(option, source);
        allocation(source, limits).map_err(|failure| {
            // A hostfile has a position, and advice about its lines.
            match option.starts_with("--hostfile") {
                true => failure.into_usage(),
                false => failure.misuse("name this node, for example --host localhost:4"),
            }
        })
    };
    let of_file = match &args.hostfile {
        Some(file) => {
            let option = format!("--hostfile {}", file.display());
            let nodes = Nodes::of(nodes(&option, &read(file)?)?, here);
            // `--host` selects from the nodes of the file.
            Some(match is_part || args.host.is_some() {
                true => among(&option, &nodes, here)?,
                false => filled(&option, &nodes, num_procs, None, here)?,
            })
        }
        None => None,
    };
    let Some(hosts) = &args.host else {
        return Ok(of_file);
    };
    let source = Source {
        origin: "--host".to_owned(),
        bytes: hosts.clone().into_bytes(),
        comments: false,
        form: Form::Hosts,
    };
    let option = format!("--host {hosts}");
    let found = nodes(&option, &source)?;
    let of_file = of_file.filter(|_| !has_counts(hosts, &found));
    let nodes = Nodes::of(found, here);
    let of_host = match is_part {
        true => among(&option, &nodes, here)?,
        false => filled(&option, &nodes, num_procs, of_file, here)?,
    };
    Ok(Some(of_file.unwrap_or(of_host)))
}

/// Returns `true` if `--host` has a number of slots, as `a:2` or as a repeated name.
fn has_counts(hosts: &str, found: &Allocation) -> bool {
    let is_counted = |word: &str| {
        let parts = word.split_once(':');
        parts.is_some_and(|(_, count)| count.trim().parse::<u32>().is_ok())
    };
    let num_slots = found.slots.as_ref().map_or(0, Slots::num_slots);
    hosts.split(',').any(is_counted) || num_slots > found.nodes.len() as u128
}

/// The maximum size of a hostfile in bytes.
const MOST: u64 = 16 << 20;

/// Reads a hostfile, which must be a regular file.
///
/// # Errors
/// The file cannot be read, is another kind of file or too large.
pub(super) fn read(file: &Path) -> Result<Source, Failure> {
    let bytes = pmix_files::read_regular(file, MOST);
    let bytes = bytes.map_err(|e| {
        Failure::usage(format!("cannot read {}: {e}", file.display())).cure(
            "give the path of a file with a node on each line, for example `localhost slots=4`",
        )
    })?;
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
            "{option}: the user in `{word}` is not used: all processes run as the user of the launcher, and ssh reads users of other nodes from \
            its configuration"
        );
    }
}

/// Returns the slots of this node in the list of a larger job, or in a list from which `--host` selects.
///
/// # Errors
/// This node is not in the list.
fn among(option: &str, nodes: &Nodes, here: &ThisNode) -> Result<u32, Failure> {
    let own = nodes.all.iter().filter(|(.., is_here)| *is_here);
    let slots = own.map(|(_, slots, _)| *slots);
    let sum = slots.reduce(u32::saturating_add);
    sum.ok_or_else(|| match nodes.all.first() {
        Some((first, ..)) => other_node(option, first, here),
        None => Failure::usage(format!("{option}: the list has no node")),
    })
}

/// Returns the slots of this node, where processes fill the nodes in their order. `of_file` is the number of slots that
/// a file gives to this node.
///
/// # Errors
/// The number of processes, or all slots without a number, needs another node.
fn filled(
    option: &str,
    nodes: &Nodes,
    num_procs: Option<u32>,
    of_file: Option<u32>,
    here: &ThisNode,
) -> Result<u32, Failure> {
    let mut found = 0_u32;
    for (name, slots, is_here) in &nodes.all {
        if !is_here {
            return Err(other_node(option, name, here));
        }
        found = of_file.unwrap_or_else(|| found.saturating_add(*slots));
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
    let message = format!("{option}: {node} is not this node ({here})");
    Failure::usage(message).cure(
        "name all nodes of a job in the options of its first program, as in --host n1:2,n2:2 ./a : -n 2 ./b; with --nodes, \
        use --node-name NAME if the list has another name of this node",
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
            // Names below `.invalid` are never resolved.
            ("--host n2.invalid", "n2.invalid"),
            ("--host n1:2,n2:2", "n2"),
            ("-n 3 --host n1:2,n2:2", "n2"),
            ("-n 1 --host n2,n1", "n2"),
            ("--host n11.invalid", "n11.invalid"),
            ("--host 192.0.2.200", "192.0.2.200"),
            ("--host 224.0.0.1", "224.0.0.1"),
            (
                "--nodes n2,n3 --procs 0;1 --host n2.invalid,n3.invalid",
                "n2.invalid",
            ),
        ] {
            let failure = of(&format!("{line} true"), &["n1"]).unwrap_err();
            let message = format!("{failure:?}");
            assert!(
                message.contains(&format!(": {node} is not this node (n1)")),
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

    #[test]
    fn names_are_resolved_only_if_none_matches_and_only_the_first_of_them() {
        let here = ThisNode::new(vec!["n4096".to_owned()]);
        // Lookups of all these names would take minutes.
        let mut names: Vec<_> = (1..=4096).map(|number| format!("n{number}")).collect();
        let found = here.find(names.iter().map(String::as_str));
        assert_eq!(found.iter().position(|is_here| *is_here), Some(4095));
        names.truncate(1000);
        let names: Vec<_> = names.iter().map(|name| format!("{name}.invalid")).collect();
        let found = here.find(names.iter().map(String::as_str));
        assert_eq!((found.len(), found.contains(&true)), (1000, false));
    }

    #[test]
    fn host_selects_from_the_nodes_of_a_file() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let text = b"n2 slots=2\nn1 slots=4\n";
        std::io::Write::write_all(&mut file, text).unwrap();
        let path = file.path().to_str().unwrap();
        for (options, slots) in [
            ("--host n1", 4),
            ("--host n1:1", 1),
            ("--host n1,n1", 2),
            ("--host n1,n2 -n 3", 4),
        ] {
            let line = format!("{options} --hostfile {path} true");
            assert_eq!(of(&line, &["n1"]).unwrap(), Some(slots), "{options}");
        }
        for options in ["", "--host n1,n2 ", "--host n1,n2 -n 5 "] {
            let line = format!("{options}--hostfile {path} true");
            assert!(of(&line, &["n1"]).is_err(), "{options}");
        }
    }

    #[test]
    fn a_default_hostfile_counts_only_with_an_entry_for_this_node() {
        for (text, slots) in [
            (Some("n2 slots=2\nn1 slots=3\n"), Some(3)),
            (Some("# Comments only.\n"), None),
            (Some("n2.invalid slots=2\n"), None),
            (Some("n1 slots=x\n"), None),
            (None, None),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("hosts");
            if let Some(text) = text {
                std::fs::write(&path, text).unwrap();
            }
            let limits = Limits::default();
            let here = Here {
                node: ThisNode::new(vec!["n1".to_owned()]),
                limits: &limits,
                is_part: false,
                default: Some(DefaultHostfile {
                    variable: "OMPI_MCA_orte_default_hostfile".to_owned(),
                    path: path.into_os_string(),
                }),
                of_default: OnceCell::new(),
            };
            assert_eq!(here.default_slots(), slots, "{text:?}");
        }
    }
}
