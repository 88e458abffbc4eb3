// SPDX-License-Identifier: MIT OR Apache-2.0
//! The signals of the launcher, and the hang-up of its terminal, as the jobs of a session meet them.

use std::time::Instant;

use rustix::process::Signal;
use signal_hook::consts::{SIGCHLD, SIGCONT, SIGHUP, SIGTSTP, SIGUSR1, SIGUSR2, SIGXFSZ};

use super::session::Session;
use super::stop::Interrupt;
use super::tool_wait::WaitEnd;
use crate::Cause;

impl Session<'_> {
    /// Acts on a signal of the launcher.
    pub(super) fn signal(&mut self, number: i32) {
        match number {
            SIGCHLD => self.collect(),
            SIGUSR1 => self.signal_all(Signal::USR1),
            SIGUSR2 => self.signal_all(Signal::USR2),
            SIGTSTP => {
                self.signal_all(Signal::TSTP);
                // Now we stop too, as the shell expects.
                let own = rustix::process::getpid();
                if let Err(e) = rustix::process::kill_process(own, Signal::STOP) {
                    tracing::debug!("the launcher goes on: {e}");
                }
            }
            SIGCONT => {
                self.signal_all(Signal::CONT);
                self.turn_input(Instant::now());
            }
            // The error of the write says more.
            SIGXFSZ => {}
            ending => self.end_by(ending),
        }
    }

    /// Sends a signal to the processes of all jobs.
    pub(super) fn signal_all(&mut self, signal: Signal) {
        self.jobs
            .iter_mut()
            .for_each(|job| job.table.signal(signal));
    }

    /// Handles the hang-up of the terminal that rank 0 reads as the SIGHUP that a launcher gets from a shell.
    pub(super) fn hung_up(&mut self) {
        tracing::info!("the terminal of the launcher hung up");
        if self.signals.is_first_hang_up() {
            self.end_by(SIGHUP);
        }
    }

    /// A signal that ends programs: handed on, and the second of a kind ends all jobs whatever their
    /// processes do about it.
    fn end_by(&mut self, number: i32) {
        if let Some(wait) = &mut self.tool_wait {
            return wait.set(WaitEnd::Signal(number));
        }
        let now = Instant::now();
        let nobody_runs = self.jobs.num_running() == 0;
        let interrupts = (self.jobs.iter_mut()).map(|job| job.stop.interrupted(number, now));
        // The first job is there all the time.
        let interrupt = match interrupts.collect::<Vec<_>>().first() {
            Some(interrupt) if !nobody_runs => *interrupt,
            _ => Interrupt::Again,
        };
        match (interrupt, Signal::from_named_raw(number)) {
            (Interrupt::HandOn, Some(signal)) => {
                self.signal_all(signal);
                // A process that is stopped cannot end, by a debugger or by the terminal that it reads in the background.
                self.signal_all(Signal::CONT);
                let jobs = self.jobs.iter_mut();
                jobs.for_each(|job| job.table.continue_stopped(|_| true));
            }
            (Interrupt::HandOn | Interrupt::Same, _) => {}
            (Interrupt::Again, _) => {
                self.refuse_waiting();
                for index in 0..self.jobs.len() {
                    self.fail(index, Cause::Interrupted { signal: number }, now);
                }
            }
        }
    }
}
