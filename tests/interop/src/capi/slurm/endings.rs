// SPDX-License-Identifier: MIT OR Apache-2.0
//! The end of steps. Nothing is left of a cancelled step, or of fifty steps in a row. A step
//! continues while one of its processes attacks the server.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::cluster::Cluster;
use crate::server::case::{Case, Judge};

/// The number of steps in a row, and the number of steps before memory is first read.
const STEPS: u32 = 50;
const FIRST: u32 = 10;

/// The limit of memory growth of a node's daemon, in KiB. It keeps a record of each job.
const GROWTH: u64 = 512;

/// The seed of the attacks.
const SEED: u32 = 5;

/// The time limit for the processes of an ended step to exit. For each message Slurm tries 13 s to reach a node whose
/// part of the step has ended.
const LEAVE: Duration = Duration::from_secs(45);

/// Cancels a step that waits in a fence.
///
/// # Errors
/// Returns a message if the step does not end, or if something of it is left.
pub(super) fn cancelled(
    cluster: &Cluster,
    what: &str,
    stuck: &Path,
    until: Instant,
) -> Result<(), String> {
    let shared = cluster.shared();
    let script = format!(
        "rm -f {shared}/hung; srun --mpi=pmix --quiet --time=3 --job-name=hung -N 2 -n 4 {} >{shared}/hung 2>&1 & job=$!; \
         until grep -q 'the last process waits' {shared}/hung; do sleep 0.1; done; \
         scancel --name=hung; wait $job",
        stuck.display()
    );
    let mut command = cluster.inside("sh");
    command.args(["-c", &script]);
    let case = Case {
        what: what.to_owned(),
        name: "scancel of a fence".to_owned(),
        command,
        limit: Duration::from_secs(60),
        judge: Judge::Fails,
        is_control: false,
    };
    cluster.run(case, until)?;
    nothing_left(cluster, stuck)
}

/// Runs a step in which one process attacks `slurmstepd` as `cargo xtask faults` attacks a server, and then another
/// step. Returns the measured figures.
///
/// # Errors
/// Returns a message if a step fails, or if something of it is left.
pub(super) fn attacked(
    cluster: &Cluster,
    what: &str,
    (program, next): (&Path, &Path),
    (hostile, count): (&Path, u32),
    until: Instant,
) -> Result<String, String> {
    let shared = cluster.shared();
    let step = |words: &str| {
        format!("timeout 60 srun --mpi=pmix --quiet --time=3 -N 1 --nodelist=n1 -n 4 {words}")
    };
    let attack = format!(
        "{} {shared}/attacked {} peer inside {count} {SEED} {shared}/attacked",
        program.display(),
        hostile.display(),
    );
    let script = format!(
        "rm -f {shared}/attacked; {} >{shared}/said 2>&1 || {{ cat {shared}/said >&2; exit 1; }}; {}",
        step(&attack),
        step(&next.display().to_string()),
    );
    let mut command = cluster.inside("sh");
    command.args(["-c", &script]);
    let case = Case {
        what: what.to_owned(),
        name: "a step under attack".to_owned(),
        command,
        limit: Duration::from_secs(120),
        judge: Judge::Code(0),
        is_control: false,
    };
    cluster.run(case, until)?;
    nothing_left(cluster, program)?;
    let said = cluster.ask(&format!("cat {shared}/said"))?;
    Ok(format!("{count} hellos and messages; {}", said.trim()))
}

/// Waits until no process or socket of a program and of `slurmstepd` is left.
fn nothing_left(cluster: &Cluster, program: &Path) -> Result<(), String> {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    // Exclude the shell of this query, whose command line contains the name.
    let shared = cluster.shared();
    let script = format!(
        "cd /proc; for p in [0-9]*; do read -r name 2>/dev/null < $p/comm || continue; \
         case $name in slurmstepd|{name:.15}) echo $name $p;; esac; done; \
         find {shared}/spool.* -name '*pmix*' 2>/dev/null; true"
    );
    let begun = Instant::now();
    loop {
        let left = cluster.ask(&script)?;
        if left.trim().is_empty() {
            return Ok(());
        }
        if begun.elapsed() > LEAVE {
            return Err(format!("left behind: {}", left.trim().replace('\n', ", ")));
        }
        sleep(Duration::from_millis(100));
    }
}

/// Returns the resident memory in KiB and the number of open files of each node's daemon.
fn daemons(cluster: &Cluster) -> Result<Vec<(u64, u64)>, String> {
    let shared = cluster.shared();
    let read = |name: &str| {
        let script = format!(
            "pid=$(cat {shared}/{name}.pid); grep VmRSS /proc/$pid/status | tr -dc 0-9; echo; \
             ls /proc/$pid/fd | wc -l"
        );
        let text = cluster.ask(&script)?;
        let mut numbers = text.lines().map(|line| line.trim().parse::<u64>());
        match (numbers.next(), numbers.next()) {
            (Some(Ok(kib)), Some(Ok(files))) => Ok((kib, files)),
            _ => Err(format!("the daemon of {name} is {text:?}")),
        }
    };
    cluster.nodes().take(2).map(read).collect()
}

/// Runs the steps in a row in one allocation.
fn in_a_row(
    cluster: &Cluster,
    what: &str,
    program: &Path,
    number: u32,
    until: Instant,
) -> Result<(), String> {
    let script = format!(
        "i=0; while [ $i -lt {number} ]; do srun --mpi=pmix -n 4 {} || exit 1; i=$((i+1)); done",
        program.display()
    );
    let mut command = cluster.inside("salloc");
    command.args([
        "-N",
        "2",
        "-n",
        "4",
        "--nodelist=n1,n2",
        "--time=5",
        "--quiet",
    ]);
    command.args(["sh", "-c", &script]);
    let case = Case {
        what: what.to_owned(),
        name: format!("{number} steps in a row"),
        command,
        limit: Duration::from_secs(180),
        judge: Judge::Code(0),
        is_control: false,
    };
    cluster.run(case, until)
}

/// Runs fifty steps and compares the daemons of the nodes before and after.
///
/// # Errors
/// Returns a message if a step fails, something is left or a daemon grew.
pub(super) fn fifty(
    cluster: &Cluster,
    what: &str,
    program: &Path,
    until: Instant,
) -> Result<(), String> {
    in_a_row(cluster, what, program, FIRST, until)?;
    nothing_left(cluster, program)?;
    let before = daemons(cluster)?;
    in_a_row(cluster, what, program, STEPS, until)?;
    nothing_left(cluster, program)?;
    let after = daemons(cluster)?;
    println!("{what}: {STEPS} steps, KiB and files of slurmd {before:?}, then {after:?}");
    for ((kib, files), (kib_then, files_then)) in before.into_iter().zip(after) {
        if kib_then > kib + GROWTH || files_then > files {
            return Err(format!(
                "slurmd grew from {kib} KiB and {files} files to {kib_then} KiB and {files_then}"
            ));
        }
    }
    Ok(())
}
