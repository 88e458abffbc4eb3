// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options about the number of processes, nodes and placement.

use super::row::Handling::{Accepted, Refused};
use super::row::{APRUN, FLUX, HYDRA, JSRUN, MPIRUN4, MPIRUN5, PALS, Row, SRUN, row};
use crate::args::{AMBIGUOUS_C, AMBIGUOUS_N};

/// The rows of a section.
pub(super) const PROCESSES: &[Row] = &[
    row(
        &["-n", "-np", "--np", "--n", "--ntasks", "--pes"],
        &[MPIRUN4, MPIRUN5, SRUN, HYDRA, APRUN, PALS, JSRUN, FLUX],
        Accepted("`-n N`"),
    ),
    row(
        &["-c"],
        &[MPIRUN4, MPIRUN5, SRUN, FLUX, JSRUN],
        Refused(AMBIGUOUS_C),
    ),
    row(
        &["-N"],
        &[MPIRUN4, MPIRUN5, SRUN, APRUN, FLUX],
        Refused(AMBIGUOUS_N),
    ),
    row(
        &[
            "--npernode",
            "--pernode",
            "--ntasks-per-node",
            "--tasks-per-node",
            "--perhost",
            "-perhost",
            "-grr",
            "--pes-per-node",
        ],
        &[MPIRUN4, MPIRUN5, SRUN, HYDRA, APRUN, FLUX],
        Refused("use `-n N` for the number of processes on this node"),
    ),
    row(
        &["--npersocket", "--ntasks-per-socket"],
        &[MPIRUN4, SRUN],
        Refused("use `--map-by ppr:N:package` for N processes on each package"),
    ),
    row(
        &["--ntasks-per-core", "--tasks-per-core"],
        &[SRUN, FLUX],
        Refused("use `--map-by ppr:N:core` for N processes on each core"),
    ),
    row(
        &["--pes-per-numa-node"],
        &[APRUN],
        Refused("use `--map-by ppr:N:numa` for N processes on each NUMA node"),
    ),
    row(
        &["--ppr"],
        &[MPIRUN4],
        Refused("use `--map-by ppr:N:PART` for N processes on each part"),
    ),
    row(
        &[
            "-a",
            "--nrs",
            "--tasks_per_rs",
            "--rs_per_host",
            "--rs_per_socket",
        ],
        &[JSRUN],
        Refused(
            "use `-n N` for the number of processes, and `--cpus-per-rank N` for the cores of each: a resource set is one process",
        ),
    ),
    row(
        &[
            "--app",
            "-configfile",
            "--multi-prog",
            "--appfile",
            "--erf_input",
            "--erf_output",
            "--erf_output_pidx",
        ],
        &[MPIRUN4, MPIRUN5, HYDRA, SRUN, JSRUN],
        Refused(
            "write the applications of the file on the command line with ` : ` between them: `-n 2 ./a : -n 4 ./b`",
        ),
    ),
    row(
        &["--allow-run-as-root"],
        &[MPIRUN4, MPIRUN5],
        Accepted("not needed"),
    ),
    row(
        &["--index-argv-by-rank"],
        &[MPIRUN4],
        Refused("omit it: `ps e` shows the variable PMIX_RANK of each process"),
    ),
    row(
        &["-soft", "-arch", "-file"],
        &[HYDRA],
        Refused("omit it: the MPI standard reserves the option, and no launcher defines it"),
    ),
];

/// The rows of a section.
pub(super) const NODES: &[Row] = &[
    row(
        &["--host", "-host", "-H", "--hosts", "-hosts"],
        &[MPIRUN4, MPIRUN5, HYDRA, PALS],
        Accepted(
            "`--host NODES` with this node; the slots are the number of processes without `-n`",
        ),
    ),
    row(
        &["--hostfile", "--machinefile"],
        &[MPIRUN4, MPIRUN5, HYDRA, PALS],
        Accepted(
            "`--hostfile FILE` with this node; the slots are the number of processes without `-n`",
        ),
    ),
    row(
        &[
            "-w",
            "--nodelist",
            "--hostlist",
            "-L",
            "--node-list",
            "--add-host",
            "--launch_node_task",
        ],
        &[SRUN, MPIRUN4, MPIRUN5, HYDRA, PALS, APRUN, JSRUN],
        Refused("use `--host NODES` or `--hostfile FILE`"),
    ),
    row(
        &[
            "-f",
            "-F",
            "--machine",
            "--nodefile",
            "--default-hostfile",
            "--add-hostfile",
            "--node-list-file",
        ],
        &[HYDRA, SRUN, MPIRUN4, MPIRUN5, APRUN],
        Refused("use `--hostfile FILE` with a file of nodes that includes this node"),
    ),
    row(
        &[
            "-X",
            "--exclude",
            "--exclude_hosts",
            "-E",
            "--exclude-node-list",
            "--exclude-node-list-file",
            "-r",
            "--relative",
            "--nolocal",
            "-skip-launch-node",
            "-order-nodes",
            "--max-vm-size",
            "--novm",
            "--use-regexp",
            "--do-not-resolve",
            "--hetero-nodes",
            "-localhost",
            "-disable-hostname-propagation",
        ],
        &[SRUN, MPIRUN4, MPIRUN5, HYDRA, APRUN, JSRUN],
        Refused("omit it, and name the nodes of the job in `--host` or `--hostfile`"),
    ),
];

/// The rows of a section.
pub(super) const PLACEMENT: &[Row] = &[
    row(
        &["--map-by", "--bind-to"],
        &[MPIRUN4, MPIRUN5, HYDRA],
        Accepted("the same option; see the table of policies and modifiers below"),
    ),
    row(
        &["--rank-by"],
        &[MPIRUN4, MPIRUN5],
        Accepted(
            "`slot` and `fill`; other orders are refused, because ranks follow the order of `--map-by`",
        ),
    ),
    row(
        &["--cpus-per-task", "--cpus-per-proc", "--cpus-per-rank"],
        &[SRUN, MPIRUN4],
        Accepted("`--cpus-per-rank N`"),
    ),
    row(
        &["-d", "--depth", "--cpus-per-pe", "--cpu_per_rs"],
        &[APRUN, PALS, JSRUN],
        Refused("use `--cpus-per-rank N` for the number of cores of each process"),
    ),
    row(
        &["--cpu-set", "--cpu-list"],
        &[MPIRUN4],
        Accepted("`--cpu-set LIST`"),
    ),
    row(
        &["--oversubscribe"],
        &[MPIRUN4, MPIRUN5],
        Accepted(
            "needed only if `--map-by ppr:N:PART` or `--cpus-per-rank` exceed the processors of the node",
        ),
    ),
    row(
        &["-O", "--overcommit", "-s"],
        &[SRUN],
        Refused(
            "use `--oversubscribe`, which is needed only with `--cpus-per-rank` and `--map-by ppr:N:PART`",
        ),
    ),
    row(
        &["--nooversubscribe", "--no-oversubscribe"],
        &[MPIRUN4],
        Accepted(
            "refuses more processes than slots: those of `--host`, `--hostfile` or the allocation, otherwise the cores of this node",
        ),
    ),
    row(
        &[
            "--cpu-bind",
            "--cpus-binding",
            "--cpu-binding",
            "--cc",
            "-b",
            "--bind",
            "--bind-to-core",
            "--bind-to-socket",
            "-binding",
        ],
        &[SRUN, PALS, APRUN, JSRUN, MPIRUN4, HYDRA],
        Refused("use `--bind-to PART` to bind processes, for example to `core`"),
    ),
    row(
        &[
            "-m",
            "--distribution",
            "--rankfile",
            "--rf",
            "--bycore",
            "--bynode",
            "--byslot",
            "--launch_distribution",
            "--taskmap",
            "--cp",
            "--cpu-binding-file",
        ],
        &[SRUN, MPIRUN4, JSRUN, FLUX, APRUN],
        Refused(
            "use `--map-by PART` to place processes, and `--cpu-set LIST` to select processors",
        ),
    ),
    row(
        &[
            "--use-hwthread-cpus",
            "--hint",
            "--threads-per-core",
            "-j",
            "--cpus-per-cu",
        ],
        &[MPIRUN4, SRUN, APRUN],
        Refused(
            "use `--bind-to hwthread` or `--bind-to core` to select one of the two; `--map-by` accepts both",
        ),
    ),
    row(
        &[
            "--mem-bind",
            "-membind",
            "--ss",
            "--strict-memory-containment",
        ],
        &[SRUN, HYDRA, PALS, APRUN],
        Refused("start the program with `numactl --localalloc` or `numactl --membind=NODES`"),
    ),
    row(
        &[
            "--exact",
            "--core-spec",
            "--thread-spec",
            "--specialized-cpus",
            "--cpu-freq",
        ],
        &[SRUN, APRUN],
        Refused("use `--cpu-set LIST` to select processors"),
    ),
    row(
        &["--cartofile", "-topolib", "--latency_priority"],
        &[MPIRUN4, HYDRA, JSRUN],
        Refused("omit it: the topology is read with hwloc, or from the file in HWLOC_XMLFILE"),
    ),
    row(
        &["--report-bindings"],
        &[MPIRUN4, MPIRUN5],
        Accepted("`--report-bindings`"),
    ),
    row(
        &["--display"],
        &[MPIRUN5],
        Accepted("`map` and `bind` as `--report-bindings`; `allocation` and `topo` are refused"),
    ),
    row(
        &[
            "--display-map",
            "--display-devel-map",
            "--display-diffable-map",
            "--display-allocation",
            "--display-devel-allocation",
            "--show-progress",
            "--print_placement",
            "--progress",
        ],
        &[MPIRUN4, MPIRUN5, JSRUN],
        Refused(
            "use `--report-bindings` to print bindings before processes start, or `--report` to also print how they ended",
        ),
    ),
    row(
        &["--display-topo"],
        &[MPIRUN4],
        Refused("`lstopo` prints the topology of this node"),
    ),
    row(
        &["--do-not-launch", "--test-only", "--dry-run"],
        &[MPIRUN4, MPIRUN5, SRUN, FLUX],
        Refused("use `--report-bindings` with the program `true`"),
    ),
    row(
        &["-gpus-per-proc", "-gpu-subdevs-per-proc", "--gpu-support"],
        &[HYDRA, MPIRUN5],
        Refused(
            "use `-x CUDA_VISIBLE_DEVICES=LIST`, or a script that sets it from OMPI_COMM_WORLD_LOCAL_RANK",
        ),
    ),
];
