// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arguments of `pmix run`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, ValueEnum};
use pmix_launch::{MapBy, ProcessSet};
use pmix_topology::{Cpuset, Level};
use pmix_types::Nspace;

use super::Ranks;
use super::layout::LayoutArgs;

/// Arguments of `run`.
#[derive(Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) app: AppArgs,
    /// The nodes of a larger job, of which only the processes of this node are started: anything
    /// that a map command takes as one argument.
    #[arg(long, value_name = "MAP", help_heading = "Placement")]
    pub(crate) nodes: Option<OsString>,
    /// The ranks on each of them.
    #[arg(
        long,
        value_name = "MAP",
        requires = "nodes",
        help_heading = "Placement"
    )]
    pub(crate) procs: Option<OsString>,
    #[command(flatten, next_help_heading = "Placement")]
    pub(crate) layout: LayoutArgs,
    /// What this node is called in the maps, if not as the system has it.
    #[arg(long, value_name = "NAME", help_heading = "Placement")]
    pub(crate) node_name: Option<String>,
    /// How processes are dealt out to the parts of the node: PART in turns, `slot:pe=N` with N cores
    /// each, or `ppr:N:PART` with N on each part; PART is slot, node, package, numa, l3cache, l2cache,
    /// l1cache, core or hwthread.
    #[arg(
        long,
        default_value = "slot",
        value_name = "PART",
        value_parser = MapByArg::parse,
        help_heading = "Placement"
    )]
    pub(crate) map_by: MapByArg,
    /// How many cores each process has for its threads.
    #[arg(
        long,
        value_name = "N",
        aliases = ["cpus-per-task", "cpus-per-proc"],
        value_parser = clap::value_parser!(u32).range(1..),
        help_heading = "Placement"
    )]
    pub(crate) cpus_per_rank: Option<u32>,
    /// Deal out these processors alone, for example 0-3,8.
    #[arg(long, value_name = "LIST", alias = "cpu-list", value_parser = cpus, help_heading = "Placement")]
    pub(crate) cpu_set: Option<Cpuset>,
    /// Say on standard error, before processes start, where each of them runs.
    #[arg(long, help_heading = "Placement")]
    pub(crate) report_bindings: bool,
    #[command(flatten)]
    pub(crate) habits: Habits,
    /// What each process is confined to; by default what --map-by names, if that is part of a node.
    #[arg(long, value_enum, value_name = "PART", help_heading = "Placement")]
    pub(crate) bind_to: Option<BindTo>,
    /// Put the job, the rank and the stream in front of each line of output.
    #[arg(short = 'l', long, visible_alias = "label", help_heading = "Output")]
    pub(crate) tag_output: bool,
    /// Keep each piece of a line until the line ends, of one process too. Without this, lines of several
    /// processes are whole, but a piece that nothing follows for a second goes out, so that prompts are seen.
    #[arg(long, conflicts_with = "tag_output", help_heading = "Output")]
    pub(crate) whole_lines: bool,
    /// Let processes write to the launcher's own streams themselves, though their lines may then stand in each
    /// other.
    #[arg(long, conflicts_with_all = ["tag_output", "whole_lines"], help_heading = "Output")]
    pub(crate) no_whole_lines: bool,
    /// Have each process write to files of its own: DIR/rank.N.stdout and DIR/rank.N.stderr. With
    /// --tag-output or --whole-lines, a copy goes where output went without it.
    #[arg(
        long,
        value_name = "DIR",
        alias = "output-filename",
        help_heading = "Output"
    )]
    pub(crate) output_dir: Option<PathBuf>,
    /// What the files of --output-dir are called, before .stdout and .stderr: %r is the rank, %n the
    /// nspace, %h the name of this node, %% a percent sign.
    #[arg(
        long,
        value_name = "PATTERN",
        requires = "output_dir",
        help_heading = "Output"
    )]
    pub(crate) output_name: Option<OsString>,
    /// Copy to the launcher's own streams what goes to the files of --output-dir.
    #[arg(long, requires = "output_dir", help_heading = "Output")]
    pub(crate) copy_output: bool,
    /// Have standard error go where standard output goes.
    #[arg(long, alias = "merge-stderr-to-stdout", help_heading = "Output")]
    pub(crate) merge_output: bool,
    /// Let tools and processes pull the output of others and push the input of rank 0, over PMIx:
    /// output passes through the launcher too, and rank 0 reads what is pushed and nothing else.
    #[arg(long, help_heading = "Output")]
    pub(crate) forward_io: bool,
    /// Say on standard error where each process runs before it does, and at the end how long it ran and
    /// how it ended, and which groups were not taken apart.
    #[arg(long, help_heading = "Output")]
    pub(crate) report: bool,
    /// Write every message that passes between the processes and the server into this file, in the
    /// form of `pmix wire decode --message`.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) trace: Option<PathBuf>,
    /// End the job after this time, in seconds.
    #[arg(long, value_name = "SECONDS", value_parser = limit, help_heading = "Ending")]
    pub(crate) timeout: Option<Duration>,
    /// How long processes may take to end before they are killed, in seconds.
    #[arg(
        long,
        value_name = "SECONDS",
        value_parser = seconds,
        default_value = "2",
        help_heading = "Ending"
    )]
    pub(crate) grace: Duration,
    /// Let the others go on when a process fails.
    #[arg(long, help_heading = "Ending")]
    pub(crate) keep_going: bool,
    /// Start each process that ends badly again, so often at most.
    #[arg(long, value_name = "N", default_value = "0", help_heading = "Ending")]
    pub(crate) max_restarts: u32,
    /// The largest number of processes in spawned jobs (PMIx_Spawn, MPI_Comm_spawn) at one time; a job
    /// counts until its last process has ended and its output is closed; 0 refuses every spawn.
    #[arg(long, value_name = "N", default_value = "1024")]
    pub(crate) max_spawned: u32,
    /// Which rank reads standard input, or none.
    #[arg(long, value_name = "RANK", default_value = "0", value_parser = StdinArg::parse)]
    pub(crate) stdin: StdinArg,
    /// A name for some of the processes, which they find by PMIx_Query_info.
    #[arg(long = "pset", value_name = "NAME=RANKS", value_parser = process_set)]
    pub(crate) process_sets: Vec<ProcessSet>,
    /// Leave out the variables by which scripts find rank and size as under mpirun
    /// (OMPI_COMM_WORLD_RANK and the like).
    #[arg(long)]
    pub(crate) no_compat_env: bool,
    /// What the job is called; made of the node and the launcher's process number by default.
    #[arg(long, value_name = "NAME", value_parser = nspace)]
    pub(crate) nspace: Option<String>,
    /// Let tools find this launcher's server as that of the system (PMIX_CONNECT_TO_SYSTEM), of which a
    /// node has one.
    #[arg(long)]
    pub(crate) system_server: bool,
    /// Stop each process before the first instruction of its program, until `pmix release` or a debugger
    /// continues it.
    #[arg(long, help_heading = "Debugging")]
    pub(crate) stop_on_exec: bool,
    /// Have each process wait in PMIx_Init for a debugger, until `pmix release` or the debugger lets it go on.
    #[arg(long, help_heading = "Debugging")]
    pub(crate) stop_in_init: bool,
    /// Tell programs to stop for a debugger where they choose; those that know of it do, and say so.
    #[arg(long, help_heading = "Debugging")]
    pub(crate) stop_in_app: bool,
}

/// What is said of one application; those that follow a `:` take these options only.
#[derive(Args)]
pub(crate) struct AppArgs {
    /// How many processes to start; 1, or as many as --procs has.
    #[arg(
        short,
        long = "num-procs",
        aliases = ["np", "ntasks"],
        value_name = "N",
        value_parser = count
    )]
    pub(crate) num_procs: Option<u32>,
    /// Set a variable for the processes, or pass on one that would be held back; PREFIX* passes
    /// all that begin so.
    #[arg(short = 'x', long = "export", value_name = "VAR[=VALUE]")]
    pub(crate) exports: Vec<OsString>,
    /// Set a variable, as other launchers have it.
    #[arg(long, num_args = 2, value_names = ["NAME", "VALUE"], hide = true)]
    pub(crate) genv: Vec<OsString>,
    /// Start in this directory.
    #[arg(short = 'D', long, value_name = "DIR", aliases = ["wd", "chdir"])]
    pub(crate) wdir: Option<PathBuf>,
    /// Nodes to start on, as mpirun has them: this one has to be among them.
    #[arg(long, value_name = "NODES", help_heading = "Placement")]
    pub(crate) host: Option<String>,
    /// A file of nodes, as mpirun has them: this one has to be among them.
    #[arg(long, hide = true, aliases = ["machinefile"], value_name = "FILE")]
    pub(crate) hostfile: Option<PathBuf>,
    /// Other launchers mean different things by it.
    #[arg(short = 'c', hide = true, value_parser = ambiguous)]
    c: Option<String>,
    /// As above.
    #[arg(short = 'N', hide = true, value_parser = nodes_or_each)]
    number: Option<String>,
    /// The program and its arguments; after ` : ` another application, with options of its own.
    #[arg(
        value_name = "PROGRAM [ARG]...",
        required = true,
        num_args = 1..,
        trailing_var_arg = true
    )]
    pub(crate) command: Vec<OsString>,
}

/// The words behind a `:`, read as those in front of it.
#[derive(Parser)]
#[command(name = "pmix run … :", no_binary_name = true)]
pub(crate) struct NextApp {
    #[command(flatten)]
    pub(crate) app: AppArgs,
    /// Parameters for the processes of this application.
    #[arg(long, num_args = 2, value_names = ["NAME", "VALUE"], allow_hyphen_values = true)]
    pub(crate) mca: Vec<String>,
}

/// A part of the node, for `--map-by`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// One core after the other.
    Slot,
    /// The node as a whole.
    Node,
    /// Packages in turns.
    #[value(alias = "socket")]
    Package,
    /// Nodes of memory in turns.
    Numa,
    /// Level 3 caches in turns.
    L3cache,
    /// Level 2 caches in turns.
    L2cache,
    /// Level 1 caches in turns.
    L1cache,
    /// Cores in turns.
    Core,
    /// Hardware threads in turns.
    Hwthread,
}

/// What a process is confined to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BindTo {
    /// Nothing.
    None,
    /// A package.
    #[value(alias = "socket")]
    Package,
    /// A node of memory.
    Numa,
    /// What shares a level 3 cache.
    L3cache,
    /// What shares a level 2 cache.
    L2cache,
    /// What shares a level 1 cache.
    L1cache,
    /// A core.
    Core,
    /// A hardware thread.
    Hwthread,
}

impl Part {
    /// What the launcher calls it.
    pub(crate) fn map_by(self) -> MapBy {
        let level = match self {
            Self::Slot => return MapBy::Slot,
            Self::Node => Level::Node,
            Self::Package => Level::Package,
            Self::Numa => Level::Numa,
            Self::L3cache => Level::L3Cache,
            Self::L2cache => Level::L2Cache,
            Self::L1cache => Level::L1Cache,
            Self::Core => Level::Core,
            Self::Hwthread => Level::HwThread,
        };
        MapBy::Level(level)
    }
}

impl BindTo {
    /// What the launcher calls it.
    pub(crate) fn level(self) -> Option<Level> {
        match self {
            Self::None => None,
            Self::Package => Some(Level::Package),
            Self::Numa => Some(Level::Numa),
            Self::L3cache => Some(Level::L3Cache),
            Self::L2cache => Some(Level::L2Cache),
            Self::L1cache => Some(Level::L1Cache),
            Self::Core => Some(Level::Core),
            Self::Hwthread => Some(Level::HwThread),
        }
    }
}

/// A process set: a name, and ranks such as `0,2-4`.
fn process_set(text: &str) -> Result<ProcessSet, String> {
    let (name, ranks) = text
        .rsplit_once('=')
        .ok_or("NAME=RANKS is expected, such as even=0,2,4-6")?;
    Ok(ProcessSet {
        name: name.to_owned(),
        ranks: Ranks::parse(ranks)?.0,
    })
}

/// What users of other launchers type: taken where it changes nothing here, or refused with a word on
/// what to say instead.
#[derive(Args)]
pub(crate) struct Habits {
    /// Processes may outnumber processors whether this is given or not.
    #[arg(long, hide = true)]
    pub(crate) oversubscribe: bool,
    /// Root may run jobs whether this is given or not.
    #[arg(long, hide = true)]
    allow_run_as_root: bool,
    /// Ranks are numbered in the order in which they are dealt out.
    #[arg(long, hide = true, value_parser = rank_by)]
    rank_by: Option<String>,
    /// Where ranks run and what they are bound to.
    #[arg(long, hide = true, value_delimiter = ',', value_parser = display)]
    pub(crate) display: Vec<String>,
}

fn ambiguous(_: &str) -> Result<String, String> {
    let here = "-n N says how many processes, --cpus-per-rank N how many cores each has";
    Err(format!(
        "mpirun and srun mean different things by -c: {here}"
    ))
}

fn nodes_or_each(_: &str) -> Result<String, String> {
    let here = "-n N says how many processes there are, on this node";
    Err(format!(
        "srun means nodes by -N, mpirun processes of each node: {here}"
    ))
}

/// The name of a job: it also stands in that of its server, in files and in messages.
fn nspace(word: &str) -> Result<String, String> {
    let most = Nspace::MAX_LEN - ".server".len();
    let legal = |byte: u8| byte.is_ascii_graphic() && !b";/".contains(&byte);
    match !word.is_empty() && word.len() <= most && word.bytes().all(legal) {
        true => Ok(word.to_owned()),
        false => Err(format!(
            "a job is called by 1 to {most} printable characters without blanks, ; and /"
        )),
    }
}

fn rank_by(word: &str) -> Result<String, String> {
    match word {
        "slot" | "fill" => Ok(word.to_owned()),
        _ => Err("ranks are numbered in the order in which --map-by deals them out".to_owned()),
    }
}

fn display(word: &str) -> Result<String, String> {
    match word {
        "map" | "map-devel" | "bind" | "bindings" | "allocation" | "topo" => Ok(word.to_owned()),
        _ => Err("map and bind show where processes run".to_owned()),
    }
}

fn cpus(word: &str) -> Result<Cpuset, String> {
    let cpus = Cpuset::parse(word).ok().filter(|cpus| !cpus.is_empty());
    cpus.ok_or_else(|| "processors are numbers and ranges, as in 0-3,8".to_owned())
}

/// Which rank reads standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StdinArg(pub(crate) Option<u32>);

impl StdinArg {
    fn parse(word: &str) -> Result<Self, String> {
        match word {
            "none" => Ok(Self(None)),
            "all" => Err("one process reads it; others can be sent a file each".to_owned()),
            rank => {
                let rank = rank.parse().map_err(|_| "expected a rank or none");
                Ok(Self(Some(rank?)))
            }
        }
    }
}

/// The argument of `--map-by`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MapByArg {
    pub(crate) part: Part,
    /// How many cores each process has (`pe=N`).
    pub(crate) cores_each: Option<u32>,
    /// How many processes each part has (`ppr:N:PART`).
    pub(crate) procs_each: Option<u32>,
    /// Whether parts may have more processes than that (`oversubscribe`).
    pub(crate) oversubscribe: bool,
}

impl MapByArg {
    fn parse(word: &str) -> Result<Self, String> {
        let known = |word: &str| {
            let part = Part::from_str(word, true);
            part.map_err(|_| format!("{word:?} is no part of a node; slot, core or package are"))
        };
        let number = |word: &str| {
            let number = word.parse::<u32>().ok().filter(|number| *number > 0);
            number.ok_or_else(|| format!("expected a number, not {word:?}"))
        };
        let mut words = word.split(':');
        let first = words.next().unwrap_or_default();
        let mut found = Self {
            part: Part::Slot,
            cores_each: None,
            procs_each: None,
            oversubscribe: false,
        };
        if first.eq_ignore_ascii_case("ppr") {
            let (Some(count), Some(part)) = (words.next(), words.next()) else {
                return Err("expected ppr:N:PART, as in ppr:2:package".to_owned());
            };
            found.procs_each = Some(number(count)?);
            found.part = known(part)?;
        } else {
            found.part = known(first)?;
        }
        for word in words {
            match word.split_once('=') {
                Some((name, count)) if name.eq_ignore_ascii_case("pe") => {
                    found.cores_each = Some(number(count)?);
                }
                _ if word.eq_ignore_ascii_case("oversubscribe") => found.oversubscribe = true,
                _ => return Err(format!("{word:?} is not known; pe=N is")),
            }
        }
        Ok(found)
    }
}

/// How many processes.
fn count(word: &str) -> Result<u32, String> {
    word.parse().map_err(|_| match word {
        // What is left of `-np 4`.
        "p" => "what others call -np is -n here, as in -n 4".to_owned(),
        _ => "expected a number, as in -n 4".to_owned(),
    })
}

/// A time in seconds, with a fraction or not.
fn seconds(word: &str) -> Result<Duration, String> {
    let seconds: f64 = word.parse().map_err(|_| "this is no number".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|_| "this is no time".to_owned())
}

/// A time that a job may take.
fn limit(word: &str) -> Result<Duration, String> {
    let limit = seconds(word)?;
    match limit.is_zero() {
        true => Err(
            "no job ends in no time: give a number above 0, or leave --timeout out for no limit"
                .to_owned(),
        ),
        false => Ok(limit),
    }
}
