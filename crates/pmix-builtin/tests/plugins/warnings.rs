// SPDX-License-Identifier: MIT OR Apache-2.0
//! Collecting the warnings of a piece of work.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use tracing::Level;

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs the work; the answer and the warnings, one each.
pub(crate) fn warnings_of<T>(work: impl FnOnce() -> T) -> (T, Vec<String>) {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(Level::WARN)
        .with_writer(move || writer.clone())
        .with_ansi(false)
        .finish();
    let answer = tracing::subscriber::with_default(subscriber, work);
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    (answer, text.lines().map(str::to_owned).collect())
}
