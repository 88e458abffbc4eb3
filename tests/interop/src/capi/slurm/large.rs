// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two checks of a newer Slurm in which releases of OpenPMIx differ. The plug-in takes the process map of a job for a
//! string, and OpenPMIx 5.0.11 compresses the map of a large job to bytes with a NUL. The plug-in accepts a client
//! without a callback, and OpenPMIx since 5.0.8 waits for the callback.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use xtask::{install, process};

use super::super::machines::Form;
use super::super::swapped::compile_in;
use super::cluster::{Cluster, Setup};
use super::source::Source;
use super::steps::{self, Client};
use super::{OURS, Programs};
use crate::peers::Library;
use crate::server::case::{Case, Judge};
use crate::tally::Tally;

/// The time limit of a step with a library that may never reply. Such a step takes 2 to 3 s with the others.
const LIMIT: Duration = Duration::from_secs(20);

/// Four nodes whose library is replaced, by ours or by another one.
const REPLACED: Setup = Setup {
    title: "another library in slurmstepd",
    ..Setup::new(&[true; 4])
};

/// Runs both checks. The results of other libraries are printed and are no failure.
///
/// # Errors
/// Returns a message if a program does not compile.
pub(super) fn run(
    (source, form): (&Source, Form),
    ours: &Library,
    programs: &Programs,
    until: Instant,
    tally: &mut Tally,
) -> Result<(), String> {
    let title = format!("capi: {} with {} ranks", source.name, steps::MANY);
    let cluster = match Cluster::start(form, REPLACED, source, ours.file(), until) {
        Ok(cluster) => cluster,
        Err(why) => {
            tally.fail(&title, &why);
            return Ok(());
        }
    };
    let own = programs.lead(REPLACED);
    let program = own.compile("short")?;
    let begun = Instant::now();
    let step = steps::many().case(&cluster, &title, &own.client(), &[&program])?;
    let result = cluster.run(step, until);
    println!(
        "{title}: a step took {:.1} s",
        begun.elapsed().as_secs_f32()
    );
    count(&title, result, tally);
    count(&title, map(&cluster, &title, OURS, ours, until)?, tally);
    for other in &source.others {
        let version = &other.version;
        let result = map(&cluster, &title, version, &other.library, until)?;
        print(&title, &format!("the map of {version}"), result);
    }
    drop(cluster);
    for other in source.others.iter().filter(|o| o.plugged.is_none()) {
        let title = format!("capi: {} with {} in slurmstepd", source.name, other.version);
        let file = other.library.file();
        let cluster = match Cluster::start(form, REPLACED, source, file, until) {
            Ok(cluster) => cluster,
            Err(why) => {
                tally.fail(&title, &why);
                continue;
            }
        };
        let mut step = hello(source, &cluster, &title)?;
        step.limit = LIMIT;
        print(&title, "an MPI step", cluster.run(step, until));
        let mut step = steps::many().case(&cluster, &title, &own.client(), &[&program])?;
        step.limit = LIMIT;
        let many = format!("a step of {} processes", steps::MANY);
        print(&title, &many, cluster.run(step, until));
    }
    Ok(())
}

/// Counts a result of ours.
fn count(title: &str, result: Result<(), String>, tally: &mut Tally) {
    match result {
        Ok(()) => tally.pass(title),
        Err(why) => tally.fail(title, &why),
    }
}

/// Prints a result of another library. It is no check: a release may be corrected, or fail in another way.
fn print(title: &str, what: &str, result: Result<(), String>) {
    match result {
        Ok(()) => println!("{title}: {what} passes"),
        Err(why) if why.contains("not done within") => println!("{title}: {what} hangs"),
        Err(why) => println!("{title}: {what} fails: {why}"),
    }
}

/// Passes a process map on as the plug-in does, with a library.
fn map(
    cluster: &Cluster,
    title: &str,
    version: &str,
    library: &Library,
    until: Instant,
) -> Result<Result<(), String>, String> {
    let source = process::root().join("tests/capi");
    let program = install::scratch(&format!("interop/server/{version}"))?.join("long_map");
    library.compile_with(&program, &source, &[source.join("long_map.c")])?;
    let mut command = cluster.inside("env");
    command.arg("PMIX_MCA_ptl_tcp_if_include=lo").arg(program);
    command.arg(steps::MANY.to_string());
    let case = Case {
        what: title.to_owned(),
        name: format!("long_map.c with {version}"),
        command,
        limit: LIMIT,
        judge: Judge::Code(0),
        is_control: false,
    };
    Ok(cluster.run(case, until))
}

/// Returns a step of an MPI program of the root.
fn hello(source: &Source, cluster: &Cluster, title: &str) -> Result<Case, String> {
    let step = steps::hello();
    let home = install::scratch("interop/capi/runs")?;
    let compilers = source.others.iter().filter(|other| other.plugged.is_some());
    let compiler = compilers.flat_map(|other| other.mpi.1.as_ref().ok()).next();
    let compiler = compiler.ok_or("the root has no compiler wrapper")?;
    let program = compile_in(source.root.as_ref(), compiler, step.program(), &home)?;
    let client = Client {
        title: "Open MPI of the root".to_owned(),
        libraries: None,
        version: None,
        may_fail: false,
    };
    let tasks = PathBuf::from(step.tasks());
    step.case(cluster, title, &client, &[&program, &tasks])
}
