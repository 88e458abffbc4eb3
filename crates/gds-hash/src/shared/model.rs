// SPDX-License-Identifier: MIT OR Apache-2.0
//! Models of the shared values for loom, which explores every order of threads.
//!
//! A model has the methods of the real type that this crate uses, and gives no stronger guarantees.
//! A reader may see any version that is not older than a version that it has already seen.

use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::{Arc, Mutex as Held, PoisonError};

pub(crate) use loom::sync::Mutex;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A deterministic hasher. loom repeats runs, and a name must be in the same part of the store on
/// each run.
pub(crate) type NameHasher = BuildHasherDefault<DefaultHasher>;

/// A model of `arc_swap::ArcSwap`, a value that is replaced as a whole. A load is one atomic read.
#[derive(Debug)]
pub(crate) struct ArcSwap<T> {
    /// All versions. The lock is never contended, because loom does not switch threads while it is
    /// held.
    versions: Held<Vec<Arc<T>>>,
    current: AtomicUsize,
    turns: Turns,
}

/// A counter that makes loom explore every order of accesses to a value.
///
/// For each atomic, loom remembers only the last access. So a read by one thread hides an earlier
/// read by another thread. Read-modify-write accesses are not hidden, and relaxed ones do not order
/// other memory.
#[derive(Debug)]
struct Turns(AtomicUsize);

impl Turns {
    fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    fn take(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl<T> ArcSwap<T> {
    pub(crate) fn new(version: Arc<T>) -> Self {
        Self {
            versions: Held::new(vec![version]),
            current: AtomicUsize::new(0),
            turns: Turns::new(),
        }
    }

    fn add(&self, version: Arc<T>) -> usize {
        let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        versions.push(version);
        versions.len() - 1
    }

    fn version(&self, number: usize) -> Arc<T> {
        let versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&versions[number])
    }

    pub(crate) fn load(&self) -> Arc<T> {
        self.turns.take();
        self.version(self.current.load(Ordering::Acquire))
    }

    pub(crate) fn load_full(&self) -> Arc<T> {
        self.load()
    }

    pub(crate) fn store(&self, version: Arc<T>) {
        self.turns.take();
        self.current.store(self.add(version), Ordering::Release);
    }

    /// Replaces the version by the result of `next`. Repeats this if another thread has replaced
    /// the version meanwhile.
    pub(crate) fn rcu(&self, mut next: impl FnMut(&Arc<T>) -> Arc<T>) -> Arc<T> {
        self.turns.take();
        let mut seen = self.current.load(Ordering::Acquire);
        loop {
            let known = self.version(seen);
            let number = self.add(next(&known));
            self.turns.take();
            let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
            match (self.current).compare_exchange(seen, number, success, failure) {
                Ok(_) => return known,
                Err(newer) => seen = newer,
            }
        }
    }
}

impl<T: Default> Default for ArcSwap<T> {
    fn default() -> Self {
        Self::new(Arc::default())
    }
}

/// A model of `std::sync::OnceLock`, a value that is initialized once. Reading it is one atomic
/// read.
#[derive(Debug)]
pub(crate) struct OnceLock<T> {
    value: std::sync::OnceLock<T>,
    is_made: AtomicBool,
    making: Mutex<()>,
}

impl<T> OnceLock<T> {
    pub(crate) fn new() -> Self {
        Self {
            value: std::sync::OnceLock::new(),
            is_made: AtomicBool::new(false),
            making: Mutex::new(()),
        }
    }

    pub(crate) fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        if !self.is_made.load(Ordering::Acquire) {
            let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
            if self.value.get().is_none() {
                // Other threads may run during the initialization.
                loom::thread::yield_now();
                self.value.get_or_init(make);
                self.is_made.store(true, Ordering::Release);
            }
        }
        self.value.get().expect("it was made")
    }
}
