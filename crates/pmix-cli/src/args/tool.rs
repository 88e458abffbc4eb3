// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arguments of the commands that attach to a server.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use pmix_types::{Rank, Status};

use super::Ranks;
use super::hello::seconds;

/// The server to attach to.
#[derive(Args)]
pub(crate) struct Attach {
    /// Attach to the server with this process ID.
    #[arg(
        long,
        value_name = "PID",
        group = "which",
        help_heading = "Server selection"
    )]
    pub(crate) pid: Option<u32>,
    /// Attach to the server with this name.
    #[arg(
        long,
        value_name = "NAME",
        group = "which",
        help_heading = "Server selection"
    )]
    pub(crate) server: Option<String>,
    /// Attach to the server at this address, `NAME.RANK;tcp4://ADDRESS:PORT` or `file:PATH`.
    #[arg(
        long,
        value_name = "URI",
        group = "which",
        help_heading = "Server selection"
    )]
    pub(crate) uri: Option<String>,
    /// Attach to the server that wrote this rendezvous file.
    #[arg(
        long,
        value_name = "PATH",
        group = "which",
        help_heading = "Server selection"
    )]
    pub(crate) file: Option<PathBuf>,
    /// Attach to the system server of the node.
    #[arg(long, group = "which", help_heading = "Server selection")]
    pub(crate) system: bool,
    /// Attach to the only session server, not to the system server.
    #[arg(long, group = "which", help_heading = "Server selection")]
    pub(crate) session: bool,
    /// The time limit for each reply of the server.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value = "30",
        value_parser = seconds,
        help_heading = "Server selection"
    )]
    pub(crate) timeout: Duration,
}

/// Arguments of `query`.
#[derive(Args)]
pub(crate) struct QueryArgs {
    /// The attributes to query: names like QUERY_NAMESPACES, or keys like pmix.qry.ns.
    #[arg(value_name = "KEY", required = true)]
    pub(crate) keys: Vec<String>,
    /// Query this job.
    #[arg(long, value_name = "NAME")]
    pub(crate) nspace: Option<String>,
    /// Query this process of the job.
    #[arg(long, value_name = "RANK", requires = "nspace")]
    pub(crate) rank: Option<Rank>,
    /// Add a qualifier, `KEY=VALUE`, or `KEY` alone for `true`; can be repeated.
    #[arg(long = "with", value_name = "KEY[=TEXT]")]
    pub(crate) qualifiers: Vec<String>,
    #[command(flatten)]
    pub(crate) attach: Attach,
}

/// Arguments of `ps`.
#[derive(Args)]
pub(crate) struct Ps {
    /// Show this job only.
    #[arg(value_name = "NSPACE")]
    pub(crate) nspace: Option<String>,
    #[command(flatten)]
    pub(crate) attach: Attach,
}

/// Arguments of `top`.
#[derive(Args)]
pub(crate) struct Top {
    /// Show this job only.
    #[arg(value_name = "NSPACE")]
    pub(crate) nspace: Option<String>,
    /// Show one snapshot and exit, on a terminal too.
    #[arg(long, conflicts_with = "count")]
    pub(crate) once: bool,
    /// Exit after N snapshots.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// The time between snapshots.
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    pub(crate) interval: Duration,
    /// The order of the processes.
    #[arg(long, value_enum, value_name = "BY", default_value_t = TopOrder::Cpu)]
    pub(crate) sort: TopOrder,
    #[command(flatten)]
    pub(crate) attach: Attach,
}

/// The order in which processes are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TopOrder {
    /// By share of a processor, largest first.
    Cpu,
    /// By processor time, largest first.
    Time,
    /// By resident memory, largest first.
    Memory,
    /// By job and rank.
    Rank,
}

/// Arguments of `kill`.
#[derive(Args)]
pub(crate) struct Kill {
    /// The job.
    #[arg(value_name = "NSPACE")]
    pub(crate) nspace: String,
    /// Only these ranks of the job, for example 0,2-4.
    #[arg(long, value_name = "RANKS", value_parser = Ranks::parse_few)]
    pub(crate) ranks: Option<Ranks>,
    /// Send this signal, a name or a number.
    #[arg(short, long, value_name = "SIGNAL", group = "what", value_parser = signal)]
    pub(crate) signal: Option<i32>,
    /// Ask the processes to terminate (SIGTERM); the default.
    #[arg(long, group = "what")]
    pub(crate) terminate: bool,
    /// Kill the processes (SIGKILL).
    #[arg(long, group = "what")]
    pub(crate) kill: bool,
    /// Stop the processes (SIGSTOP).
    #[arg(long, group = "what")]
    pub(crate) pause: bool,
    /// Continue stopped processes (SIGCONT).
    #[arg(long, group = "what")]
    pub(crate) resume: bool,
    #[command(flatten)]
    pub(crate) attach: Attach,
}

/// Arguments of `release`.
#[derive(Args)]
pub(crate) struct Release {
    /// The job.
    #[arg(value_name = "NSPACE")]
    pub(crate) nspace: String,
    /// Only these ranks of the job, for example 0,2-4.
    #[arg(long, value_name = "RANKS", value_parser = Ranks::parse_few)]
    pub(crate) ranks: Option<Ranks>,
    #[command(flatten)]
    pub(crate) attach: Attach,
}

/// Arguments of `attach`.
#[derive(Args)]
pub(crate) struct AttachTo {
    /// The job.
    #[arg(value_name = "NSPACE")]
    pub(crate) nspace: String,
    /// Only the output of these ranks, for example 0,2-4.
    #[arg(long, value_name = "RANKS", value_parser = Ranks::parse_few)]
    pub(crate) ranks: Option<Ranks>,
    /// The streams to show.
    #[arg(long, value_enum, default_value_t = Stream::Both)]
    pub(crate) stream: Stream,
    /// Prefix each line with the process and the stream that wrote it.
    #[arg(long)]
    pub(crate) tag_output: bool,
    #[command(flatten)]
    pub(crate) attach: Attach,
}

/// Streams of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// Both.
    Both,
}

/// Arguments of `events`.
#[derive(Args)]
pub(crate) struct Events {
    /// Show the events of this job only.
    #[arg(value_name = "NSPACE")]
    pub(crate) nspace: Option<String>,
    /// Show events with this status, a name or a number, instead of the events of jobs and processes; can be
    /// repeated.
    #[arg(long = "code", value_name = "STATUS", value_parser = status, allow_hyphen_values = true)]
    pub(crate) codes: Vec<Status>,
    /// Exit after N events.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    #[command(flatten)]
    pub(crate) attach: Attach,
}

fn status(text: &str) -> Result<Status, String> {
    let known = text.parse::<Status>();
    known.map_err(|_| "expected the name or the number of a status; see `pmix status`".to_owned())
}

fn signal(text: &str) -> Result<i32, String> {
    let number = pmix_launch::signal_number(text);
    number.ok_or_else(|| "expected the name or the number of a signal".to_owned())
}
