// SPDX-License-Identifier: MIT OR Apache-2.0
//! Our launcher inside allocations of Slurm: of one node it takes the number of tasks and their processors, and of
//! several it says that `srun` starts processes on all of them.

use std::path::Path;
use std::time::{Duration, Instant};

use super::cluster::Cluster;
use crate::server::case::{Case, Judge};

/// How long one job may take.
const LIMIT: Duration = Duration::from_secs(60);

/// What a job of one node does: its processes greet each other, and one whose tasks have two processors is bound as
/// the option says it that names them. A machine with one core has no two to compare.
const ONE: &str = "$PMIX run $PMIX hello || exit 1; test $(nproc) -gt 1 || exit 0; \
                   own=$($PMIX run --map-by core --report-bindings true 2>&1 | head -n 1); \
                   named=$($PMIX run -n 1 --cpus-per-rank 2 --report-bindings true 2>&1); \
                   test \"$own\" = \"$named\" || { echo \"$own, not $named\"; exit 1; }";

/// What one of two nodes does, and a node whose tasks nobody counted.
const TWO: &str = "$PMIX run $PMIX hello";

/// Runs the launcher in allocations, from the machine that asked for one and as a batch job on its first node.
///
/// # Errors
/// It starts another number of processes, binds them otherwise or does not say what it leaves out.
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
    // Nobody says how many tasks there are: srun starts one for each node.
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
