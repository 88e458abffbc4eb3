// SPDX-License-Identifier: MIT OR Apache-2.0
//! The start of processes.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command};
use std::sync::Arc;
use std::time::Instant;

use mio::unix::pipe::Receiver;
use pmix_host::forward::OutputFile;
use pmix_host::helpers::Cancel;
use pmix_pmi::MPICH_SELECTION;
use pmix_types::Rank;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::program::Search;
use super::table::Process;
use super::wrapper::{Preparations, hold, is_of_linker, linker_words};
use super::wrapper_link::{self, LauncherEnd, Step};
use crate::environment::{Environments, Variables, compat};
use crate::input::ProcessInput;
use crate::job_info::Bound;
use crate::output::{CreatedPaths, Files, Streams};
use crate::{App, Error, Interfaces, Plan};
use pmix_topology::Cpuset;

/// The start of the processes of a job, by any thread.
///
/// No code has to run in the child before the exec, so the standard library can use `posix_spawn`, which does not
/// copy this process.
pub(crate) struct Spawner {
    plan: Arc<Plan>,
    programs: Arc<Programs>,
    form: CommandForm,
    /// `true` if processes are bound to processors.
    is_bound: bool,
}

/// The programs and environments of the applications of a job, prepared once for all its processes and their
/// restarts.
#[derive(Debug)]
pub(crate) struct Programs(Vec<Prepared>);

/// The rule that makes the command line of a process from that of its application.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommandForm {
    /// The command, with arguments, that executes the application (`PMIX_FORKEXEC_AGENT`); empty to execute the
    /// application directly.
    pub(crate) agent: Vec<OsString>,
    /// `true` if the rank is appended to `argv[0]` (`PMIX_INDEX_ARGV`).
    pub(crate) has_rank: bool,
}

/// The data that all processes of an application share.
#[derive(Debug)]
struct Prepared {
    /// The file to execute: the program of the application, or that of the agent.
    program: PathBuf,
    vars: Arc<Variables>,
}

/// A process that can be started.
pub(crate) struct Ready {
    pub(crate) rank: Rank,
    pub(crate) cpus: Option<Cpuset>,
    /// Its variables, which override those of its application.
    pub(crate) vars: Vec<(OsString, OsString)>,
    /// Its standard input, unless that is its pseudo terminal.
    pub(crate) input: ProcessInput,
    pub(crate) streams: Streams,
    /// `true` if its output files are not open yet.
    pub(crate) opens_files: bool,
}

/// A running process with the launcher's ends of its streams.
pub(crate) struct Started {
    pub(crate) process: Process,
    pub(crate) input: Option<ChildStdin>,
    /// The launcher's end of the pseudo terminal that is standard input.
    pub(crate) keyboard: Option<OwnedFd>,
    pub(crate) output: Option<Receiver>,
    pub(crate) errors: Option<Receiver>,
    /// The files to which its output is copied.
    pub(crate) files: [Option<OutputFile>; 2],
}

impl Programs {
    /// Finds the programs, so that no process starts if one is missing. With an agent only the agent has to exist: it
    /// finds the program of the application itself.
    ///
    /// # Errors
    /// Returns [`Error`] if a program or a working directory is missing or unusable, if a limit is exceeded, or if
    /// the search was canceled.
    pub(crate) fn find(
        apps: &[App],
        environment: &[(OsString, OsString)],
        oversubscribed: bool,
        form: &CommandForm,
        cancel: &Cancel,
    ) -> Result<Self, Error> {
        let mut environments = Environments::new(environment, oversubscribed);
        let mut search = Search::new(cancel);
        let prepare = |app: &App| {
            let vars = environments.of(&app.exports)?;
            let wdir = app.wdir.as_deref().unwrap_or_else(|| Path::new(""));
            search.enter(wdir)?;
            let name = form.agent.first().unwrap_or(&app.program);
            let program = search.program(name, vars.get(OsStr::new("PATH")), wdir)?;
            Ok(Prepared { program, vars })
        };
        apps.iter().map(prepare).collect::<Result<_, _>>().map(Self)
    }
}

impl Spawner {
    /// Prepares the start of processes with their bindings.
    pub(crate) fn new(
        plan: Arc<Plan>,
        programs: Arc<Programs>,
        bound: &Bound,
        form: CommandForm,
    ) -> Self {
        Self {
            plan,
            programs,
            form,
            is_bound: !bound.cpus.is_empty(),
        }
    }

    /// Starts a process, after its output files were opened. The call can take as long as the disks need, so a helper
    /// thread makes it.
    pub(super) fn start(&self, ready: Ready) -> Result<Started, Error> {
        let Ready {
            rank,
            cpus,
            vars,
            input,
            mut streams,
            opens_files,
        } = ready;
        let Some(app) = self.plan.app_of(rank.as_raw()) else {
            return Err(Error::request(format!("no application has rank {rank}")));
        };
        if let Some(files) = Files::of_plan(&self.plan).filter(|_| opens_files) {
            streams.add(files.open(rank, true, &mut CreatedPaths::default())?)?;
        }
        let preparations = Preparations {
            stops: self.plan.stops.on_exec.contains(&rank),
            leads_session: streams.has_keyboard(),
        };
        // A pager can read the keyboard of a session that the process leads.
        let has_no_pager = streams.has_terminal() && !preparations.leads_session;
        let (keyboard, [output, errors], kept) = streams.split();
        // A child inherits the binding of the thread that starts it. The thread is bound only meanwhile, because it
        // starts processes of other jobs, too.
        let affinity = self.is_bound.then(CpuAffinity::begin).transpose()?;
        if let (Some(affinity), Some(cpus)) = (&affinity, &cpus) {
            affinity.confine(cpus)?;
        }
        let mut command = self.command(app, rank, &vars, preparations, has_no_pager);
        let input = keyboard.map_or(input, ProcessInput::File);
        let no_input = |e| Error::system(format!("cannot give rank {rank} its input"), e);
        let (mut input, feed) = input_of(input).map_err(no_input)?;
        let mut link = None;
        if preparations.are_needed() && self.plan.wrapper.is_some() {
            let (here, there) = wrapper_link::connect(input.as_fd()).map_err(no_input)?;
            (link, input) = (Some(here), there);
        }
        command.stdin(input).stdout(output).stderr(errors);
        let started = Instant::now();
        // The spawn waits until the kernel has executed the program, which may be on a file system that hangs.
        let cannot = |e| {
            let program = self.plan.apps[app].program.display();
            Error::program(format!("cannot run {program} as rank {rank}"), e)
        };
        let mut child = command.spawn().map_err(cannot)?;
        // The launcher would otherwise keep the socket of the wrapper open, and the wait for its end would not end.
        drop(command);
        let mut process = Process::new(rank, app, Pid::from_child(&child), cpus, started);
        process.leads_session = preparations.leads_session;
        if preparations.stops {
            // The tracer of a process is the thread that started it, so this thread has to wait for the stop.
            process.is_stopped_on_exec = hold(process.pid).map_err(|e| {
                // The process is in no table yet, so it has to be reaped here.
                let _ = child.kill().and_then(|()| child.wait());
                Error::system(format!("cannot stop rank {rank} on exec"), e)
            })?;
        }
        // A process that stopped on exec has executed its program.
        let link = link.filter(|_| !process.is_stopped_on_exec);
        let failed = match link.map_or(Ok(None), LauncherEnd::failure) {
            Ok(None) => None,
            Ok(Some(failure)) => Some(match failure.step {
                Step::Execute => cannot(failure.cause),
                Step::Prepare => {
                    Error::system(format!("cannot prepare rank {rank}"), failure.cause)
                }
            }),
            Err(e) => Some(Error::system(format!("cannot start rank {rank}"), e)),
        };
        if let Some(error) = failed {
            // The process is in no table yet, so it has to be reaped here.
            let _ = child.kill().and_then(|()| child.wait());
            return Err(error);
        }
        let (output, errors) = pipes(&mut child)
            .map_err(|e| Error::system(format!("cannot read the output of rank {rank}"), e))?;
        Ok(Started {
            process,
            input: feed,
            keyboard: kept.keyboard,
            output: kept.output.or(output),
            errors,
            files: kept.files,
        })
    }

    /// Returns the variables for scripts that wrap programs. Exports of the user override them.
    fn compat(&self, rank: Rank) -> impl Iterator<Item = (&'static str, OsString)> {
        let layout = &self.plan.layout;
        let here = layout.here();
        let local_rank = here.binary_search(&rank).unwrap_or_default();
        let places = || compat(rank.as_raw(), layout.num_procs(), local_rank, here.len());
        let has_pmix = self.plan.interfaces.have_pmix();
        let library = self.plan.client_library.clone().filter(|_| has_pmix);
        let library = library.map(|library| ("I_MPI_PMI_LIBRARY", library));
        let all = (self.plan.compat_env).then(|| places().into_iter().chain(library));
        let of_mpich = selection(self.plan.interfaces);
        all.into_iter().flatten().chain(of_mpich)
    }

    fn command(
        &self,
        app: usize,
        rank: Rank,
        vars: &[(OsString, OsString)],
        preparations: Preparations,
        has_no_pager: bool,
    ) -> Command {
        let (prepared, app) = (&self.programs.0[app], &self.plan.apps[app]);
        // The application is the last argument of an agent.
        let agent = self.form.agent.split_first();
        let mut name = agent.map_or(&app.program, |(agent, _)| agent).clone();
        if self.form.has_rank {
            name.push(format!("-{rank}"));
        }
        let wrapper = self.plan.wrapper.as_deref();
        let wrapper = wrapper.and_then(<[OsString]>::split_first);
        let wrapper = wrapper.filter(|_| preparations.are_needed());
        let mut command = match wrapper {
            Some((wrapper, words)) => {
                let mut command = Command::new(wrapper);
                command.args(words).arg(preparations.word());
                command.arg(&prepared.program).arg(name);
                command.args(linker_words(prepared.vars.iter()));
                command
            }
            _ => {
                let mut command = Command::new(&prepared.program);
                command.arg0(name);
                command
            }
        };
        if let Some((_, args)) = agent {
            command.args(args).arg(&app.program);
        }
        command
            .args(&app.args)
            // Later variables override earlier ones: exports override `compat`, and those of PMIx override both.
            .env_clear()
            .envs(self.compat(rank))
            .envs(NO_PAGER.iter().filter(|_| has_no_pager).copied())
            .envs(prepared.vars.iter())
            .envs(vars.iter().map(|(name, value)| (name, value)));
        // In a process group of its own its descendants can be signaled together with it. The leader of a group cannot
        // begin a session, and the leader of a session leads a group.
        if !preparations.leads_session {
            command.process_group(0);
        }
        if wrapper.is_some() {
            let given = prepared.vars.keys().filter(|name| is_of_linker(name));
            given.for_each(|name| _ = command.env_remove(name));
            // The wrapper is the same program as the launcher, so it gets the launcher's linker variables.
            let own = self.plan.environment.iter();
            let own = own.filter(|(name, _)| is_of_linker(name));
            command.envs(own.map(|(name, value)| (name, value)));
        }
        if let Some(wdir) = &app.wdir {
            command.current_dir(wdir);
        }
        command
    }
}

/// The variables by which programs such as `git` start no pager for a pseudo terminal. A pager reads the keyboard, which
/// only the process may that has it as standard input, so the process would stop.
const NO_PAGER: [(&str, &str); 2] = [("PAGER", "cat"), ("GIT_PAGER", "cat")];

/// Returns the variable that selects an interface for MPICH, unless only PMIx is offered.
fn selection(interfaces: Interfaces) -> Option<(&'static str, OsString)> {
    let (name, first) = MPICH_SELECTION;
    let version = match interfaces {
        Interfaces::Pmix => return None,
        Interfaces::All | Interfaces::Pmi1 => first,
        Interfaces::Pmi2 => "2",
    };
    Some((name, version.into()))
}

/// Returns the standard input of a process, and the launcher's end of it if that is a pipe.
fn input_of(input: ProcessInput) -> std::io::Result<(OwnedFd, Option<ChildStdin>)> {
    Ok(match input {
        ProcessInput::File(file) => (file, None),
        ProcessInput::Pipe => {
            let (reader, writer) = std::io::pipe()?;
            (reader.into(), Some(OwnedFd::from(writer).into()))
        }
    })
}

fn pipes(child: &mut Child) -> std::io::Result<(Option<Receiver>, Option<Receiver>)> {
    let output = child.stdout.take().map(Receiver::from);
    let errors = child.stderr.take().map(Receiver::from);
    for receiver in output.iter().chain(&errors) {
        receiver.set_nonblocking(true)?;
    }
    Ok((output, errors))
}

/// The binding of this thread while it starts children; dropping it restores the binding from before.
///
/// A child inherits the processors of the thread that starts it. It is therefore bound before its first instruction.
struct CpuAffinity {
    before: CpuSet,
}

impl CpuAffinity {
    fn begin() -> Result<Self, Error> {
        let before = sched_getaffinity(None);
        let before =
            before.map_err(|e| Error::system("cannot determine the allowed processors", e))?;
        Ok(Self { before })
    }

    /// Binds the children that are started next to these processors.
    fn confine(&self, cpus: &Cpuset) -> Result<(), Error> {
        let mut set = CpuSet::new();
        for cpu in cpus.iter() {
            let cpu = cpu as usize;
            if cpu >= CpuSet::MAX_CPU {
                let most = CpuSet::MAX_CPU;
                let message =
                    format!("processor {cpu} is out of range: only {most} processors can be bound");
                return Err(Error::request(message));
            }
            set.set(cpu);
        }
        sched_setaffinity(None, &set)
            .map_err(|e| Error::system(format!("cannot bind to the processors {cpus}"), e))
    }
}

impl Drop for CpuAffinity {
    fn drop(&mut self) {
        if let Err(e) = sched_setaffinity(None, &self.before) {
            tracing::warn!("the launcher stays bound to its processors: {e}");
        }
    }
}

/// Returns the processors that this thread may run on, or `None` if the system does not report them.
pub(crate) fn allowed() -> Option<Cpuset> {
    let set = sched_getaffinity(None).ok()?;
    let most = u32::try_from(CpuSet::MAX_CPU).ok()?;
    let cpus: Cpuset = (0..most).filter(|&cpu| set.is_set(cpu as usize)).collect();
    (!cpus.is_empty()).then_some(cpus)
}
