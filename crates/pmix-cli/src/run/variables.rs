// SPDX-License-Identifier: MIT OR Apache-2.0
//! The variables in which resource managers and other launchers describe their jobs.

use std::ffi::OsString;

/// Variables of the environment.
pub(super) type Variables = [(OsString, OsString)];

/// Returns `true` in a process of a job. It inherits the description of the allocation, but its own jobs do not have all
/// slots.
pub(super) fn is_rank(vars: &Variables) -> bool {
    let is_of_rank = |name: &OsString| name == "OMPI_COMM_WORLD_RANK" || name == "PMIX_RANK";
    vars.iter().any(|(name, _)| is_of_rank(name))
}

/// Returns `true` if a resource manager made an allocation.
pub(super) fn have_allocation(vars: &Variables) -> bool {
    let known = [
        "SLURM_JOB_NODELIST",
        "SLURM_JOB_NUM_NODES",
        "SLURM_NTASKS",
        "PBS_NODEFILE",
        "LSB_MCPU_HOSTS",
        "LSB_DJOB_HOSTFILE",
        "LSB_HOSTS",
        "FLUX_JOB_SIZE",
    ];
    vars.iter()
        .any(|(name, value)| !value.is_empty() && known.iter().any(|known| name == known))
}

/// Returns the number above 0 in a variable.
pub(super) fn number(vars: &Variables, name: &str) -> Option<u32> {
    let (_, value) = vars.iter().find(|(known, _)| known == name)?;
    value.to_str()?.parse().ok().filter(|number| *number > 0)
}
