// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--mca` as in `mpirun`: parameters of other frameworks are passed to the processes. Commands
//! without processes warn about them.

use pmix_launch::Export;

use super::habits::WHOLE;
use super::launcher_mca::{is_of_launcher, is_parameter};
use crate::args::Command;
use crate::failure::Failure;

/// The frameworks whose parameters this command reads.
const OWN: &[&str] = &["gds", "pcompress", "preg", "psec"];

/// The other frameworks of PMIx and of Open MPI 4.1 and 5.0, and other names with parameters.
const KNOWN: &[&str] = &[
    // PMIx.
    "bfrops",
    "pdl",
    "pfexec",
    "pgpu",
    "pif",
    "pinstalldirs",
    "plog",
    "pmdl",
    "pmix",
    "pnet",
    "prm",
    "psensor",
    "psquash",
    "pstat",
    "pstrg",
    "ptl",
    // Open MPI.
    "accelerator",
    "allocator",
    "atomic",
    "backtrace",
    "bml",
    "btl",
    "coll",
    "common",
    "crcp",
    "crs",
    "dl",
    "event",
    "fbtl",
    "fcoll",
    "fs",
    "hook",
    "hwloc",
    "if",
    "installdirs",
    "io",
    "mca",
    "memchecker",
    "memcpy",
    "memheap",
    "memory",
    "mpi",
    "mpool",
    "mtl",
    "ompi",
    "op",
    "opal",
    "osc",
    "oshmem",
    "part",
    "patcher",
    "pml",
    "rcache",
    "reachable",
    "scoll",
    "sharedfp",
    "shmem",
    "smsc",
    "spml",
    "sshmem",
    "threads",
    "timer",
    "topo",
    "vprotocol",
];

/// Returns the variables for the MCA parameters of a command line. Each parameter that is not for
/// the launcher is set for Open MPI and for PMIx. Warns about unknown frameworks.
pub(super) fn exports(pairs: &[String]) -> Vec<Export> {
    let mut exports = Vec::new();
    for pair in pairs.chunks_exact(2) {
        let (name, value) = (&pair[0], &pair[1]);
        let framework = framework(name);
        if OWN.contains(&framework) {
            continue;
        }
        if !KNOWN.contains(&framework) && !is_of_launcher(framework) {
            tracing::warn!(
                "--mca {name}: unknown framework {framework:?} in PMIx and Open MPI; the parameter is still \
                passed to the processes"
            );
        }
        for family in ["OMPI", "PMIX"] {
            let variable = format!("{family}_MCA_{name}");
            exports.push(Export::set(variable, value));
        }
    }
    exports
}

/// Returns the variables for the MCA parameters of an application after a `:`, which cannot be for the
/// launcher.
///
/// # Errors
/// A usage error if a parameter is for the launcher.
pub(super) fn exports_of_app(pairs: &[String]) -> Result<Vec<Export>, Failure> {
    let mut names = pairs.iter().step_by(2);
    if let Some(name) = names.find(|name| OWN.contains(&framework(name)) || is_parameter(name)) {
        let failure = Failure::usage(format!(
            "--mca {name} after `:`: this parameter is for the launcher and \
        must precede the first program"
        ));
        return Err(failure.cure(WHOLE));
    }
    Ok(exports(pairs))
}

/// Returns the framework of a parameter.
fn framework(name: &str) -> &str {
    name.split('_').next().unwrap_or(name)
}

/// Warns about MCA parameters of frameworks that a command does not use, unless the command starts processes
/// that may use them.
pub(crate) fn warn_of_unused(pairs: &[String], command: &Command) {
    let used: &[&str] = match command {
        Command::Run(_) => return,
        Command::Map(_) | Command::Wire(_) | Command::Plugins(_) => &["pcompress", "preg"],
        Command::Get(_) => &["gds", "pcompress", "preg"],
        Command::Completions { .. } | Command::Man { .. } => &[],
        Command::Attr(_) | Command::Status(_) => &[],
        _ => OWN,
    };
    for pair in pairs.chunks_exact(2) {
        let name = &pair[0];
        let framework = framework(name);
        if !used.contains(&framework) {
            tracing::warn!("--mca {name}: this command does not use parameters of {framework:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_parameters_are_passed_to_the_processes() {
        let words = |line: &str| -> Vec<String> { line.split(' ').map(str::to_owned).collect() };
        assert_eq!(exports(&words("preg ^raw gds_hash_whole 3")), []);
        let set = |name: &str| Export::set(name, "self,sm");
        let expected = [set("OMPI_MCA_btl"), set("PMIX_MCA_btl")];
        assert_eq!(exports(&words("btl self,sm")), expected);
        assert_eq!(exports(&words("nobody_knows 1")).len(), 2);
        for line in [
            "btl self rmaps_base_mapping_policy core",
            "hwloc_base_binding_policy core",
            "preg ^raw",
        ] {
            assert!(exports_of_app(&words(line)).is_err(), "{line}");
        }
        assert_eq!(exports_of_app(&words("btl self")).unwrap().len(), 2);
    }
}
