// SPDX-License-Identifier: MIT OR Apache-2.0
//! Deduplication of equal data of many processes.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use bfrops::Layout;
use pmix_types::Kval;

use crate::Error;
use crate::exchange::modex_store::Entry;

/// The data of a fence so far, by a hash of the bytes.
///
/// Most data of MPI processes are equal for all of them; they are copied and stored only once. A
/// datum with the hash of a different one is stored separately.
#[derive(Default)]
pub(super) struct Interner {
    known: HashMap<u64, Entry>,
    hasher: RandomState,
}

impl Interner {
    /// Returns the entry of a datum whose value was read from these bytes.
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
