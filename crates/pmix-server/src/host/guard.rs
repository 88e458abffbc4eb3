// SPDX-License-Identifier: MIT OR Apache-2.0
//! The guard against panics in code of the host.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs code of the host, and logs a panic in it.
pub(crate) fn guarded(name: &str, code: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(code)) {
        tracing::error!(call = name, panic = text(&*panic), "the host panicked");
    }
}

fn text(panic: &(dyn Any + Send)) -> &str {
    let owned = || panic.downcast_ref::<String>().map(String::as_str);
    let found = panic.downcast_ref::<&str>().copied().or_else(owned);
    found.unwrap_or("no message")
}
