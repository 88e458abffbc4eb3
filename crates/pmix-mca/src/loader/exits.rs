// SPDX-License-Identifier: MIT OR Apache-2.0
//! A guard against libraries that end the process: a library that calls `exit` while it is loaded
//! or checked would end a command with an apparent success. Source: atexit(3), exit(3).

use std::cell::Cell;
use std::ffi::c_int;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Mutex, Once};

/// The exit code of a process that a library tried to end.
const CODE: c_int = 1;

unsafe extern "C" {
    /// Registers a function for the end of the process by `exit`.
    safe fn atexit(function: extern "C" fn()) -> c_int;
    /// Ends the process at once.
    safe fn _exit(code: c_int) -> !;
}

thread_local! {
    /// The number of guards of this thread. The cell has no destructor, so it exists until the
    /// thread ends.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// The library of the last guard.
static LIBRARY: Mutex<String> = Mutex::new(String::new());

/// A guard, during its lifetime, against a library that calls `exit` on this thread: the process
/// ends with exit code 1 and a message that names the library, for any code of the library.
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
