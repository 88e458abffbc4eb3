// SPDX-License-Identifier: MIT OR Apache-2.0
//! The number and placement of processes, from the options and Slurm's environment.

use pmix_launch::{MapBy, Policy, this_machine};
use pmix_topology::{Cpuset, Level, Topology};

use super::variables::{Variables, is_rank, number};
use crate::args::Run;
use crate::failure::Failure;

/// The advice for processes that cannot be placed.
const FEWER: &str = "use a smaller number for -n, pe=N or --cpus-per-rank, a larger one for ppr:N:PART, or `--oversubscribe` to \
    let processes share processors";

/// Adds advice to the failure of a job whose processes need more parts of the node than there are.
pub(super) fn advise(failure: Failure) -> Failure {
    let message = failure.message();
    match message.contains(" were requested for each ") || message.contains(" need more than ") {
        true => failure.or_cure(FEWER),
        // A list of processors has its own advice.
        false => failure,
    }
}

/// Returns the policy for mapping and binding that the options select.
pub(super) fn policy(args: &Run, vars: &Variables) -> Policy {
    let mapping = args.map_by.unwrap_or_default();
    let map_by = mapping.part.map_by();
    let threads = args.cpus_per_rank.or(mapping.cores_each);
    let bind_to = match (args.bind_to, map_by) {
        (Some(named), _) => named.level(),
        // A number of cores or an explicit CPU list implies binding.
        (None, _) if threads.is_some() && mapping.counts_threads => Some(Level::HwThread),
        (None, _) if threads.is_some() => Some(Level::Core),
        (None, MapBy::Slot | MapBy::Level(Level::Node)) => {
            args.cpu_set.as_ref().map(|_| Level::Node)
        }
        (None, MapBy::Level(level)) => Some(level),
    };
    let threads = match bind_to {
        Some(level @ (Level::Core | Level::HwThread)) => {
            threads.or_else(|| of_each_task(level, vars))
        }
        _ => None,
    };
    // Slurm's numbers are about all threads of its allocation, even if fewer may be used here.
    let oversubscribe = args.habits.oversubscribe || mapping.oversubscribe == Some(true);
    let asked = args.cpus_per_rank.is_some()
        || mapping.cores_each.is_some()
        || mapping.procs_each.is_some();
    let strict = asked && !oversubscribe;
    let count = |number: Option<u32>| usize::try_from(number.unwrap_or(1)).unwrap_or(1);
    Policy {
        map_by,
        bind_to,
        parts_each: count(threads),
        procs_each: mapping.procs_each.map(|each| count(Some(each))),
        strict,
    }
}

/// Returns the number of processes without an explicit option: from the number on each hardware
/// object, or from the allocation: `slots` of other resource managers, the tasks of Slurm.
pub(super) fn num_procs(args: &Run, vars: &Variables, slots: Option<u32>) -> Option<u64> {
    let mapping = args.map_by.unwrap_or_default();
    if let Some(each) = mapping.procs_each {
        let parts = match mapping.part.map_by() {
            MapBy::Slot | MapBy::Level(Level::Node) => 1,
            MapBy::Level(level) => this_machine(vars).parts(level).len().max(1),
        };
        return Some(u64::from(each) * u64::try_from(parts).ok()?);
    }
    if let Some(slots) = slots {
        return Some(slots.into());
    }
    // A process of a job inherits the variables, but its own jobs do not have all tasks.
    if is_rank(vars) {
        return None;
    }
    let nodes = number(vars, "SLURM_JOB_NUM_NODES")?;
    if nodes > 1 {
        tracing::warn!(
            "this allocation has {nodes} nodes, but processes start on this node only: use srun to start \
            processes on all nodes"
        );
        return None;
    }
    number(vars, "SLURM_NTASKS").map(u64::from)
}

/// Returns the largest number of processes if the options refuse more processes than slots (`nooversubscribe`): `slots` of
/// the hosts or of an allocation, the tasks of Slurm, or the available cores of this node.
pub(super) fn most_procs(args: &Run, vars: &Variables, slots: Option<u32>) -> Option<u32> {
    let mapping = args.map_by.unwrap_or_default();
    let is_limited = match mapping.oversubscribe {
        Some(oversubscribe) => !oversubscribe && !args.habits.oversubscribe,
        None => args.habits.nooversubscribe,
    };
    if !is_limited {
        return None;
    }
    let of_slurm = || {
        let is_one_node = number(vars, "SLURM_JOB_NUM_NODES") == Some(1) && !is_rank(vars);
        number(vars, "SLURM_NTASKS").filter(|_| is_one_node)
    };
    slots.or_else(of_slurm).or_else(|| {
        let topology = this_machine(vars);
        let level = match mapping.counts_threads {
            true => Level::HwThread,
            false => Level::Core,
        };
        let allowed = Cpuset::of_thread().ok();
        let is_usable = |part: &&Cpuset| {
            let mut sets = allowed.iter().chain(&args.cpu_set);
            sets.all(|set| part.intersects(set))
        };
        let num_usable = topology.parts(level).iter().filter(is_usable).count();
        u32::try_from(num_usable.max(1)).ok()
    })
}

/// Checks the number of processes of a job against the largest one.
///
/// # Errors
/// There are more processes.
pub(super) fn check_slots(num_procs: u32, most: Option<u32>) -> Result<(), Failure> {
    match most {
        Some(most) if num_procs > most => {
            let message = format!(
                "{num_procs} processes were requested, but there {} only {most} slot{} (nooversubscribe)",
                if most == 1 { "is" } else { "are" },
                if most == 1 { "" } else { "s" },
            );
            Err(Failure::usage(message).cure(format!(
                "use -n {most} or less, or `--oversubscribe` to let processes share processors"
            )))
        }
        _ => Ok(()),
    }
}

/// Returns the number of cores or hardware threads of each task of a Slurm allocation. Slurm counts hardware
/// threads, or the number of them on each core that it was configured to use (`--threads-per-core`,
/// `--hint=nomultithread`).
fn of_each_task(level: Level, vars: &Variables) -> Option<u32> {
    let cpus = number(vars, "SLURM_CPUS_PER_TASK")?;
    if level == Level::HwThread || cpus == 1 {
        return Some(cpus);
    }
    let each = threads_of_a_core(&this_machine(vars));
    let used = number(vars, "SLURM_THREADS_PER_CORE").unwrap_or(each);
    Some(cpus.div_ceil(used.min(each)))
}

/// Returns the maximum number of hardware threads of a core.
fn threads_of_a_core(topology: &Topology) -> u32 {
    let cores = topology.parts(Level::Core).iter();
    cores.map(Cpuset::len).max().unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser as _;

    #[test]
    fn a_slurm_task_gets_cores_for_its_hardware_threads() {
        let cores = [[0, 4], [1, 5], [2, 6], [3, 7]];
        let cores = cores.map(|core| (Level::Core, Cpuset::from_iter(core)));
        let topology = Topology::of_parts(&(0..8).collect(), cores);
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, topology.to_xml().as_bytes()).unwrap();
        let each = |bind_to: &str, vars: &[(&str, &str)]| {
            let xml = ("HWLOC_XMLFILE", file.path().to_str().unwrap());
            let vars = vars.iter().chain([&xml]);
            let vars: Vec<_> = vars
                .map(|(name, value)| (OsString::from(*name), OsString::from(*value)))
                .collect();
            let words = ["pmix", "run", "--bind-to", bind_to, "true"];
            let Command::Run(run) = Cli::try_parse_from(words).unwrap().command else {
                unreachable!("the words name the command")
            };
            policy(&run, &vars).parts_each
        };
        for (cpus, used, cores, threads) in [
            ("1", None, 1, 1),
            ("2", None, 1, 2),
            ("3", None, 2, 3),
            ("4", None, 2, 4),
            ("4", Some("1"), 4, 4),
            ("4", Some("2"), 2, 4),
            // A number above the number of threads of a core counts as that number.
            ("4", Some("4"), 2, 4),
            ("0", None, 1, 1),
            ("4294967295", None, 2_147_483_648, 4_294_967_295),
        ] {
            let mut vars = vec![("SLURM_CPUS_PER_TASK", cpus)];
            vars.extend(used.map(|used| ("SLURM_THREADS_PER_CORE", used)));
            assert_eq!(each("core", &vars), cores, "{vars:?}");
            assert_eq!(each("hwthread", &vars), threads, "{vars:?}");
            assert_eq!(each("package", &vars), 1, "{vars:?}");
        }
    }
}
