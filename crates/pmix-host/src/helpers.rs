// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads for work with a duration that depends on a disk or on a process.
//!
//! The thread that drives a server must not wait for a file system. A lost file server, or a directory with a million
//! files, would block all peers. Such work goes to [`Helpers`]. When it has ended, the host is woken and polls the
//! [`Task`] that it keeps with its other pending state.
//!
//! The number of threads and of queued work is bounded. A thread that a file system blocks forever is abandoned: its
//! task is dropped, and the thread ends with the process.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use pmix_types::{ErrorDetail, Status};

use crate::Error;

/// The time after which an idle thread ends.
const IDLE: Duration = Duration::from_secs(1);
/// The largest number of queued pieces of work.
const MOST_QUEUED: usize = 4096;
/// The size of the stack of each thread.
const STACK_BYTES: usize = 256 << 10;

/// A bounded number of threads that do one kind of work for a host.
///
/// Kinds of work that can block for different reasons use different helpers: a full disk for output must not block the
/// search for a program. A thread is started for work if none is idle, and ends after a second without work.
pub struct Helpers {
    shared: Arc<Shared>,
}

struct Shared {
    name: &'static str,
    most_threads: usize,
    idle_time: Duration,
    stack_bytes: usize,
    wake: Box<dyn Fn() + Send + Sync>,
    state: Mutex<State>,
    has_work: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<QueuedWork>,
    num_threads: usize,
    num_idle: usize,
    is_closed: bool,
}

struct QueuedWork {
    cancel: Cancel,
    run: Box<dyn FnOnce() + Send>,
}

/// The cancellation flag of a task.
///
/// A long task checks it between steps, and ends without a result after cancellation.
#[derive(Clone, Debug)]
pub struct Cancel(Option<Arc<AtomicBool>>);

/// The handle of a queued or running task. Dropping it cancels the task.
#[derive(Debug)]
pub struct Task<T> {
    result: Receiver<T>,
    cancel: Cancel,
}

/// The state of a [`Task`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState<T> {
    /// The work has not ended.
    Pending,
    /// The work has ended with this result, which is returned once.
    Done(T),
    /// The work panicked, or the result was taken before.
    Lost,
}

impl Helpers {
    /// Creates helpers without threads. `wake` is called by a thread after the end of each piece of work.
    #[must_use]
    pub fn new(
        name: &'static str,
        most_threads: usize,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self::with_limits(name, most_threads, IDLE, STACK_BYTES, wake)
    }

    fn with_limits(
        name: &'static str,
        most_threads: usize,
        idle_time: Duration,
        stack_bytes: usize,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                name,
                most_threads,
                idle_time,
                stack_bytes,
                wake: Box::new(wake),
                state: Mutex::default(),
                has_work: Condvar::new(),
            }),
        }
    }

    /// Creates helpers whose threads cannot start, as their stacks would be larger than the memory of any machine.
    #[cfg(test)]
    pub(crate) fn without_threads() -> Self {
        Self::with_limits("test", 1, IDLE, usize::MAX / 4, || ())
    }

    /// Queues work for a thread.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_OUT_OF_RESOURCE` if 4,096 pieces of work are queued, or if there is no thread and none can be
    /// started.
    pub fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Cancel) -> T + Send + 'static,
    ) -> Result<Task<T>, Error> {
        let (done, result) = sync_channel(1);
        let cancel = Cancel::default();
        let (shared, own) = (Arc::clone(&self.shared), cancel.clone());
        let run = move || {
            // The guard is dropped after the result is sent, or after a panic, so the host finds the final state.
            let _wake = WakeOnDrop(shared);
            let done = done;
            // The task may have been dropped in the meantime.
            let _ = done.send(work(&own));
        };
        let task = Task {
            result,
            cancel: cancel.clone(),
        };
        self.queue(QueuedWork {
            cancel,
            run: Box::new(run),
        })?;
        Ok(task)
    }

    /// Returns `true` if there is a thread. Queued work always has one.
    pub(crate) fn has_thread(&self) -> bool {
        self.shared.state().num_threads > 0
    }

    fn queue(&self, work: QueuedWork) -> Result<(), Error> {
        let refused = |why: String| Error::from(ErrorDetail::new(Status::ERR_OUT_OF_RESOURCE, why));
        let name = self.shared.name;
        let mut state = self.shared.state();
        if state.queue.len() >= MOST_QUEUED {
            // The results of cancelled work are not wanted, so it makes room.
            state.queue.retain(|work| !work.cancel.is_cancelled());
        }
        if state.queue.len() >= MOST_QUEUED {
            let num = state.num_threads;
            return Err(refused(format!(
                "{MOST_QUEUED} tasks are queued for the {num} threads {name}: a file system may not respond"
            )));
        }
        if self.shared.most_threads == 0 {
            return Err(refused(format!("no thread {name} can be started")));
        }
        // Work that was queued before may need the idle threads.
        if state.num_idle <= state.queue.len() && state.num_threads < self.shared.most_threads {
            let shared = Arc::clone(&self.shared);
            let named = thread::Builder::new().name(name.to_owned());
            let begun = named
                .stack_size(self.shared.stack_bytes)
                .spawn(move || shared.work());
            match begun {
                Ok(_) => state.num_threads += 1,
                Err(e) if state.num_threads == 0 => {
                    return Err(refused(format!("cannot start a thread {name}: {e}")));
                }
                Err(e) => tracing::debug!("cannot start another thread {name}: {e}"),
            }
        }
        state.queue.push_back(work);
        // The woken thread needs the lock at once.
        drop(state);
        self.shared.has_work.notify_one();
        Ok(())
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.is_closed = true;
        // Queued work is dropped, and running work does not delay the end of the host.
        state.queue.clear();
        drop(state);
        self.shared.has_work.notify_all();
    }
}

impl fmt::Debug for Helpers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.state();
        f.debug_struct("Helpers")
            .field("name", &self.shared.name)
            .field("threads", &state.num_threads)
            .field("queued", &state.queue.len())
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Work runs without the lock, so a panic in it leaves the state intact.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs queued work until there is none for [`IDLE`].
    fn work(&self) {
        loop {
            let mut state = self.state();
            state.num_idle += 1;
            let is_idle = |state: &mut State| state.queue.is_empty() && !state.is_closed;
            let (mut state, _) = (self.has_work)
                .wait_timeout_while(state, self.idle_time, is_idle)
                .unwrap_or_else(PoisonError::into_inner);
            state.num_idle -= 1;
            let Some(work) = state.queue.pop_front() else {
                // This is under the lock, so work that is queued later does not count on this thread.
                state.num_threads -= 1;
                return;
            };
            drop(state);
            // The task was dropped while its work was queued.
            if work.cancel.is_cancelled() {
                continue;
            }
            // Other work may wait for this thread, so the thread outlives a panic.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(work.run)) {
                let texts = (panic.downcast_ref::<&str>().copied())
                    .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
                let why = texts.unwrap_or("no message");
                tracing::error!(
                    "a task of the thread {} panicked, and its result is lost: {why}",
                    self.name
                );
            }
        }
    }
}

/// A guard that wakes the host when work has ended, possibly by a panic.
struct WakeOnDrop(Arc<Shared>);

impl Drop for WakeOnDrop {
    fn drop(&mut self) {
        (self.0.wake)();
    }
}

impl Default for Cancel {
    fn default() -> Self {
        Self(Some(Arc::default()))
    }
}

impl Cancel {
    /// Creates a flag that is never set, for work that is not cancelled.
    #[must_use]
    pub fn never() -> Self {
        Self(None)
    }

    /// Cancels the work that has a clone of this flag.
    pub fn cancel(&self) {
        if let Some(is_cancelled) = &self.0 {
            is_cancelled.store(true, Ordering::Relaxed);
        }
    }

    /// Returns `true` if the result is no longer wanted.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        let flag = self.0.as_ref();
        flag.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}

impl<T> Task<T> {
    /// Waits for the end of the work within a time limit, and returns its state.
    pub fn wait(&mut self, patience: Duration) -> TaskState<T> {
        match self.result.recv_timeout(patience) {
            Ok(result) => TaskState::Done(result),
            Err(RecvTimeoutError::Timeout) => TaskState::Pending,
            Err(RecvTimeoutError::Disconnected) => TaskState::Lost,
        }
    }

    /// Returns the state of the work, with its result once it has ended.
    pub fn poll(&mut self) -> TaskState<T> {
        match self.result.try_recv() {
            Ok(result) => TaskState::Done(result),
            Err(TryRecvError::Empty) => TaskState::Pending,
            Err(TryRecvError::Disconnected) => TaskState::Lost,
        }
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// Creates helpers, and the receiver of a message for each wake-up.
    fn helpers(most_threads: usize) -> (Helpers, Receiver<()>) {
        let (woken, wakes) = channel();
        let woken: Mutex<Sender<()>> = Mutex::new(woken);
        let wake = move || {
            let _ = woken.lock().unwrap().send(());
        };
        (Helpers::new("test", most_threads, wake), wakes)
    }

    #[test]
    fn a_result_is_there_when_the_host_is_woken() {
        let (helpers, wakes) = helpers(2);
        let mut task = helpers.run(|_| 17).unwrap();
        wakes.recv().unwrap();
        assert_eq!(task.poll(), TaskState::Done(17));
        assert_eq!(task.poll(), TaskState::Lost);
    }

    #[test]
    fn blocked_work_does_not_delay_other_work_or_the_end() {
        let (helpers, wakes) = helpers(2);
        let (open, gate) = channel::<()>();
        let mut hung = helpers.run(move |_| gate.recv().is_ok()).unwrap();
        for number in 0..10 {
            let mut task = helpers.run(move |_| number).unwrap();
            wakes.recv().unwrap();
            assert_eq!(task.poll(), TaskState::Done(number));
        }
        assert_eq!(hung.poll(), TaskState::Pending);
        // Nothing joins the thread.
        drop(helpers);
        drop(open);
        wakes.recv().unwrap();
        assert_eq!(hung.poll(), TaskState::Done(false));
    }

    #[test]
    fn work_whose_task_is_dropped_is_cancelled() {
        let (helpers, wakes) = helpers(1);
        let (open, gate) = channel::<()>();
        let (say, said) = channel();
        let task = helpers
            .run(move |cancel| {
                let _ = say.send(cancel.is_cancelled());
                let _ = gate.recv();
                let _ = say.send(cancel.is_cancelled());
            })
            .unwrap();
        assert_eq!(said.recv(), Ok(false));
        let never_begun = helpers.run(|_| panic!("it was cancelled")).unwrap();
        drop::<(Task<()>, Task<()>)>((task, never_begun));
        drop(open);
        assert_eq!(said.recv(), Ok(true));
        let mut last = helpers.run(|_| ()).unwrap();
        wakes.recv().unwrap();
        wakes.recv().unwrap();
        assert_eq!(last.poll(), TaskState::Done(()));
    }

    #[test]
    fn work_that_panics_is_lost_and_its_thread_does_the_work_that_waits() {
        let (helpers, wakes) = helpers(1);
        let (open, gate) = channel::<()>();
        let lost = helpers.run(move |_| -> u8 {
            let _ = gate.recv();
            std::panic::resume_unwind(Box::new("on purpose"))
        });
        let mut lost = lost.unwrap();
        let mut task = helpers.run(|_| 1).unwrap();
        drop(open);
        wakes.recv().unwrap();
        assert_eq!(lost.poll(), TaskState::Lost);
        assert_eq!(task.wait(LONG), TaskState::Done(1));
        assert_eq!(helpers.shared.state().num_threads, 1);
    }

    #[test]
    fn a_thread_that_is_not_idle_any_more_and_takes_no_work_is_not_counted() {
        let idle_time = Duration::from_millis(1);
        let helpers = Helpers::with_limits("test", 1, idle_time, STACK_BYTES, || ());
        for number in 0..200 {
            let mut task = helpers.run(move |_| number).unwrap();
            assert_eq!(task.wait(LONG), TaskState::Done(number));
            let mut was_idle = false;
            // Work that is queued at any of these moments finds a thread that takes it, or starts one.
            loop {
                let state = helpers.shared.state();
                was_idle |= state.num_idle == 1;
                if state.num_threads == 0 {
                    break;
                }
                assert!(!was_idle || state.num_idle == 1, "{number}");
            }
        }
    }

    #[test]
    fn work_that_waits_is_bounded_and_cancelled_work_makes_room() {
        let (helpers, _wakes) = helpers(1);
        let (_open, gate) = channel::<()>();
        let _hung = helpers.run(move |_| gate.recv().is_ok()).unwrap();
        while !helpers.shared.state().queue.is_empty() {
            thread::yield_now();
        }
        let mut tasks: Vec<_> = (0..MOST_QUEUED).map(|_| helpers.run(|_| ())).collect();
        assert!(tasks.iter().all(Result::is_ok));
        let refused = helpers.run(|_| ()).unwrap_err();
        assert_eq!(refused.status(), Status::ERR_OUT_OF_RESOURCE);
        tasks.truncate(10);
        assert!(helpers.run(|_| ()).is_ok());
        assert_eq!(helpers.shared.state().queue.len(), 11);
    }
}
