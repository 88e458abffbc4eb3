// SPDX-License-Identifier: MIT OR Apache-2.0
//! The check whether this process has rights that its caller does not have.
//!
//! Source: the Linux manual, `getauxval`, `AT_SECURE`.

use rustix::process::{getegid, geteuid, getgid, getuid};

use crate::loader::is_secure_execution;

/// Returns `true` if this process has more rights than its caller: by a set-id bit, by capabilities
/// of its file, or by the kernel's `AT_SECURE`. Then neither the environment nor the command line
/// may select files that the process reads or loads.
#[must_use]
pub fn gained_rights() -> bool {
    getuid() != geteuid() || getgid() != getegid() || is_secure_execution()
}
