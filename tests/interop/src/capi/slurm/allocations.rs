// SPDX-License-Identifier: MIT OR Apache-2.0
//! Our launcher inside allocations of Slurm. With one node it uses the allocated tasks and their processors; with
//! several it advises to start processes with `srun`.

use std::path::Path;
use std::time::{Duration, Instant};

use super::cluster::Cluster;
use crate::server::case::{Case, Judge};

/// The time limit of one job.
const LIMIT: Duration = Duration::from_secs(60);

/// The script of a one-node job. Its processes greet each other, and a job whose tasks have two processors checks the
/// binding option. A machine with one core cannot check it.
const ONE: &str = "$PMIX run $PMIX hello || exit 1; test $(nproc) -gt 1 || exit 0; \
                   own=$($PMIX run --map-by core --report-bindings true 2>&1 | head -n 1); \
                   named=$($PMIX run -n 1 --cpus-per-rank 2 --report-bindings true 2>&1); \
                   test \"$own\" = \"$named\" || { echo \"$own, not $named\"; exit 1; }";

/// The script of one of two nodes, and of a node without a number of tasks.
const TWO: &str = "$PMIX run $PMIX hello";

/// Runs the launcher in allocations, from the machine that requested one and as a batch job on its first node.
///
/// # Errors
/// Returns a message if it starts another number of processes, binds them differently or does not say what it ignores.
pub(super) fn launched(
    cluster: &Cluster,
    what: &str,
    pmix: &Path,
    until: Instant,
) -> Result<(), String> {
    const OF_SEVERAL: &str = "this allocation has 2 nodes";
    let one = ["-N", "1", "-n", "3", "-c", "2", "--time=2"];
    let two = ["-N", "2", "-n", "3", "--time=2"];
    let of_three = || Judge::Says(vec![(" of 3 on ", 3)], &[OF_SEVERAL]);
    let alone = || Judge::Says(vec![(" of 1 on ", 1), (OF_SEVERAL, 1)], &[" of 3 on "]);
    let case = |name: &str, command, judge| Case {
        what: what.to_owned(),
        name: name.to_owned(),
        is_control: false,
        command,
        limit: LIMIT,
        judge,
    };
    // Without a number of tasks, `srun` starts one on each node.
    let whole = ["-N", "1", "--exclusive", "--time=2"];
    let single = || Judge::Says(vec![(" of 1 on ", 1)], &[OF_SEVERAL]);
    for (name, options, script, judge) in [
        (
            "pmix run under salloc of one node",
            &one[..],
            ONE,
            of_three(),
        ),
        (
            "pmix run under salloc of a whole node",
            &whole,
            TWO,
            single(),
        ),
        ("pmix run under salloc of two nodes", &two, TWO, alone()),
    ] {
        let mut command = cluster.inside("salloc");
        command.env("PMIX", pmix).arg("--quiet").args(options);
        command.args(["sh", "-c", script]);
        cluster.run(case(name, command, judge), until)?;
    }
    let output = format!("{}/batch", cluster.shared());
    let mut command = cluster.inside("sh");
    let submit = "sbatch --quiet --wait --output=\"$0\" \"$@\"; code=$?; cat \"$0\"; exit $code";
    command.env("PMIX", pmix).args(["-c", submit, &output]);
    command.args(one).arg(format!("--wrap={ONE}"));
    cluster.run(case("pmix run in a batch job", command, of_three()), until)
}
