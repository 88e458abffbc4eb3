// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arguments of the commands that attach to a server.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use pmix_types::{Nspace, Proc, Rank, Status};

use super::seconds;

/// The server to attach to.
#[derive(Args, Clone)]
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

impl Attach {
    /// Returns the arguments that select a server by the job alone.
    pub(crate) fn by_job(timeout: Duration) -> Self {
        Self {
            pid: None,
            server: None,
            uri: None,
            file: None,
            system: false,
            session: false,
            timeout,
        }
    }
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
    /// Print the stacks of the ranks that others wait for, by py-spy, eu-stack or gdb.
    #[arg(long)]
    pub(crate) stacks: bool,
    /// Query the figures of the server, too.
    #[arg(skip)]
    pub(crate) figures: bool,
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
    /// Print one snapshot as OpenMetrics text, for Prometheus.
    #[arg(long, conflicts_with_all = ["count", "once"])]
    pub(crate) openmetrics: bool,
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
    /// The jobs.
    #[arg(id = "nspace", value_name = "NSPACE", required = true)]
    pub(crate) nspaces: Vec<String>,
    /// Only these ranks of each job, for example 0,2-4.
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
    number.ok_or_else(|| {
        "expected the name or the number of a signal, such as TERM, USR1 or 10".to_owned()
    })
}

/// Maximum number of processes in one request.
const MOST: u64 = 1 << 16;

/// Ranges of ranks, both ends included, in ascending order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ranks(pub(crate) Vec<(u32, u32)>);

impl Ranks {
    /// Parses ranks such as `0,2-4`.
    ///
    /// # Errors
    ///
    /// A description of the first invalid rank.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let rank = |text: &str| match text.trim().parse::<u32>() {
            Ok(rank) if Rank::new(rank).is_valid() => Ok(rank),
            // The Standard reserves these values, for example `PMIX_RANK_WILDCARD`.
            Ok(rank) => Err(format!(
                "{rank} is not a valid rank: the largest rank is {}",
                Rank::MAX_VALID
            )),
            Err(_) => Err(format!(
                "{text:?} is not a rank; expected numbers and ranges, such as 0,2-4"
            )),
        };
        let range = |range: &str| match range.split_once('-') {
            Some((first, last)) => Ok((rank(first)?, rank(last)?)),
            None => rank(range).map(|rank| (rank, rank)),
        };
        let ranks: Result<Vec<_>, String> = text.split(',').map(range).collect();
        let mut ranks = ranks?;
        ranks.sort_unstable();
        Ok(Self(ranks))
    }

    /// Parses ranks for a request that names each process.
    ///
    /// # Errors
    ///
    /// As [`parse`](Self::parse), and if there are more than [`MOST`] ranks or a range is reversed.
    pub(crate) fn parse_few(text: &str) -> Result<Self, String> {
        let ranks = Self::parse(text)?;
        let count = |(first, last): &(u32, u32)| u64::from(last.saturating_sub(*first)) + 1;
        if let Some((first, last)) = ranks.0.iter().find(|(first, last)| first > last) {
            return Err(format!(
                "invalid range {first}-{last}: its start is above its end, expected the smaller number first"
            ));
        }
        match ranks.0.iter().map(count).fold(0, u64::saturating_add) {
            number if number > MOST => {
                Err(format!("{number} ranks given, at most {MOST} are possible"))
            }
            _ => Ok(ranks),
        }
    }

    /// Returns the processes with these ranks, each once, or the wildcard of the job for `None`.
    pub(crate) fn procs(ranks: Option<&Self>, nspace: &str) -> Vec<Proc<'static>> {
        let nspace = Nspace::new(nspace.to_owned()).to_shared();
        let Some(Self(ranges)) = ranks else {
            return vec![Proc::new(nspace, Rank::WILDCARD)];
        };
        let ranks = ranges.iter().flat_map(|(first, last)| *first..=*last);
        let mut ranks: Vec<_> = ranks.collect();
        ranks.sort_unstable();
        ranks.dedup();
        let proc = |rank| Proc::new(nspace.clone(), Rank::new(rank));
        ranks.into_iter().map(proc).collect()
    }
}

/// Output formats of `convert`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Target {
    /// The expanded list on one line.
    List,
    /// A bracket list for Slurm; ranges of ranks for a process map.
    Slurm,
    /// A bracket list for ClusterShell: any number of brackets, text after them, steps.
    Clustershell,
    /// The range notation that every PMIx library reads.
    Pmix,
    /// A JSON array.
    Json,
    /// One name or node on each line.
    Lines,
    /// A hostfile: one node on each line, with `slots=N` if the input has slots or repeats a name.
    Hostfile,
}

/// Arguments of `publish`.
#[derive(Args)]
pub(crate) struct Publish {
    /// The data to publish: keys, each with a text.
    #[arg(value_name = "KEY=TEXT", required = true)]
    pub(crate) data: Vec<String>,
    /// The processes of this user that can look it up.
    #[arg(long, value_enum, default_value_t = SeenBy::Session, value_name = "RANGE")]
    pub(crate) range: SeenBy,
    /// The lifetime of the data.
    #[arg(long, value_enum, default_value_t = KeepFor::Session, value_name = "TIME")]
    pub(crate) keep: KeepFor,
    #[command(flatten)]
    pub(crate) attach: Attach,
}

/// Arguments of `lookup`.
#[derive(Args)]
pub(crate) struct Lookup {
    /// The keys.
    #[arg(value_name = "KEY", required = true)]
    pub(crate) keys: Vec<String>,
    /// Wait up to this time for keys that are not published yet.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) wait: Option<Duration>,
    #[command(flatten)]
    pub(crate) attach: Attach,
}

/// Processes that can look up published data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SeenBy {
    /// Processes of this node.
    Local,
    /// Processes of the session.
    Session,
    /// All processes of the user.
    Global,
}

/// Lifetimes of published data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeepFor {
    /// Until the first lookup.
    FirstRead,
    /// Until the session ends.
    Session,
    /// Until the server ends.
    Indef,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_numbers_and_ranges() {
        assert_eq!(
            Ranks::parse("4-5, 0,2").unwrap().0,
            [(0, 0), (2, 2), (4, 5)]
        );
        for (text, why) in [
            ("x", "is not a rank"),
            ("1,,2", "is not a rank"),
            ("3-1", "invalid range 3-1"),
            ("0-4294967245", "at most 65536"),
            ("4294967246", "the largest rank is 4294967245"),
            ("0,4294967294", "the largest rank is 4294967245"),
        ] {
            let error = Ranks::parse_few(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        let ranks = Ranks::parse_few("0-2,1-2").unwrap();
        let procs = Ranks::procs(Some(&ranks), "job");
        let ranks: Vec<_> = procs.iter().map(|proc| proc.rank.as_raw()).collect();
        assert_eq!(ranks, [0, 1, 2]);
        assert_eq!(Ranks::procs(None, "job")[0].rank, Rank::WILDCARD);
    }
}
