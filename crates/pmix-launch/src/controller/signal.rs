// SPDX-License-Identifier: MIT OR Apache-2.0
//! The effects of signals to the launcher, and of the hang-up of its terminal, on the jobs of a session.

use std::time::Instant;

use pmix_types::Rank;
use rustix::process::Signal;
use signal_hook::consts::{
    SIGCHLD, SIGCONT, SIGQUIT, SIGTSTP, SIGUSR1, SIGUSR2, SIGWINCH, SIGXFSZ,
};

use super::job::Job;
use super::stop::{Interrupt, Unheeded};
use super::tool_wait::WaitEnd;
use super::{Controller, Cx};
use crate::Cause;
use crate::agent::Agent;
use crate::process::signal_name;

/// The largest number of ranges of ranks that a message names.
const NAMED: usize = 8;

impl Controller {
    /// Handles a signal to the launcher.
    pub(crate) fn handle_signal(&mut self, cx: &mut Cx<'_>, number: i32) {
        match number {
            SIGCHLD => self.collect(cx),
            SIGUSR1 => cx.agent.signal_all(Signal::USR1),
            SIGUSR2 => cx.agent.signal_all(Signal::USR2),
            SIGTSTP => {
                cx.agent.signal_all(Signal::TSTP);
                cx.agent.suspend_keyboard();
                // The launcher stops as well, as the shell expects after Ctrl-Z.
                let own = rustix::process::getpid();
                if let Err(e) = rustix::process::kill_process(own, Signal::STOP) {
                    tracing::debug!("cannot stop the launcher: {e}");
                }
            }
            SIGQUIT => self.report_all(cx),
            SIGCONT => {
                cx.agent.signal_all(Signal::CONT);
                // The kernel reports a new size to the foreground only, which was the shell meanwhile.
                cx.agent.resize_terminals();
                cx.agent.resume_keyboard();
            }
            SIGWINCH => cx.agent.resize_terminals(),
            // The failed write reports its own error.
            SIGXFSZ => {}
            ending => self.terminate(cx, ending),
        }
    }

    /// Forwards a terminating signal. Processes that do not exit are killed after the grace period, or at a second
    /// signal of the same kind.
    pub(crate) fn terminate(&mut self, cx: &mut Cx<'_>, number: i32) {
        if let Some(wait) = &mut self.tool_wait {
            return wait.set(WaitEnd::Signal(number));
        }
        let now = Instant::now();
        let is_any_running = cx.agent.jobs().num_running() > 0;
        let interrupts = (self.jobs.iter_mut()).map(|job| job.stop.interrupted(number, now));
        // The first job exists during the whole session.
        let interrupt = match interrupts.collect::<Vec<_>>().first() {
            // Without a running process there is nothing to forward to, and the session ends at once.
            Some(interrupt) if is_any_running => *interrupt,
            _ => Interrupt::Repeated,
        };
        match (interrupt, Signal::from_named_raw(number)) {
            (Interrupt::Forward, Some(signal)) => {
                cx.agent.signal_all(signal);
                // A stopped process does not handle the signal. It may have been stopped by a debugger, or by reading
                // the terminal from the background.
                cx.agent.signal_all(Signal::CONT);
                cx.agent.continue_all_stopped();
            }
            (Interrupt::Forward | Interrupt::Duplicate, _) => {}
            (Interrupt::Repeated, _) => {
                // First, so that no spawned job starts while the session ends.
                self.refuse_waiting(cx);
                for index in 0..self.jobs.len() {
                    self.fail(cx, index, Cause::Interrupted { signal: number }, now);
                }
            }
        }
    }
}

impl Job {
    /// Warns of the processes that continue in spite of a signal, and announces their end.
    pub(crate) fn warn_unheeded(&self, agent: &Agent<'_>, unheeded: &Unheeded) {
        let Unheeded {
            signal,
            grace,
            left,
        } = *unheeded;
        let (name, nspace) = (signal_name(signal), &self.nspace);
        let job = agent.job(nspace);
        let started = || job.iter().flat_map(|job| job.processes());
        let left_over = started().filter(|process| process.ended.is_none());
        let ranks: Vec<_> = left_over.map(|process| process.rank).collect();
        // A start ends when the system has executed the program, which may be on a file system that hangs.
        let num_not_started = self
            .plan
            .layout
            .here()
            .len()
            .saturating_sub(started().count());
        let ranks = match (ranks.is_empty(), num_not_started) {
            (_, 0) => named(&ranks),
            (true, num) => not_executed(num),
            (false, num) => format!("{} and {}", named(&ranks), not_executed(num)),
        };
        match left.is_zero() {
            false => tracing::warn!(
                "{name} was sent to {nspace}, but {ranks} did not exit yet and will be killed after {grace:?}, \
                or immediately after another {name}"
            ),
            true => tracing::warn!(
                "{ranks} of {nspace} did not exit within {grace:?} after {name}: killed (SIGKILL)"
            ),
        }
    }
}

/// Returns the words for processes whose start has not ended.
fn not_executed(num: usize) -> String {
    match num {
        1 => "1 process whose program the system has not executed yet".to_owned(),
        num => format!("{num} processes whose program the system has not executed yet"),
    }
}

/// Returns ascending ranks in the form of a message: `ranks 0-3, 7`.
fn named(ranks: &[Rank]) -> String {
    let follows = |one: &Rank, other: &Rank| one.as_raw().checked_add(1) == Some(other.as_raw());
    let runs: Vec<_> = ranks.chunk_by(follows).collect();
    let mut words: Vec<_> = { runs.iter().take(NAMED) }
        .filter_map(|run| match run {
            [] => None,
            [one] => Some(one.to_string()),
            [first, .., last] => Some(format!("{first}-{last}")),
        })
        .collect();
    let num_more: usize = runs.iter().skip(NAMED).map(|run| run.len()).sum();
    if num_more > 0 {
        words.push(format!("{num_more} more"));
    }
    let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
    format!("{noun} {}", words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_that_follow_each_other_are_one_word() {
        let named = |ranks: &[u32]| {
            let ranks: Vec<_> = ranks.iter().copied().map(Rank::new).collect();
            named(&ranks)
        };
        assert_eq!(named(&[5]), "rank 5");
        assert_eq!(named(&[0, 1, 2, 3, 7, 9, 10]), "ranks 0-3, 7, 9-10");
        let even: Vec<_> = (0..20).map(|rank| 2 * rank).collect();
        assert_eq!(named(&even), "ranks 0, 2, 4, 6, 8, 10, 12, 14, 12 more");
    }
}
