// SPDX-License-Identifier: MIT OR Apache-2.0
//! A guard against libraries that call `exit` while they are loaded or checked. Without it, the
//! command would end, apparently with success. Source: atexit(3), exit(3).

use std::cell::Cell;
use std::ffi::c_int;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Mutex, Once};

/// The exit code of a process that a library tried to end.
const CODE: c_int = 1;

unsafe extern "C" {
    /// Registers a function that `exit` calls.
    safe fn atexit(function: extern "C" fn()) -> c_int;
    /// Terminates the process at once, without calling registered functions.
    safe fn _exit(code: c_int) -> !;
}

thread_local! {
    /// The number of guards on this thread. The cell has no destructor, so it is usable until the
    /// thread ends.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// The library for which the last guard was created.
static LIBRARY: Mutex<String> = Mutex::new(String::new());

/// A guard against a library that calls `exit` on this thread. During the lifetime of the guard,
/// `exit` with any code ends the process with code 1 and a message with the name of the library.
#[derive(Debug)]
#[must_use = "the guard holds as long as it lives"]
pub struct ExitGuard(());

impl ExitGuard {
    /// Creates a guard for the library at a path.
    pub fn new(library: &Path) -> Self {
        static REGISTERED: Once = Once::new();
        REGISTERED.call_once(|| {
            if atexit(at_exit) != 0 {
                tracing::debug!(
                    "a changed exit code cannot be attributed to the library: atexit failed"
                );
            }
        });
        if let Ok(mut name) = LIBRARY.lock() {
            *name = library.display().to_string();
        }
        DEPTH.set(DEPTH.get() + 1);
        Self(())
    }
}

impl Drop for ExitGuard {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get().saturating_sub(1));
    }
}

extern "C" fn at_exit() {
    if DEPTH.get() == 0 {
        return;
    }
    let name = LIBRARY
        .try_lock()
        .map_or_else(|_| String::new(), |name| name.clone());
    let message =
        format!("error: plugin {name}: it ended the process (exit) while it was loaded or tried\n");
    let _ = std::io::stderr().write_all(message.as_bytes());
    _exit(CODE)
}
