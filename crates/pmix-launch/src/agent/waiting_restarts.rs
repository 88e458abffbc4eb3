// SPDX-License-Identifier: MIT OR Apache-2.0
//! The processes that wait for their restart, with their delays.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use pmix_host::helpers::{Task, TaskState};
use pmix_types::Proc;

use crate::Error;
use crate::output::RankFiles;
use crate::process::StartResult;

/// The run time below which a process counts as failed right after its start.
const AT_ONCE: Duration = Duration::from_secs(1);

/// The delay after the second consecutive failure of that kind; it doubles with each further one.
const FIRST: Duration = Duration::from_millis(10);

/// The time after which a process is given up whose files are still being removed or opened: the file system may
/// hang.
const FILE_LIMIT: Duration = Duration::from_secs(30);

/// The longest delay.
const LONGEST: Duration = Duration::from_secs(5);

/// The processes that wait for their restart, ordered by time.
///
/// They are handed out one by one, so that the session can do other work between two restarts.
#[derive(Debug, Default)]
pub(crate) struct WaitingRestarts {
    waiting: BTreeMap<(Instant, u64), Proc<'static>>,
    /// The processes that are due, but whose files are still being removed, with the time since when.
    held: Vec<(Proc<'static>, Instant)>,
    /// The processes whose files are being opened.
    opening: Vec<InThread<Result<RankFiles, Error>>>,
    /// The processes whose files are open, with the time since when.
    opened: VecDeque<(Opened, Instant)>,
    /// The processes that threads start.
    starting: Vec<InThread<StartResult>>,
    last: u64,
}

/// A process whose files a thread opens, or that a thread starts.
#[derive(Debug)]
struct InThread<T> {
    proc: Proc<'static>,
    task: Task<T>,
    since: Instant,
}

/// A process with its open files, or with the error of opening them.
pub(crate) type Opened = (Proc<'static>, Result<RankFiles, Error>);

impl WaitingRestarts {
    /// Schedules the restart of a process.
    pub(crate) fn add(&mut self, proc: Proc<'static>, due: Instant) {
        self.last += 1;
        self.waiting.insert((due, self.last), proc);
    }

    /// Holds a process that is due until [`Self::release`].
    pub(crate) fn hold(&mut self, proc: Proc<'static>, now: Instant) {
        self.held.push((proc, now));
    }

    /// Schedules the held processes that are free now.
    pub(crate) fn release(&mut self, now: Instant, is_free: impl Fn(&Proc<'static>) -> bool) {
        let (free, held) = (self.held.drain(..)).partition(|(proc, _)| is_free(proc));
        self.held = held;
        let free: Vec<_> = free;
        for (proc, _) in free {
            self.add(proc, now);
        }
    }

    /// Keeps a process whose files a thread opens.
    pub(crate) fn open(
        &mut self,
        proc: Proc<'static>,
        task: Task<Result<RankFiles, Error>>,
        now: Instant,
    ) {
        self.opening.push(InThread {
            proc,
            task,
            since: now,
        });
    }

    /// Returns the first process whose files are open.
    pub(crate) fn next_opened(&mut self, now: Instant) -> Option<Opened> {
        let opened = &mut self.opened;
        self.opening.retain_mut(|InThread { proc, task, .. }| {
            let result = match task.poll() {
                TaskState::Pending => return true,
                TaskState::Done(result) => result,
                TaskState::Lost => Err(Error::request(
                    "cannot restart the process: the thread that opened its output files failed",
                )),
            };
            opened.push_back(((proc.clone(), result), now));
            false
        });
        self.opened.pop_front().map(|(opened, _)| opened)
    }

    /// Keeps a process that a thread starts.
    pub(crate) fn start(&mut self, proc: Proc<'static>, task: Task<StartResult>, now: Instant) {
        self.starting.push(InThread {
            proc,
            task,
            since: now,
        });
    }

    /// Returns `true` if a thread starts the process.
    pub(crate) fn is_starting(&self, proc: &Proc<'_>) -> bool {
        self.starting.iter().any(|starting| starting.proc == *proc)
    }

    /// Returns the next process that was started, or the error of its start.
    pub(crate) fn next_started(&mut self) -> Option<(Proc<'static>, StartResult)> {
        for index in 0..self.starting.len() {
            let result = match self.starting[index].task.poll() {
                TaskState::Pending => continue,
                TaskState::Done(result) => result,
                TaskState::Lost => Err(Error::request("the thread that started it panicked")),
            };
            return Some((self.starting.swap_remove(index).proc, result));
        }
        None
    }

    /// Returns the processes whose files take too long to be removed or opened, each with a message.
    pub(crate) fn take_overdue(&mut self, now: Instant) -> Vec<(Proc<'static>, String)> {
        let is_late = |since: &Instant| now.saturating_duration_since(*since) >= FILE_LIMIT;
        let why = |what: &str| {
            let seconds = FILE_LIMIT.as_secs();
            format!("{what} in {seconds} s: the file system may not answer")
        };
        let held = self.held.extract_if(.., |(_, since)| is_late(since));
        let mut overdue: Vec<_> = held
            .map(|(proc, _)| (proc, why("its files were not removed")))
            .collect();
        let opening = (self.opening).extract_if(.., |opening| is_late(&opening.since));
        overdue.extend(opening.map(|opening| (opening.proc, why("its files were not opened"))));
        let starting = (self.starting).extract_if(.., |starting| is_late(&starting.since));
        let not_started = "its program was not executed";
        overdue.extend(starting.map(|starting| (starting.proc, why(not_started))));
        overdue
    }

    /// Returns `true` if no process waits.
    pub(crate) fn is_empty(&self) -> bool {
        let has_no_files =
            self.held.is_empty() && self.opening.is_empty() && self.opened.is_empty();
        self.waiting.is_empty() && has_no_files && self.starting.is_empty()
    }

    /// Returns the time of the next restart, or of the next process to give up because of its files.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let due = self.waiting.first_key_value().map(|((due, _), _)| *due);
        let opened = self.opened.front().map(|(_, since)| *since);
        let held = self.held.iter().map(|(_, since)| *since);
        let opening = self.opening.iter().map(|opening| opening.since);
        let starting = self.starting.iter().map(|starting| starting.since);
        let since = held.chain(opening).chain(starting);
        let late = since.min().map(|since| since + FILE_LIMIT);
        [due, opened, late].into_iter().flatten().min()
    }

    /// Returns the next process that is due.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Proc<'static>> {
        let first = self.waiting.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    /// Removes and returns the processes that match, which are not to be restarted.
    pub(crate) fn take(&mut self, is_meant: impl Fn(&Proc<'_>) -> bool) -> Vec<Proc<'static>> {
        let meant = self.waiting.iter().filter(|(_, proc)| is_meant(proc));
        let meant: Vec<_> = meant.map(|(key, _)| *key).collect();
        let taken = meant.iter().filter_map(|key| self.waiting.remove(key));
        let mut taken: Vec<_> = taken.collect();
        let held = self.held.extract_if(.., |(proc, _)| is_meant(proc));
        taken.extend(held.map(|(proc, _)| proc));
        let opening = (self.opening).extract_if(.., |opening| is_meant(&opening.proc));
        taken.extend(opening.map(|opening| opening.proc));
        let starting = (self.starting).extract_if(.., |starting| is_meant(&starting.proc));
        taken.extend(starting.map(|starting| starting.proc));
        let opened = std::mem::take(&mut self.opened).into_iter();
        let (meant, kept) = opened.partition(|((proc, _), _)| is_meant(proc));
        self.opened = kept;
        let meant: VecDeque<(Opened, Instant)> = meant;
        taken.extend(meant.into_iter().map(|((proc, _), _)| proc));
        taken
    }
}

/// Returns the number of consecutive failures right after the start, from the number before and the run time.
pub(crate) fn num_at_once(before: u32, ran: Duration) -> u32 {
    match ran < AT_ONCE {
        true => before.saturating_add(1),
        false => 0,
    }
}

/// Returns the delay after this number of consecutive failures; there is none after the first.
pub(crate) fn delay(num_at_once: u32) -> Duration {
    let Some(doubled) = num_at_once.checked_sub(2) else {
        return Duration::ZERO;
    };
    let factor = 1u32.checked_shl(doubled).unwrap_or(u32::MAX);
    FIRST.saturating_mul(factor).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::sync::{Arc, Mutex};

    use pmix_host::helpers::Helpers;
    use pmix_types::Rank;

    use super::*;

    fn proc(rank: u32) -> Proc<'static> {
        Proc::new("job", Rank::new(rank))
    }

    #[test]
    fn one_comes_at_a_time_in_the_order_of_their_times() {
        let now = Instant::now();
        let later = now + Duration::from_secs(1);
        let mut waiting = WaitingRestarts::default();
        assert_eq!((waiting.deadline(), waiting.next(now)), (None, None));
        for (rank, due) in [(0, later), (1, now), (2, now)] {
            waiting.add(proc(rank), due);
        }
        assert_eq!(waiting.deadline(), Some(now));
        assert_eq!(waiting.next(now), Some(proc(1)));
        assert_eq!(waiting.next(now), Some(proc(2)));
        assert_eq!((waiting.next(now), waiting.deadline()), (None, Some(later)));
        assert_eq!(waiting.next(later), Some(proc(0)));
    }

    #[test]
    fn those_that_are_given_up_do_not_come() {
        let now = Instant::now();
        let mut waiting = WaitingRestarts::default();
        (0..4).for_each(|rank| waiting.add(proc(rank), now));
        let taken = waiting.take(|proc| proc.rank.as_raw() % 2 == 0);
        assert_eq!(taken, [proc(0), proc(2)]);
        assert_eq!(waiting.next(now), Some(proc(1)));
        assert_eq!(waiting.next(now), Some(proc(3)));
        assert_eq!(waiting.next(now), None);
    }

    #[test]
    fn a_process_that_is_held_comes_once_it_is_released_and_can_be_given_up() {
        let now = Instant::now();
        let later = now + FILE_LIMIT / 2;
        let mut waiting = WaitingRestarts::default();
        (1..4).for_each(|rank| waiting.hold(proc(rank), now));
        assert_eq!(waiting.next(now), None);
        assert_eq!(waiting.take(|held| *held == proc(1)), [proc(1)]);
        waiting.release(later, |held| *held == proc(2));
        assert_eq!(waiting.deadline(), Some(later));
        assert_eq!(waiting.next(later), Some(proc(2)));
        // The time limit of the other process continues from its first hold.
        assert_eq!(waiting.deadline(), Some(now + FILE_LIMIT));
        assert_eq!(waiting.take_overdue(later), []);
        let overdue = waiting.take_overdue(now + FILE_LIMIT);
        let [(given_up, why)] = &overdue[..] else {
            panic!("{overdue:?}");
        };
        assert_eq!(*given_up, proc(3));
        assert!(why.contains("not removed in 30 s"), "{why}");
        assert!(waiting.is_empty());
    }

    #[test]
    fn a_process_comes_once_its_files_are_open_and_is_given_up_if_they_take_too_long() {
        let now = Instant::now();
        let helpers = Helpers::new("test", 3, || ());
        let (open, gate) = channel::<()>();
        let mut waiting = WaitingRestarts::default();
        let refused = helpers.run(|_| Err(Error::request("refused"))).unwrap();
        waiting.open(proc(1), refused, now);
        let (own, hangs) = (Arc::new(Mutex::new(gate)), 2..5);
        for rank in hangs {
            let gate = Arc::clone(&own);
            let hung = helpers.run(move |_| {
                let _ = gate.lock().unwrap().recv();
                Err(Error::request("let go"))
            });
            waiting.open(proc(rank), hung.unwrap(), now);
        }
        let (ready, result) = loop {
            if let Some(opened) = waiting.next_opened(now) {
                break opened;
            }
            std::thread::yield_now();
        };
        assert_eq!(ready, proc(1));
        assert_eq!(result.unwrap_err().to_string(), "refused");
        assert_eq!(waiting.take(|opening| *opening == proc(2)), [proc(2)]);
        assert_eq!(waiting.deadline(), Some(now + FILE_LIMIT));
        let overdue = waiting.take_overdue(now + FILE_LIMIT);
        let why = "its files were not opened in 30 s: the file system may not answer";
        let expected = [3, 4].map(|rank| (proc(rank), why.to_owned()));
        assert_eq!(overdue, expected);
        assert!(waiting.is_empty());
        drop(open);
    }

    #[test]
    fn who_fails_again_and_again_at_once_waits_longer_and_longer() {
        let delays = [0, 1, 2, 3, 4, 12, 40, u32::MAX].map(|number| delay(number).as_millis());
        assert_eq!(delays, [0, 0, 10, 20, 40, 5000, 5000, 5000]);
        assert_eq!(num_at_once(7, AT_ONCE / 2), 8);
        assert_eq!(num_at_once(7, AT_ONCE), 0);
        assert_eq!(num_at_once(u32::MAX, Duration::ZERO), u32::MAX);
    }
}
