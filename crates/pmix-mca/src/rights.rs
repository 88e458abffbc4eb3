// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether this process has rights that who started it does not have.
//!
//! Source: the Linux manual, `getauxval`, `AT_SECURE`.

use rustix::process::{getegid, geteuid, getgid, getuid};

use crate::loader::is_secure_execution;

/// Returns whether this process has more rights than who started it: by a set-id bit or
/// capabilities of its file, or as the kernel says (`AT_SECURE`). Then neither the environment nor
/// the command line may choose files that it reads or loads.
#[must_use]
pub fn gained_rights() -> bool {
    getuid() != geteuid() || getgid() != getegid() || is_secure_execution()
}
