// SPDX-License-Identifier: MIT OR Apache-2.0
//! When and how a job is brought to its end: pure decisions, made with the time as an argument.

use std::time::{Duration, Instant};

use pmix_types::Rank;

use crate::process::{Ending, Link};
use crate::{Cause, Plan};

/// How long after everything was killed its pipes may stay open: who holds them then left its
/// process group, and is not waited for.
const ABANDON: Duration = Duration::from_millis(200);

/// How long after a signal another of its kind is the same one: `timeout` signals its child, and then
/// its process group with the child in it.
const SAME: Duration = Duration::from_millis(50);

/// What is to be done with the processes of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Ask them to end.
    Ask,
    /// End them.
    Kill,
    /// Wait no longer for what may still be written by what they left behind.
    Abandon,
    /// Wait no longer for readers either.
    Lose,
}

/// What a signal comes to that ends programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interrupt {
    /// The processes are to have it.
    HandOn,
    /// They have it already.
    Same,
    /// Whoever sends it again does not want to wait.
    Again,
}

/// Whether and why a job is to end.
#[derive(Debug)]
pub(super) struct Stop {
    grace: Duration,
    keep_going: bool,
    /// Whether the others go on when a process ends with another exit code than 0.
    spares_exit_codes: bool,
    limit: Option<Duration>,
    /// The next thing that happens if nothing else does.
    next: Option<(Instant, Step)>,
    cause: Option<Cause>,
    killed: bool,
    impatient: bool,
    /// The signals that were handed on, and when.
    interrupts: Vec<(i32, Instant)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    TimeUp,
    Kill,
    Abandon,
    Lose,
}

impl Stop {
    pub(super) fn new(plan: &Plan, now: Instant) -> Self {
        Self {
            grace: plan.grace,
            keep_going: plan.keep_going,
            spares_exit_codes: false,
            limit: plan.timeout,
            next: plan
                .timeout
                .and_then(|t| Some((now.checked_add(t)?, Step::TimeUp))),
            cause: None,
            killed: false,
            impatient: false,
            interrupts: Vec::new(),
        }
    }

    /// As it is, for a job whose other processes go on when one ends with another exit code than 0
    /// (`PMIX_ABORT_NON_ZERO_TERM` is false).
    pub(super) fn sparing_exit_codes_if(self, spares_exit_codes: bool) -> Self {
        Self {
            spares_exit_codes,
            ..self
        }
    }

    /// A signal came that ends programs.
    pub(super) fn interrupted(&mut self, signal: i32, now: Instant) -> Interrupt {
        let mut known = self.interrupts.iter();
        match known.find(|(known, _)| *known == signal) {
            Some((_, first)) if now.saturating_duration_since(*first) < SAME => Interrupt::Same,
            Some(_) => Interrupt::Again,
            None => {
                self.interrupts.push((signal, now));
                Interrupt::HandOn
            }
        }
    }

    /// Whether somebody wants to wait for nothing any more.
    pub(super) fn is_impatient(&self) -> bool {
        self.impatient
    }

    /// A reader took something, so it is given its time once more.
    pub(super) fn wait_for_readers(&mut self, now: Instant) {
        self.next = Some((now + self.grace, Step::Lose));
    }

    /// Whether somebody wants the launcher to end, be it without all of the output.
    fn is_told_to_end(&self) -> bool {
        match self.cause {
            Some(Cause::TimedOut(_)) => true,
            // Processes that were told to end, and did.
            Some(_) => !self.interrupts.is_empty(),
            None => false,
        }
    }

    /// Whether the processes were asked to end, or killed.
    pub(super) fn is_ending(&self) -> bool {
        self.killed || matches!(self.next, Some((_, Step::Kill)))
    }

    /// What went wrong first.
    pub(super) fn cause(&self) -> Option<&Cause> {
        self.cause.as_ref()
    }

    /// How much of the time limit is left, if there is one.
    pub(super) fn time_left(&self, now: Instant) -> Option<Duration> {
        match self.next {
            Some((when, Step::TimeUp)) => Some(when.saturating_duration_since(now)),
            _ => None,
        }
    }

    /// When [`Stop::tick`] is to be called.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.next.map(|(when, _)| when)
    }

    /// A process ended.
    pub(super) fn ended(
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
        self.cause.get_or_insert(cause);
        // Others may wait for who did not finalise, whatever its exit code is.
        let is_spared = matches!(ending, Ending::Exited(_)) && link != Link::Connected;
        match self.keep_going || self.spares_exit_codes && is_spared {
            true => None,
            false => self.ask(now),
        }
    }

    /// Something else is reason enough to end the job.
    pub(super) fn fail(&mut self, cause: Cause, now: Instant) -> Option<Order> {
        self.impatient |= matches!(cause, Cause::Interrupted { .. });
        self.cause.get_or_insert(cause);
        match self.impatient {
            true => Some(self.kill(now)),
            false => self.ask(now),
        }
    }

    /// All processes have ended, but not all pipes: what they left behind may still write.
    pub(super) fn all_ended(&mut self, now: Instant) {
        let step = if self.killed {
            Step::Abandon
        } else {
            Step::Kill
        };
        let wait = if self.killed { ABANDON } else { self.grace };
        let is_ending = self.next.is_some_and(|(_, step)| step != Step::TimeUp);
        if !is_ending {
            self.next = Some((now + wait, step));
        }
    }

    /// The time has come that [`Stop::deadline`] told, if it has.
    pub(super) fn tick(&mut self, now: Instant) -> Option<Order> {
        let (_, step) = self.next.take_if(|(when, _)| *when <= now)?;
        match step {
            Step::TimeUp => {
                let limit = self.limit.unwrap_or_default();
                self.fail(Cause::TimedOut(limit), now)
            }
            Step::Kill => Some(self.kill(now)),
            Step::Abandon if self.impatient => Some(Order::Lose),
            Step::Abandon => {
                if self.is_told_to_end() {
                    self.wait_for_readers(now);
                }
                Some(Order::Abandon)
            }
            Step::Lose => Some(Order::Lose),
        }
    }

    fn ask(&mut self, now: Instant) -> Option<Order> {
        let asked = matches!(self.next, Some((_, Step::Kill))) || self.killed;
        if asked {
            return None;
        }
        self.next = Some((now + self.grace, Step::Kill));
        Some(Order::Ask)
    }

    fn kill(&mut self, now: Instant) -> Order {
        self.killed = true;
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
            grace: GRACE,
            keep_going,
            spares_exit_codes: false,
            limit,
            next: limit.map(|limit| (now + limit, Step::TimeUp)),
            cause: None,
            killed: false,
            impatient: false,
            interrupts: Vec::new(),
        };
        (stop, now)
    }

    fn ended(stop: &mut Stop, rank: u32, code: u8, link: Link, now: Instant) -> Option<Order> {
        stop.ended(Rank::new(rank), Ending::Exited(code), link, now)
    }

    #[test]
    fn the_first_failure_ends_the_job_and_is_the_one_that_counts() {
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
    fn the_others_go_on_if_they_are_to() {
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
    fn exit_codes_alone_are_spared_where_they_do_not_end_a_job() {
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
    fn to_end_between_initialising_and_finalising_is_to_fail() {
        let (mut stop, now) = stop(None, false);
        let order = ended(&mut stop, 5, 0, Link::Connected, now);
        assert_eq!(order, Some(Order::Ask));
        let rank = Rank::new(5);
        assert_eq!(stop.cause(), Some(&Cause::NotFinalized { rank }));
    }

    #[test]
    fn when_the_time_is_up_processes_are_asked_and_then_killed() {
        let (mut stop, now) = stop(Some(10), false);
        let up = now + Duration::from_secs(10);
        assert_eq!(stop.tick(up - GRACE), None);
        assert_eq!(stop.tick(up), Some(Order::Ask));
        assert_eq!(stop.tick(up + GRACE), Some(Order::Kill));
        assert_eq!(stop.cause().unwrap().exit_code(), 124);
    }

    #[test]
    fn an_impatient_user_kills_at_once() {
        let (mut stop, now) = stop(None, false);
        let cause = Cause::Interrupted { signal: 2 };
        assert_eq!(stop.fail(cause, now), Some(Order::Kill));
    }

    #[test]
    fn a_signal_that_comes_twice_at_once_came_once() {
        let (mut stop, now) = stop(None, false);
        assert_eq!(stop.interrupted(15, now), Interrupt::HandOn);
        assert_eq!(stop.interrupted(15, now), Interrupt::Same);
        assert_eq!(stop.interrupted(2, now), Interrupt::HandOn);
        assert_eq!(stop.interrupted(15, now + SAME), Interrupt::Again);
    }

    #[test]
    fn what_holds_the_pipes_is_waited_for_then_killed_then_left_alone() {
        let (mut stop, now) = stop(Some(100), false);
        stop.all_ended(now);
        stop.all_ended(now + GRACE / 2);
        assert_eq!(stop.tick(now + GRACE), Some(Order::Kill));
        let later = now + GRACE + ABANDON;
        assert_eq!(stop.tick(later), Some(Order::Abandon));
        assert_eq!(stop.deadline(), None);
    }

    #[test]
    fn readers_have_all_the_time_unless_the_launcher_is_told_to_end() {
        let (mut stop, now) = stop(Some(1), false);
        assert_eq!(stop.tick(now + GRACE), Some(Order::Ask));
        let killed = now + 2 * GRACE;
        assert_eq!(stop.tick(killed), Some(Order::Kill));
        stop.all_ended(killed);
        let abandoned = killed + ABANDON;
        assert_eq!(stop.tick(abandoned), Some(Order::Abandon));
        assert_eq!(stop.tick(abandoned + GRACE / 2), None);
        // One that reads is given as long again.
        let later = abandoned + GRACE;
        assert_eq!(stop.tick(later), Some(Order::Lose));
        stop.wait_for_readers(later);
        assert_eq!(stop.deadline(), Some(later + GRACE));
    }

    #[test]
    fn who_waits_for_nothing_waits_for_no_reader() {
        let (mut stop, now) = stop(None, false);
        let cause = Cause::Interrupted { signal: 2 };
        assert_eq!(stop.fail(cause, now), Some(Order::Kill));
        assert_eq!(stop.tick(now + ABANDON), Some(Order::Lose));
    }
}
