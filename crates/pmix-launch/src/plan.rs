// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is to be started, and how.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pmix_mca::Params;
use pmix_types::Rank;
use preg_core::Preg;

use crate::environment::Export;
use crate::{DebugStops, Error, FilePattern, Layout, Policy};
use pmix_topology::Cpuset;

/// A job to start.
#[derive(Clone)]
pub struct Plan {
    /// The name of the job.
    pub nspace: String,
    /// Its applications; ranks are numbered through them in this order.
    pub apps: Vec<App>,
    /// Which process runs where.
    pub layout: Layout,
    /// Which processors each process runs on.
    pub policy: Policy,
    /// The processors that are dealt out, of those that this process may run on; all if not given.
    pub cpus: Option<Cpuset>,
    /// Whether processes also find rank and size where those of `mpirun` do
    /// (`OMPI_COMM_WORLD_RANK` and the like), which scripts around programs read.
    pub compat_env: bool,
    /// The `libpmix.so.2` for programs that are linked to none and are told by a variable which to load: Intel MPI
    /// (`I_MPI_PMI_LIBRARY`). A path, or a name that the loader looks for; unset without `compat_env`.
    pub client_library: Option<OsString>,
    /// The rank that reads standard input; none if nobody is to.
    pub stdin_rank: Option<Rank>,
    /// Whether the launcher says on standard error, before processes start, where each of them runs.
    pub announce: bool,
    /// Names for some of the processes, which these find by queries.
    pub process_sets: Vec<ProcessSet>,
    /// Where processes stop for a debugger.
    pub stops: DebugStops,
    /// The environment that children inherit, without what [another launcher](crate::Export) left.
    pub environment: Arc<[(OsString, OsString)]>,
    /// The encoders of maps.
    pub preg: Arc<Preg>,
    /// The MCA parameters of the server.
    pub params: Params,
    /// Where the directory of the session is made.
    pub tmpdir: PathBuf,
    /// The directory in which tools find the server of this launcher as that of the system
    /// (`PMIX_SERVER_SYSTEM_SUPPORT`), of which a node has one; none if it is not to be that.
    pub system_server: Option<PathBuf>,
    /// The socket of the daemon of the system log, to which processes may log; `/dev/log` where nothing
    /// else was set up.
    pub syslog: PathBuf,
    /// What becomes of the output.
    pub output: Output,
    /// The job is ended after this time.
    pub timeout: Option<Duration>,
    /// How long processes may take to end when they are asked to, before they are killed.
    pub grace: Duration,
    /// Whether the others go on when a process fails.
    pub keep_going: bool,
    /// Whether whatever becomes a child of this process belongs to the job and ends with it: what
    /// a process of the job leaves behind in a process group of its own is adopted then. Not for a
    /// process that has other children.
    pub adopt: bool,
    /// Whether the output of the processes may be pulled, and input pushed to rank 0, by tools and
    /// by processes. Output passes through the launcher then, and what is pushed is all that rank 0
    /// reads.
    pub forward_io: bool,
    /// The largest number of processes in spawned jobs (`PMIx_Spawn`, `MPI_Comm_spawn`) at one time; a job
    /// counts until its last process has ended and its output is closed. 0 refuses every spawn.
    pub max_spawned: u32,
    /// How often each process of the job that ends badly is started again, at most, as `PMIX_MAX_RESTARTS` asks
    /// for of a spawned job; 0 for never.
    pub max_restarts: u32,
    /// The command of a process that calls [`end_with_launcher`](crate::end_with_launcher) on its
    /// standard input: with it, processes end when this one is killed. Without it they go on.
    pub watcher: Option<Vec<OsString>>,
    /// The command of a process that calls [`stop_on_exec`](crate::stop_on_exec) with what stands behind it.
    /// Without it no process can be stopped on exec.
    pub stopper: Option<Vec<OsString>>,
}

/// A name for some of the processes of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessSet {
    /// The name.
    pub name: String,
    /// The ranks, as ranges of which both ends count.
    pub ranks: Vec<(u32, u32)>,
}

impl ProcessSet {
    /// The ranks one by one.
    pub(crate) fn ranks(&self) -> impl Iterator<Item = Rank> {
        let ranges = self.ranks.iter();
        ranges.flat_map(|(first, last)| (*first..=*last).map(Rank::new))
    }

    /// Whether the set has a name and processes that there are.
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

/// A program, its arguments, and how many processes run it.
#[derive(Clone, Debug)]
pub struct App {
    /// The program: a path, or a name to be searched for in `PATH`.
    pub program: OsString,
    /// Its arguments, without the program itself.
    pub args: Vec<OsString>,
    /// How many processes run it, on all nodes.
    pub num_procs: u32,
    /// The directory it starts in; that of the launcher where there is none.
    pub wdir: Option<PathBuf>,
    /// Variables of its environment.
    pub exports: Vec<Export>,
}

/// What becomes of the output of the processes. By default it goes to the streams of the launcher.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// How it goes to the streams of the launcher.
    pub form: OutputForm,
    /// Whether standard error goes where standard output goes.
    pub is_merged: bool,
    /// The files it goes to.
    pub files: Option<OutputFiles>,
}

/// How output goes to the streams of the launcher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputForm {
    /// Whole lines go out where more than one process of the job runs here, and what has no line end for a
    /// second goes out without one, on a terminal after a tenth of that. One process alone writes to the
    /// streams of the launcher itself. So do those for whose pipes there are not enough descriptors, and those
    /// whose output goes to a null device.
    #[default]
    Unmixed,
    /// Bytes go out as they come in.
    Plain,
    /// Whole lines go out, so that no line has another in it, however processes write them.
    Lines,
    /// Whole lines go out, each behind the process that wrote it.
    Tagged,
    /// Whole lines go out, each behind the process that wrote it, its node and its process id.
    Detailed,
}

/// Files for the output of each process, which hold what it wrote, without tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputFiles {
    /// The directory; it is made if it is not there.
    pub dir: PathBuf,
    /// The names of the files in it.
    pub name: FilePattern,
    /// Whether the streams of the launcher get a copy.
    pub is_copied: bool,
}

impl App {
    /// The program and its arguments.
    pub(crate) fn argv(&self) -> impl Iterator<Item = &OsStr> {
        std::iter::once(&self.program)
            .chain(&self.args)
            .map(OsString::as_os_str)
    }
}

impl Plan {
    /// The number of the application that a rank runs.
    pub(crate) fn app_of(&self, rank: u32) -> Option<usize> {
        let mut end = 0u64;
        self.apps.iter().position(|app| {
            end += u64::from(app.num_procs);
            u64::from(rank) < end
        })
    }

    /// Whether the applications have as many processes as the layout.
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
        if self.stopper.is_none() && !self.stops.on_exec.is_empty() {
            return Err(Error::request(
                "stopping processes on exec is not supported on this system",
            ));
        }
        if let Some(rank) = self.stops.stranger(self.layout.here()) {
            return Err(Error::request(format!(
                "rank {rank} cannot stop for a debugger: it does not run on this node"
            )));
        }
        // Ranks that the applications do not number have no program.
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
    /// Returns the plan of a job of this node for a test: one application of `true` for each number of processes.
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
            max_restarts: 0,
            system_server: None,
            watcher: None,
            stopper: None,
            cpus: None,
            compat_env: true,
            client_library: None,
            stdin_rank: None,
            announce: false,
            process_sets: Vec::new(),
            stops: DebugStops::default(),
        }
    }
}
