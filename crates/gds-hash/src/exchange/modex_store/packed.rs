// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps the packed data of a process, so that a server packs them once for all clients that get them.
//!
//! A client that gets one key of a process is sent all that the process put, and keeps it. Without the packed
//! data a server would pack the same for each client.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bfrops::Layout;

use super::ScopeSet;
use crate::Error;

/// How many bytes are kept of one process: what is longer is packed anew.
const MOST: usize = 4 << 20;

/// Holds the packed data that clients of one layout see of a set of scopes.
struct Kept {
    layout: Layout,
    scopes: ScopeSet,
    bytes: Arc<Vec<u8>>,
}

/// Holds the data that were packed last. A copy of the process data is made in order to change it, so that the copy
/// of this is empty.
#[derive(Default)]
pub(super) struct Packed(Mutex<Option<Kept>>);

impl Packed {
    /// Returns the data of a layout and a set of scopes, which are packed unless they were packed last.
    pub(super) fn get(
        &self,
        layout: Layout,
        scopes: ScopeSet,
        pack: impl FnOnce() -> Result<Vec<u8>, Error>,
    ) -> Result<Arc<Vec<u8>>, Error> {
        let is_same = |kept: &&Kept| kept.layout == layout && kept.scopes == scopes;
        if let Some(kept) = self.last().as_ref().filter(is_same) {
            return Ok(Arc::clone(&kept.bytes));
        }
        // The lock is not held while data are packed, so that no other thread waits for it.
        let bytes = Arc::new(pack()?);
        if bytes.len() <= MOST {
            *self.last() = Some(Kept {
                layout,
                scopes,
                bytes: Arc::clone(&bytes),
            });
        }
        Ok(bytes)
    }

    pub(super) fn clear(&mut self) {
        *self.0.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The bytes of heap that it takes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.last().as_ref().map_or(0, |kept| kept.bytes.len())
    }

    fn last(&self) -> MutexGuard<'_, Option<Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clone for Packed {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Packed").finish_non_exhaustive()
    }
}
