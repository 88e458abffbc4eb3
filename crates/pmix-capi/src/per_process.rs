// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each process has for itself: after a fork the child begins with none of what its parent had.

use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::process;

/// Holds a value for each process. A lock in it that a thread of the parent held at a fork would never be
/// free in the child, in which that thread is not.
pub(crate) struct PerProcess<T> {
    /// The process that has `first`: the one that asked first, 0 before that.
    pid: AtomicU32,
    first: T,
    /// The value of a child of a fork, with the pid of that child.
    of_child: AtomicPtr<(u32, T)>,
}

impl<T> PerProcess<T> {
    /// Creates it with the value of the process that asks first.
    pub(crate) const fn new(first: T) -> Self {
        Self {
            pid: AtomicU32::new(0),
            first,
            of_child: AtomicPtr::new(std::ptr::null_mut()),
        }
    }
}

impl<T: Default> PerProcess<T> {
    /// Returns the value of this process, which is a new one in the child of a fork.
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
            // SAFETY: what was once put there stays for ever.
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
                // SAFETY: it was made here and nobody has seen it.
                drop(unsafe { Box::from_raw(fresh) });
            }
        }
    }
}
