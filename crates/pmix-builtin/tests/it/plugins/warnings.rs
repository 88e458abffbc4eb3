// SPDX-License-Identifier: MIT OR Apache-2.0
//! Collects the warnings of an operation.

use std::cell::RefCell;
use std::io::{self, Write};
use std::sync::Once;

use tracing::Level;

thread_local! {
    static WRITTEN: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A writer that keeps the log of each thread separately.
struct OfThisThread;

impl Write for OfThisThread {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        WRITTEN.with_borrow_mut(|written| written.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs the work; returns its result and the warnings that this thread logged.
///
/// The subscriber is global: with one per thread, a test without a subscriber that reached a
/// warning first would disable that warning for all tests.
pub(crate) fn warnings_of<T>(work: impl FnOnce() -> T) -> (T, Vec<String>) {
    static SUBSCRIBED: Once = Once::new();
    SUBSCRIBED.call_once(|| {
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(Level::WARN)
            .with_writer(|| OfThisThread)
            .with_ansi(false)
            .finish();
        tracing::subscriber::set_global_default(subscriber).expect("the only one of this process");
    });
    let before = WRITTEN.take();
    let answer = work();
    let text = String::from_utf8(WRITTEN.replace(before)).unwrap();
    (answer, text.lines().map(str::to_owned).collect())
}
