// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options about output, input, the environment, the end of the job, and parameters.

use super::row::Handling::{Accepted, Refused};
use super::row::{APRUN, FLUX, HYDRA, JSRUN, MPIRUN4, MPIRUN5, PALS, Row, SRUN, row};

/// The rows of a section.
pub(super) const STREAMS: &[Row] = &[
    row(
        &["-l", "--label", "--tag-output"],
        &[SRUN, PALS, MPIRUN4],
        Accepted("`--tag-output`"),
    ),
    row(
        &["-prepend-rank", "-prepend-pattern", "--label-io"],
        &[HYDRA, FLUX],
        Refused("use `--tag-output` (`-l`) to prefix each line with its process"),
    ),
    row(
        &["--output-filename"],
        &[MPIRUN4],
        Accepted(
            "`--output-dir DIR`; `--copy-output` adds the copy that mpirun writes to the terminal",
        ),
    ),
    row(
        &["--merge-stderr-to-stdout"],
        &[MPIRUN4],
        Accepted("`--merge-output`"),
    ),
    row(
        &[
            "-o",
            "--output",
            "-e",
            "--error",
            "--output-proctable",
            "-outfile-pattern",
            "-errfile-pattern",
            "-outfile",
            "--open-mode",
            "--stdio_stdout",
            "--stdio_stderr",
            "-k",
            "--stdio_mode",
            "--log",
            "--log-stderr",
        ],
        &[SRUN, MPIRUN4, MPIRUN5, HYDRA, JSRUN, FLUX],
        Refused(
            "use `--output-dir DIR` to write the output of each process to files in DIR, `--output-name out.%r` \
            for their names, `--tag-output` to prefix each line with its process, and `--merge-output` to \
            join both streams",
        ),
    ),
    row(
        &["--timestamp-output"],
        &[MPIRUN4],
        Refused("use `--tag-output`, and `| ts` of moreutils for the time of each line"),
    ),
    row(
        &["--xml", "--xml-file"],
        &[MPIRUN4],
        Refused(
            "use `--tag-output` for the process of each line, and `--json` for the result of the job",
        ),
    ),
    row(
        &["--xterm"],
        &[MPIRUN4, MPIRUN5],
        Refused("start a terminal for each process: `pmix run -n 2 xterm -e PROGRAM`"),
    ),
    row(
        &["-u", "--unbuffered"],
        &[SRUN, FLUX],
        Accepted("each process prints to a pseudo terminal, so each line appears at once"),
    ),
    row(
        &[
            "--line-buffer",
            "--stream",
            "--stream-buffering",
            "--sync-output",
            "-T",
        ],
        &[PALS, MPIRUN5, APRUN],
        Refused(
            "use `--whole-lines` to write whole lines only, or `--no-whole-lines` to write directly",
        ),
    ),
    row(
        &["--pty"],
        &[SRUN],
        Accepted(
            "the standard output of each process is a pseudo terminal; for the rank that reads a terminal, standard input is, too",
        ),
    ),
    row(
        &["-i", "--input", "--stdio_input", "--stdin_rank"],
        &[SRUN, FLUX, JSRUN],
        Refused("standard input goes to rank 0; use `--stdin RANK` for another rank"),
    ),
    row(
        &["--stdin"],
        &[MPIRUN4, MPIRUN5],
        Accepted(
            "a rank or `none`; `all` is refused, because only one process can read standard input",
        ),
    ),
    row(
        &["--quiet"],
        &[MPIRUN4, SRUN, FLUX],
        Accepted("omits the messages about ranks that others wait for"),
    ),
    row(
        &["-q", "-Q"],
        &[MPIRUN4, SRUN, APRUN, FLUX],
        Refused("use `--quiet` to omit the messages about ranks that others wait for"),
    ),
    row(
        &["--report-state-on-timeout"],
        &[MPIRUN4, MPIRUN5],
        Refused(
            "omit it: `--timeout` prints what the ranks wait for, and the state of the missing ones",
        ),
    ),
    row(
        &["-print-all-exitcodes"],
        &[HYDRA],
        Refused("use `--report` to print how each process ended"),
    ),
];

/// The rows of a section.
pub(super) const ENVIRONMENT: &[Row] = &[
    row(
        &["-x", "--export", "-genv"],
        &[MPIRUN4, MPIRUN5, SRUN, HYDRA],
        Accepted(
            "`-x NAME=VALUE`; processes also inherit the environment of the launcher. `--export=NONE` is refused",
        ),
    ),
    row(
        &[
            "--env",
            "--envlist",
            "--genvlist",
            "--envall",
            "--genvall",
            "--environment-override",
            "--mpmd-env",
            "--env_eval",
            "--env-file",
            "--env-remove",
        ],
        &[HYDRA, PALS, APRUN, JSRUN, FLUX],
        Refused(
            "processes inherit the environment of the launcher; use `-x VAR=VALUE` to set more variables",
        ),
    ),
    row(
        &[
            "--envnone",
            "--genvnone",
            "--unset-env",
            "--env_no_propagate",
        ],
        &[HYDRA, PALS, MPIRUN5, JSRUN],
        Refused(
            "start the program with `env -u VAR PROGRAM`; `env -i pmix run` has an empty environment",
        ),
    ),
    row(
        &["--append-env", "--prepend-env"],
        &[MPIRUN5],
        Refused("use `-x VAR=VALUE` with the whole value, as in `-x PATH=/opt/bin:$PATH`"),
    ),
    row(
        &[
            "--propagate",
            "--rlimit",
            "--rlimits",
            "--umask",
            "--preserve-env",
        ],
        &[SRUN, FLUX, PALS],
        Refused(
            "omit it: processes inherit the limits and the mask of the launcher; set them with `ulimit` and `umask`",
        ),
    ),
    row(
        &["-D", "--wdir", "--wd", "--chdir"],
        &[SRUN, MPIRUN4, MPIRUN5, HYDRA, PALS, APRUN, JSRUN],
        Accepted("`--wdir DIR`"),
    ),
    row(
        &["--cwd"],
        &[FLUX],
        Refused("use `--wdir DIR` for the working directory"),
    ),
    row(
        &["--path", "-path"],
        &[MPIRUN4, HYDRA],
        Refused(
            "set PATH for the launcher, which searches it for the program: `PATH=DIR:$PATH pmix run`",
        ),
    ),
    row(
        &["--set-cwd-to-session-dir"],
        &[MPIRUN4, MPIRUN5],
        Refused("use `--wdir DIR`; PMIX_TMPDIR, from PMIx_Get, names the session directory"),
    ),
    row(
        &["--tmpdir"],
        &[MPIRUN5],
        Refused("set TMPDIR for the launcher: `TMPDIR=DIR pmix run`"),
    ),
    row(
        &[
            "--prolog",
            "--epilog",
            "--task-prolog",
            "--task-epilog",
            "--pre_post_exec",
        ],
        &[SRUN, JSRUN],
        Refused("start a script that runs the command before and after the program"),
    ),
];

/// The rows of a section.
pub(super) const ENDING: &[Row] = &[
    row(
        &["--timeout"],
        &[MPIRUN4, MPIRUN5],
        Accepted("the same option; the variable MPIEXEC_TIMEOUT has the same effect"),
    ),
    row(
        &[
            "-t",
            "--time",
            "--time-limit",
            "--cpu-time-limit",
            "--spawn-timeout",
        ],
        &[SRUN, FLUX, APRUN, MPIRUN5],
        Refused("use `--timeout SECONDS` to limit the run time of the job"),
    ),
    row(
        &[
            "-K",
            "--kill-on-bad-exit",
            "--exit_on_error",
            "--disable-recovery",
            "--abort-on-failure",
        ],
        &[SRUN, JSRUN, MPIRUN4, PALS],
        Refused("omit it: a process that fails ends the job unless `--keep-going` is given"),
    ),
    row(
        &["--enable-recovery", "--continuous"],
        &[MPIRUN4],
        Refused(
            "use `--keep-going` to continue when a process fails, and `--max-restarts N` to restart it",
        ),
    ),
    row(
        &[
            "--no-kill",
            "-Z",
            "-disable-auto-cleanup",
            "--no-abort-on-failure",
            "-R",
            "--relaunch",
        ],
        &[SRUN, HYDRA, PALS, APRUN],
        Refused("use `--keep-going` to continue when a process fails"),
    ),
    row(&["--max-restarts"], &[MPIRUN4], Accepted("the same option")),
    row(
        &["-W", "--wait", "--wait-event"],
        &[SRUN, FLUX],
        Refused(
            "use `--grace SECONDS` for the time that processes have to terminate when the job ends",
        ),
    ),
    row(
        &[
            "--quit-on-interrupt",
            "--disable-status",
            "--forward-signals",
            "--signal",
        ],
        &[SRUN, MPIRUN5, FLUX],
        Refused(
            "omit it: signals to `pmix run` are forwarded, and one SIGINT ends the job; `pmix kill --signal` sends others",
        ),
    ),
    row(
        &["--report-child-jobs-separately"],
        &[MPIRUN4, MPIRUN5],
        Refused("use `--report` or `--json`, which also show the results of spawned jobs"),
    ),
    row(
        &["--get-stack-traces"],
        &[MPIRUN4, MPIRUN5],
        Refused(
            "use `--stacks` with `--timeout` to print the stacks of the processes that others wait for",
        ),
    ),
    row(
        &["--runtime-options"],
        &[MPIRUN5],
        Refused(
            "use `--timeout`, `--keep-going`, `--max-restarts`, `--stop-on-exec`, `--stop-in-init` or `--stop-in-app`",
        ),
    ),
    row(
        &["--debug", "-tv", "--debugger", "-debug"],
        &[MPIRUN4],
        Refused(
            "start the debugger with the launcher: `totalview -args pmix run ...`; `--stop-in-init` waits for one",
        ),
    ),
];

/// The rows of a section.
pub(super) const DAEMONS: &[Row] = &[
    row(
        &["--mca"],
        &[MPIRUN4, MPIRUN5],
        Accepted(
            "parameters for the launcher of Open MPI have the effect of the option below, others reach the processes",
        ),
    ),
    row(
        &[
            "--gmca",
            "--pmixmca",
            "--gpmixmca",
            "--prtemca",
            "--omca",
            "--gomca",
        ],
        &[MPIRUN4, MPIRUN5],
        Refused("use `--mca NAME VALUE` to set a parameter"),
    ),
    row(
        &["--tune", "--am", "-am", "-cf", "--amca"],
        &[MPIRUN4, MPIRUN5],
        Refused(
            "use `--mca NAME VALUE` for each parameter of the file, or ~/.pmix/mca-params.conf",
        ),
    ),
    row(
        &["--mpi", "--smpiargs", "-pmi-port", "--resv-ports"],
        &[SRUN, PALS, JSRUN, HYDRA],
        Refused(
            "omit it: processes find the PMIx server automatically; `--pmi INTERFACE` selects one interface",
        ),
    ),
    row(
        &[
            "--report-uri",
            "--report-pid",
            "--report-events",
            "--no-ready-msg",
        ],
        &[MPIRUN4, MPIRUN5],
        Refused(
            "tools find the server automatically, also by its process ID; `-v` shows its address",
        ),
    ),
    row(
        &[
            "--personality",
            "--prefix",
            "--noprefix",
            "--app-pmix-prefix",
            "--no-app-prefix",
            "--pmix-prefix",
        ],
        &[MPIRUN4, MPIRUN5],
        Refused(
            "omit it: processes find any MPI library by their own environment; `--node-command` names this program on other nodes",
        ),
    ),
    row(
        &[
            "-launcher",
            "-launcher-exec",
            "-rmk",
            "-bootstrap",
            "-bootstrap-exec",
            "-bootstrap-rmk",
            "-enable-x",
            "-disable-x",
            "-iface",
            "-demux",
            "-nameserver",
            "-profile",
            "-hybrid-hosts",
            "--debug-daemons",
            "--debug-daemons-file",
            "--debug-devel",
            "--leave-session-attached",
            "--set-sid",
            "--keepalive",
            "--singleton",
            "--hnp",
            "--slurmd-debug",
            "--msg-timeout",
            "--threads",
            "--send-libs",
            "--compress",
            "--use_spindle",
        ],
        &[HYDRA, MPIRUN4, MPIRUN5, SRUN, JSRUN],
        Refused(
            "omit it: agents on other nodes are started by ssh, or by the command of `--launch-agent`",
        ),
    ),
    row(
        &["--dvm", "--ompi-server", "--terminate"],
        &[MPIRUN4, MPIRUN5],
        Refused(
            "use `prterun` or `prun` for a persistent server; `pmix publish` and `pmix lookup` exchange names",
        ),
    ),
    row(
        &[
            "--preload-binary",
            "--preload-files",
            "--bcast",
            "--bcast-exclude",
            "--transfer",
            "--no-transfer",
            "--bypass-app-transfer",
            "--add-file",
        ],
        &[MPIRUN4, MPIRUN5, SRUN, PALS, APRUN, FLUX],
        Refused("omit it: programs are started from their place on this node"),
    ),
    row(
        &["-usize"],
        &[HYDRA],
        Refused(
            "omit it: the universe has the size of the job, and spawns may exceed it up to `--max-spawned`",
        ),
    ),
    row(
        &["-info", "--usage"],
        &[HYDRA, SRUN, JSRUN],
        Refused("use `pmix --version`, `pmix info` or `pmix run --help`"),
    ),
];
