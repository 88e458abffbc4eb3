// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many processes there are and where they run, by the options and by what Slurm says.

use std::ffi::OsString;
use std::path::Path;

use pmix_launch::{MapBy, Policy, this_machine};
use pmix_topology::Level;

use crate::args::Run;
use crate::failure::Failure;

/// Variables of the environment.
type Variables = [(OsString, OsString)];

/// How the options deal processes out and bind them.
pub(super) fn policy(args: &Run, vars: &Variables) -> Policy {
    let map_by = args.map_by.part.map_by();
    let threads = args.cpus_per_rank.or(args.map_by.cores_each);
    let bind_to = match (args.bind_to, map_by) {
        (Some(named), _) => named.level(),
        // Who asks for cores or names processors means that they be used.
        (None, _) if threads.is_some() => Some(Level::Core),
        (None, MapBy::Slot | MapBy::Level(Level::Node)) => {
            args.cpu_set.as_ref().map(|_| Level::Node)
        }
        (None, MapBy::Level(level)) => Some(level),
    };
    let threads = match bind_to {
        Some(Level::Core | Level::HwThread) => {
            threads.or_else(|| number(vars, "SLURM_CPUS_PER_TASK"))
        }
        _ => None,
    };
    // What Slurm says is of the threads that its allocation has, whatever may be used of them here.
    let oversubscribe = args.habits.oversubscribe || args.map_by.oversubscribe;
    let asked = args.cpus_per_rank.is_some()
        || args.map_by.cores_each.is_some()
        || args.map_by.procs_each.is_some();
    let strict = asked && !oversubscribe;
    let count = |number: Option<u32>| usize::try_from(number.unwrap_or(1)).unwrap_or(1);
    Policy {
        map_by,
        bind_to,
        parts_each: count(threads),
        procs_each: count(args.map_by.procs_each),
        strict,
    }
}

/// How many processes a job has whose options do not say it as such: so many on each part of the node,
/// or what an allocation of Slurm is for.
pub(super) fn num_procs(args: &Run, vars: &Variables) -> Option<u64> {
    if let Some(each) = args.map_by.procs_each {
        let parts = match args.map_by.part.map_by() {
            MapBy::Slot | MapBy::Level(Level::Node) => 1,
            MapBy::Level(level) => this_machine(vars).parts(level).len().max(1),
        };
        return Some(u64::from(each) * u64::try_from(parts).ok()?);
    }
    let nodes = number(vars, "SLURM_JOB_NUM_NODES")?;
    if nodes > 1 {
        tracing::warn!(
            "this allocation has {nodes} nodes, and processes start on this one alone: srun starts \
             them on all"
        );
        return None;
    }
    number(vars, "SLURM_NTASKS").map(u64::from)
}

fn number(vars: &Variables, name: &str) -> Option<u32> {
    let (_, value) = vars.iter().find(|(known, _)| known == name)?;
    value.to_str()?.parse().ok().filter(|number| *number > 0)
}

/// Refuses the nodes of `--host` or `--hostfile`, as `mpirun` has them, if this one is not among them.
///
/// # Errors
/// It is not, or the file cannot be read.
pub(super) fn check_nodes(args: &Run, host: &str) -> Result<(), Failure> {
    // It is called so by the system, or by who starts the job.
    let names: Vec<_> = [host]
        .into_iter()
        .chain(args.node_name.as_deref())
        .collect();
    if let Some(file) = &args.habits.hostfile {
        let text = read(file)?;
        let lines = text
            .lines()
            .map(|line| line.split('#').next().unwrap_or_default());
        let named = lines.filter_map(|line| line.split_whitespace().next());
        among(&format!("--hostfile {}", file.display()), named, &names)?;
    }
    match &args.host {
        Some(hosts) => among(&format!("--host {hosts}"), hosts.split(','), &names),
        None => Ok(()),
    }
}

/// The largest list of nodes that is looked at.
const MOST: u64 = 16 << 20;

fn read(file: &Path) -> Result<String, Failure> {
    let bytes = pmix_files::read_regular(file, MOST);
    let bytes =
        bytes.map_err(|e| Failure::usage(format!("cannot read {}: {e}", file.display())))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn among<'a>(
    option: &str,
    nodes: impl IntoIterator<Item = &'a str>,
    names: &[&str],
) -> Result<(), Failure> {
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    let is_here = |node: &str| {
        let node = node.split(':').next().unwrap_or_default();
        node == "localhost"
            || node == "127.0.0.1"
            || names.iter().any(|name| short(node) == short(name))
    };
    if nodes.into_iter().any(is_here) {
        return Ok(());
    }
    let here = names.join(" or ");
    let message = format!(
        "{option}: pmix run starts processes on this node, {here}, which is not among them"
    );
    Err(Failure::usage(message).cure(
        "--node-name NAME gives this node a name; srun, prterun and mpirun start processes on other nodes",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_node_may_be_named_as_it_is_called_and_others_are_refused() {
        let allowed =
            |nodes: &str, names: &[&str]| among("--host", nodes.split(','), names).is_ok();
        for nodes in ["n1:4", "a,n1.cluster:2", "localhost", "127.0.0.1:8,b"] {
            assert!(allowed(nodes, &["n1.cluster"]), "{nodes}");
        }
        assert!(!allowed("n2,n11", &["n1"]));
        assert!(allowed("n2,n11", &["n1", "n2"]));
    }
}
