// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits how deeply data arrays (`pmix_data_array_t`) of a C program may be nested. The functions that read, copy and
//! free them are recursive, so that they stop at the depth that a message can carry (`Limits::DEPTH`).

use std::cell::{Cell, RefCell};
use std::thread::LocalKey;

use bfrops::Limits;
use pmix_types::Status;

use crate::abi::pmix_data_array_t;
use crate::memory::Result;

thread_local! {
    /// The nesting depth at which this thread reads or copies an array.
    static READ: Cell<u32> = const { Cell::new(0) };
    /// The nesting depth at which this thread frees an array.
    static FREED: Cell<u32> = const { Cell::new(0) };
    /// The arrays that are nested too deeply, which are freed one after the other.
    static LEFT: RefCell<Vec<pmix_data_array_t>> = const { RefCell::new(Vec::new()) };
}

/// Counts one level of nesting until it is dropped.
struct Level(&'static LocalKey<Cell<u32>>);

impl Level {
    fn down(depth: &'static LocalKey<Cell<u32>>) -> Option<Self> {
        let own = depth.get();
        (own < Limits::DEPTH).then(|| {
            depth.set(own + 1);
            Self(depth)
        })
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

/// Reads or copies the content of an array with `read`, one level deeper.
///
/// # Errors
/// Returns `PMIX_ERR_BAD_PARAM` if the array is nested deeper than a message can carry.
pub(crate) fn nested<T>(read: impl FnOnce() -> Result<T>) -> Result<T> {
    let _level = Level::down(&READ).ok_or_else(|| {
        let most = Limits::DEPTH;
        tracing::debug!("data arrays are nested more than {most} deep");
        Status::ERR_BAD_PARAM
    })?;
    read()
}

/// Frees an array and its content with `free`. An array that is nested too deeply is freed after the outermost one,
/// so the recursion stays limited.
pub(crate) fn free_nested(array: pmix_data_array_t, free: impl Fn(pmix_data_array_t)) {
    let Some(level) = Level::down(&FREED) else {
        // The thread is ending and has no thread-local data: the array is leaked rather than freed recursively.
        let _ = LEFT.try_with(|left| left.borrow_mut().push(array));
        return;
    };
    free(array);
    drop(level);
    if FREED.get() > 0 {
        return;
    }
    while let Ok(Some(next)) = LEFT.try_with(|left| left.borrow_mut().pop()) {
        let _level = Level::down(&FREED);
        free(next);
    }
}
