// SPDX-License-Identifier: MIT OR Apache-2.0
//! The forms in which this program runs for a launcher: as its watcher, and to prepare a process.

use std::ffi::OsString;

/// The first argument with which this program runs as the watcher, which ends the processes of a
/// killed launcher.
pub(crate) const WATCHER: &str = "run-watcher";

/// The first argument with which this program prepares its process and executes another program.
pub(crate) const WRAPPER: &str = "run-wrapped";

/// Returns the command line of the watcher, which ends the processes of a killed launcher.
pub(crate) fn watcher() -> Vec<OsString> {
    // This path works even if the file was replaced or removed after the start of this process.
    vec!["/proc/self/exe".into(), WATCHER.into()]
}

/// Returns the command line that prepares a process.
pub(crate) fn wrapper() -> Vec<OsString> {
    vec!["/proc/self/exe".into(), WRAPPER.into()]
}

/// Prepares this process and replaces it by its program. Users do not run this command.
pub(crate) fn exec_wrapped(words: impl Iterator<Item = OsString>) -> ! {
    // The launcher reports an error that was passed to it.
    if let Some(error) = pmix_launch::exec_wrapped(words) {
        crate::trace::say(format!("pmix run: cannot prepare the program: {error}\n").into_bytes());
    }
    // The exit code is that of a shell that cannot execute a program.
    std::process::exit(126)
}

/// Runs as the watcher: ends the processes of the launcher when it is killed. Users do not run this
/// command.
pub(crate) fn watch() -> ! {
    let watched = pmix_launch::end_with_launcher(std::io::stdin());
    std::process::exit(i32::from(watched.is_err()))
}
