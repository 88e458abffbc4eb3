// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that start processes.
//!
//! The starting thread waits until the kernel has executed the program (`vfork`). That takes longer than everything
//! else that the launcher does for a process, and does not end while the file system of the program hangs. So helper
//! threads start all processes, and several processes start at a time. Preparation and follow-up stay on the thread
//! of the launcher, in the order of the processes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use pmix_host::helpers::{Helpers, Task, TaskState};
use rustix::process::{Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::spawn::{Ready, Spawner, Started};
use crate::Error;

/// The largest number of processes of one job that are ready, or started and not yet adopted. Each of them may take a
/// thread.
const AHEAD: usize = 4;

/// The largest number of threads. While some wait for a file system that hangs, others start the processes of other
/// jobs.
const MOST_THREADS: usize = 32;

/// The threads that start processes.
pub(crate) struct Starters {
    helpers: Helpers,
    /// The number of processes that are being started and are in no table yet.
    num_in_flight: Arc<AtomicUsize>,
}

/// The result of the start of a process.
pub(crate) type StartResult = Result<Unadopted, Error>;

/// A started process that is in no table yet. Dropping it kills and reaps the process, because its job was given up
/// meanwhile.
pub(crate) struct Unadopted {
    started: Option<Started>,
    _in_flight: InFlight,
}

/// A guard that counts a process as long as it is in no table.
struct InFlight(Arc<AtomicUsize>);

impl InFlight {
    fn begin(num: &Arc<AtomicUsize>) -> Self {
        num.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(num))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for Unadopted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let process = self.started.as_ref().map(|started| &started.process);
        f.debug_tuple("Unadopted").field(&process).finish()
    }
}

impl Unadopted {
    /// Returns the process for a table.
    pub(crate) fn adopt(mut self) -> Option<Started> {
        self.started.take()
    }
}

impl Drop for Unadopted {
    fn drop(&mut self) {
        if let Some(started) = self.started.take() {
            let pid = started.process.pid;
            let _ = kill_process_group(pid, Signal::KILL);
            // A process that waits for a disk ends only when the disk answers, and this may be the progress thread.
            let reap = move || _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED);
            if let Err(error) = thread::Builder::new().name("pmix-reap".into()).spawn(reap) {
                tracing::debug!(%error, "a process that was given up is not reaped");
            }
        }
    }
}

impl Starters {
    /// Creates starters without threads. `wake` is called after each start.
    pub(crate) fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            helpers: Helpers::new("pmix-start", MOST_THREADS, wake),
            num_in_flight: Arc::default(),
        }
    }

    /// Lets a thread start a process. Dropping the task gives the process up.
    ///
    /// # Errors
    /// Returns [`Error`] if there is no thread and none can be started.
    pub(crate) fn start(
        &self,
        spawner: &Arc<Spawner>,
        ready: Ready,
    ) -> Result<Task<StartResult>, Error> {
        let spawner = Arc::clone(spawner);
        let in_flight = InFlight::begin(&self.num_in_flight);
        let task = self.helpers.run(move |_| {
            spawner.start(ready).map(|started| Unadopted {
                started: Some(started),
                _in_flight: in_flight,
            })
        });
        task.map_err(|e| Error::no_room(format!("cannot start a process: {e}")))
    }

    /// Returns `true` while a child of the launcher may be a process that is in no table yet.
    pub(crate) fn are_busy(&self) -> bool {
        self.num_in_flight.load(Ordering::Relaxed) > 0
    }
}

/// The start of the processes of one job.
pub(crate) struct JobStart {
    spawner: Arc<Spawner>,
    num_procs: usize,
    num_prepared: usize,
    num_adopted: usize,
    /// The processes that threads are starting, by index.
    running: Vec<(usize, Task<StartResult>)>,
    /// The results that came before those of lower indexes.
    early: BTreeMap<usize, StartResult>,
    /// The first error. No further process is prepared after it.
    failed: Option<Error>,
}

impl JobStart {
    pub(crate) fn new(spawner: Spawner, num_procs: usize) -> Self {
        Self {
            spawner: Arc::new(spawner),
            num_procs,
            num_prepared: 0,
            num_adopted: 0,
            running: Vec::new(),
            early: BTreeMap::new(),
            failed: None,
        }
    }

    /// Advances the start without waiting. For each index, `prepare` returns the process to start and `adopt` receives
    /// the started process. Both are called in the order of the indexes. After an error no further process is
    /// prepared; processes that were already started are still adopted. Returns the result once the start is over.
    pub(crate) fn turn<C>(
        &mut self,
        starters: &Starters,
        context: &mut C,
        mut prepare: impl FnMut(&mut C, usize) -> Result<Ready, Error>,
        mut adopt: impl FnMut(&mut C, usize, Unadopted) -> Result<(), Error>,
    ) -> Option<Result<(), Error>> {
        self.collect();
        while let Some(result) = self.early.remove(&self.num_adopted) {
            let adopted = result.and_then(|started| adopt(context, self.num_adopted, started));
            if let Err(error) = adopted {
                self.failed.get_or_insert(error);
            }
            self.num_adopted += 1;
        }
        while self.failed.is_none()
            && self.num_prepared < self.num_procs
            && self.num_prepared - self.num_adopted < AHEAD
        {
            let ready = prepare(context, self.num_prepared);
            match ready.and_then(|ready| starters.start(&self.spawner, ready)) {
                Ok(task) => {
                    self.running.push((self.num_prepared, task));
                    self.num_prepared += 1;
                }
                Err(error) => self.failed = Some(error),
            }
        }
        let is_over = self.num_adopted == self.num_prepared;
        is_over.then(|| self.failed.take().map_or(Ok(()), Err))
    }

    /// Moves the results of finished threads to the early ones.
    fn collect(&mut self) {
        let early = &mut self.early;
        self.running.retain_mut(|(index, task)| {
            let result = match task.poll() {
                TaskState::Pending => return true,
                TaskState::Done(result) => result,
                TaskState::Lost => Err(Error::request("the thread that started it panicked")),
            };
            early.insert(*index, result);
            false
        });
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;
    use std::time::Duration;

    use pmix_host::helpers::Cancel;
    use pmix_types::Rank;

    use super::*;
    use crate::Plan;
    use crate::input::ProcessInput;
    use crate::job_info::Bound;
    use crate::output::{OwnStreams, Route};
    use crate::process::{CommandForm, Programs};

    /// Returns the spawner of a job of this number of processes, which run `true`.
    fn spawner(num: usize) -> Spawner {
        let plan = Plan::of_test(&[u32::try_from(num).unwrap()]);
        let form = CommandForm::default();
        let (apps, environment) = (&plan.apps, &plan.environment);
        let programs = Programs::find(apps, environment, false, &form, &Cancel::never());
        let programs = Arc::new(programs.unwrap());
        Spawner::new(Arc::new(plan), programs, &Bound::default(), form)
    }

    fn ready(index: usize) -> Ready {
        let null = std::fs::File::options().write(true).open("/dev/null");
        let null = null.unwrap();
        let own = OwnStreams::examine(null.as_fd(), null.as_fd());
        Ready {
            rank: Rank::new(u32::try_from(index).unwrap()),
            cpus: None,
            vars: Vec::new(),
            input: ProcessInput::File(crate::null::input().unwrap()),
            streams: Route::new(&Plan::of_test(&[1]), 1, own)
                .streams(None)
                .unwrap(),
            opens_files: false,
        }
    }

    /// Starts processes, of which one cannot be prepared or adopted. Returns the indexes that were prepared and
    /// adopted.
    fn start(
        num: usize,
        refused: Option<usize>,
        rejected: Option<usize>,
    ) -> (Vec<usize>, Vec<usize>, bool) {
        let starters = Starters::new(|| ());
        let mut start = JobStart::new(spawner(num), num);
        let mut places = (Vec::new(), Vec::new());
        let ended = loop {
            let ended = start.turn(
                &starters,
                &mut places,
                |(prepared, _), place| {
                    if refused == Some(place) {
                        return Err(Error::request("refused"));
                    }
                    prepared.push(place);
                    Ok(ready(place))
                },
                |(_, taken), place, started| {
                    let started = started.adopt().unwrap();
                    assert_eq!(started.process.rank.as_raw() as usize, place);
                    taken.push(place);
                    let pid = Some(started.process.pid);
                    let options = rustix::process::WaitOptions::empty();
                    assert!(rustix::process::waitpid(pid, options).unwrap().is_some());
                    match rejected == Some(place) {
                        true => Err(Error::request("rejected")),
                        false => Ok(()),
                    }
                },
            );
            match ended {
                Some(ended) => break ended,
                None => thread::sleep(Duration::from_millis(1)),
            }
        };
        assert!(!starters.are_busy());
        (places.0, places.1, ended.is_ok())
    }

    #[test]
    fn processes_are_prepared_and_adopted_in_their_order_by_one_thread_or_more() {
        for num in [1, AHEAD, AHEAD + 1, 50] {
            let all: Vec<_> = (0..num).collect();
            assert_eq!(start(num, None, None), (all.clone(), all, true));
        }
    }

    #[test]
    fn processes_started_before_an_error_are_adopted_and_none_is_prepared_after_it() {
        for num in [5, 50] {
            let (prepared, adopted, is_fine) = start(num, Some(3), None);
            assert_eq!(
                (prepared, adopted, is_fine),
                (vec![0, 1, 2], vec![0, 1, 2], false)
            );
            let (prepared, adopted, is_fine) = start(num, None, Some(3));
            assert!(
                !is_fine && prepared == adopted && prepared.len() <= 3 + AHEAD,
                "{adopted:?}"
            );
        }
    }

    #[test]
    fn a_process_whose_start_is_given_up_is_killed_and_reaped() {
        let starters = Starters::new(|| ());
        let spawner = Arc::new(spawner(1));
        let mut task = starters.start(&spawner, ready(0)).unwrap();
        let TaskState::Done(Ok(started)) = task.wait(Duration::from_secs(60)) else {
            panic!("not started");
        };
        assert!(starters.are_busy());
        let pid = started.started.as_ref().unwrap().process.pid;
        drop(started);
        assert!(!starters.are_busy());
        // Until a thread has reaped it, the process is a child of this one.
        let peek = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        while waitid(WaitId::Pid(pid), peek).is_ok() {
            thread::sleep(Duration::from_millis(1));
        }
        // A process whose task was dropped is dropped by the thread.
        drop(starters.start(&spawner, ready(0)).unwrap());
        while starters.are_busy() {
            thread::sleep(Duration::from_millis(1));
        }
    }
}
