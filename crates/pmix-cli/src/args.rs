// SPDX-License-Identifier: MIT OR Apache-2.0
//! Definition of the command line; the parser, the help, the completions and the man pages are generated from
//! it.

mod map;
mod placement;
mod run;
mod tool;
mod wire;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use pmix_types::{Attribute, Rank};

pub(crate) use map::{
    Convert, Decode, DecodeOut, Diff, Draw, DrawAs, Encode, EncodeOut, Explain, FormArg, GroupList,
    LayoutArgs, Lists, MapCommand, MapInput, Nth, Pair, Parts, Position, Regroup, Shape, Slice,
    Where, Who, Writer,
};
pub(crate) use placement::{BindTo, MODIFIERS, MapByArg, POLICIES, Part};
pub(crate) use run::{AMBIGUOUS_C, AMBIGUOUS_N, AppArgs, NextApp, NodeArgs, Report, Run, Several};
pub(crate) use tool::{
    Attach, AttachTo, Events, KeepFor, Kill, Lookup, Ps, Publish, QueryArgs, Ranks, Release,
    SeenBy, Stream, Target, Top, TopOrder,
};
pub(crate) use wire::{
    BufferArg, CallType, PsquashArg, Wire, WireCommand, WireDecode, WireEncode, data_type, layout,
    module,
};

/// PMIx: start jobs, query their servers, and read and write node and process maps.
///
/// `pmix run` starts the processes of a job and is their PMIx server. `pmix ps` and `pmix query` query
/// running servers, including those of other PMIx implementations.
#[derive(Parser)]
#[command(
    name = "pmix",
    version,
    propagate_version = true,
    arg_required_else_help = true
)]
#[command(
    after_help = "Exit codes: 0 success, 1 failure or negative answer, 2 usage error, 3 invalid data."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
#[derive(Args)]
pub(crate) struct Global {
    /// Read this plugins.toml with precedence over the files found by default; `none` disables all of them.
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        help_heading = "Global options"
    )]
    pub(crate) config: Option<PathBuf>,
    /// Set an MCA parameter; can be repeated.
    #[arg(
        long,
        global = true,
        num_args = 2,
        value_names = ["NAME", "VALUE"],
        action = ArgAction::Append,
        allow_hyphen_values = true,
        help_heading = "Global options"
    )]
    pub(crate) mca: Vec<String>,
    /// Print JSON, one value per line; pmix-json(7) (see `pmix man`) describes the schemas.
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) json: bool,
    /// Log decisions and actions to standard error; repeat for more detail (-vv, -vvv), for developers of
    /// pmix.
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = "Global options")]
    pub(crate) verbose: u8,
    /// When to use color; NO_COLOR is honored.
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t = When::Auto,
        value_name = "WHEN",
        hide_possible_values = true,
        help = "When to use color: auto, never or always; NO_COLOR is honored",
        help_heading = "Global options"
    )]
    pub(crate) color: When,
}

/// The values of `--color`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Never.
    Never,
    /// Always.
    Always,
}

const EXAMPLES: &str = "\
Examples:
  pmix map encode 'n[001-128]' login
  pmix map decode @value.bin
  pmix map convert --to slurm @hosts.txt
  pmix map verify --nodes @hosts.txt --procs '0-3;4-7'
  pmix map where 130 --nodes 'n[1-4]' --procs @procs.txt
  pmix map batch < requests.jsonl";

const GET_EXAMPLES: &str = "\
Examples:
  pmix get --nodes 'n[1-4]' --procs '0-3;4-7;8;9' JOB_SIZE NODE_LIST
  pmix get --nodes @hosts.txt --procs @procs.txt --rank 130 HOSTNAME LOCAL_RANK
  pmix get --job registered.json --node n03 --all
  pmix get --jsonl < requests.jsonl";

const RUN_EXAMPLES: &str = "\
Examples:
  pmix run -n 4 hostname
  pmix run -n 2 --tag-output ./solver in.dat : -n 1 ./monitor
  pmix run -n 8 --map-by core --report ./solver
  pmix run --nodes 'n[1-2]' --procs '0-3;4-7' --node-name n1 ./solver

Exit codes: 0 if every process exited with 0. Otherwise the exit code of the first process that failed,
or 128 plus the number of the signal that terminated it. 124 if --timeout expired, 127 if a program was
not found, 126 if it cannot be executed.";

const HELLO_EXAMPLES: &str = "\
Examples:
  pmix run -n 4 pmix hello
  pmix run -n 64 pmix hello --quiet --fences 1000 --bytes 1024
  prterun -n 4 pmix hello";

const QUERY_EXAMPLES: &str = "\
Examples:
  pmix query QUERY_NAMESPACES
  pmix query --pid 4711 --nspace job.1 QUERY_PROC_TABLE
  pmix query --with NSPACE=job.1 --with NODEID=0 LOCAL_PEERS JOB_SIZE";

const PS_EXAMPLES: &str = "\
Examples:
  pmix ps
  pmix --json ps --pid 4711
  pmix ps --system job.1";

const TOP_EXAMPLES: &str = "\
Examples:
  pmix top
  pmix top --sort memory --interval 5 run-n01-4711@1
  pmix --json top --pid 4711

Exit codes: 0 shown, 1 no server was found, or the server does not report resource usage.";

const KILL_EXAMPLES: &str = "\
Examples:
  pmix kill run-n01-4711@1
  pmix kill --signal USR1 --ranks 0,2-4 run-n01-4711@1
  pmix kill --pause --pid 4711 job.1";

const RELEASE_EXAMPLES: &str = "\
Examples:
  pmix release run-n01-4711@1
  pmix release --ranks 0 run-n01-4711@1";

const EVENTS_EXAMPLES: &str = "\
Examples:
  pmix events
  pmix --json events --pid 4711
  pmix events --code EVENT_JOB_END --count 1 run-n01-4711@1";

const PUBLISH_EXAMPLES: &str = "\
Examples:
  pmix publish ocean=tcp://n01:5555
  pmix publish --keep first-read --pid 4711 ocean=tcp://n01:5555";

const LOOKUP_EXAMPLES: &str = "\
Examples:
  pmix lookup ocean
  pmix --json lookup --wait 10 ocean";

const ATTACH_EXAMPLES: &str = "\
Examples:
  pmix attach run-n01-4711@1
  pmix attach --tag-output --ranks 0-3 --stream stderr run-n01-4711@1

Exit codes: the exit code of the job as reported by its server, 1 if the connection to the
server was lost before the job ended.";

const WIRE_EXAMPLES: &str = "\
Examples:
  pmix wire decode --type string --hex 020861626300
  pmix wire decode --type string --type kval... --explain job-info.hex
  pmix wire encode --type uint32 --module v3 '[300]'
  pmix wire decode --jsonl < requests.jsonl";

/// The commands of `pmix`.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Node and process maps: encode, decode, inspect.
    #[command(subcommand, arg_required_else_help = true, after_help = EXAMPLES)]
    Map(MapCommand),
    /// Look up values of a job, as PMIx_Get on one of its processes would return them.
    #[command(arg_required_else_help = true, after_help = GET_EXAMPLES)]
    Get(Get),
    /// Start the processes of a job, on this node or on several, and their PMIx servers.
    #[command(arg_required_else_help = true, after_help = RUN_EXAMPLES)]
    Run(Box<Run>),
    /// Serve a launcher on another node: `pmix run` starts this command where processes of its job run.
    #[command(hide = true)]
    Node(NodeArgs),
    /// Query a running server.
    #[command(arg_required_else_help = true, after_help = QUERY_EXAMPLES)]
    Query(QueryArgs),
    /// List the jobs and processes of the running servers of this node.
    #[command(after_help = PS_EXAMPLES)]
    Ps(Ps),
    /// Show the memory and processor time of the processes of running jobs; updated continuously on a
    /// terminal.
    #[command(after_help = TOP_EXAMPLES)]
    Top(Top),
    /// Terminate, stop, continue or signal the processes of a running job.
    #[command(arg_required_else_help = true, after_help = KILL_EXAMPLES)]
    Kill(Kill),
    /// Continue the processes of a job that wait for a debugger.
    #[command(arg_required_else_help = true, after_help = RELEASE_EXAMPLES)]
    Release(Release),
    /// Show the events of jobs and processes that a server reports, until the server ends.
    #[command(after_help = EVENTS_EXAMPLES)]
    Events(Events),
    /// Show the output of a running job until it ends, then exit with its exit code.
    #[command(arg_required_else_help = true, after_help = ATTACH_EXAMPLES)]
    Attach(AttachTo),
    /// Check this node for problems that prevent PMIx from working; print a report for bug reports.
    #[command(after_help = "Exit codes: 0 no problem was found, 1 at least one problem was found.")]
    Doctor(Doctor),
    /// Publish key-value pairs on a running server, for processes and tools to look up.
    #[command(arg_required_else_help = true, after_help = PUBLISH_EXAMPLES)]
    Publish(Publish),
    /// Look up published values on a running server.
    #[command(arg_required_else_help = true, after_help = LOOKUP_EXAMPLES)]
    Lookup(Lookup),
    /// Pack, unpack and explain PMIx wire data.
    #[command(arg_required_else_help = true, after_help = WIRE_EXAMPLES)]
    Wire(Wire),
    /// Run a test process of a job: put, commit, fence, get; prints one line per rank.
    #[command(after_help = HELLO_EXAMPLES)]
    Hello(Hello),
    /// Show and check the components of the preg framework.
    #[command(subcommand, arg_required_else_help = true)]
    Plugins(PluginsCommand),
    /// Show every parameter, its value and its source.
    Info(Info),
    /// Look up attributes: name, key, type, and the releases that have them.
    Attr(Attr),
    /// Look up status codes: number, name and meaning.
    Status(StatusArgs),
    /// Print a completion script for a shell.
    #[command(after_help = "For example: pmix completions bash > /etc/bash_completion.d/pmix")]
    Completions {
        /// The shell.
        #[arg(required_unless_present = "list")]
        shell: Option<clap_complete::Shell>,
        /// Print names for the scripts instead.
        #[arg(long, value_enum, hide = true, conflicts_with = "shell")]
        list: Option<Listing>,
    },
    /// Write the manual: one page to standard output, or all pages into a directory.
    Man {
        /// The directory; created with its parents if it does not exist.
        #[arg(value_name = "DIR")]
        dir: Option<PathBuf>,
    },
}

/// Names that completion scripts ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Listing {
    /// The running jobs.
    Jobs,
}

/// Arguments of `attr`.
#[derive(Args)]
pub(crate) struct Attr {
    /// A name with or without PMIX_, a key, or a pattern: a part of a name or key, or a glob.
    #[arg(value_name = "NAME|KEY|PATTERN")]
    pub(crate) what: Option<String>,
}

/// Arguments of `status`.
#[derive(Args)]
pub(crate) struct StatusArgs {
    /// A number, a name with or without PMIX_, or a pattern: a part of a name, or a glob.
    #[arg(value_name = "NUMBER|NAME|PATTERN", allow_negative_numbers = true)]
    pub(crate) what: Option<String>,
}

/// Arguments of `doctor`.
#[derive(Args)]
pub(crate) struct Doctor {
    /// A running job, to report what its ranks wait for; or a program, to report the MPI library that it is linked with
    /// and the interface that this library uses.
    #[arg(value_name = "JOB|PROGRAM")]
    pub(crate) program: Option<PathBuf>,
    /// The directory in which MPI libraries share memory.
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    pub(crate) shm: PathBuf,
    /// Print the stacks of the ranks of JOB that others wait for, by py-spy, eu-stack or gdb.
    #[arg(long)]
    pub(crate) stacks: bool,
    /// The time limit for the reply of each server.
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    pub(crate) timeout: Duration,
}

/// Arguments of `hello`.
#[derive(Args)]
pub(crate) struct Hello {
    /// The number of consecutive fences.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) fences: u32,
    /// The number of bytes that each process puts.
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub(crate) bytes: usize,
    /// Get the data of only the next N ranks instead of all other processes.
    #[arg(long, value_name = "N")]
    pub(crate) peers: Option<u32>,
    /// Do not exchange data in the fences; data is requested from each process when it is needed.
    #[arg(long)]
    pub(crate) no_collect: bool,
    /// Print nothing on success.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// The time limit for each reply of the server.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub(crate) timeout: Duration,
}

/// Parses a time in seconds, which must be above 0.
fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text
        .parse()
        .map_err(|_| "expected a number of seconds".to_owned())?;
    let time = Duration::try_from_secs_f64(number).map_err(|error| error.to_string())?;
    match time.is_zero() {
        true => Err("expected a time above 0".to_owned()),
        false => Ok(time),
    }
}

/// The commands under `pmix plugins`.
#[derive(Subcommand)]
pub(crate) enum PluginsCommand {
    /// Show every component: its function, its priority, and the setting that selected it.
    List,
    /// Load one plugin file and check that every list decodes to the list that was encoded.
    Check {
        /// The shared library.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Lists to try in addition to the samples, one per argument: names, bracket lists, @FILE, or - for
        /// standard input.
        #[arg(value_name = "LIST")]
        lists: Vec<OsString>,
    },
}

/// Arguments of `info`.
#[derive(Args)]
pub(crate) struct Info {
    /// Show only parameters whose name or help contains this text, ignoring case; a pattern with `*` or `?`
    /// must match the whole name or help. Several patterns: parameters that match any of them. `all` matches every
    /// parameter.
    #[arg(value_name = "PATTERN")]
    pub(crate) patterns: Vec<String>,
    /// Show all parameters, which is the default without a pattern.
    #[arg(short, long, hide = true)]
    pub(crate) all: bool,
    /// Show only the parameters of this framework: preg, pcompress, psec, gds, or all.
    #[arg(long, value_name = "FRAMEWORK", default_value = "all")]
    pub(crate) param: String,
}

/// Arguments of `get`.
#[derive(Args)]
pub(crate) struct Get {
    /// The keys to look up: names like PMIX_JOB_SIZE or JOB_SIZE, or keys like pmix.job.size.
    #[arg(value_name = "KEY")]
    pub(crate) keys: Vec<String>,
    /// The node map, in any form that the map commands accept as one argument.
    #[arg(long, value_name = "MAP")]
    pub(crate) nodes: Option<OsString>,
    /// The process map.
    #[arg(long, value_name = "MAP", requires = "nodes")]
    pub(crate) procs: Option<OsString>,
    #[command(flatten)]
    pub(crate) layout: LayoutArgs,
    /// A file of registered jobs in JSON, one job per line; - for standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "nodes")]
    pub(crate) job: Option<OsString>,
    /// The name of the job with --nodes; the job to look up with --job.
    #[arg(long, value_name = "NAME")]
    pub(crate) nspace: Option<String>,
    /// Look up values of this process, not of the whole job.
    #[arg(long, value_name = "RANK", conflicts_with_all = ["node", "app"])]
    pub(crate) rank: Option<Rank>,
    /// Look up values of this node, by name, alias or number.
    #[arg(long, value_name = "NODE")]
    pub(crate) node: Option<String>,
    /// Look up values of this application; with --node, values of the node in this application.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) app: Option<u32>,
    /// Reply like a server on this node instead of the current node.
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Option<String>,
    /// Print all known values of the session, the job, and each application, node and process, or only of the
    /// named one.
    #[arg(long, conflicts_with = "keys")]
    pub(crate) all: bool,
    /// Read requests from standard input, one JSON object per line.
    #[arg(long, conflicts_with_all = ["keys", "nodes", "all", "nspace", "rank", "node", "app"])]
    pub(crate) jsonl: bool,
}

/// Returns the key of the attribute with this name, or the word itself if there is none. Only words in upper
/// case can be names, so every other key can be looked up.
pub(crate) fn key(word: &str) -> &str {
    let is_name = !word.contains(|c: char| c.is_ascii_lowercase());
    let named = is_name.then(|| Attribute::by_name(word)).flatten();
    named.map_or(word, |attribute| attribute.key())
}
