// SPDX-License-Identifier: MIT OR Apache-2.0
//! NVSHMEM's bootstrap over PMIx with our library. It was built for OpenPMIx 3, whose functions later releases lack.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::Swap;
use crate::server::case::{Case, Judge};
use crate::server::launcher::Launcher;
use xtask::{install, process};

/// The sizes of the jobs.
const SIZES: [u32; 3] = [2, 4, 16];

/// Returns a run of each size, and one that ends by NVSHMEM's abort.
///
/// # Errors
/// Returns a message if NVSHMEM is not installed, or that of the compiler.
pub(super) fn cases(swap: &Swap, pmix: &Launcher) -> Result<Vec<Case>, String> {
    let plugin = install::nvshmem_bootstrap("pmix")?;
    let program = compile()?;
    let case = |size: u32, name: String, judge: Judge, args: &[&str]| {
        let mut command = pmix.command(size);
        command.arg("env");
        command.arg(format!("LD_LIBRARY_PATH={}", swap.folder().display()));
        command.arg(&program).arg(&plugin).args(args);
        Case {
            what: "capi: NVSHMEM's bootstrap".to_owned(),
            name,
            command,
            limit: Duration::from_secs(60),
            judge,
            is_control: false,
        }
    };
    let mut cases: Vec<_> = SIZES
        .into_iter()
        .map(|size| {
            let passed = ("nvshmem passed", usize::try_from(size).unwrap_or(0));
            let judge = Judge::Says(vec![passed], &[]);
            case(size, format!("nvshmem on {size}"), judge, &[])
        })
        .collect();
    let judge = Judge::CodeSaying(7, "NVSHMEM Global Exit");
    cases.push(case(4, "nvshmem abort on 4".to_owned(), judge, &["abort"]));
    Ok(cases)
}

/// Compiles the program that uses the bootstrap as NVSHMEM does.
pub(super) fn compile() -> Result<PathBuf, String> {
    let program = install::scratch("interop/capi/runs")?.join("nvshmem");
    let source = process::root().join("tests/server/nvshmem.c");
    let mut command = Command::new("cc");
    command.args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"]);
    command.arg(&program).arg(source).arg("-ldl");
    process::output(&mut command)?;
    Ok(program)
}
