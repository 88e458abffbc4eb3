// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starting processes.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Instant;

use mio::unix::pipe::Receiver;
use pmix_types::Rank;
use rustix::fs::{Access, access};
use rustix::process::Pid;

use super::affinity::CpuAffinity;
use super::exec_stop::{hold, is_of_linker, linker_words};
use super::program;
use super::table::Process;
use crate::environment::{Variables, compat, of_children};
use crate::job_info::Bound;
use crate::{Error, Plan};
use pmix_topology::Cpuset;

/// Starts the processes of a plan one after the other.
///
/// Programs are looked for and environments are made once for each application. Nothing here
/// needs code to run in the child, so the system may start it without copying this process
/// (`posix_spawn`).
pub(crate) struct Spawner<'a> {
    plan: &'a Plan,
    apps: Vec<Prepared>,
    confinement: Option<CpuAffinity>,
    has_rank: bool,
}

/// How the command line of each process is made of that of its application.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommandForm {
    /// The command that runs the application in turn, with its own arguments (`PMIX_FORKEXEC_AGENT`);
    /// without words the application is run itself.
    pub(crate) agent: Vec<OsString>,
    /// Whether the rank stands behind the name of the program (`PMIX_INDEX_ARGV`).
    pub(crate) has_rank: bool,
}

/// What is the same for each process of an application.
struct Prepared {
    /// What is run: the program of the application, or that of the agent.
    program: PathBuf,
    /// How it is called.
    name: OsString,
    /// The arguments in front of those of the application.
    args: Vec<OsString>,
    vars: Variables,
}

/// What a process has for standard input, output and error.
pub(crate) struct Standard {
    pub(crate) input: Stdio,
    pub(crate) output: Stdio,
    pub(crate) errors: Stdio,
}

/// A process that is ready to be started.
pub(crate) struct Ready<'c> {
    pub(crate) rank: Rank,
    pub(crate) cpus: Option<&'c Cpuset>,
    /// Its variables on top of those of its application.
    pub(crate) vars: Vec<(OsString, OsString)>,
    pub(crate) standard: Standard,
}

/// A process that runs, and our ends of its pipes.
pub(crate) struct Started {
    pub(crate) process: Process,
    pub(crate) input: Option<ChildStdin>,
    pub(crate) output: Option<Receiver>,
    pub(crate) errors: Option<Receiver>,
}

impl<'a> Spawner<'a> {
    /// Finds the programs, so that nothing starts if one of them is missing. With an agent only its program has to
    /// be there: the agent finds that of the application.
    pub(crate) fn new(plan: &'a Plan, bound: &Bound, form: &CommandForm) -> Result<Self, Error> {
        let here = Path::new("");
        let prepare = |app: &crate::App| {
            let vars = of_children(&plan.environment, &app.exports, bound.oversubscribed);
            let path = vars.get(std::ffi::OsStr::new("PATH"));
            let wdir = app.wdir.as_deref().unwrap_or(here);
            if !wdir.as_os_str().is_empty() {
                let entered = std::fs::metadata(wdir).and_then(|about| match about.is_dir() {
                    true => Ok(access(wdir, Access::EXEC_OK)?),
                    false => Err(rustix::io::Errno::NOTDIR.into()),
                });
                let cannot = format!("cannot start in {}", wdir.display());
                entered.map_err(|e| Error::wdir(cannot, e))?;
            }
            let (name, args) = match form.agent.split_first() {
                Some((agent, args)) => (agent, [args, std::slice::from_ref(&app.program)].concat()),
                None => (&app.program, Vec::new()),
            };
            let found = program::find(name, path.map(OsString::as_os_str), wdir);
            let cannot = format!("cannot run {}", name.display());
            let program = found.map_err(|e| Error::program(&cannot, e))?;
            if let Some(interpreter) = program::missing_interpreter(&program, wdir) {
                let what = format!("{cannot}: its interpreter {}", interpreter.display());
                return Err(Error::program(what, rustix::io::Errno::NOENT.into()));
            }
            // A relative path is taken from where the child starts, or from where we are.
            let program = std::path::absolute(&program).unwrap_or(program);
            Ok(Prepared {
                program,
                name: name.clone(),
                args,
                vars,
            })
        };
        Ok(Self {
            plan,
            apps: plan.apps.iter().map(prepare).collect::<Result<_, _>>()?,
            confinement: (!bound.cpus.is_empty())
                .then(CpuAffinity::begin)
                .transpose()?,
            has_rank: form.has_rank,
        })
    }

    /// Whether processes are stopped on exec: one thread starts those, which is the one that traces them.
    pub(crate) fn traces(&self) -> bool {
        !self.plan.stops.on_exec.is_empty()
    }

    /// Starts a process.
    pub(crate) fn start(&self, ready: Ready<'_>) -> Result<Started, Error> {
        let Ready {
            rank,
            cpus,
            vars,
            standard,
        } = ready;
        let Some(app) = self.plan.app_of(rank.as_raw()) else {
            return Err(Error::request(format!("no application has rank {rank}")));
        };
        if let (Some(confinement), Some(cpus)) = (&self.confinement, cpus) {
            confinement.confine(cpus)?;
        }
        let mut command = self.command(app, rank, &vars);
        command
            .stdin(standard.input)
            .stdout(standard.output)
            .stderr(standard.errors);
        let started = Instant::now();
        let mut child = command.spawn().map_err(|e| {
            let program = self.plan.apps[app].program.display();
            Error::program(format!("cannot run {program} as rank {rank}"), e)
        })?;
        let mut process = Process::new(rank, app, Pid::from_child(&child), cpus.cloned(), started);
        if self.plan.stops.on_exec.contains(&rank) {
            process.is_stopped_on_exec = hold(process.pid).map_err(|e| {
                // Nobody else knows of it.
                let _ = child.kill().and_then(|()| child.wait());
                Error::system(format!("cannot stop rank {rank} on exec"), e)
            })?;
        }
        let pipes = pipes(&mut child)
            .map_err(|e| Error::system(format!("cannot read what rank {rank} writes"), e))?;
        Ok(Started {
            process,
            input: child.stdin.take(),
            output: pipes.0,
            errors: pipes.1,
        })
    }

    /// What scripts around programs read; what a user exports outranks it.
    fn compat(&self, rank: Rank) -> impl Iterator<Item = (&'static str, OsString)> {
        let layout = &self.plan.layout;
        let here = layout.here();
        let local_rank = here.binary_search(&rank).unwrap_or_default();
        let places = || compat(rank.as_raw(), layout.num_procs(), local_rank, here.len());
        let library = self.plan.client_library.clone();
        let library = library.map(|library| ("I_MPI_PMI_LIBRARY", library));
        let all = (self.plan.compat_env).then(|| places().into_iter().chain(library));
        all.into_iter().flatten()
    }

    fn command(&self, app: usize, rank: Rank, vars: &[(OsString, OsString)]) -> Command {
        let (prepared, app) = (&self.apps[app], &self.plan.apps[app]);
        let mut name = prepared.name.clone();
        if self.has_rank {
            name.push(format!("-{rank}"));
        }
        let stopper = self
            .plan
            .stopper
            .as_deref()
            .and_then(<[OsString]>::split_first);
        let stopper = stopper.filter(|_| self.plan.stops.on_exec.contains(&rank));
        let mut command = match stopper {
            Some((stopper, words)) => {
                let mut command = Command::new(stopper);
                command.args(words).arg(&prepared.program).arg(name);
                command.args(linker_words(prepared.vars.iter()));
                command
            }
            _ => {
                let mut command = Command::new(&prepared.program);
                command.arg0(name);
                command
            }
        };
        command
            .args(&prepared.args)
            .args(&app.args)
            .env_clear()
            .envs(self.compat(rank))
            .envs(&prepared.vars)
            .envs(vars.iter().map(|(name, value)| (name, value)))
            // What it starts in turn can be found and ended with it.
            .process_group(0);
        if stopper.is_some() {
            let given = prepared.vars.keys().filter(|name| is_of_linker(name));
            given.for_each(|name| _ = command.env_remove(name));
            // It starts as the launcher did, which is the same program.
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

fn pipes(child: &mut Child) -> std::io::Result<(Option<Receiver>, Option<Receiver>)> {
    let output = child.stdout.take().map(Receiver::from);
    let errors = child.stderr.take().map(Receiver::from);
    for receiver in output.iter().chain(&errors) {
        receiver.set_nonblocking(true)?;
    }
    Ok((output, errors))
}
