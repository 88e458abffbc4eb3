// SPDX-License-Identifier: MIT OR Apache-2.0
//! A sign of life for work that lasts: one line on a terminal, gone when the work is done.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time before progress is shown.
const PATIENCE: Duration = Duration::from_millis(500);
const TICK: Duration = Duration::from_millis(125);

/// Shows what is being done until it is dropped.
pub(crate) struct Progress {
    running: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Starts the clock; nothing is ever shown where standard error is no terminal.
    pub(crate) fn start(what: &'static str) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self { running: None };
        }
        let (stop, stopped) = mpsc::channel();
        let show = move || {
            let start = Instant::now();
            let mut wait = PATIENCE;
            let mut shown = false;
            while stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                let seconds = start.elapsed().as_secs_f64();
                let _ = write!(std::io::stderr(), "\r\x1b[K{what} … {seconds:.1} s");
                (wait, shown) = (TICK, true);
            }
            if shown {
                let _ = write!(std::io::stderr(), "\r\x1b[K");
            }
        };
        let thread = std::thread::Builder::new().spawn(show);
        Self {
            running: thread.ok().map(|thread| (stop, thread)),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.running.take() {
            drop(stop);
            let _ = thread.join();
        }
    }
}
