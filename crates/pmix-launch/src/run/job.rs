// SPDX-License-Identifier: MIT OR Apache-2.0
//! A job of a session: its processes and its termination.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use pmix_host::forward::LineForm;
use pmix_types::{Info, Nspace, Proc, Rank, Text};
use rustix::process::Pid;

use super::display::Display;
use super::stop::Stop;
use super::stopped::Debugging;
use crate::input::PushedInput;
use crate::process::{CommandForm, Process, Programs, Table};
use crate::session_dir::JobDir;
use crate::{OutputForm, Plan};

/// The time after which a partial line is written.
const PATIENCE: Duration = Duration::from_secs(1);

/// The request that spawned a job, with its settings.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) parent: Proc<'static>,
    /// The number of the spawned job, from 1.
    pub(super) number: u64,
    /// The number of processes that were started before its own.
    pub(super) offset: u32,
    /// `true` if other processes continue after a nonzero exit code.
    pub(super) spares_exit_codes: bool,
    /// The target, if its processes are debugger daemons.
    pub(super) debug_target: Option<Proc<'static>>,
    /// The directives for the job that it starts in turn, if it is an intermediate launcher.
    pub(super) for_launcher: Option<Vec<Info<'static>>>,
    /// `true` if it continues after the job of its parent failed.
    pub(super) is_separate: bool,
    /// `true` if it is terminated even if the job of its parent ends successfully.
    pub(super) ends_with_parent: bool,
    /// `true` if its outcome does not affect that of the launcher.
    pub(super) is_reported_apart: bool,
    /// `true` if the outcomes of jobs that it spawns do not affect that of the launcher.
    pub(super) reports_children_apart: bool,
    /// The parts to display before it starts.
    pub(super) display: Display,
    /// `true` if the number of started processes is reported.
    pub(super) shows_progress: bool,
    /// The form of the command lines of its processes.
    pub(super) form: CommandForm,
    /// The rank that reads pushed input; the wildcard for all.
    pub(super) reader: Option<Rank>,
    /// The largest number of restarts of each failed process.
    pub(super) max_restarts: u32,
}

/// A running job. The order of the fields is the order of their drop: the processes end before the directory is
/// removed.
pub(super) struct Job {
    pub(super) plan: Arc<Plan>,
    pub(super) nspace: Nspace<'static>,
    /// The spawn request; `None` for the first job.
    pub(super) origin: Option<Origin>,
    pub(super) table: Table,
    /// The programs of its processes, kept for restarts.
    pub(super) programs: Arc<Programs>,
    pub(super) dir: JobDir,
    pub(super) stop: Stop,
    /// The pipes for pushed input.
    pub(super) pushed: PushedInput,
    pub(super) debugging: Debugging,
    /// `true` if its failure was recorded.
    pub(super) has_failed: bool,
    /// `true` if its failure was spread to other jobs. That does not happen while its other processes continue.
    pub(super) has_spread: bool,
    /// `true` if its orphans are not waited for.
    pub(super) is_abandoned: bool,
}

impl Job {
    /// Returns the name of one of its processes.
    pub(super) fn proc(&self, rank: Rank) -> Proc<'static> {
        Proc::new(self.nspace.clone(), rank)
    }

    /// Returns its processes that failed or exited without finalize.
    pub(super) fn unsound(&self) -> Vec<Proc<'static>> {
        let unsound = self.table.iter().filter(|process| !process.is_sound());
        unsound.map(|process| self.proc(process.rank)).collect()
    }

    /// Returns the form of output lines of one of its processes.
    pub(super) fn form(&self, pid: Pid) -> LineForm {
        match self.plan.output.form {
            OutputForm::Unmixed if self.plan.layout.here().len() > 1 => {
                LineForm::WholeWithin(PATIENCE)
            }
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

    /// Returns `true` if a process of that job spawned it.
    pub(super) fn is_child_of(&self, nspace: &Nspace<'_>) -> bool {
        let origin = self.origin.as_ref();
        origin.is_some_and(|origin| origin.parent.nspace == *nspace)
    }
}

/// The jobs of a session: the first one and the spawned ones.
#[derive(Default)]
pub(super) struct Jobs {
    jobs: Vec<Job>,
}

impl Jobs {
    pub(super) fn push(&mut self, job: Job) {
        self.jobs.push(job);
    }

    pub(super) fn remove(&mut self, index: usize) -> Job {
        self.jobs.remove(index)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Job> {
        self.jobs.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Job> {
        self.jobs.iter_mut()
    }

    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }

    pub(super) fn get(&self, index: usize) -> Option<&Job> {
        self.jobs.get(index)
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut Job> {
        self.jobs.get_mut(index)
    }

    /// Returns the index of a job.
    pub(super) fn place(&self, nspace: &Nspace<'_>) -> Option<usize> {
        self.jobs.iter().position(|job| job.nspace == *nspace)
    }

    /// Returns a job by its name.
    pub(super) fn named(&self, nspace: &Nspace<'_>) -> Option<&Job> {
        self.jobs.iter().find(|job| job.nspace == *nspace)
    }

    /// Returns a process by its name.
    pub(super) fn process(&mut self, proc: &Proc<'_>) -> Option<&mut Process> {
        let place = self.place(&proc.nspace)?;
        self.jobs.get_mut(place)?.table.of_rank(proc.rank)
    }

    /// Returns the number of processes of all jobs that have not ended.
    pub(super) fn num_running(&self) -> usize {
        self.iter().map(|job| job.table.num_running()).sum()
    }

    /// Returns the number of processes of spawned jobs, including those that ended and are not reaped.
    pub(super) fn num_spawned(&self) -> usize {
        let spawned = self.iter().filter(|job| job.origin.is_some());
        spawned.map(|job| job.table.num_procs()).sum()
    }

    /// Returns `true` if a process was started for a job, as opposed to an orphan.
    pub(super) fn has(&self, pid: Pid) -> bool {
        self.iter().any(|job| job.table.has(pid))
    }
}

/// The processes that a request names, by job. A long list is read once, however many processes are compared with it.
pub(super) struct Named<'p>(BTreeMap<&'p [u8], BTreeSet<Rank>>);

impl<'p> Named<'p> {
    pub(super) fn of(procs: impl IntoIterator<Item = &'p Proc<'p>>) -> Self {
        let mut named = Self(BTreeMap::new());
        for proc in procs {
            let ranks = named.0.entry(proc.nspace.as_bytes()).or_default();
            ranks.insert(proc.rank);
        }
        named
    }

    /// Returns the ranks that are named for a job, if any; the wildcard denotes all.
    pub(super) fn ranks(&self, nspace: &Nspace<'_>) -> Option<&BTreeSet<Rank>> {
        self.0.get(nspace.as_bytes())
    }

    /// Returns `true` if a process is named by its rank or by the wildcard.
    pub(super) fn has(&self, nspace: &Nspace<'_>, rank: Rank) -> bool {
        let ranks = self.ranks(nspace);
        ranks.is_some_and(|ranks| ranks.contains(&rank) || ranks.contains(&Rank::WILDCARD))
    }

    /// Returns the jobs with named processes, and their ranks.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Nspace<'p>, &BTreeSet<Rank>)> {
        let jobs = self.0.iter();
        jobs.map(|(name, ranks)| (Nspace::new(Text::new(*name)), ranks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_named_by_rank_or_with_their_whole_job() {
        let proc = |nspace: &'static str, rank| Proc::new(nspace, rank);
        let procs = [
            proc("a", Rank::new(1)),
            proc("b", Rank::WILDCARD),
            proc("a", Rank::new(1)),
            proc("a", Rank::new(3)),
        ];
        let named = Named::of(&procs);
        let (a, b, c) = (Nspace::new("a"), Nspace::new("b"), Nspace::new("c"));
        let has = |nspace| [0, 1, 2, 3].map(|rank| named.has(nspace, Rank::new(rank)));
        assert_eq!(has(&a), [false, true, false, true]);
        assert_eq!((has(&b), has(&c)), ([true; 4], [false; 4]));
        assert_eq!(named.ranks(&a).map(BTreeSet::len), Some(2));
        assert!(named.ranks(&c).is_none() && named.iter().count() == 2);
    }
}
