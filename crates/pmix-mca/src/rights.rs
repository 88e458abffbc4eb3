// SPDX-License-Identifier: MIT OR Apache-2.0
//! The check for rights that the caller of this process does not have.
//!
//! Source: the Linux manual, `getauxval`, `AT_SECURE`.

use rustix::process::{getegid, geteuid, getgid, getuid};

use crate::loader::is_secure_execution;

/// Returns `true` if this process has more rights than its caller: by a set-id bit or capabilities
/// of its file, or according to the kernel (`AT_SECURE`). Then neither the environment nor the
/// command line may select files that it reads or loads.
#[must_use]
pub fn gained_rights() -> bool {
    getuid() != geteuid() || getgid() != getegid() || is_secure_execution()
}
