// SPDX-License-Identifier: MIT OR Apache-2.0
//! The description of a job to start.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pmix_mca::Params;
use pmix_types::Rank;
use preg_core::Preg;
use serde::{Deserialize, Serialize};

use crate::division::{Division, NodeSlots};
use crate::environment::Export;
use crate::{DebugStops, Error, FilePattern, Layout, Policy};
use pmix_topology::Cpuset;

/// The description of a job to start.
#[derive(Clone)]
pub struct Plan {
    /// The name of the job.
    pub nspace: String,
    /// Its applications; ranks are assigned to them in this order.
    pub apps: Vec<App>,
    /// The distribution of its processes over nodes.
    pub layout: Layout,
    /// The part that this launcher has in a session of several nodes.
    pub part: Part,
    /// The policy for placing its processes on processors.
    pub policy: Policy,
    /// The processors to use, of those that are available to this process; all if `None`.
    pub cpus: Option<Cpuset>,
    /// `true` if processes also get rank and size in the variables of `mpirun` (`OMPI_COMM_WORLD_RANK` and the like),
    /// which scripts that wrap programs read.
    pub compat_env: bool,
    /// The `libpmix.so.2` for programs that load the library that a variable names: Intel MPI (`I_MPI_PMI_LIBRARY`).
    /// It is a path, or a name that the loader searches for; unused without `compat_env`.
    pub client_library: Option<OsString>,
    /// The interfaces that are offered to its processes.
    pub interfaces: Interfaces,
    /// The rank that reads standard input, if any.
    pub stdin_rank: Option<Rank>,
    /// `true` if the launcher prints to standard error, before processes start, the placement of each.
    pub announce: bool,
    /// The reports about a job that makes no progress, and about its use of resources.
    pub diagnosis: Diagnosis,
    /// Names for some of the processes, which processes can query.
    pub process_sets: Vec<ProcessSet>,
    /// The points at which processes stop for a debugger.
    pub stops: DebugStops,
    /// The environment that children inherit, without the variables of [another launcher](crate::Export).
    pub environment: Arc<[(OsString, OsString)]>,
    /// The encoders of maps.
    pub preg: Arc<Preg>,
    /// The MCA parameters of the server.
    pub params: Params,
    /// The directory in which the session directory is created.
    pub tmpdir: PathBuf,
    /// The directory in which tools find the server of this launcher as the system server
    /// (`PMIX_SERVER_SYSTEM_SUPPORT`), of which a node has at most one; `None` not to be the system server.
    pub system_server: Option<PathBuf>,
    /// The socket of the daemon of the system log, to which processes may log; usually `/dev/log`.
    pub syslog: PathBuf,
    /// The destination and form of the output.
    pub output: Output,
    /// The time after which the job is terminated.
    pub timeout: Option<Duration>,
    /// The time between the request to terminate and the kill.
    pub grace: Duration,
    /// `true` if the other processes continue after one has failed.
    pub keep_going: bool,
    /// `true` if every child of this process belongs to the job and is terminated with it. Processes that left their
    /// process group and lost their parent are then adopted. Do not set it in a process that has other children.
    pub adopt: bool,
    /// `true` if tools and processes may pull the output and push input to rank 0. Output then passes through the
    /// launcher, and rank 0 reads only pushed input.
    pub forward_io: bool,
    /// The largest number of processes in spawned jobs (`PMIx_Spawn`, `MPI_Comm_spawn`) at one time. A job counts
    /// until its last process has ended and its output is closed. 0 refuses every spawn.
    pub max_spawned: u32,
    /// The largest number of spawns between the first job and a spawned job: 1 if only the first job may spawn. A
    /// program that takes itself for the parent would otherwise spawn itself without end.
    pub max_spawn_depth: u32,
    /// The largest number of restarts of each process that fails, as `PMIX_MAX_RESTARTS` sets it for a spawned job; 0
    /// for none.
    pub max_restarts: u32,
    /// The command of a process that calls [`end_with_launcher`](crate::end_with_launcher) on its standard input. It
    /// terminates the processes if this one is killed. Without it they continue.
    pub watcher: Option<Vec<OsString>>,
    /// The command of a process that calls [`exec_wrapped`](crate::exec_wrapped) with the words that are appended to
    /// the command. Without it no process can be stopped on exec, and none has a terminal as standard input.
    pub wrapper: Option<Vec<OsString>>,
}

/// The part of a launcher in a session of several nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// It starts processes on its own node only. Other nodes of the layout are described to the processes.
    #[default]
    Alone,
    /// It starts agents on the other nodes of the layout and controls them.
    Controller(Agents),
    /// It is the agent of a node, with the session of its controller.
    Member {
        /// The number of the session (`PMIX_SESSION_ID`).
        session: u32,
        /// The number of the node in the session, from 1.
        node: u32,
    },
}

/// The start of agents on other nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agents {
    /// The command that executes a command on a node. A word `{node}` is replaced by the name of the node; without one,
    /// the name is the last word. The words of [`command`](Self::command) follow.
    pub reach: Vec<OsString>,
    /// The command of a process that calls [`serve_as_member`](crate::serve_as_member).
    pub command: Vec<OsString>,
    /// The time after which a node that has not answered fails the job.
    pub start_timeout: Duration,
    /// All nodes on which jobs of the session may have processes, in their order. This node has the name that it has in
    /// the layout of the first job.
    pub nodes: Vec<NodeSlots>,
    /// The division of the processes of jobs that do not select another one.
    pub division: Division,
}

/// The reports about a job that makes no progress, and about its use of resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Diagnosis {
    /// The time after which the launcher reports, once, a collective for which ranks are missing; `None` for never.
    pub notice_after: Option<Duration>,
    /// `true` if the reports after SIGQUIT and at the time limit have the stacks of the missing processes.
    pub stacks: bool,
    /// `true` if the outcome has the processor time and the memory of each process.
    pub measures: bool,
    /// `true` if the outcome has the fences.
    pub fences: bool,
}

/// The interfaces by which processes find each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Interfaces {
    /// PMIx, PMI-1 and PMI-2: each library uses the one that it was built with.
    #[default]
    All,
    /// Only PMIx.
    Pmix,
    /// PMI without PMIx, and PMI-1 for MPICH.
    Pmi1,
    /// PMI without PMIx, and PMI-2 for MPICH.
    Pmi2,
}

impl Interfaces {
    /// Returns `true` if PMI-1 or PMI-2 is offered.
    pub(crate) const fn have_pmi(self) -> bool {
        !matches!(self, Self::Pmix)
    }

    /// Returns `true` if PMIx is offered.
    pub(crate) const fn have_pmix(self) -> bool {
        matches!(self, Self::All | Self::Pmix)
    }
}

/// A name for some of the processes of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessSet {
    /// The name.
    pub name: String,
    /// The ranks, as inclusive ranges.
    pub ranks: Vec<(u32, u32)>,
}

impl ProcessSet {
    /// Returns the ranks one by one.
    pub(crate) fn ranks(&self) -> impl Iterator<Item = Rank> {
        let ranges = self.ranks.iter();
        ranges.flat_map(|(first, last)| (*first..=*last).map(Rank::new))
    }

    /// Checks that the set has a valid name and only ranks of the job.
    fn check(&self, num_procs: u64) -> Result<(), Error> {
        let name = &self.name;
        if name.is_empty() || name.contains(',') {
            let message = format!("invalid name of a process set: {name:?}");
            return Err(Error::request(message));
        }
        let mut next = 0;
        for (first, last) in &self.ranks {
            if u64::from(*last) >= num_procs {
                return Err(Error::request(format!(
                    "process set {name} has rank {last}, but the last rank of the job is {}",
                    num_procs.saturating_sub(1)
                )));
            }
            if u64::from(*first) < next || first > last {
                return Err(Error::request(format!(
                    "the ranks of process set {name} are not in ascending order at {first}"
                )));
            }
            next = u64::from(*last) + 1;
        }
        match self.ranks.is_empty() {
            true => Err(Error::request(format!("process set {name} has no ranks"))),
            false => Ok(()),
        }
    }
}

/// An application: a program, its arguments, and its number of processes.
#[derive(Clone, Debug)]
pub struct App {
    /// The program: a path, or a name to search for in `PATH`.
    pub program: OsString,
    /// Its arguments, without the program itself.
    pub args: Vec<OsString>,
    /// The number of processes on all nodes.
    pub num_procs: u32,
    /// The working directory; that of the launcher if `None`.
    pub wdir: Option<PathBuf>,
    /// Changes to its environment.
    pub exports: Vec<Export>,
}

/// The destination and form of the output of processes. By default it goes to the streams of the launcher.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// The form in which output reaches the streams of the launcher.
    pub form: OutputForm,
    /// `true` if standard error goes to the destination of standard output.
    pub is_merged: bool,
    /// The files for the output, if any.
    pub files: Option<OutputFiles>,
    /// The processes whose standard output is a pseudo terminal.
    pub pseudo_terminals: PseudoTerminals,
}

/// The processes whose standard output is a pseudo terminal.
///
/// The C library and the run-time systems of Fortran and Python write each line to a terminal at once, and keep output
/// for a file or a pipe until they have some KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PseudoTerminals {
    /// All, if the standard output of the launcher is a terminal, and otherwise none.
    #[default]
    Inherited,
    /// All.
    All,
    /// None.
    None,
}

/// The form in which output reaches the streams of the launcher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputForm {
    /// Whole lines if more than one process of the job runs here. A partial line is written after a second, on
    /// a terminal after a tenth of a second. A single process writes directly to the streams of the launcher. So do
    /// processes for whose pipes there are not enough descriptors, and those whose output goes to a null device.
    #[default]
    Unmixed,
    /// Bytes as they arrive.
    Plain,
    /// Whole lines, so that lines of different processes never mix.
    Lines,
    /// Whole lines, each prefixed with its process.
    Tagged,
    /// Whole lines, each prefixed with its process, node and process id.
    Detailed,
}

/// The files for the output of each process, which contain its output without tags.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputFiles {
    /// The directory, which is created if it is missing.
    pub dir: PathBuf,
    /// The names of the files in it.
    pub name: FilePattern,
    /// `true` if the streams of the launcher also get the output.
    pub is_copied: bool,
}

impl App {
    /// Returns the program and its arguments.
    pub(crate) fn argv(&self) -> impl Iterator<Item = &OsStr> {
        std::iter::once(&self.program)
            .chain(&self.args)
            .map(OsString::as_os_str)
    }
}

impl Plan {
    /// Returns the index of the application of a rank.
    pub(crate) fn app_of(&self, rank: u32) -> Option<usize> {
        let mut end = 0u64;
        self.apps.iter().position(|app| {
            end += u64::from(app.num_procs);
            u64::from(rank) < end
        })
    }

    /// Returns `true` if the launcher starts processes on other nodes.
    pub(crate) fn has_agents(&self) -> bool {
        matches!(self.part, Part::Controller(_))
    }

    /// Returns the number of the processes that the launcher and its agents start.
    pub(crate) fn num_started(&self) -> usize {
        match self.part {
            Part::Controller(_) => usize::try_from(self.layout.num_procs()).unwrap_or(usize::MAX),
            Part::Alone | Part::Member { .. } => self.layout.here().len(),
        }
    }

    /// Checks that a job on several nodes requires nothing that only a job on one node has.
    fn check_for_several_nodes(&self) -> Result<(), Error> {
        let lacking = match () {
            () if !self.stops.is_empty() => "stopping processes for a debugger",
            () if self.max_restarts > 0 => "restarting processes (--max-restarts)",
            () => return Ok(()),
        };
        Err(Error::request(format!(
            "{lacking} is not available for a job on several nodes: name only this node (--host localhost)"
        )))
    }

    /// Checks that the parts of the plan are consistent with each other and with the layout.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let asked: u64 = self.apps.iter().map(|app| u64::from(app.num_procs)).sum();
        let placed = self.layout.num_procs();
        if asked != placed {
            return Err(Error::request(format!(
                "the applications have {asked} processes, but the process map has {placed}"
            )));
        }
        for (place, set) in self.process_sets.iter().enumerate() {
            set.check(asked)?;
            let mut before = self.process_sets.iter().take(place);
            if before.any(|other| other.name == set.name) {
                let name = &set.name;
                return Err(Error::request(format!(
                    "process set {name} is defined twice"
                )));
            }
        }
        if let Some(rank) = self.stdin_rank
            && u64::from(rank.as_raw()) >= asked
        {
            return Err(Error::request(format!(
                "standard input is assigned to rank {rank}, but the last rank of the job is {}",
                asked.saturating_sub(1)
            )));
        }
        if self.wrapper.is_none() && !self.stops.on_exec.is_empty() {
            return Err(Error::request(
                "stopping processes on exec is not supported on this system",
            ));
        }
        let num_here = self.layout.here().len();
        if self.has_agents() && u64::try_from(num_here) != Ok(self.layout.num_procs()) {
            self.check_for_several_nodes()?;
        }
        if let Some(rank) = self.stops.stranger(self.layout.here()) {
            return Err(Error::request(format!(
                "rank {rank} cannot stop for a debugger: it does not run on this node"
            )));
        }
        // A rank beyond those of the applications has no program.
        match self.layout.here().last() {
            Some(rank) if self.app_of(rank.as_raw()).is_none() => Err(Error::request(format!(
                "rank {rank} exceeds the {asked} processes of the applications"
            ))),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
impl Plan {
    /// Returns the plan of a job on this node for a test: one application of `true` for each number of processes.
    pub(crate) fn of_test(num_procs: &[u32]) -> Self {
        let params = Params::default();
        let app = |num_procs: &u32| App {
            program: "true".into(),
            args: Vec::new(),
            num_procs: *num_procs,
            wdir: None,
            exports: Vec::new(),
        };
        Self {
            nspace: "job@1".to_owned(),
            layout: Layout::on_one_node(b"n1", num_procs.iter().sum()).unwrap(),
            part: Part::Alone,
            apps: num_procs.iter().map(app).collect(),
            policy: Policy::default(),
            environment: vec![("PATH".into(), "/usr/bin:/bin".into())].into(),
            preg: Arc::new(pmix_builtin::open_preg(&params).unwrap()),
            params,
            tmpdir: "/tmp".into(),
            syslog: "/dev/log".into(),
            output: Output::default(),
            timeout: None,
            grace: Duration::from_secs(2),
            keep_going: false,
            adopt: false,
            forward_io: false,
            max_spawned: 16,
            max_spawn_depth: 4,
            max_restarts: 0,
            system_server: None,
            watcher: None,
            wrapper: None,
            cpus: None,
            compat_env: true,
            client_library: None,
            interfaces: Interfaces::default(),
            stdin_rank: None,
            announce: false,
            diagnosis: Diagnosis::default(),
            process_sets: Vec::new(),
            stops: DebugStops::default(),
        }
    }
}
