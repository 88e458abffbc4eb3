// SPDX-License-Identifier: MIT OR Apache-2.0
//! The termination of a job as a state machine. Its decisions have no side effects and get the time as an argument.
//!
//! | state | meaning | leads to |
//! | --- | --- | --- |
//! | `Running` | no termination was requested; a time limit may run | `Asked` by a failure or the time limit; `Killed` by an interrupt, or by processes that ignore a signal; `Ended` with the last process |
//! | `Asked` | SIGTERM was sent, or will be in a moment | `Killed` after the grace period; `Ended` with the last process |
//! | `Killed` | SIGKILL was sent | `Over` with the last process |
//! | `Ended` | no process is left; orphans and open streams have the grace period | `Over` after it |
//! | `Over` | orphans were killed; streams are abandoned after a moment, and unread output is lost after another grace period | - |
//!
//! Before `Running`, the agent starts the processes. A job in any state may end its start early by `Killed`.

use std::time::{Duration, Instant};

use pmix_types::Rank;

use crate::process::{Ending, Link};
use crate::{Cause, Plan};

/// The time for which pipes may stay open after all processes were killed. A process that holds them then has left
/// its process group and is not waited for.
const ABANDON: Duration = Duration::from_millis(200);

/// The time within which a repeated signal counts as one: `timeout` signals its child and then its process group,
/// which contains the child.
const DUPLICATE: Duration = Duration::from_millis(50);

/// The delay between a terminating signal and the message that names the processes that still run. Most processes
/// exit sooner, so that no message is needed.
const REPORT_DELAY: Duration = Duration::from_millis(500);

/// The time for the report of a job whose time limit has passed. With stacks, debuggers need longer. An examination
/// has a shorter limit of its own, so its result is complete before.
const DIAGNOSIS: Duration = Duration::from_secs(2);
const DIAGNOSIS_WITH_STACKS: Duration = Duration::from_secs(60);
/// The same if agents of other nodes are asked first.
const DIAGNOSIS_OVER_NODES: Duration = Duration::from_secs(8);

/// The longest grace period. A longer one would overflow the clock.
const LONGEST: Duration = Duration::from_secs(100 * 366 * 24 * 3600);

/// An action on the processes of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The report of what they wait for. The job is terminated when the report is complete.
    Diagnose,
    /// A report that they still run, with the time of the kill.
    Report(Unheeded),
    /// The request to terminate (SIGTERM).
    Ask,
    /// The request to terminate after a moment in which processes may exit by themselves.
    AskSoon,
    /// The kill.
    Kill,
    /// The kill of processes that did not exit after a forwarded signal.
    KillUnheeded(Unheeded),
    /// The end of waiting for output of orphans.
    Abandon,
    /// The end of waiting for readers of the output.
    Lose,
}

/// A forwarded terminating signal after which some processes still run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unheeded {
    pub(crate) signal: i32,
    /// The time between the signal and the kill.
    pub(crate) grace: Duration,
    /// The rest of that time.
    pub(crate) left: Duration,
}

/// The meaning of a terminating signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interrupt {
    /// A new signal, which is forwarded to the processes.
    Forward,
    /// A duplicate of a signal that was just forwarded.
    Duplicate,
    /// A repeated signal: the user does not want to wait.
    Repeated,
}

/// The state of a job; the module has the table of transitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobState {
    Running,
    Asked,
    Killed,
    Ended,
    Over,
}

/// The termination of a job.
#[derive(Debug)]
pub(crate) struct Stop {
    state: JobState,
    grace: Duration,
    keep_going: bool,
    /// `true` if other processes continue after a nonzero exit code.
    spares_exit_codes: bool,
    limit: Option<Duration>,
    /// The longest time for the report of a passed time limit.
    diagnosis: Duration,
    /// `true` after the time limit.
    is_late: bool,
    /// The next step, and its time.
    next: Option<(Instant, Step)>,
    cause: Option<Cause>,
    impatient: bool,
    /// The forwarded signals with their times.
    interrupts: Vec<(i32, Instant)>,
    /// `true` if the processes that ignore the first of them were reported.
    is_reported: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    TimeUp,
    /// The end of the wait for the report of a passed time limit.
    Diagnosed,
    Kill,
    Abandon,
    Lose,
}

impl Stop {
    pub(crate) fn new(plan: &Plan, now: Instant) -> Self {
        Self {
            state: JobState::Running,
            grace: plan.grace.min(LONGEST),
            keep_going: plan.keep_going,
            spares_exit_codes: false,
            limit: plan.timeout,
            diagnosis: match (plan.diagnosis.stacks, plan.has_agents()) {
                (true, _) => DIAGNOSIS_WITH_STACKS,
                (false, true) => DIAGNOSIS_OVER_NODES,
                (false, false) => DIAGNOSIS,
            },
            is_late: false,
            next: plan
                .timeout
                .and_then(|t| Some((now.checked_add(t)?, Step::TimeUp))),
            cause: None,
            impatient: false,
            interrupts: Vec::new(),
            is_reported: false,
        }
    }

    /// Lets other processes continue after a nonzero exit code if `true` (`PMIX_ABORT_NON_ZERO_TERM` is false).
    pub(crate) fn sparing_exit_codes_if(self, spares_exit_codes: bool) -> Self {
        Self {
            spares_exit_codes,
            ..self
        }
    }

    /// Records a terminating signal.
    pub(crate) fn interrupted(&mut self, signal: i32, now: Instant) -> Interrupt {
        let mut known = self.interrupts.iter();
        match known.find(|(known, _)| *known == signal) {
            Some((_, first)) if now.saturating_duration_since(*first) < DUPLICATE => {
                Interrupt::Duplicate
            }
            Some(_) => Interrupt::Repeated,
            None => {
                self.interrupts.push((signal, now));
                Interrupt::Forward
            }
        }
    }

    /// Returns `true` after a terminating signal. No more processes are started then.
    pub(crate) fn is_interrupted(&self) -> bool {
        !self.interrupts.is_empty()
    }

    /// Returns the first forwarded signal while processes have time to exit.
    fn unheeded(&self) -> Option<(i32, Instant)> {
        let is_open = matches!(self.state, JobState::Running | JobState::Asked);
        (self.interrupts.first().copied()).filter(|_| is_open)
    }

    /// Returns `true` if the user does not want to wait for anything.
    pub(crate) fn is_impatient(&self) -> bool {
        self.impatient
    }

    /// Restarts the time for readers of the output.
    pub(crate) fn wait_for_readers(&mut self, now: Instant) {
        self.next = Some((now + self.grace, Step::Lose));
    }

    /// Returns `true` if the launcher is to exit even if output is lost.
    fn must_end(&self) -> bool {
        match self.cause {
            Some(Cause::TimedOut(_)) => true,
            // The processes terminated because of a signal.
            Some(_) => !self.interrupts.is_empty(),
            None => false,
        }
    }

    /// Returns `true` if the processes were requested to terminate or were killed.
    pub(crate) fn is_ending(&self) -> bool {
        self.state != JobState::Running
    }

    /// Returns `true` if the time limit has passed. The job ends other jobs then, even if its last process exits
    /// during the report.
    pub(crate) fn is_late(&self) -> bool {
        self.is_late
    }

    /// Returns `true` if the processes were killed.
    pub(crate) fn is_killed(&self) -> bool {
        matches!(self.state, JobState::Killed | JobState::Over)
    }

    /// Returns the first failure.
    pub(crate) fn cause(&self) -> Option<&Cause> {
        self.cause.as_ref()
    }

    /// Returns the rest of the time limit, if there is one.
    pub(crate) fn time_left(&self, now: Instant) -> Option<Duration> {
        match self.next {
            Some((when, Step::TimeUp)) => Some(when.saturating_duration_since(now)),
            _ => None,
        }
    }

    /// Returns the time for the next [`Stop::tick`].
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let unheeded = self.unheeded().map(|(_, since)| match self.is_reported {
            true => since + self.grace,
            false => since + self.grace.min(REPORT_DELAY),
        });
        let next = self.next.map(|(when, _)| when);
        [unheeded, next].into_iter().flatten().min()
    }

    /// Handles the end of a process.
    pub(crate) fn ended(
        &mut self,
        rank: Rank,
        ending: Ending,
        link: Link,
        now: Instant,
    ) -> Option<Order> {
        let cause = match (ending.is_success(), link) {
            (false, _) => Cause::Failed { rank, ending },
            (true, Link::Connected) => Cause::NotFinalized { rank },
            (true, Link::None | Link::Finalized) => return None,
        };
        // The first failure counts; later ones are often its consequences.
        self.cause.get_or_insert(cause);
        // Others may be waiting for a process that did not finalize, whatever its exit code.
        let is_spared = matches!(ending, Ending::Exited(_)) && link != Link::Connected;
        match self.keep_going || self.spares_exit_codes && is_spared {
            true => None,
            // The others are probably about to exit as well, and SIGTERM would end them before they have written their
            // buffered output.
            false if link == Link::Finalized && matches!(ending, Ending::Exited(_)) => {
                self.ask(now).map(|_| Order::AskSoon)
            }
            false => self.ask(now),
        }
    }

    /// Handles another failure of the job.
    pub(crate) fn fail(&mut self, cause: Cause, now: Instant) -> Option<Order> {
        self.impatient |= matches!(cause, Cause::Interrupted { .. });
        self.cause.get_or_insert(cause);
        match self.impatient {
            true => Some(self.kill(now)),
            false => self.ask(now),
        }
    }

    /// Records that all processes have ended. Their orphans may still write to the pipes.
    pub(crate) fn all_ended(&mut self, now: Instant) {
        let (state, step, wait) = match self.state {
            JobState::Running | JobState::Asked | JobState::Ended => {
                (JobState::Ended, Step::Kill, self.grace)
            }
            JobState::Killed | JobState::Over => (JobState::Over, Step::Abandon, ABANDON),
        };
        self.state = state;
        // A pending step of the termination keeps its time; the time limit is replaced.
        let is_ending = self
            .next
            .is_some_and(|(_, step)| !matches!(step, Step::TimeUp | Step::Diagnosed));
        if !is_ending {
            self.next = Some((now + wait, step));
        }
    }

    /// Returns the action that is due at the time from [`Stop::deadline`].
    pub(crate) fn tick(&mut self, now: Instant) -> Option<Order> {
        if let Some(order) = self.tick_unheeded(now) {
            return Some(order);
        }
        let (_, step) = self.next.take_if(|(when, _)| *when <= now)?;
        match step {
            Step::TimeUp => {
                // The first failure counts, even if all processes end during the report.
                let limit = self.limit.unwrap_or_default();
                self.cause.get_or_insert(Cause::TimedOut(limit));
                self.is_late = true;
                self.next = Some((now + self.diagnosis, Step::Diagnosed));
                Some(Order::Diagnose)
            }
            Step::Diagnosed => self.ask(now),
            Step::Kill => Some(self.kill(now)),
            Step::Abandon if self.impatient => Some(Order::Lose),
            Step::Abandon => {
                if self.must_end() {
                    self.wait_for_readers(now);
                }
                Some(Order::Abandon)
            }
            Step::Lose => Some(Order::Lose),
        }
    }

    /// Returns the action that is due for processes that continue after a signal.
    fn tick_unheeded(&mut self, now: Instant) -> Option<Order> {
        let (signal, since) = self.unheeded()?;
        let grace = self.grace;
        let left = (since + grace).saturating_duration_since(now);
        let unheeded = Unheeded {
            signal,
            grace,
            left,
        };
        if left.is_zero() {
            let cause = Cause::Unheeded { signal, grace };
            self.cause.get_or_insert(cause);
            self.kill(now);
            return Some(Order::KillUnheeded(unheeded));
        }
        let is_due = !self.is_reported && now >= since + REPORT_DELAY;
        self.is_reported |= is_due;
        is_due.then_some(Order::Report(unheeded))
    }

    /// Ends the wait for the report of a passed time limit.
    pub(crate) fn diagnosed(&mut self, now: Instant) -> Option<Order> {
        self.next.take_if(|(_, step)| *step == Step::Diagnosed)?;
        self.ask(now)
    }

    fn ask(&mut self, now: Instant) -> Option<Order> {
        if self.state != JobState::Running {
            return None;
        }
        self.state = JobState::Asked;
        self.next = Some((now + self.grace, Step::Kill));
        Some(Order::Ask)
    }

    fn kill(&mut self, now: Instant) -> Order {
        self.state = match self.state {
            JobState::Running | JobState::Asked | JobState::Killed => JobState::Killed,
            JobState::Ended | JobState::Over => JobState::Over,
        };
        self.next = Some((now + ABANDON, Step::Abandon));
        Order::Kill
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(2);

    fn stop(timeout: Option<u64>, keep_going: bool) -> (Stop, Instant) {
        let now = Instant::now();
        let limit = timeout.map(Duration::from_secs);
        let stop = Stop {
            state: JobState::Running,
            grace: GRACE,
            keep_going,
            spares_exit_codes: false,
            limit,
            diagnosis: DIAGNOSIS,
            is_late: false,
            next: limit.map(|limit| (now + limit, Step::TimeUp)),
            cause: None,
            impatient: false,
            interrupts: Vec::new(),
            is_reported: false,
        };
        (stop, now)
    }

    fn ended(stop: &mut Stop, rank: u32, code: u8, link: Link, now: Instant) -> Option<Order> {
        stop.ended(Rank::new(rank), Ending::Exited(code), link, now)
    }

    #[test]
    fn the_first_failure_ends_the_job_and_is_its_cause() {
        let (mut stop, now) = stop(None, false);
        assert_eq!(ended(&mut stop, 0, 0, Link::None, now), None);
        assert_eq!(ended(&mut stop, 1, 0, Link::Finalized, now), None);
        assert_eq!(ended(&mut stop, 2, 3, Link::None, now), Some(Order::Ask));
        assert_eq!(ended(&mut stop, 3, 4, Link::None, now), None);
        assert_eq!(stop.cause().unwrap().exit_code(), 3);
        assert_eq!(stop.deadline(), Some(now + GRACE));
        assert_eq!(stop.tick(now), None);
        assert_eq!(stop.tick(now + GRACE), Some(Order::Kill));
    }

    #[test]
    fn others_may_exit_by_themselves_after_the_failure_of_a_finalized_process() {
        let (mut stop, now) = stop(None, false);
        let order = ended(&mut stop, 0, 3, Link::Finalized, now);
        assert_eq!(order, Some(Order::AskSoon));
        assert_eq!(ended(&mut stop, 1, 4, Link::Connected, now), None);
        assert_eq!(stop.tick(now + GRACE), Some(Order::Kill));
        let (mut other, now) = self::stop(None, false);
        let crashed = Ending::Signalled {
            signal: 11,
            core: false,
        };
        let order = other.ended(Rank::new(0), crashed, Link::Finalized, now);
        assert_eq!(order, Some(Order::Ask));
    }

    #[test]
    fn other_processes_continue_with_keep_going() {
        let (mut stop, now) = stop(None, true);
        assert_eq!(ended(&mut stop, 2, 3, Link::None, now), None);
        assert_eq!(stop.deadline(), None);
        let aborted = Cause::Aborted {
            rank: Rank::new(1),
            status: 9,
            message: String::new(),
        };
        assert_eq!(stop.fail(aborted, now), Some(Order::Ask));
        assert_eq!(stop.cause().unwrap().exit_code(), 3);
    }

    #[test]
    fn tolerated_exit_codes_do_not_excuse_crashes_or_missing_finalize() {
        let crash = Ending::Signalled {
            signal: 11,
            core: false,
        };
        for (ending, link) in [(crash, Link::None), (Ending::Exited(3), Link::Connected)] {
            let (stop, now) = stop(None, false);
            let mut stop = stop.sparing_exit_codes_if(true);
            assert_eq!(ended(&mut stop, 0, 3, Link::Finalized, now), None);
            assert!(!stop.is_ending());
            let order = stop.ended(Rank::new(1), ending, link, now);
            assert_eq!(order, Some(Order::Ask));
            assert_eq!(stop.cause().unwrap().exit_code(), 3);
        }
    }

    #[test]
    fn a_process_that_exits_between_init_and_finalize_fails() {
        let (mut stop, now) = stop(None, false);
        let order = ended(&mut stop, 5, 0, Link::Connected, now);
        assert_eq!(order, Some(Order::Ask));
        let rank = Rank::new(5);
        assert_eq!(stop.cause(), Some(&Cause::NotFinalized { rank }));
    }

    #[test]
    fn at_the_time_limit_processes_are_terminated_and_then_killed() {
        let (mut stop, now) = stop(Some(10), false);
        let up = now + Duration::from_secs(10);
        assert_eq!(stop.tick(up - GRACE), None);
        assert_eq!(stop.tick(up), Some(Order::Diagnose));
        assert_eq!(stop.cause().unwrap().exit_code(), 124);
        assert!(!stop.is_ending());
        assert_eq!(stop.diagnosed(up), Some(Order::Ask));
        assert_eq!(stop.diagnosed(up), None);
        assert_eq!(stop.tick(up + GRACE), Some(Order::Kill));
        assert_eq!(stop.cause().unwrap().exit_code(), 124);
    }

    #[test]
    fn a_job_is_terminated_even_if_the_report_of_its_time_limit_takes_long() {
        let (mut stop, now) = stop(Some(10), false);
        let up = now + Duration::from_secs(10);
        assert_eq!(stop.tick(up), Some(Order::Diagnose));
        assert_eq!(stop.deadline(), Some(up + DIAGNOSIS));
        assert_eq!(stop.tick(up + DIAGNOSIS), Some(Order::Ask));
        assert_eq!(stop.diagnosed(up + DIAGNOSIS), None);
    }

    #[test]
    fn an_interrupted_job_is_killed_at_once() {
        let (mut stop, now) = stop(None, false);
        let cause = Cause::Interrupted { signal: 2 };
        assert_eq!(stop.fail(cause, now), Some(Order::Kill));
    }

    #[test]
    fn a_signal_repeated_within_the_interval_counts_once() {
        let (mut stop, now) = stop(None, false);
        assert_eq!(stop.interrupted(15, now), Interrupt::Forward);
        assert_eq!(stop.interrupted(15, now), Interrupt::Duplicate);
        assert_eq!(stop.interrupted(2, now), Interrupt::Forward);
        assert_eq!(stop.interrupted(15, now + DUPLICATE), Interrupt::Repeated);
    }

    #[test]
    fn processes_that_ignore_a_signal_are_named_and_then_killed() {
        let (mut stop, now) = stop(None, true);
        assert_eq!(stop.interrupted(2, now), Interrupt::Forward);
        assert!(stop.is_interrupted() && !stop.is_ending());
        assert_eq!(stop.deadline(), Some(now + REPORT_DELAY));
        assert_eq!(stop.tick(now + REPORT_DELAY / 2), None);
        let unheeded = |left| Unheeded {
            signal: 2,
            grace: GRACE,
            left,
        };
        let report = Order::Report(unheeded(GRACE - REPORT_DELAY));
        assert_eq!(stop.tick(now + REPORT_DELAY), Some(report));
        assert_eq!(stop.tick(now + REPORT_DELAY), None);
        // Another signal does not extend the time.
        assert_eq!(stop.interrupted(15, now + REPORT_DELAY), Interrupt::Forward);
        let end = now + GRACE;
        assert_eq!(stop.deadline(), Some(end));
        let killed = Order::KillUnheeded(unheeded(Duration::ZERO));
        assert_eq!(stop.tick(end), Some(killed));
        assert_eq!(stop.cause().unwrap().exit_code(), 130);
        assert_eq!(stop.tick(end + ABANDON), Some(Order::Abandon));
    }

    #[test]
    fn processes_that_obey_a_signal_are_not_reported() {
        let (mut stop, now) = stop(None, false);
        stop.interrupted(15, now);
        let order = ended(&mut stop, 0, 143, Link::None, now);
        assert_eq!(order, Some(Order::Ask));
        stop.all_ended(now);
        assert_eq!(stop.deadline(), Some(now + GRACE));
        assert_eq!(stop.tick(now + GRACE), Some(Order::Kill));
        // The time limit since the signal does not start again when a rank fails because of it.
        let (mut stop, now) = self::stop(None, false);
        stop.interrupted(15, now);
        let later = now + GRACE / 2;
        assert_eq!(
            ended(&mut stop, 0, 143, Link::None, later),
            Some(Order::Ask)
        );
        assert!(matches!(stop.tick(later), Some(Order::Report(_))));
        assert!(matches!(
            stop.tick(now + GRACE),
            Some(Order::KillUnheeded(_))
        ));
        assert_eq!(stop.cause().unwrap().exit_code(), 143);
    }

    #[test]
    fn an_unlimited_grace_does_not_overflow_the_clock() {
        let plan = Plan {
            grace: Duration::MAX,
            ..Plan::of_test(&[1])
        };
        let now = Instant::now();
        let mut stop = Stop::new(&plan, now);
        stop.interrupted(15, now);
        assert!(matches!(
            stop.tick(now + REPORT_DELAY),
            Some(Order::Report(_))
        ));
        assert!(stop.deadline().is_some());
        stop.fail(Cause::TimedOut(GRACE), now);
        assert!(stop.deadline().is_some());
    }

    #[test]
    fn holders_of_the_pipes_are_waited_for_then_killed_then_abandoned() {
        let (mut stop, now) = stop(Some(100), false);
        stop.all_ended(now);
        stop.all_ended(now + GRACE / 2);
        assert_eq!(stop.tick(now + GRACE), Some(Order::Kill));
        let later = now + GRACE + ABANDON;
        assert_eq!(stop.tick(later), Some(Order::Abandon));
        assert_eq!(stop.deadline(), None);
    }

    #[test]
    fn readers_that_make_progress_get_the_time_limit_again() {
        let (mut stop, now) = stop(Some(1), false);
        assert_eq!(stop.tick(now + GRACE), Some(Order::Diagnose));
        assert_eq!(stop.diagnosed(now + GRACE), Some(Order::Ask));
        let killed = now + 2 * GRACE;
        assert_eq!(stop.tick(killed), Some(Order::Kill));
        stop.all_ended(killed);
        let abandoned = killed + ABANDON;
        assert_eq!(stop.tick(abandoned), Some(Order::Abandon));
        assert_eq!(stop.tick(abandoned + GRACE / 2), None);
        // Readers that made progress get the same time again.
        let later = abandoned + GRACE;
        assert_eq!(stop.tick(later), Some(Order::Lose));
        stop.wait_for_readers(later);
        assert_eq!(stop.deadline(), Some(later + GRACE));
    }

    #[test]
    fn after_an_interrupt_readers_are_not_waited_for() {
        let (mut stop, now) = stop(None, false);
        let cause = Cause::Interrupted { signal: 2 };
        assert_eq!(stop.fail(cause, now), Some(Order::Kill));
        assert_eq!(stop.tick(now + ABANDON), Some(Order::Lose));
    }
}
