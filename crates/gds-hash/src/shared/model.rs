// SPDX-License-Identifier: MIT OR Apache-2.0
//! The same values for a checker that tries every order in which threads may run.
//!
//! A model has the methods of the real thing that this crate uses and promises no more than that
//! one: a reader may see any version that is not older than what it knows of otherwise.

use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::{Arc, Mutex as Held, PoisonError};

pub(crate) use loom::sync::Mutex;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Puts a name in the same part on every run: the checker repeats a run up to a point.
pub(crate) type NameHasher = BuildHasherDefault<DefaultHasher>;

/// A value that is replaced as a whole, as `arc_swap::ArcSwap`: one atomic read for who loads it.
#[derive(Debug)]
pub(crate) struct ArcSwap<T> {
    /// All there ever were. The checker never stops a thread that holds them.
    versions: Held<Vec<Arc<T>>>,
    current: AtomicUsize,
    turns: Turns,
}

/// Makes the checker try every order of what threads do with one value.
///
/// It remembers for each atomic only who accessed it last, so that a thread's own read hides from
/// it that another one read before. Of accesses that read and write it misses none; relaxed ones
/// leave open who sees what.
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

    /// Replaces the version by what follows from it, again if another thread was faster.
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

/// A value that is made once, as `std::sync::OnceLock`: one atomic read for who finds it made.
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
                // Others take their turns while it is made.
                loom::thread::yield_now();
                self.value.get_or_init(make);
                self.is_made.store(true, Ordering::Release);
            }
        }
        self.value.get().expect("it was made")
    }
}
