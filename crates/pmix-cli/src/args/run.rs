// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arguments of `pmix run`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser};
use pmix_launch::{Interfaces, ProcessSet};
use pmix_topology::Cpuset;
use pmix_types::Nspace;

use super::Ranks;
use super::map::LayoutArgs;
use super::placement::{BindTo, BindToParser, MapByArg};

/// Options about other nodes.
#[derive(Args)]
pub(crate) struct Several {
    /// The command that executes a command on another node, by default ssh; `{node}` in it is the name of the node,
    /// otherwise the name follows it. For example `podman exec {node}` or `ssh -p 2222`.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) launch_agent: Option<String>,
    /// The path of this program on the other nodes, by default its path on this one.
    #[arg(long, value_name = "PATH")]
    pub(crate) node_command: Option<PathBuf>,
    /// The number of seconds after which a node that has not answered fails the job, by default 60.
    #[arg(long, value_name = "SECONDS", value_parser = start_timeout)]
    pub(crate) start_timeout: Option<Duration>,
}

/// Arguments of `run`.
#[derive(Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) app: AppArgs,
    /// The node map of a larger job, in any form that the map commands accept as one argument; only the
    /// processes of this node are started.
    #[arg(long, value_name = "MAP", help_heading = "Placement")]
    pub(crate) nodes: Option<OsString>,
    /// The process map: the ranks on each node of --nodes.
    #[arg(
        long,
        value_name = "MAP",
        requires = "nodes",
        help_heading = "Placement"
    )]
    pub(crate) procs: Option<OsString>,
    #[command(flatten, next_help_heading = "Placement")]
    pub(crate) layout: LayoutArgs,
    /// The name of this node in the maps, if it differs from the host name.
    #[arg(long, value_name = "NAME", help_heading = "Placement")]
    pub(crate) node_name: Option<String>,
    /// Mapping of processes to the parts of the node: `PART` round-robin, `PART:pe=N` with N cores for
    /// each process, or `ppr:N:PART` with N processes on each part. PART is slot, node, package, numa,
    /// l3cache, l2cache, l1cache, core or hwthread; the default is slot.
    #[arg(
        long,
        value_name = "PART",
        value_parser = MapByArg::parse,
        help_heading = "Placement"
    )]
    pub(crate) map_by: Option<MapByArg>,
    /// The number of cores for the threads of each process.
    #[arg(
        long,
        value_name = "N",
        aliases = ["cpus-per-task", "cpus-per-proc"],
        value_parser = clap::value_parser!(u32).range(1..),
        help_heading = "Placement"
    )]
    pub(crate) cpus_per_rank: Option<u32>,
    /// Use only these processors, for example 0-3,8.
    #[arg(long, value_name = "LIST", alias = "cpu-list", value_parser = cpus, help_heading = "Placement")]
    pub(crate) cpu_set: Option<Cpuset>,
    /// Report the binding of each process on standard error before it starts.
    #[arg(long, help_heading = "Placement")]
    pub(crate) report_bindings: bool,
    #[command(flatten, next_help_heading = "Several nodes")]
    pub(crate) several: Several,
    #[command(flatten)]
    pub(crate) habits: Habits,
    /// The part of the node that each process is bound to; by default the part of --map-by.
    #[arg(long, value_parser = BindToParser, value_name = "PART", help_heading = "Placement")]
    pub(crate) bind_to: Option<BindTo>,
    /// Prefix each line of output with the job, the rank and the stream.
    #[arg(short = 'l', long, visible_alias = "label", help_heading = "Output")]
    pub(crate) tag_output: bool,
    /// Buffer output until a line is complete, for a single process too. By default, lines of different
    /// processes are not mixed, but an incomplete line is written after one second, so that prompts are
    /// visible.
    #[arg(long, conflicts_with = "tag_output", help_heading = "Output")]
    pub(crate) whole_lines: bool,
    /// Let processes write directly to the launcher's standard output and standard error; lines of different
    /// processes can be mixed.
    #[arg(long, conflicts_with_all = ["tag_output", "whole_lines"], help_heading = "Output")]
    pub(crate) no_whole_lines: bool,
    /// Write the output of each process to its own files, DIR/rank.N.stdout and DIR/rank.N.stderr. With
    /// --tag-output or --whole-lines, the output is also copied to the launcher's own streams.
    #[arg(
        long,
        value_name = "DIR",
        alias = "output-filename",
        help_heading = "Output"
    )]
    pub(crate) output_dir: Option<PathBuf>,
    /// The names of the files of --output-dir without .stdout and .stderr: %r is the rank, %n the nspace, %h
    /// the name of this node, %% a percent sign.
    #[arg(
        long,
        value_name = "PATTERN",
        requires = "output_dir",
        help_heading = "Output"
    )]
    pub(crate) output_name: Option<OsString>,
    /// Copy the output in the files of --output-dir to the launcher's own streams.
    #[arg(long, requires = "output_dir", help_heading = "Output")]
    pub(crate) copy_output: bool,
    /// Redirect standard error to standard output.
    #[arg(long, alias = "merge-stderr-to-stdout", help_heading = "Output")]
    pub(crate) merge_output: bool,
    /// Give each process a pseudo terminal as standard output, so that programs write each line at once. This is the
    /// default if the standard output of the launcher is a terminal. If its standard input is a terminal, too, the rank
    /// that reads it also has the pseudo terminal as standard input.
    #[arg(
        long,
        visible_alias = "unbuffered",
        short = 'u',
        overrides_with = "no_pty",
        help_heading = "Output"
    )]
    pub(crate) pty: bool,
    /// Let processes write to pipes and files only.
    #[arg(long, overrides_with = "pty", help_heading = "Output")]
    pub(crate) no_pty: bool,
    /// Let tools and processes pull output and push input to rank 0 with PMIx_IOF_pull and PMIx_IOF_push. All
    /// output passes through the launcher, and rank 0 reads only pushed input.
    #[arg(long, help_heading = "Output")]
    pub(crate) forward_io: bool,
    /// Report on standard error the binding of each process before it starts, and at the end its run time,
    /// its exit status, and the groups that were not destructed. `html` instead writes one page with the timeline and the
    /// placement of the processes to FILE, by default `JOB.html` in the working directory.
    #[arg(
        long,
        value_name = "html[:FILE]",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "text",
        value_parser = Report::parse,
        help_heading = "Output"
    )]
    pub(crate) report: Option<Report>,
    /// Write every message between the processes and the server to this file, in the format that `pmix wire
    /// decode --message` reads.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) trace: Option<PathBuf>,
    /// Do not report collectives that wait for ranks for more than 30 seconds.
    #[arg(long, help_heading = "Output")]
    pub(crate) quiet: bool,
    /// Print the stacks of missing ranks in the reports of --timeout and of SIGQUIT, by py-spy, eu-stack or gdb.
    #[arg(long, help_heading = "Ending")]
    pub(crate) stacks: bool,
    /// Terminate the job after this time, in seconds, and report what its ranks wait for.
    #[arg(long, value_name = "SECONDS", value_parser = limit, help_heading = "Ending")]
    pub(crate) timeout: Option<Duration>,
    /// The time that processes have to terminate before they are killed, in seconds.
    #[arg(
        long,
        value_name = "SECONDS",
        value_parser = seconds,
        default_value = "2",
        help_heading = "Ending"
    )]
    pub(crate) grace: Duration,
    /// Continue the other processes when a process fails.
    #[arg(long, help_heading = "Ending")]
    pub(crate) keep_going: bool,
    /// Restart a process that fails, at most N times.
    #[arg(long, value_name = "N", default_value = "0", help_heading = "Ending")]
    pub(crate) max_restarts: u32,
    /// The maximum number of processes in spawned jobs (PMIx_Spawn, MPI_Comm_spawn) at one time; 0 rejects
    /// every spawn. A job counts until its last process has ended and its output is closed.
    #[arg(long, value_name = "N", default_value = "1024")]
    pub(crate) max_spawned: u32,
    /// The maximum depth of nested spawns: 1 if only processes of the first job may spawn. A deeper spawn is rejected.
    #[arg(long, value_name = "N", default_value = "32")]
    pub(crate) max_spawn_depth: u32,
    /// The rank that reads standard input, or none.
    #[arg(long, value_name = "RANK", default_value = "0", value_parser = StdinArg::parse)]
    pub(crate) stdin: StdinArg,
    /// Define a process set, which processes find with PMIx_Query_info; can be repeated.
    #[arg(long = "pset", value_name = "NAME=RANKS", value_parser = process_set)]
    pub(crate) process_sets: Vec<ProcessSet>,
    /// Do not set the variables of mpirun in which scripts find rank and size (such as OMPI_COMM_WORLD_RANK).
    #[arg(long)]
    pub(crate) no_compat_env: bool,
    /// The interface that is offered to the processes: pmix, PMI without PMIx (pmi1 or pmi2, the version for MPICH), or
    /// auto for all of them. With auto, each library uses the one that it was built with.
    #[arg(long, value_name = "INTERFACE", default_value = "auto", value_parser = PmiArg::parse)]
    pub(crate) pmi: PmiArg,
    /// The name of the job; by default derived from the node and the launcher's process ID.
    #[arg(long, value_name = "NAME", value_parser = nspace)]
    pub(crate) nspace: Option<String>,
    /// Register this launcher's server as the system server of the node (PMIX_CONNECT_TO_SYSTEM).
    #[arg(long)]
    pub(crate) system_server: bool,
    /// Stop each process before the first instruction of its program until `pmix release` or a debugger
    /// continues it.
    #[arg(long, help_heading = "Debugging")]
    pub(crate) stop_on_exec: bool,
    /// Stop each process in PMIx_Init until `pmix release` or a debugger continues it.
    #[arg(long, help_heading = "Debugging")]
    pub(crate) stop_in_init: bool,
    /// Ask programs to stop for a debugger at a point of their choice; only programs that support this stop.
    #[arg(long, help_heading = "Debugging")]
    pub(crate) stop_in_app: bool,
}

/// Options of one application; after a `:` only these options are accepted.
#[derive(Args)]
pub(crate) struct AppArgs {
    /// The number of processes; the default is 1, or the number in --procs.
    #[arg(
        short,
        long = "num-procs",
        aliases = ["np", "ntasks", "n", "pes"],
        value_name = "N",
        // A negative number is a wrong value of this option, not an unknown option.
        allow_negative_numbers = true,
        value_parser = count
    )]
    pub(crate) num_procs: Option<u32>,
    /// Set an environment variable for the processes, or pass one that is not passed by default; PREFIX*
    /// passes all variables with this prefix.
    #[arg(short = 'x', long = "export", value_name = "VAR[=VALUE]")]
    pub(crate) exports: Vec<OsString>,
    /// A variable to set, as `-genv NAME VALUE` of other launchers.
    #[arg(long, num_args = 2, value_names = ["NAME", "VALUE"], hide = true)]
    pub(crate) genv: Vec<OsString>,
    /// The working directory of the processes.
    #[arg(short = 'D', long, value_name = "DIR", aliases = ["wd", "chdir"])]
    pub(crate) wdir: Option<PathBuf>,
    /// Nodes to start on, as for mpirun; this node must be one of them.
    #[arg(
        long,
        short_alias = 'H',
        alias = "hosts",
        value_name = "NODES",
        help_heading = "Placement"
    )]
    pub(crate) host: Option<String>,
    /// A file of nodes, as for mpirun; this node must be one of them.
    #[arg(long, hide = true, aliases = ["machinefile"], value_name = "FILE")]
    pub(crate) hostfile: Option<PathBuf>,
    /// An option that other launchers define differently; always rejected.
    #[arg(short = 'c', hide = true, value_parser = ambiguous)]
    c: Option<String>,
    /// An option that other launchers define differently; always rejected.
    #[arg(short = 'N', hide = true, value_parser = nodes_or_each)]
    number: Option<String>,
    /// The program and its arguments; ` : ` starts another application with its own options.
    #[arg(
        value_name = "PROGRAM [ARG]...",
        required = true,
        num_args = 1..,
        trailing_var_arg = true
    )]
    pub(crate) command: Vec<OsString>,
}

/// The words after a `:`, parsed like those before it.
#[derive(Parser)]
#[command(name = "pmix run … :", no_binary_name = true)]
pub(crate) struct NextApp {
    #[command(flatten)]
    pub(crate) app: AppArgs,
    /// Set an MCA parameter for the processes of this application.
    #[arg(long, num_args = 2, value_names = ["NAME", "VALUE"], allow_hyphen_values = true)]
    pub(crate) mca: Vec<String>,
}

/// Parses a process set: a name, and ranks such as `0,2-4`.
fn process_set(text: &str) -> Result<ProcessSet, String> {
    let (name, ranks) = text
        .rsplit_once('=')
        .ok_or("expected NAME=RANKS, such as even=0,2,4-6")?;
    Ok(ProcessSet {
        name: name.to_owned(),
        ranks: Ranks::parse(ranks)?.0,
    })
}

/// Options of other launchers: accepted where they change nothing here, otherwise rejected with the option to
/// use instead.
#[derive(Args)]
pub(crate) struct Habits {
    /// Accepted without effect: processes can always outnumber processors.
    #[arg(long, hide = true, overrides_with = "nooversubscribe")]
    pub(crate) oversubscribe: bool,
    /// Refuse more processes than the node has slots.
    #[arg(
        long,
        hide = true,
        alias = "no-oversubscribe",
        overrides_with = "oversubscribe"
    )]
    pub(crate) nooversubscribe: bool,
    /// Accepted without effect: root can always run jobs.
    #[arg(long, hide = true)]
    allow_run_as_root: bool,
    /// The order of ranks; only the order of `--map-by` is supported.
    #[arg(long, hide = true, value_parser = rank_by)]
    rank_by: Option<String>,
    /// The placement of ranks and other information to print.
    #[arg(long, hide = true, value_delimiter = ',', value_parser = display)]
    pub(crate) display: Vec<String>,
}

/// The reason why `-c` is refused.
pub(crate) const AMBIGUOUS_C: &str = "-c has different meanings for mpirun and srun: use `-n N` for the number of processes, \
    `--cpus-per-rank N` for the number of cores of each";

/// The reason why `-N` is refused.
pub(crate) const AMBIGUOUS_N: &str = "-N is a number of nodes for srun and of processes per node for mpirun: use `-n N` for the \
    number of processes on this node";

fn ambiguous(_: &str) -> Result<String, String> {
    Err(AMBIGUOUS_C.to_owned())
}

fn nodes_or_each(_: &str) -> Result<String, String> {
    Err(AMBIGUOUS_N.to_owned())
}

/// Parses the name of a job, which is also part of the server's name, of file names and of messages.
fn nspace(word: &str) -> Result<String, String> {
    let most = Nspace::MAX_LEN - ".server".len();
    let legal = |byte: u8| byte.is_ascii_graphic() && !b";/".contains(&byte);
    match !word.is_empty() && word.len() <= most && word.bytes().all(legal) {
        true => Ok(word.to_owned()),
        false => Err(format!(
            "a job name has 1 to {most} printable characters other than spaces, ; and /"
        )),
    }
}

fn rank_by(word: &str) -> Result<String, String> {
    match word {
        "slot" | "fill" => Ok(word.to_owned()),
        _ => Err(
            "ranks always follow the order of --map-by; only slot and fill are accepted".to_owned(),
        ),
    }
}

fn display(word: &str) -> Result<String, String> {
    match word {
        "map" | "map-devel" | "bind" | "bindings" => Ok(word.to_owned()),
        "allocation" | "alloc" => Err(
            "all processes start on this node, so no allocation is shown; use map for the binding of each process"
                .to_owned(),
        ),
        "topo" | "cpus" => Err(format!(
            "{word} is not shown; use `lstopo`, or `lscpu -e`, for the processors of this node"
        )),
        _ => Err("expected map, map-devel, bind or bindings".to_owned()),
    }
}

fn cpus(word: &str) -> Result<Cpuset, String> {
    let cpus = Cpuset::parse(word).ok().filter(|cpus| !cpus.is_empty());
    cpus.ok_or_else(|| "expected processor numbers and ranges, such as 0-3,8".to_owned())
}

/// The rank that reads standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StdinArg(pub(crate) Option<u32>);

impl StdinArg {
    fn parse(word: &str) -> Result<Self, String> {
        match word {
            "none" => Ok(Self(None)),
            "all" => Err(
                "only one process can read standard input; redirect a file for each of the others"
                    .to_owned(),
            ),
            rank => {
                let rank = rank.parse().map_err(|_| "expected a rank or `none`");
                Ok(Self(Some(rank?)))
            }
        }
    }
}

/// The argument of `--pmi`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PmiArg(pub(crate) Interfaces);

impl PmiArg {
    fn parse(word: &str) -> Result<Self, String> {
        Ok(Self(match word {
            "auto" => Interfaces::All,
            "pmix" => Interfaces::Pmix,
            "pmi1" => Interfaces::Pmi1,
            "pmi2" => Interfaces::Pmi2,
            _ => return Err("expected auto, pmix, pmi1 or pmi2".to_owned()),
        }))
    }
}

/// Parses the number of processes.
fn count(word: &str) -> Result<u32, String> {
    word.parse().map_err(|_| match word {
        // clap passes the rest of `-np 4` as the value of `-n`.
        "p" => "use -n instead of -np, as in -n 4".to_owned(),
        _ => format!(
            "expected a number of processes up to {}, as in -n 4",
            u32::MAX
        ),
    })
}

/// Parses a time in seconds, with or without a fraction.
fn seconds(word: &str) -> Result<Duration, String> {
    let seconds: f64 = word
        .parse()
        .map_err(|_| "expected a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| "expected 0 or more seconds, less than 1.8e19".to_owned())
}

/// Parses the time limit for the answer of a node.
fn start_timeout(word: &str) -> Result<Duration, String> {
    let limit = seconds(word)?;
    match limit.is_zero() {
        true => Err("expected a time above 0, for example --start-timeout 60".to_owned()),
        false => Ok(limit),
    }
}

/// Parses the time limit of a job.
fn limit(word: &str) -> Result<Duration, String> {
    let limit = seconds(word)?;
    match limit.is_zero() {
        true => Err("expected a time above 0; omit --timeout for no limit".to_owned()),
        false => Ok(limit),
    }
}

/// The form of the report about a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// Text on standard error.
    Text,
    /// A page in this file, or in one with the name of the job.
    Html(Option<PathBuf>),
}

impl Report {
    /// Parses `text`, `html` or `html:FILE`.
    fn parse(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "text" => Ok(Self::Text),
            None if text == "html" => Ok(Self::Html(None)),
            Some(("html", file)) if !file.is_empty() => Ok(Self::Html(Some(file.into()))),
            _ => Err("expected text, html or html:FILE".to_owned()),
        }
    }
}

/// Arguments of `node`.
#[derive(Args)]
pub(crate) struct NodeArgs {
    /// The launcher is at the other end of standard input and standard output.
    #[arg(long, required = true)]
    pub(crate) stdio: bool,
}
