// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps the packed data of a process, so that a server packs them once for all clients that get them.
//!
//! A client that gets one key of a process is sent all that the process put, and keeps it. Without the packed
//! data a server would pack the same for each client, and hold it for each until that has read it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bfrops::Layout;
use pmix_types::memory;

use super::ScopeSet;
use crate::Error;

/// How many bytes are kept of one process: what is longer is kept as long as somebody is sent it, and packed anew
/// after that.
const MOST: usize = 4 << 20;

/// How many bytes the front of a reply may have more than that of the longest reply that is expected.
const FRONT_SPARE: usize = 16;

/// Holds all that a process put for those who ask, within a reply.
#[derive(Clone, Debug)]
pub struct PackedPuts {
    bytes: Arc<Vec<u8>>,
    /// Where the reply begins in them; it goes on to their end.
    start: usize,
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
    start: usize,
    len: usize,
    bytes: Weak<Vec<u8>>,
    /// The same, if it is to stay while nobody is sent it.
    stays: Option<Arc<Vec<u8>>>,
}

/// Holds the data that were packed last. A copy of the process data is made in order to change it, so that the copy
/// of this is empty.
#[derive(Default)]
pub(super) struct Packed(Mutex<Option<Kept>>);

impl PackedPuts {
    /// Packs data once, with room in front of them for what a reply of so many bytes begins with. That says how long
    /// the data are, so that it is made last.
    pub(super) fn new<E: From<Error>>(
        most: usize,
        pack: impl FnOnce(&mut Vec<u8>) -> Result<(), Error>,
        front: impl Fn(usize) -> Result<Vec<u8>, E>,
    ) -> Result<Self, E> {
        let room = front(most)?.len() + FRONT_SPARE;
        let all = room.saturating_add(most);
        let mut bytes = memory::list(all).map_err(Error::from)?;
        bytes.resize(room, 0);
        pack(&mut bytes)?;
        let len = bytes.len() - room;
        let front = front(len)?;
        let start = room.saturating_sub(front.len());
        match bytes.get_mut(start..room) {
            Some(place) if place.len() == front.len() => place.copy_from_slice(&front),
            _ => drop(bytes.splice(..room, front)),
        }
        // Nearly always the estimate was good. A list that is much too long is not kept so.
        if bytes.capacity() - bytes.len() > bytes.len() / 8 + FRONT_SPARE {
            bytes.shrink_to_fit();
        }
        let bytes = Arc::new(bytes);
        Ok(Self { bytes, start, len })
    }

    /// Returns the bytes that all who ask share, and where the reply begins in them; it goes on to their end.
    #[must_use]
    pub fn shared(&self) -> (Arc<Vec<u8>>, usize) {
        (Arc::clone(&self.bytes), self.start)
    }

    /// Returns the reply.
    #[must_use]
    pub fn reply(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    /// Returns the data alone, as [`ModexStore::kvals`](crate::ModexStore::kvals) packs them.
    #[must_use]
    pub fn kvals(&self) -> &[u8] {
        let start = self.bytes.len().saturating_sub(self.len);
        self.bytes.get(start..).unwrap_or_default()
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
        let stays = (packed.len <= MOST).then(|| Arc::clone(&packed.bytes));
        *self.last() = Some(Kept {
            audience,
            start: packed.start,
            len: packed.len,
            bytes: Arc::downgrade(&packed.bytes),
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
        stays.map_or(0, |bytes| bytes.capacity())
    }

    fn last(&self) -> MutexGuard<'_, Option<Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn packed(&self) -> Option<PackedPuts> {
        Some(PackedPuts {
            bytes: self.bytes.upgrade()?,
            start: self.start,
            len: self.len,
        })
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
