// SPDX-License-Identifier: MIT OR Apache-2.0
//! One job of a session: its processes, and whether it is to end.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

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

/// After how long a part of a line that nothing follows goes out.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a job was started by: the plan of the launcher, or one that a process asked for.
#[derive(Clone)]
pub(super) enum PlanRef<'a> {
    Given(&'a Plan),
    Spawned(Arc<Plan>),
}

impl Deref for PlanRef<'_> {
    type Target = Plan;

    fn deref(&self) -> &Plan {
        match self {
            Self::Given(plan) => plan,
            Self::Spawned(plan) => plan,
        }
    }
}

/// Who asked for a job, and what becomes of it when others end.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) parent: Proc<'static>,
    /// Which of the spawned jobs it is, from 1 on.
    pub(super) number: u64,
    /// How many processes were started before its own.
    pub(super) offset: u32,
    /// When it is to be started, if there is a limit of time for that.
    pub(super) start_by: Option<Instant>,
    /// Whether its other processes go on when one ends with another exit code than 0.
    pub(super) spares_exit_codes: bool,
    /// What its processes debug, if they are daemons of a debugger.
    pub(super) debug_target: Option<Proc<'static>>,
    /// What a launcher that it is does with the job that it starts in turn, if that is said.
    pub(super) for_launcher: Option<Vec<Info<'static>>>,
    /// Whether it goes on when the job of its parent fails.
    pub(super) is_separate: bool,
    /// Whether it is ended even when the job of its parent ends well.
    pub(super) ends_with_parent: bool,
    /// Whether what becomes of it is not what becomes of the launcher.
    pub(super) is_reported_apart: bool,
    /// Whether the same holds for the jobs that it asks for.
    pub(super) reports_children_apart: bool,
    /// What is shown before it starts.
    pub(super) display: Display,
    /// Whether it is said how many of its processes have started.
    pub(super) shows_progress: bool,
    /// How the command lines of its processes are made.
    pub(super) form: CommandForm,
    /// The rank that reads what is pushed, or all with the wildcard.
    pub(super) reader: Option<Rank>,
    /// How often each of its processes is started again if it ends badly.
    pub(super) max_restarts: u32,
}

/// A job that runs. Fields are dropped in this order: nothing runs any more when its directory goes.
pub(super) struct Job<'a> {
    pub(super) plan: PlanRef<'a>,
    pub(super) nspace: Nspace<'static>,
    /// None for the first job.
    pub(super) origin: Option<Origin>,
    pub(super) table: Table,
    /// What its processes run, those too that are started again.
    pub(super) programs: Arc<Programs>,
    pub(super) dir: JobDir,
    pub(super) stop: Stop,
    /// What its processes read, if it was spawned to have input.
    pub(super) pushed: PushedInput,
    pub(super) debugging: Debugging,
    /// Whether it is noted that it failed.
    pub(super) has_failed: bool,
    /// Whether its failure has had its consequences for other jobs; it has none as long as its other processes
    /// go on.
    pub(super) has_spread: bool,
    /// Whether what it left behind is not waited for any longer.
    pub(super) is_abandoned: bool,
}

impl Job<'_> {
    /// The name of one of its processes.
    pub(super) fn proc(&self, rank: Rank) -> Proc<'static> {
        Proc::new(self.nspace.clone(), rank)
    }

    /// Its processes that did not end well.
    pub(super) fn unsound(&self) -> Vec<Proc<'static>> {
        let unsound = self.table.iter().filter(|process| !process.is_sound());
        unsound.map(|process| self.proc(process.rank)).collect()
    }

    /// How lines of one of its processes go out.
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

    /// How lines in the name of one of its processes go out.
    pub(super) fn form_of(&self, rank: Rank) -> LineForm {
        let process = match self.plan.output.form {
            OutputForm::Detailed => self.table.with_rank(rank),
            _ => self.table.iter().next(),
        };
        process.map_or(LineForm::Plain, |process| self.form(process.pid))
    }

    /// Whether a process was asked for by one of another job.
    pub(super) fn is_child_of(&self, nspace: &Nspace<'_>) -> bool {
        let origin = self.origin.as_ref();
        origin.is_some_and(|origin| origin.parent.nspace == *nspace)
    }
}

/// The jobs of a session: the first one, and those that its processes asked for.
#[derive(Default)]
pub(super) struct Jobs<'a> {
    jobs: Vec<Job<'a>>,
}

impl<'a> Jobs<'a> {
    pub(super) fn push(&mut self, job: Job<'a>) {
        self.jobs.push(job);
    }

    pub(super) fn remove(&mut self, index: usize) -> Job<'a> {
        self.jobs.remove(index)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Job<'a>> {
        self.jobs.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Job<'a>> {
        self.jobs.iter_mut()
    }

    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }

    pub(super) fn get(&self, index: usize) -> Option<&Job<'a>> {
        self.jobs.get(index)
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut Job<'a>> {
        self.jobs.get_mut(index)
    }

    /// The place of a job.
    pub(super) fn place(&self, nspace: &Nspace<'_>) -> Option<usize> {
        self.jobs.iter().position(|job| job.nspace == *nspace)
    }

    /// A job by its name.
    pub(super) fn named(&self, nspace: &Nspace<'_>) -> Option<&Job<'a>> {
        self.jobs.iter().find(|job| job.nspace == *nspace)
    }

    /// A process that there is.
    pub(super) fn process(&mut self, proc: &Proc<'_>) -> Option<&mut Process> {
        let place = self.place(&proc.nspace)?;
        self.jobs.get_mut(place)?.table.of_rank(proc.rank)
    }

    /// How many processes of all jobs have not ended.
    pub(super) fn num_running(&self) -> usize {
        self.iter().map(|job| job.table.num_running()).sum()
    }

    /// How many processes of spawned jobs there are, those that ended and are not reaped too.
    pub(super) fn num_spawned(&self) -> usize {
        let spawned = self.iter().filter(|job| job.origin.is_some());
        spawned.map(|job| job.table.iter().count()).sum()
    }

    /// Whether a process is one of a job, and not what one left behind.
    pub(super) fn has(&self, pid: Pid) -> bool {
        self.iter().any(|job| job.table.has(pid))
    }
}

/// Processes that a request names, by their jobs: a list of many is looked through once, whatever it is compared
/// with.
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

    /// The ranks that are named of a job, if any is; the wildcard among them stands for all.
    pub(super) fn ranks(&self, nspace: &Nspace<'_>) -> Option<&BTreeSet<Rank>> {
        self.0.get(nspace.as_bytes())
    }

    /// Whether a process is named, by its rank or the wildcard.
    pub(super) fn has(&self, nspace: &Nspace<'_>, rank: Rank) -> bool {
        let ranks = self.ranks(nspace);
        ranks.is_some_and(|ranks| ranks.contains(&rank) || ranks.contains(&Rank::WILDCARD))
    }

    /// The jobs of which processes are named, with their ranks.
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
