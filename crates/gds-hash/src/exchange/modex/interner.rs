// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data that many processes put alike, stored once.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use bfrops::Layout;
use pmix_types::Kval;

use crate::Error;
use crate::exchange::modex_store::Entry;

/// What a fence brought so far, by a hash of the bytes.
///
/// Most of what MPI processes put is the same for all of them; it is then neither owned nor stored
/// again. Who has another datum of the same hash has its own.
#[derive(Default)]
pub(super) struct Interner {
    known: HashMap<u64, Entry>,
    hasher: RandomState,
}

impl Interner {
    /// The entry of a datum whose value was read from these bytes.
    pub(super) fn entry(
        &mut self,
        kval: Kval<'_>,
        layout: Layout,
        value: &[u8],
    ) -> Result<Entry, Error> {
        let hash = self.hasher.hash_one((kval.key.as_bytes(), value));
        let known = self.known.get(&hash);
        if let Some(known) = known.filter(|known| known.is_of(&kval, layout, value)) {
            return Ok(known.clone());
        }
        let entry = Entry::packed(kval, layout, value)?;
        self.known.insert(hash, entry.clone());
        Ok(entry)
    }
}
