// SPDX-License-Identifier: MIT OR Apache-2.0
//! A cache of the packed data of a process, so that a server packs them once for all clients.
//!
//! A client that gets one key of a process receives and caches all data of the process. Without
//! this cache a server would pack the same data for each client, and hold a copy until the client
//! has read it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bfrops::Layout;
use pmix_types::memory;

use super::ScopeSet;
use crate::Error;

/// The maximum length in bytes of a cached reply. A longer reply is shared only while it is being
/// sent to a client.
const MOST: usize = 4 << 20;

/// The number of additional bytes that are reserved for the front of a reply.
const FRONT_SPARE: usize = 16;

/// A packed reply, which ends with all visible data of a process.
#[derive(Clone, Debug)]
pub struct PackedPuts {
    bytes: Arc<Vec<u8>>,
    /// The offset in `bytes` at which the reply begins. It ends with `bytes`.
    start: usize,
    /// The length in bytes of the data at the end.
    len: usize,
}

/// The properties of clients that can share a reply: layout, scopes and form of the reply.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Audience {
    pub(super) layout: Layout,
    pub(super) scopes: ScopeSet,
    pub(super) form: u32,
}

/// The last packed reply.
struct Kept {
    audience: Audience,
    start: usize,
    len: usize,
    bytes: Weak<Vec<u8>>,
    /// A strong reference, if the reply is kept while no client uses it.
    stays: Option<Arc<Vec<u8>>>,
}

/// The last packed reply of a process. A clone is empty, because process data are cloned before
/// they are changed.
#[derive(Default)]
pub(super) struct Packed(Mutex<Option<Kept>>);

impl PackedPuts {
    /// Packs data after unused bytes for the front of the reply. The front contains the length of
    /// the data, so it is packed last.
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
        // If the estimate was too high, the buffer has much unused capacity and is shrunk.
        if bytes.capacity() - bytes.len() > bytes.len() / 8 + FRONT_SPARE {
            bytes.shrink_to_fit();
        }
        let bytes = Arc::new(bytes);
        Ok(Self { bytes, start, len })
    }

    /// Returns the shared bytes, and the offset at which the reply begins. It ends with the bytes.
    #[must_use]
    pub fn shared(&self) -> (Arc<Vec<u8>>, usize) {
        (Arc::clone(&self.bytes), self.start)
    }

    /// Returns the reply.
    #[must_use]
    pub fn reply(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    /// Returns only the data, as [`ModexStore::kvals`](crate::ModexStore::kvals) packs them.
    #[must_use]
    pub fn kvals(&self) -> &[u8] {
        let start = self.bytes.len().saturating_sub(self.len);
        self.bytes.get(start..).unwrap_or_default()
    }
}

impl Packed {
    /// Returns the packed reply for an audience. Packs it unless the last reply was for the same
    /// audience.
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
        // The lock is not held during packing, so that other threads do not wait.
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

    /// Returns the bytes of heap memory of the cache.
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
