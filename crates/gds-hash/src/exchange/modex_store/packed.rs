// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was packed of the data of a process, for all who ask for them.
//!
//! Who asks for one key is sent all that its process put, as clients keep it; so many who ask for a key each would
//! have the server pack the same for each of them.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bfrops::Layout;

use super::ScopeSet;
use crate::Error;

/// How many bytes are kept of one process: what is longer is packed anew.
const MOST: usize = 4 << 20;

/// Bytes for peers of one layout who see what is for a set of scopes.
struct Kept {
    layout: Layout,
    scopes: ScopeSet,
    bytes: Arc<Vec<u8>>,
}

/// What was packed last. A copy, which is made to be changed, has nothing.
#[derive(Default)]
pub(super) struct Packed(Mutex<Option<Kept>>);

impl Packed {
    /// What is packed for a layout and a set of scopes.
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
        // Without the lock: nobody waits for who packs.
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
