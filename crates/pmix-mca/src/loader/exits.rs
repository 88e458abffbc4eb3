// SPDX-License-Identifier: MIT OR Apache-2.0
//! Libraries that end the process: one that calls `exit` while it is loaded or tried would make a
//! command end as if all were well. Source: atexit(3), exit(3).

use std::cell::Cell;
use std::ffi::c_int;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Mutex, Once};

/// How a process ends that a library tried to end.
const CODE: c_int = 1;

unsafe extern "C" {
    /// Has a function called when the process ends by `exit`.
    safe fn atexit(function: extern "C" fn()) -> c_int;
    /// Ends the process at once.
    safe fn _exit(code: c_int) -> !;
}

thread_local! {
    /// How many guards this thread holds. It has no destructor, so it is there until the end.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// The library that was guarded last.
static LIBRARY: Mutex<String> = Mutex::new(String::new());

/// Guards the process, while it lives, against a library that calls `exit` on this thread: the process
/// ends with exit code 1 and a message that names the library, whatever code the library gave.
#[derive(Debug)]
#[must_use = "the guard holds as long as it lives"]
pub struct ExitGuard(());

impl ExitGuard {
    /// Guards against the library at a path.
    pub fn new(library: &Path) -> Self {
        static REGISTERED: Once = Once::new();
        REGISTERED.call_once(|| {
            if atexit(at_exit) != 0 {
                tracing::debug!("what a library makes of the exit code cannot be told");
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
