// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that use PMI-1 and PMI-2 under `pmix run`: NVSHMEM's bootstraps, Intel MPI, and Slurm's client library.

use std::path::Path;
use std::time::Duration;

use super::nvshmem;
use super::swapped::MPI4PY;
use crate::server::case::{Case, Judge};
use crate::server::launcher::Launcher;
use crate::server::missing;
use crate::tally::Tally;
use xtask::{install, process};

/// The package with Slurm's client library for PMI-2.
pub(super) const PACKAGES: &[&str] = &["libpmi2-0"];

/// The library in that package.
const LIBPMI2: &str = "/usr/lib/x86_64-linux-gnu/libpmi2.so.0";

/// Returns the runs of all programs that are installed.
///
/// # Errors
/// Returns a message if the program that uses the bootstraps does not compile.
pub(super) fn cases(pmix: &Launcher, tally: &mut Tally) -> Result<Vec<Case>, String> {
    let program = nvshmem::compile()?;
    let mut cases = Vec::new();
    for (interface, sizes) in [("pmi", &[2, 4][..]), ("pmi2", &[2])] {
        match install::nvshmem_bootstrap(interface) {
            Ok(plugin) => cases.extend(sizes.iter().map(|size| {
                let passed = usize::try_from(*size).unwrap_or(0);
                let judge = Judge::Says(vec![("nvshmem passed", passed)], &[]);
                let args = [program.as_path(), &plugin];
                let name = format!("NVSHMEM's bootstrap {interface} on {size}");
                case(pmix, *size, name, &[], &args, judge)
            })),
            Err(why) => missing(&why, tally),
        }
    }
    match install::nvshmem_bootstrap("pmi") {
        Ok(plugin) => {
            let args = [program.as_path(), &plugin, Path::new("abort")];
            let judge = Judge::CodeSaying(7, "aborted the job with status 7");
            let name = "NVSHMEM's bootstrap pmi, abort".to_owned();
            cases.push(case(pmix, 4, name, &[], &args, judge));
        }
        Err(why) => missing(&why, tally),
    }
    match install::intel_mpi() {
        Ok(python) => {
            let args = [&*python, Path::new("-c"), Path::new(MPI4PY), Path::new("4")];
            let options = ["--pmi", "pmi1"];
            let name = "Intel MPI with PMI-1".to_owned();
            cases.push(case(pmix, 4, name, &options, &args, Judge::Code(0)));
        }
        Err(why) => missing(&why, tally),
    }
    let python = install::venv();
    match python {
        Ok(python) if Path::new(LIBPMI2).exists() => {
            let script = process::root().join("tests/server/python/pmi2.py");
            for size in [1, 3] {
                let args = [python.as_path(), &script, Path::new(LIBPMI2)];
                let passed = usize::try_from(size).unwrap_or(0);
                let judge = Judge::Says(vec![("pmi2 passed", passed)], &[]);
                let name = format!("Slurm's libpmi2 on {size}");
                cases.push(case(pmix, size, name, &[], &args, judge));
            }
        }
        Ok(_) => missing("no libpmi2.so.0: install libpmi2-0", tally),
        Err(why) => missing(&why, tally),
    }
    Ok(cases)
}

fn case(
    pmix: &Launcher,
    size: u32,
    name: String,
    options: &[&str],
    args: &[&Path],
    judge: Judge,
) -> Case {
    let mut command = pmix.command(size);
    command.args(options).args(args);
    Case {
        what: "capi: programs of PMI under pmix run".to_owned(),
        name,
        command,
        limit: Duration::from_secs(120),
        judge,
        is_control: false,
    }
}
