// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps the packed data of a process, so that a server packs them once for all clients that get them.
//!
//! A client that gets one key of a process is sent all that the process put, and keeps it. Without the packed
//! data a server would pack the same for each client, and hold it for each until that has read it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bfrops::Layout;

use super::ScopeSet;

/// How many bytes are kept of one process: what is longer is kept as long as somebody is sent it, and packed anew
/// after that.
const MOST: usize = 4 << 20;

/// Holds all that a process put for those who ask, within a reply.
#[derive(Clone, Debug)]
pub struct PackedPuts {
    reply: Arc<Vec<u8>>,
    /// How long the data at its end are.
    len: usize,
}

/// For whom data are packed: clients of one layout that see a set of scopes and are answered in one form.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Audience {
    pub(super) layout: Layout,
    pub(super) scopes: ScopeSet,
    pub(super) form: u32,
}

/// Holds the reply that was packed last.
struct Kept {
    audience: Audience,
    len: usize,
    reply: Weak<Vec<u8>>,
    /// The same, if it is to stay while nobody is sent it.
    stays: Option<Arc<Vec<u8>>>,
}

/// Holds the data that were packed last. A copy of the process data is made in order to change it, so that the copy
/// of this is empty.
#[derive(Default)]
pub(super) struct Packed(Mutex<Option<Kept>>);

impl PackedPuts {
    /// Creates it from a reply that ends with data of so many bytes.
    pub(super) fn new(reply: Vec<u8>, len: usize) -> Self {
        Self {
            reply: Arc::new(reply),
            len,
        }
    }

    /// Returns the reply, which all who ask share.
    #[must_use]
    pub const fn reply(&self) -> &Arc<Vec<u8>> {
        &self.reply
    }

    /// Returns the data alone, as [`ModexStore::kvals`](crate::ModexStore::kvals) packs them.
    #[must_use]
    pub fn kvals(&self) -> &[u8] {
        let start = self.reply.len().saturating_sub(self.len);
        self.reply.get(start..).unwrap_or_default()
    }
}

impl Packed {
    /// Returns what is packed for an audience, which is packed now unless it was the last one.
    pub(super) fn get<E>(
        &self,
        audience: Audience,
        pack: impl FnOnce() -> Result<PackedPuts, E>,
    ) -> Result<PackedPuts, E> {
        let is_same = |kept: &&Kept| kept.audience == audience;
        let known = self.last().as_ref().filter(is_same).and_then(Kept::packed);
        if let Some(known) = known {
            return Ok(known);
        }
        // The lock is not held while data are packed, so that no other thread waits for it.
        let packed = pack()?;
        let stays = (packed.len <= MOST).then(|| Arc::clone(&packed.reply));
        *self.last() = Some(Kept {
            audience,
            len: packed.len,
            reply: Arc::downgrade(&packed.reply),
            stays,
        });
        Ok(packed)
    }

    pub(super) fn clear(&mut self) {
        *self.0.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The bytes of heap that it takes.
    pub(super) fn memory_bytes(&self) -> usize {
        let kept = self.last();
        let stays = kept.as_ref().and_then(|kept| kept.stays.as_ref());
        stays.map_or(0, |reply| reply.len())
    }

    fn last(&self) -> MutexGuard<'_, Option<Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn packed(&self) -> Option<PackedPuts> {
        let (reply, len) = (self.reply.upgrade()?, self.len);
        Some(PackedPuts { reply, len })
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
