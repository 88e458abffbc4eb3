// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many data arrays of C may stand in one another. What C has is a chain of pointers of any length,
//! and what walks it calls itself: it goes no deeper than a message can.

use std::cell::{Cell, RefCell};
use std::thread::LocalKey;

use bfrops::Limits;
use pmix_types::Status;

use crate::abi::pmix_data_array_t;
use crate::memory::Result;

thread_local! {
    /// In how many arrays this thread is that it reads or copies.
    static READ: Cell<u32> = const { Cell::new(0) };
    /// In how many arrays this thread is that it frees.
    static FREED: Cell<u32> = const { Cell::new(0) };
    /// Arrays that stand too deep to be freed from where they were found.
    static LEFT: RefCell<Vec<pmix_data_array_t>> = const { RefCell::new(Vec::new()) };
}

/// One array down; back when it is dropped.
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

/// Reads or copies what is in an array.
///
/// # Errors
/// `PMIX_ERR_BAD_PARAM` for an array in more others than a message can carry.
pub(crate) fn nested<T>(read: impl FnOnce() -> Result<T>) -> Result<T> {
    let _level = Level::down(&READ).ok_or_else(|| {
        let most = Limits::DEPTH;
        tracing::debug!("data arrays are nested more than {most} deep");
        Status::ERR_BAD_PARAM
    })?;
    read()
}

/// Frees an array, with `free` for what is in it. One that stands too deep is freed when those that it
/// stands in are.
pub(crate) fn free_nested(array: pmix_data_array_t, free: impl Fn(pmix_data_array_t)) {
    let Some(level) = Level::down(&FREED) else {
        // A thread that has ended its own data keeps what is too deep.
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
