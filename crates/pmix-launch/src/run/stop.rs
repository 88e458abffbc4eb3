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

/// How long after a signal that ends programs the launcher names the processes that still run. Most obey sooner, and
/// nothing need be said of them.
const SAID: Duration = Duration::from_millis(500);

/// The longest grace. What is longer is for ever, and would not fit into a time of the clock.
const LONGEST: Duration = Duration::from_secs(100 * 366 * 24 * 3600);

/// What is to be done with the processes of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Say that they still run, and when they are killed.
    Say(Unheeded),
    /// Ask them to end.
    Ask,
    /// End them.
    Kill,
    /// End them, who did not end by a signal that the launcher handed on.
    KillUnheeded(Unheeded),
    /// Wait no longer for what may still be written by what they left behind.
    Abandon,
    /// Wait no longer for readers either.
    Lose,
}

/// A signal that ends programs, handed on to processes of which some still run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unheeded {
    pub(super) signal: i32,
    /// How long after the signal the processes are killed.
    pub(super) grace: Duration,
    /// How much of that is left.
    pub(super) left: Duration,
}

/// The meaning of a signal that ends programs.
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
    /// Whether all processes have ended.
    has_ended: bool,
    impatient: bool,
    /// The signals that were handed on, and when.
    interrupts: Vec<(i32, Instant)>,
    /// Whether the user knows which processes go on in spite of the first of them, or has no need to.
    is_said: bool,
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
            grace: plan.grace.min(LONGEST),
            keep_going: plan.keep_going,
            spares_exit_codes: false,
            limit: plan.timeout,
            next: plan
                .timeout
                .and_then(|t| Some((now.checked_add(t)?, Step::TimeUp))),
            cause: None,
            killed: false,
            has_ended: false,
            impatient: false,
            interrupts: Vec::new(),
            is_said: false,
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

    /// Notes a signal that ends programs.
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

    /// Returns `true` after a signal that ends programs. Nothing more is started then.
    pub(super) fn is_interrupted(&self) -> bool {
        !self.interrupts.is_empty()
    }

    /// Returns the signal that the processes were given first, while they have time to obey it.
    fn unheeded(&self) -> Option<(i32, Instant)> {
        (self.interrupts.first().copied()).filter(|_| !self.killed && !self.has_ended)
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

    /// Returns when [`Stop::tick`] is to be called.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let unheeded = self.unheeded().map(|(_, since)| match self.is_said {
            true => since + self.grace,
            false => since + self.grace.min(SAID),
        });
        let next = self.next.map(|(when, _)| when);
        [unheeded, next].into_iter().flatten().min()
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

    /// Notes that all processes have ended. Not all pipes have: what the processes left behind may still write.
    pub(super) fn all_ended(&mut self, now: Instant) {
        self.has_ended = true;
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

    /// Returns what is due at the time that [`Stop::deadline`] returned, if that has come.
    pub(super) fn tick(&mut self, now: Instant) -> Option<Order> {
        if let Some(order) = self.tick_unheeded(now) {
            return Some(order);
        }
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

    /// Returns what is due about processes that a signal did not end.
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
        let is_due = !self.is_said && now >= since + SAID;
        self.is_said |= is_due;
        is_due.then_some(Order::Say(unheeded))
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
            has_ended: false,
            impatient: false,
            interrupts: Vec::new(),
            is_said: false,
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
    fn processes_that_ignore_a_signal_are_named_and_then_killed() {
        let (mut stop, now) = stop(None, true);
        assert_eq!(stop.interrupted(2, now), Interrupt::HandOn);
        assert!(stop.is_interrupted() && !stop.is_ending());
        assert_eq!(stop.deadline(), Some(now + SAID));
        assert_eq!(stop.tick(now + SAID / 2), None);
        let unheeded = |left| Unheeded {
            signal: 2,
            grace: GRACE,
            left,
        };
        let said = Order::Say(unheeded(GRACE - SAID));
        assert_eq!(stop.tick(now + SAID), Some(said));
        assert_eq!(stop.tick(now + SAID), None);
        // Another signal gives no more time.
        assert_eq!(stop.interrupted(15, now + SAID), Interrupt::HandOn);
        let end = now + GRACE;
        assert_eq!(stop.deadline(), Some(end));
        let killed = Order::KillUnheeded(unheeded(Duration::ZERO));
        assert_eq!(stop.tick(end), Some(killed));
        assert_eq!(stop.cause().unwrap().exit_code(), 130);
        assert_eq!(stop.tick(end + ABANDON), Some(Order::Abandon));
    }

    #[test]
    fn processes_that_obey_a_signal_are_not_spoken_of() {
        let (mut stop, now) = stop(None, false);
        stop.interrupted(15, now);
        let order = ended(&mut stop, 0, 143, Link::None, now);
        assert_eq!(order, Some(Order::Ask));
        stop.all_ended(now);
        assert_eq!(stop.deadline(), Some(now + GRACE));
        assert_eq!(stop.tick(now + GRACE), Some(Order::Kill));
        // The time that a rank takes which failed by the signal does not start again for the others.
        let (mut stop, now) = self::stop(None, false);
        stop.interrupted(15, now);
        let later = now + GRACE / 2;
        assert_eq!(
            ended(&mut stop, 0, 143, Link::None, later),
            Some(Order::Ask)
        );
        assert!(matches!(stop.tick(later), Some(Order::Say(_))));
        assert!(matches!(
            stop.tick(now + GRACE),
            Some(Order::KillUnheeded(_))
        ));
        assert_eq!(stop.cause().unwrap().exit_code(), 143);
    }

    #[test]
    fn a_grace_for_ever_is_a_time_of_the_clock() {
        let plan = Plan {
            grace: Duration::MAX,
            ..Plan::of_test(&[1])
        };
        let now = Instant::now();
        let mut stop = Stop::new(&plan, now);
        stop.interrupted(15, now);
        assert!(matches!(stop.tick(now + SAID), Some(Order::Say(_))));
        assert!(stop.deadline().is_some());
        stop.fail(Cause::TimedOut(GRACE), now);
        assert!(stop.deadline().is_some());
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
