// SPDX-License-Identifier: MIT OR Apache-2.0
//! The monitors of a session, and measurements for queries. One thread serves them in order.
//!
//! Measuring a process or a file can take long, for example if the process has mapped much memory or the disk is
//! slow. Each request waits here until its result is available.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pmix_host::Error;
use pmix_host::helpers::{Helpers, Task, TaskState};
use pmix_host::monitor::{LocalNode, MonitorEvent, MonitorService};
use pmix_host::usage::{self, Detail, Wanted};
use pmix_server::Completion;
use pmix_server::upcall::{Monitor, Query};
use pmix_types::{
    DataArray, Info, IntoOwned as _, Nspace, Proc, ProcStats, Status, Text, Value, keys,
};
use rustix::process::getpid;

use crate::host::AtNode;
use crate::pending::PendingOperations;

/// The delay after a measurement that failed or could not start.
const RETRY: Duration = Duration::from_millis(100);

/// The time for which measurements are not shared after a signal. It is longer than the lifetime of a measurement.
const SETTLING: Duration = Duration::from_millis(500);

pub(crate) type Procs = Vec<(Proc<'static>, i32)>;
pub(crate) type Infos = Vec<Info<'static>>;
/// The results of questions in their order; `None` if the system does not report the figures.
pub(crate) type Answers = Vec<Option<Info<'static>>>;

/// A measurement for a query.
#[derive(Clone, Debug)]
pub(crate) enum Question {
    /// The usage of the node (`PMIX_QUERY_NODE_RESOURCE_USAGE`), with the wanted figures.
    Node(Infos),
    /// The usage of processes (`PMIX_QUERY_PROC_RESOURCE_USAGE`), with the wanted figures.
    Processes(Procs, Detail, Infos),
    /// The memory of processes (`PMIX_QUERY_MEMORY_USAGE`), with the qualifiers.
    Memory(Procs, Infos),
}

/// A query that needs a measurement.
pub(crate) struct MeasuredQuery {
    /// The node whose server got the query.
    pub(crate) node: AtNode,
    /// The parts of the query that need no measurement.
    pub(crate) others: Query,
    /// The results that need no measurement.
    pub(crate) found: Infos,
    /// The results of the questions, in their order.
    pub(crate) measured: Answers,
    /// The results of other nodes, each with the place of its question.
    pub(crate) remote: Vec<(usize, Info<'static>)>,
    /// The pending operations over all nodes, of a job or of all jobs, if they were asked for.
    pub(crate) waits: Vec<(Option<Nspace<'static>>, PendingOperations)>,
    /// The number of requested keys that `found` and the measurements answer.
    pub(crate) num_asked: usize,
    /// The status of a part that was refused, if any.
    pub(crate) refused: Option<Status>,
    pub(crate) done: Completion<Infos>,
}

/// The result of some work, with the time of the next sampling.
type Sampled<T> = (T, Option<Instant>);

/// A request that waits for its result.
enum Pending {
    Monitor(
        Task<Sampled<Result<Infos, Error>>>,
        Proc<'static>,
        Completion<Infos>,
    ),
    Query(Task<Sampled<Answers>>, Box<MeasuredQuery>),
    /// Questions of a controller on another node, with the number of its request.
    Asked(Task<Sampled<Answers>>, u64),
    Tick(Task<Sampled<Vec<MonitorEvent>>>),
    Ended(Task<Sampled<()>>),
}

/// A request with its result.
pub(crate) enum Measured {
    Monitor(Result<Infos, Error>, Proc<'static>, Completion<Infos>),
    Query(Box<MeasuredQuery>),
    /// The results for a controller on another node, with the number of its request.
    Asked(u64, Answers),
    Events(Vec<MonitorEvent>),
}

/// The monitors, and the requests that wait for their thread.
pub(crate) struct Monitors {
    service: Arc<Mutex<MonitorService>>,
    helpers: Helpers,
    /// The waiting requests, in the order in which the thread serves them.
    pending: VecDeque<Pending>,
    /// The time of the next sampling; `None` while the thread samples.
    deadline: Option<Instant>,
    /// The time of the last signal to processes. Measurements from before it show another state, and so may those shortly
    /// after it: a busy processor delivers a signal late.
    signaled: Arc<Mutex<Option<Instant>>>,
    /// `true` after the first request for a monitor. Ends of processes need no handling before.
    is_used: bool,
}

impl Monitors {
    pub(crate) fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            service: Arc::default(),
            // A single thread keeps the order of requests.
            helpers: Helpers::new("pmix-monitor", 1, wake),
            pending: VecDeque::new(),
            deadline: None,
            signaled: Arc::default(),
            is_used: false,
        }
    }

    /// Starts or changes a monitor.
    pub(crate) fn monitor(
        &mut self,
        call: Monitor,
        user: u32,
        node: LocalNode,
        done: Completion<Infos>,
    ) {
        self.is_used = true;
        let proc = call.proc.clone();
        let task = self.run(move |service| service.monitor(&call, user, &node, Instant::now()));
        match task {
            Ok(task) => self.pending.push_back(Pending::Monitor(task, proc, done)),
            Err(error) => done.fail(error.status()),
        }
    }

    /// Measures for a query.
    pub(crate) fn query(
        &mut self,
        query: MeasuredQuery,
        questions: Vec<Question>,
        node: LocalNode,
    ) {
        match self.run(move |service| measure_all(service, questions, &node)) {
            Ok(task) => self
                .pending
                .push_back(Pending::Query(task, Box::new(query))),
            Err(error) => query.done.fail(error.status()),
        }
    }

    /// Measures for a request of a controller on another node.
    ///
    /// # Errors
    /// Returns [`Error`] if too many requests wait for the thread, or if there is no thread.
    pub(crate) fn measure_for(
        &mut self,
        call: u64,
        questions: Vec<Question>,
        node: LocalNode,
    ) -> Result<(), Error> {
        let task = self.run(move |service| measure_all(service, questions, &node))?;
        self.pending.push_back(Pending::Asked(task, call));
        Ok(())
    }

    /// Notes that processes were signaled: later requests do not get their state from before.
    pub(crate) fn signaled(&self) {
        let now = Some(Instant::now());
        *self.signaled.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// Lets the thread sample the monitors that are due.
    pub(crate) fn tick(&mut self, now: Instant, node: impl FnOnce() -> LocalNode) {
        if self.deadline.is_none_or(|due| due > now) {
            return;
        }
        let node = node();
        match self.run(move |service| service.tick(&node, Instant::now())) {
            Ok(task) => {
                self.deadline = None;
                self.pending.push_back(Pending::Tick(task));
            }
            Err(error) => {
                tracing::debug!("cannot run a monitor now; retrying later: {error}");
                // A time in the past would make the session spin.
                self.deadline = Some(now + RETRY);
            }
        }
    }

    /// Removes the monitors of a process that has ended.
    pub(crate) fn proc_ended(&mut self, proc: &Proc<'static>) {
        let proc = proc.clone();
        self.ended(move |service| service.proc_ended(&proc));
    }

    /// Removes the monitors of a job that has ended, or of a tool that disconnected.
    pub(crate) fn job_ended(&mut self, nspace: &Nspace<'_>) {
        let nspace = nspace.clone().into_owned();
        self.ended(move |service| service.job_ended(&nspace));
    }

    /// Returns the time for the next [`tick`](Self::tick).
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Returns the next available result.
    pub(crate) fn next(&mut self) -> Option<Measured> {
        // A failed request returns no time for the next sampling, so the monitors of others are sampled soon.
        let retry = || Some(Instant::now() + RETRY);
        loop {
            let (measured, deadline) = match self.pending.pop_front()? {
                Pending::Monitor(mut task, proc, done) => match task.poll() {
                    TaskState::Pending => {
                        return self.wait_for(Pending::Monitor(task, proc, done));
                    }
                    TaskState::Done((found, deadline)) => {
                        (Some(Measured::Monitor(found, proc, done)), deadline)
                    }
                    TaskState::Lost => {
                        done.fail(Status::ERROR);
                        (None, retry())
                    }
                },
                Pending::Query(mut task, mut query) => match task.poll() {
                    TaskState::Pending => return self.wait_for(Pending::Query(task, query)),
                    TaskState::Done((found, deadline)) => {
                        query.measured = found;
                        (Some(Measured::Query(query)), deadline)
                    }
                    TaskState::Lost => (Some(Measured::Query(query)), retry()),
                },
                Pending::Asked(mut task, call) => match task.poll() {
                    TaskState::Pending => return self.wait_for(Pending::Asked(task, call)),
                    TaskState::Done((found, deadline)) => {
                        (Some(Measured::Asked(call, found)), deadline)
                    }
                    TaskState::Lost => (Some(Measured::Asked(call, Vec::new())), retry()),
                },
                Pending::Tick(mut task) => match task.poll() {
                    TaskState::Pending => return self.wait_for(Pending::Tick(task)),
                    TaskState::Done((events, deadline)) => {
                        (Some(Measured::Events(events)), deadline)
                    }
                    TaskState::Lost => (None, retry()),
                },
                Pending::Ended(mut task) => match task.poll() {
                    TaskState::Pending => return self.wait_for(Pending::Ended(task)),
                    TaskState::Done(((), deadline)) => (None, deadline),
                    TaskState::Lost => (None, retry()),
                },
            };
            // A sampling in the queue will set the next time itself.
            let is_tick = |pending: &Pending| matches!(pending, Pending::Tick(_));
            if !self.pending.iter().any(is_tick) {
                self.deadline = deadline;
            }
            if measured.is_some() {
                return measured;
            }
        }
    }

    /// Puts back the first request, which is not complete. Later requests wait for it.
    fn wait_for(&mut self, first: Pending) -> Option<Measured> {
        self.pending.push_front(first);
        None
    }

    fn ended(&mut self, end: impl FnOnce(&mut MonitorService) + Send + 'static) {
        if !self.is_used {
            return;
        }
        match self.run(end) {
            Ok(task) => self.pending.push_back(Pending::Ended(task)),
            Err(error) => tracing::warn!("cannot remove the monitors of an ended process: {error}"),
        }
    }

    fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut MonitorService) -> T + Send + 'static,
    ) -> Result<Task<Sampled<T>>, Error> {
        let service = Arc::clone(&self.service);
        let signaled = Arc::clone(&self.signaled);
        self.helpers.run(move |_| {
            let mut service = service.lock().unwrap_or_else(PoisonError::into_inner);
            let signaled = *signaled.lock().unwrap_or_else(PoisonError::into_inner);
            if signaled.is_some_and(|at| at.elapsed() < SETTLING) {
                service.forget_measurements();
            }
            let result = work(&mut service);
            (result, service.deadline())
        })
    }
}

/// The usage of the launcher, once it was measured; the inner value is `None` if the system does not report it.
type Own = Option<Option<ProcStats<'static>>>;

/// Returns the results of measurements in their order.
fn measure_all(
    service: &mut MonitorService,
    questions: Vec<Question>,
    node: &LocalNode,
) -> Answers {
    let mut own = None;
    let questions = questions.into_iter();
    questions
        .map(|question| measure(service, question, node, &mut own))
        .collect()
}

/// Returns the result of one measurement, if the system reports it.
fn measure(
    service: &mut MonitorService,
    question: Question,
    node: &LocalNode,
    own: &mut Own,
) -> Option<Info<'static>> {
    let now = Instant::now();
    match question {
        Question::Node(wanted) => {
            let stats = service.measure_node(node, now).ok()?;
            let infos = vec![usage::of_node(&stats, &of_infos(wanted))];
            Some(Info::new(keys::QUERY_NODE_RESOURCE_USAGE, infos))
        }
        Question::Processes(procs, detail, wanted) => {
            let stats = service.measure(&procs, node, detail, now);
            let wanted = of_infos(wanted);
            let infos = stats.iter().map(|stats| usage::of_process(stats, &wanted));
            let infos: Vec<_> = infos.collect();
            Some(Info::new(keys::QUERY_PROC_RESOURCE_USAGE, infos))
        }
        Question::Memory(procs, qualifiers) => {
            let stats = service.measure(&procs, node, Detail::Memory, now);
            let own = own.get_or_insert_with(own_memory).as_ref()?;
            let infos = memory(&node.name, own, &stats, &qualifiers);
            Some(Info::new(keys::QUERY_MEMORY_USAGE, infos))
        }
    }
}

/// Returns the figures with these keys.
fn of_infos(infos: Infos) -> Wanted {
    Wanted::of_value(&Value::DataArray(DataArray::Info(infos)))
}

/// Measures the launcher itself.
fn own_memory() -> Option<ProcStats<'static>> {
    usage::process(getpid().as_raw_nonzero().get(), Detail::Memory).ok()
}

/// Returns the memory of the launcher and of processes.
fn memory(
    node: &Text<'static>,
    own: &ProcStats<'_>,
    stats: &[ProcStats<'static>],
    qualifiers: &[Info<'_>],
) -> Vec<Info<'static>> {
    let asks = |key| {
        qualifiers
            .iter()
            .any(|info| info.key.is(key) && info.truth().is_true())
    };
    let (is_average, is_ends) = (
        asks(keys::QUERY_REPORT_AVG),
        asks(keys::QUERY_REPORT_MINMAX),
    );
    let num: f32 = stats.iter().map(|_| 1.0).sum();
    let sum: f32 = stats.iter().map(|stats| stats.rss).sum();
    let mut infos = vec![
        Info::new(keys::HOSTNAME, Value::String(Some(node.clone()))),
        Info::new(keys::DAEMON_MEMORY, Value::Float(own.rss)),
        Info::new(keys::CLIENT_AVG_MEMORY, Value::Float(sum / num.max(1.0))),
    ];
    let by_memory = |a: &&ProcStats<'_>, b: &&ProcStats<'_>| a.rss.total_cmp(&b.rss);
    let reported: Vec<_> = match (is_ends, is_average) {
        (true, _) => {
            let ends = [
                stats.iter().min_by(by_memory),
                stats.iter().max_by(by_memory),
            ];
            ends.into_iter().flatten().collect()
        }
        (false, true) => Vec::new(),
        (false, false) => stats.iter().collect(),
    };
    let wanted = of_infos([Info::new(keys::PROC_RSS, true)].to_vec());
    let reported = reported.into_iter();
    infos.extend(reported.map(|stats| usage::of_process(stats, &wanted)));
    infos
}

#[cfg(test)]
mod tests {
    use pmix_types::Rank;
    use rustix::process::{Pid, Signal};

    use super::*;

    #[test]
    fn the_launcher_is_measured_once_for_a_request() {
        let mut service = MonitorService::default();
        let (node, mut own) = (LocalNode::default(), None);
        let mut ask = |own: &mut Own| {
            let question = Question::Memory(Vec::new(), Vec::new());
            measure(&mut service, question, &node, own).map(|_| ())
        };
        assert_eq!(ask(&mut own), Some(()));
        let first = own.clone().flatten().map(|own| own.sample_time);
        assert!(first.is_some());
        assert_eq!(ask(&mut own), Some(()));
        assert_eq!(own.flatten().map(|own| own.sample_time), first);
    }

    #[test]
    fn a_signal_ends_the_use_of_measurements_from_before() {
        let mut child = std::process::Command::new("sleep")
            .arg("1000")
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let monitors = Monitors::new(|| {});
        let state = || {
            let procs = [(Proc::new("job", Rank::new(0)), pid)];
            let work = move |service: &mut MonitorService| {
                let node = LocalNode::default();
                service.measure(&procs, &node, Detail::State, Instant::now())
            };
            let mut task = monitors.run(work).unwrap();
            loop {
                match task.poll() {
                    TaskState::Done((stats, _)) => return stats[0].state,
                    TaskState::Pending => std::thread::yield_now(),
                    TaskState::Lost => panic!("no measurement"),
                }
            }
        };
        let before = state();
        assert_ne!(before, b'T');
        let raw = Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(raw, Signal::STOP).unwrap();
        monitors.signaled();
        // The kernel stops the process when a processor is free.
        while usage::process(pid, Detail::State).unwrap().state != b'T' {
            let _ = state();
        }
        assert_eq!(state(), b'T');
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Returns monitors whose thread is blocked until the sender is dropped and whose queue is full.
    fn full() -> (
        Monitors,
        std::sync::mpsc::Sender<()>,
        Vec<Task<Sampled<()>>>,
    ) {
        let monitors = Monitors::new(|| {});
        let (open, gate) = std::sync::mpsc::channel::<()>();
        let (say, begun) = std::sync::mpsc::channel();
        let hold = move |_: &mut _| {
            let _ = say.send(());
            let _ = gate.recv();
        };
        let mut tasks = vec![monitors.run(hold).unwrap()];
        // Wait until the thread has taken the first request, which would otherwise leave room later.
        begun.recv().unwrap();
        tasks.extend(std::iter::from_fn(|| monitors.run(|_| ()).ok()));
        (monitors, open, tasks)
    }

    #[test]
    fn a_look_that_cannot_start_is_tried_again_later() {
        let (mut monitors, _open, _tasks) = full();
        let now = Instant::now();
        monitors.deadline = Some(now);
        monitors.tick(now, LocalNode::default);
        assert_eq!(monitors.deadline(), Some(now + RETRY));
    }

    #[test]
    fn monitors_are_looked_at_after_a_request_that_failed() {
        let mut monitors = Monitors::new(|| {});
        let failed = monitors.run(|_| std::panic::resume_unwind(Box::new(())));
        monitors.pending.push_back(Pending::Ended(failed.unwrap()));
        while !monitors.pending.is_empty() {
            assert!(monitors.next().is_none());
            std::thread::yield_now();
        }
        assert!(monitors.deadline().is_some());
    }

    #[test]
    fn requests_are_served_in_their_order_and_others_are_not_held_up() {
        let (woken, wakes) = std::sync::mpsc::channel();
        let woken = Mutex::new(woken);
        let mut monitors = Monitors::new(move || {
            let _ = woken.lock().unwrap().send(());
        });
        let (open, gate) = std::sync::mpsc::channel::<()>();
        // A measurement that takes long.
        let slow = monitors.run(move |_| _ = gate.recv());
        monitors.pending.push_back(Pending::Ended(slow.unwrap()));
        monitors.is_used = true;
        monitors.proc_ended(&Proc::new("job", pmix_types::Rank::new(0)));
        assert!(monitors.next().is_none() && monitors.pending.len() == 2);
        drop(open);
        wakes.recv().unwrap();
        wakes.recv().unwrap();
        assert!(monitors.next().is_none() && monitors.pending.is_empty());
    }
}
