// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line, defined once: parser, help, completions and man pages all come from here.

mod dictionary;
mod doctor;
mod get;
mod hello;
mod input;
mod inspect;
mod layout;
mod map;
mod plugins;
mod publish;
mod ranks;
mod run;
mod sets;
mod target;
mod tool;
mod wire;

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

pub(crate) use dictionary::{Attr, StatusArgs};
pub(crate) use doctor::Doctor;
pub(crate) use get::{Get, key};
pub(crate) use hello::Hello;
pub(crate) use input::MapInput;
pub(crate) use inspect::{Draw, DrawAs, Explain, Pair, Where, Who};
pub(crate) use layout::LayoutArgs;
pub(crate) use map::{
    Convert, Decode, DecodeOut, Encode, EncodeOut, FormArg, MapCommand, Nth, Writer,
};
pub(crate) use plugins::{Info, PluginsCommand};
pub(crate) use publish::{KeepFor, Lookup, Publish, SeenBy};
pub(crate) use ranks::Ranks;
pub(crate) use run::{AppArgs, NextApp, Run};
pub(crate) use sets::{Diff, Lists, Parts, Position, Slice};
pub(crate) use target::Target;
pub(crate) use tool::{
    Attach, AttachTo, Events, Kill, Ps, QueryArgs, Release, Stream, Top, TopOrder,
};
pub(crate) use wire::{
    BufferArg, CallType, PsquashArg, Wire, WireCommand, WireDecode, WireEncode, data_type, layout,
    module,
};

/// PMIx: start jobs on this node, ask their servers, and read and write node and process maps.
///
/// `pmix run` starts the processes of a job and is the PMIx server that they speak to; `pmix ps` and `pmix
/// query` ask running servers, those of others too.
#[derive(Parser)]
#[command(
    name = "pmix",
    version,
    propagate_version = true,
    arg_required_else_help = true
)]
#[command(after_help = "Exit codes: 0 ok, 1 negative answer, 2 usage, 3 bad data.")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options that every command takes.
#[derive(Args)]
pub(crate) struct Global {
    /// Read this plugins.toml above those that are found; `none`: read none at all.
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        help_heading = "Global options"
    )]
    pub(crate) config: Option<PathBuf>,
    /// Set an MCA parameter; may be given more than once.
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
    /// Answer in JSON, one value a line; `pmix man` and pmix-json(7) have the schemas.
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) json: bool,
    /// Say on standard error what is decided and done; twice and three times say more, for those who work on
    /// this software.
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = "Global options")]
    pub(crate) verbose: u8,
    /// When to use colour; NO_COLOR is honoured.
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t = When::Auto,
        value_name = "WHEN",
        hide_possible_values = true,
        help = "When to use colour: auto, never or always; NO_COLOR is honoured",
        help_heading = "Global options"
    )]
    pub(crate) color: When,
}

/// When colour is used.
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

Exit codes: 0 if every process ended with 0, else that of the first that did not: its exit code, or
128 and the number of its signal. 124 when the time was up, 127 for a program that is not there,
126 for one that cannot be run.";

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

Exit codes: 0 shown, 1 no server, or one that does not tell what processes use.";

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

Exit codes: that of the job as its server tells it, 1 if the server was lost before the job ended.";

const WIRE_EXAMPLES: &str = "\
Examples:
  pmix wire decode --type string --hex 020861626300
  pmix wire decode --type string --type kval... --explain job-info.hex
  pmix wire encode --type uint32 --module v3 '[300]'
  pmix wire decode --jsonl < requests.jsonl";

/// What to do.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Node and process maps: encode, decode, inspect.
    #[command(subcommand, arg_required_else_help = true, after_help = EXAMPLES)]
    Map(MapCommand),
    /// Ask a job for values, as a server answers them.
    #[command(arg_required_else_help = true, after_help = GET_EXAMPLES)]
    Get(Get),
    /// Start a job on this node: its processes, and the server they speak to.
    #[command(arg_required_else_help = true, after_help = RUN_EXAMPLES)]
    Run(Box<Run>),
    /// Attach to a running server and ask it.
    #[command(arg_required_else_help = true, after_help = QUERY_EXAMPLES)]
    Query(QueryArgs),
    /// List the jobs and processes of the running servers of this node.
    #[command(after_help = PS_EXAMPLES)]
    Ps(Ps),
    /// Show the memory and processor time of the processes of running jobs, live at a terminal.
    #[command(after_help = TOP_EXAMPLES)]
    Top(Top),
    /// End, stop, continue or signal the processes of a running job.
    #[command(arg_required_else_help = true, after_help = KILL_EXAMPLES)]
    Kill(Kill),
    /// Let the processes of a job go on that wait for a debugger.
    #[command(arg_required_else_help = true, after_help = RELEASE_EXAMPLES)]
    Release(Release),
    /// Show what becomes of jobs and processes, as a server tells it, until it ends.
    #[command(after_help = EVENTS_EXAMPLES)]
    Events(Events),
    /// Show the output of a running job until it ends, and end as it does.
    #[command(arg_required_else_help = true, after_help = ATTACH_EXAMPLES)]
    Attach(AttachTo),
    /// Look for what keeps PMIx from working on this node; a report to be pasted.
    #[command(after_help = "Exit codes: 0 no fault was found, 1 some were.")]
    Doctor(Doctor),
    /// Publish texts at a running server, which processes and tools find by their keys.
    #[command(arg_required_else_help = true, after_help = PUBLISH_EXAMPLES)]
    Publish(Publish),
    /// Show what was published at a running server.
    #[command(arg_required_else_help = true, after_help = LOOKUP_EXAMPLES)]
    Lookup(Lookup),
    /// Packed data: unpack, explain, pack.
    #[command(arg_required_else_help = true, after_help = WIRE_EXAMPLES)]
    Wire(Wire),
    /// A process of a job that greets the others: put, commit, fence, get; one line a rank.
    #[command(after_help = HELLO_EXAMPLES)]
    Hello(Hello),
    /// The components of the preg framework.
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
        /// Which shell.
        shell: clap_complete::Shell,
    },
    /// Write the manual: one page to standard output, or all pages into a directory.
    Man {
        /// The directory; it is made if it is not there, with those above it.
        #[arg(value_name = "DIR")]
        dir: Option<PathBuf>,
    },
}
