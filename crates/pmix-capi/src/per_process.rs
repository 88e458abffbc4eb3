// SPDX-License-Identifier: MIT OR Apache-2.0
//! Global state of the process: after a fork the child has a new value, without the state of its parent.

use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::process;

/// A value for each process. A lock in it that a thread of the parent held at a fork would never be released in the
/// child, where that thread does not exist.
pub(crate) struct PerProcess<T> {
    /// The pid of the process that owns `first`: the first caller, 0 until then.
    pid: AtomicU32,
    first: T,
    /// The value of a forked child, with the pid of that child.
    of_child: AtomicPtr<(u32, T)>,
}

impl<T> PerProcess<T> {
    /// Creates the storage with the value for the first process that calls `get`.
    pub(crate) const fn new(first: T) -> Self {
        Self {
            pid: AtomicU32::new(0),
            first,
            of_child: AtomicPtr::new(std::ptr::null_mut()),
        }
    }
}

impl<T: Default> PerProcess<T> {
    /// Returns the value of this process; the child of a fork gets a new one.
    pub(crate) fn get(&'static self) -> &'static T {
        let pid = process::id();
        let owner = match self.pid.load(Ordering::Acquire) {
            0 => {
                let claimed =
                    self.pid
                        .compare_exchange(0, pid, Ordering::AcqRel, Ordering::Acquire);
                claimed.map_or_else(|other| other, |_| pid)
            }
            owner => owner,
        };
        match owner == pid {
            true => &self.first,
            false => self.get_of_child(pid),
        }
    }

    #[cold]
    fn get_of_child(&'static self, pid: u32) -> &'static T {
        loop {
            let known = self.of_child.load(Ordering::Acquire);
            // SAFETY: `known` is NULL or was stored below by `Box::into_raw`, and stored values are never freed.
            if let Some((owner, value)) = unsafe { known.as_ref() }
                && *owner == pid
            {
                return value;
            }
            let fresh = Box::into_raw(Box::new((pid, T::default())));
            let put =
                self.of_child
                    .compare_exchange(known, fresh, Ordering::AcqRel, Ordering::Acquire);
            if put.is_err() {
                // SAFETY: `fresh` was made here and was not stored, so no other thread has seen it.
                drop(unsafe { Box::from_raw(fresh) });
            }
        }
    }
}
