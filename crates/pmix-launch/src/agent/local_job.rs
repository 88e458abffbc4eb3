// SPDX-License-Identifier: MIT OR Apache-2.0
//! The part of a job that runs on one node: its processes, its directory and its streams.

use std::sync::Arc;
use std::time::Duration;

use pmix_host::forward::LineForm;
use pmix_types::{Info, Nspace, Proc, Rank};
use rustix::process::{Pid, Signal};

use crate::input::PushedInput;
use crate::process::{CommandForm, Process, Programs, Table};
use crate::session_dir::JobDir;
use crate::{OutputForm, Plan};

/// The time after which a partial line is written.
const PATIENCE: Duration = Duration::from_secs(1);

/// The settings of a job that do not follow from its plan. The controller sends them with the plan.
#[derive(Clone, Debug, Default)]
pub(crate) struct JobSettings {
    /// The number of the spawned job, from 1; `None` for the first job.
    pub(crate) number: Option<u64>,
    /// The process that spawned it.
    pub(crate) parent: Option<Proc<'static>>,
    /// The number of processes that were started before its own.
    pub(crate) offset: u32,
    /// The target, if its processes are debugger daemons.
    pub(crate) debug_target: Option<Proc<'static>>,
    /// The directives for the job that it starts in turn, if it is an intermediate launcher.
    pub(crate) for_launcher: Option<Vec<Info<'static>>>,
    /// The values that a spawn by PMI defines for its processes.
    pub(crate) preput: Vec<Info<'static>>,
    /// `true` if the number of started processes is reported.
    pub(crate) shows_progress: bool,
    /// The form of the command lines of its processes.
    pub(crate) form: CommandForm,
    /// The rank that reads pushed input; the wildcard for all.
    pub(crate) reader: Option<Rank>,
}

/// The part of a job on this node. The order of the fields is the order of their drop: the processes end before the
/// directory is removed.
pub(crate) struct LocalJob {
    pub(super) plan: Arc<Plan>,
    pub(super) nspace: Nspace<'static>,
    pub(super) settings: JobSettings,
    pub(super) table: Table,
    /// The programs of its processes, kept for restarts.
    pub(super) programs: Arc<Programs>,
    pub(super) dir: JobDir,
    /// The pipes for pushed input.
    pub(super) pushed: PushedInput,
    /// `true` if its orphans are not waited for.
    pub(super) is_abandoned: bool,
}

/// A job that has ended on this node.
pub(crate) struct EndedJob {
    /// Its processes in their last state.
    pub(crate) processes: Vec<Process>,
    /// Its processes that failed or exited without finalize.
    pub(crate) unsound: Vec<Proc<'static>>,
    /// Its directory, which is not removed yet.
    pub(super) dir: JobDir,
}

impl LocalJob {
    /// Returns the name of the job.
    pub(crate) fn nspace(&self) -> &Nspace<'static> {
        &self.nspace
    }

    /// Returns the plan of the job.
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the processes that were started, in the order of their ranks.
    pub(crate) fn processes(&self) -> impl Iterator<Item = &Process> {
        self.table.iter()
    }

    /// Returns the process of a rank.
    pub(crate) fn process(&self, rank: Rank) -> Option<&Process> {
        self.table.with_rank(rank)
    }

    /// Returns the number of processes that have not ended, are still to start, or will be restarted.
    pub(crate) fn num_running(&self) -> usize {
        self.table.num_running()
    }

    /// Returns the name of one of its processes.
    pub(crate) fn proc(&self, rank: Rank) -> Proc<'static> {
        Proc::new(self.nspace.clone(), rank)
    }

    /// Returns its processes that failed or exited without finalize.
    pub(crate) fn unsound(&self) -> Vec<Proc<'static>> {
        let unsound = self.table.iter().filter(|process| !process.is_sound());
        unsound.map(|process| self.proc(process.rank)).collect()
    }

    /// Returns its processes on this node that have not ended, with their process ids.
    pub(crate) fn running(&self) -> impl Iterator<Item = (Proc<'static>, i32)> + '_ {
        let here = self.table.iter().filter(|process| process.node.is_none());
        let running = here.filter(|process| process.ended.is_none());
        running.map(|process| (self.proc(process.rank), process.pid.as_raw_nonzero().get()))
    }

    /// Returns its processes that have not ended, with their process ids and the numbers of other nodes.
    pub(crate) fn running_everywhere(
        &self,
    ) -> impl Iterator<Item = (Proc<'static>, i32, Option<usize>)> + '_ {
        let running = self.table.iter().filter(|process| process.ended.is_none());
        running.map(|process| {
            let pid = process.pid.as_raw_nonzero().get();
            (self.proc(process.rank), pid, process.node)
        })
    }

    /// Returns the form of output lines of one of its processes.
    pub(super) fn form(&self, pid: Pid) -> LineForm {
        match self.plan.output.form {
            OutputForm::Unmixed if self.plan.num_started() > 1 => LineForm::WholeWithin(PATIENCE),
            OutputForm::Unmixed | OutputForm::Plain => LineForm::Plain,
            OutputForm::Lines => LineForm::Whole,
            OutputForm::Tagged => LineForm::Tagged,
            OutputForm::Detailed => LineForm::Detailed {
                pid: pid.as_raw_nonzero().get(),
            },
        }
    }

    /// Returns the form of lines that are written on behalf of one of its processes.
    pub(super) fn form_of(&self, rank: Rank) -> LineForm {
        let process = match self.plan.output.form {
            OutputForm::Detailed => self.table.with_rank(rank),
            _ => self.table.iter().next(),
        };
        process.map_or(LineForm::Plain, |process| self.form(process.pid))
    }
}

/// The parts of all jobs on this node: the first job and the spawned ones.
#[derive(Default)]
pub(crate) struct LocalJobs {
    jobs: Vec<LocalJob>,
}

impl LocalJobs {
    pub(super) fn push(&mut self, job: LocalJob) {
        self.jobs.push(job);
    }

    pub(super) fn remove(&mut self, nspace: &Nspace<'_>) -> Option<LocalJob> {
        let place = self.jobs.iter().position(|job| job.nspace == *nspace)?;
        Some(self.jobs.remove(place))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &LocalJob> {
        self.jobs.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut LocalJob> {
        self.jobs.iter_mut()
    }

    /// Returns a job by its name.
    pub(crate) fn named(&self, nspace: &Nspace<'_>) -> Option<&LocalJob> {
        self.jobs.iter().find(|job| job.nspace == *nspace)
    }

    pub(super) fn named_mut(&mut self, nspace: &Nspace<'_>) -> Option<&mut LocalJob> {
        self.jobs.iter_mut().find(|job| job.nspace == *nspace)
    }

    /// Returns a process by its name.
    pub(crate) fn process(&self, proc: &Proc<'_>) -> Option<&Process> {
        self.named(&proc.nspace)?.process(proc.rank)
    }

    /// Returns the number of processes of all jobs that have not ended.
    pub(crate) fn num_running(&self) -> usize {
        self.iter().map(LocalJob::num_running).sum()
    }

    /// Returns the number of processes of spawned jobs, including those that ended and are not reaped.
    pub(crate) fn num_spawned(&self) -> usize {
        let spawned = self.iter().filter(|job| job.settings.number.is_some());
        spawned.map(|job| job.table.num_procs()).sum()
    }

    /// Returns `true` if no process of another job runs.
    pub(super) fn is_last(&self, nspace: &Nspace<'_>) -> bool {
        let mut others = self.iter().filter(|job| job.nspace != *nspace);
        others.all(|job| job.num_running() == 0)
    }

    /// Returns `true` if a process was started for a job, as opposed to an orphan.
    pub(super) fn has(&self, pid: Pid) -> bool {
        self.iter().any(|job| job.table.has(pid))
    }

    /// Sends a signal to the processes of all jobs.
    pub(super) fn signal(&mut self, signal: Signal) {
        self.iter_mut().for_each(|job| job.table.signal(signal));
    }
}
