// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that start processes, so that two processes start at a time.
//!
//! The starting thread waits until the kernel has executed the program (`vfork`), which takes longer than everything
//! else that the launcher does for a process. A second thread uses another processor meanwhile. Preparation and
//! follow-up stay on the thread of the launcher, in the order of the processes.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::affinity::allowed;
use super::spawn::{Ready, Spawner, Started};
use crate::Error;

/// The smallest number of processes for which threads are used; starting the threads costs time, too.
const LEAST: usize = 8;

/// The number of threads, if there are that many processors.
const THREADS: usize = 2;

/// The largest number of processes that are ready, or started and not yet taken.
const AHEAD: usize = 2 * THREADS;

/// The result of a start, with the index of the process.
type Outcome = (usize, Result<Started, Error>);

impl Spawner<'_> {
    /// Starts `num` processes. For each index, `prepare` returns the process to start and `take` receives the started
    /// process. Both are called on this thread in the order of the indexes. After an error no further process is
    /// prepared; processes that were already started are still taken.
    ///
    /// # Errors
    /// Returns the first [`Error`] of a process that could not be prepared, started or taken.
    pub(crate) fn start_all<'c, C>(
        &self,
        context: &mut C,
        num: usize,
        mut prepare: impl FnMut(&mut C, usize) -> Result<Ready<'c>, Error>,
        mut take: impl FnMut(&mut C, usize, Started) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let num_cpus = allowed().map_or(1, |cpus| cpus.len() as usize);
        let (ready, waiting) = channel();
        let waiting = Mutex::new(waiting);
        thread::scope(|scope| {
            let (done, started) = channel();
            let may_share = num >= LEAST && num_cpus >= THREADS && !self.traces();
            let num_threads = if may_share { THREADS } else { 0 };
            let begun = (0..num_threads).filter(|_| {
                let (waiting, done) = (&waiting, done.clone());
                let work = move || self.start_those(waiting, &done);
                let builder = thread::Builder::new().name("starter".to_owned());
                builder.spawn_scoped(scope, work).is_ok()
            });
            if begun.count() == 0 {
                return (0..num).try_for_each(|place| {
                    let started = self.start(prepare(context, place)?)?;
                    take(context, place, started)
                });
            }
            // The sender is moved here, so that it is dropped with this closure. That ends the threads.
            let ready = ready;
            let (mut num_prepared, mut num_taken) = (0, 0);
            let mut early = BTreeMap::new();
            let mut failed = None;
            loop {
                while failed.is_none() && num_prepared < num && num_prepared - num_taken < AHEAD {
                    let prepared = prepare(context, num_prepared).and_then(|next| {
                        let sent = ready.send((num_prepared, next));
                        sent.map_err(|_| {
                            Error::request("cannot start a thread that starts processes")
                        })
                    });
                    match prepared {
                        Ok(()) => num_prepared += 1,
                        Err(error) => failed = Some(error),
                    }
                }
                if num_taken == num_prepared {
                    return failed.map_or(Ok(()), Err);
                }
                let Ok((place, result)) = started.recv() else {
                    return Err(Error::request(
                        "cannot start a thread that starts processes",
                    ));
                };
                early.insert(place, result);
                while let Some(result) = early.remove(&num_taken) {
                    let taken = result.and_then(|started| take(context, num_taken, started));
                    if let Err(error) = taken {
                        failed.get_or_insert(error);
                    }
                    num_taken += 1;
                }
            }
        })
    }

    /// Starts processes from the channel until it is closed.
    fn start_those(&self, waiting: &Mutex<Receiver<(usize, Ready<'_>)>>, done: &Sender<Outcome>) {
        loop {
            let next = {
                let waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
                waiting.recv()
            };
            let Ok((place, ready)) = next else { return };
            if done.send((place, self.start(ready))).is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pmix_host::helpers::Cancel;
    use pmix_types::Rank;

    use super::*;
    use crate::Plan;
    use crate::job_info::Bound;
    use crate::process::{CommandForm, Programs, Standard};

    /// Starts processes, of which one cannot be prepared or taken. Returns the indexes that were prepared and taken.
    fn start(
        num: usize,
        refused: Option<usize>,
        rejected: Option<usize>,
    ) -> (Vec<usize>, Vec<usize>, bool) {
        let plan = Plan::of_test(&[u32::try_from(num).unwrap()]);
        let bound = Bound::default();
        let form = CommandForm::default();
        let programs = Programs::find(
            &plan.apps,
            &plan.environment,
            false,
            &form,
            &Cancel::never(),
        );
        let programs = programs.unwrap();
        let spawner = Spawner::new(&plan, &programs, &bound, &form).unwrap();
        let mut places = (Vec::new(), Vec::new());
        let ended = spawner.start_all(
            &mut places,
            num,
            |(prepared, _), place| {
                if refused == Some(place) {
                    return Err(Error::request("refused"));
                }
                prepared.push(place);
                Ok(Ready {
                    rank: Rank::new(u32::try_from(place).unwrap()),
                    cpus: None,
                    vars: Vec::new(),
                    standard: Standard {
                        input: std::process::Stdio::null(),
                        output: std::process::Stdio::null(),
                        errors: std::process::Stdio::null(),
                    },
                })
            },
            |(_, taken), place, started| {
                assert_eq!(started.process.rank.as_raw() as usize, place);
                taken.push(place);
                let pid = Some(started.process.pid);
                let waited = rustix::process::waitpid(pid, rustix::process::WaitOptions::empty());
                assert!(waited.unwrap().is_some());
                match rejected == Some(place) {
                    true => Err(Error::request("rejected")),
                    false => Ok(()),
                }
            },
        );
        (places.0, places.1, ended.is_ok())
    }

    #[test]
    fn processes_are_prepared_and_taken_in_their_order_by_one_thread_or_more() {
        for num in [1, LEAST - 1, LEAST, 50] {
            let all: Vec<_> = (0..num).collect();
            assert_eq!(start(num, None, None), (all.clone(), all, true));
        }
    }

    #[test]
    fn what_was_started_before_an_error_is_taken_and_nothing_is_prepared_after_it() {
        for num in [5, 50] {
            let (prepared, taken, is_fine) = start(num, Some(3), None);
            assert_eq!(
                (prepared, taken, is_fine),
                (vec![0, 1, 2], vec![0, 1, 2], false)
            );
            let (prepared, taken, is_fine) = start(num, None, Some(3));
            assert!(
                !is_fine && prepared == taken && prepared.len() <= 3 + AHEAD,
                "{taken:?}"
            );
        }
    }
}
