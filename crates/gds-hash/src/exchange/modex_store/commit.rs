// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages with data that processes put: commits, replies to gets, direct modexes.
//!
//! | message | calls |
//! | --- | --- |
//! | commit, client to server | for each scope `PMIX_SCOPE`, then `PMIX_BUFFER` with a `PMIX_KVAL` call each; removed keys first, with `PMIX_DEL_…` scopes and values of no type; `PMIX_DEL_INTERNAL` last, with an empty buffer, if the commit continues in another message (only to servers of this project) |
//! | reply to a get, server to client | `PMIX_BYTE_OBJECT` with a call of `PMIX_PROC`, then `PMIX_KVAL` each |
//! | direct modex, server to server | `PMIX_KVAL` each |
//!
//! A commit contains a global value twice, with the local and with the remote scope. Frozen: append
//! only.
//!
//! Source: OpenPMIx, the messages between its clients and servers.

use bfrops::wire_type;
use pmix_types::{Bytes, Key, Rank, Scope, memory};

use super::packed::{Audience, PackedPuts};
use super::staged::{CommitPart, GOES_ON, KeyChange};
use super::{Entry, ScopeSet, seen_in};
use crate::exchange::codec::{MAX_STORED_VARIANTS, check_variants, qualified};
#[cfg(test)]
use crate::exchange::counted;
use crate::{Codec, CommitLimits, Error, ModexStore};

impl ModexStore {
    /// Packs the payload of a commit: all data that a process put for others. It is empty if there
    /// are none.
    ///
    /// # Errors
    ///
    /// A value cannot be packed. The error has its key.
    pub fn commit_message(&self, codec: &Codec<'_>, rank: Rank) -> Result<Vec<u8>, Error> {
        let mut out = Vec::new();
        for (scope, scopes) in [
            (Scope::LOCAL, ScopeSet::LOCAL),
            (Scope::REMOTE, ScopeSet::REMOTE),
        ] {
            let block = self.seen(codec, rank, scopes)?;
            pack(codec, &mut out, scope, block)?;
        }
        Ok(out)
    }

    /// Stores the payload of a commit of a process of this node.
    ///
    /// Data of earlier commits are kept unless they are replaced or deleted. Clients up to 5.0
    /// repeat all data in each commit. Later clients send only changes.
    ///
    /// # Errors
    ///
    /// The cause and the offset. Then nothing has changed. `PMIX_ERR_BAD_PARAM` for a scope that no
    /// message can have, because internal data never leave their process.
    pub fn commit(&mut self, codec: &Codec<'_>, rank: Rank, bytes: &[u8]) -> Result<(), Error> {
        self.commit_within(codec, rank, bytes, CommitLimits::NONE)
    }

    /// Stores the payload of a commit like [`Self::commit`], unless the process would exceed its
    /// limits.
    ///
    /// # Errors
    ///
    /// As for [`Self::commit`]; `PMIX_ERR_OUT_OF_RESOURCE` beyond a limit. Then nothing has
    /// changed.
    pub fn commit_within(
        &mut self,
        codec: &Codec<'_>,
        rank: Rank,
        bytes: &[u8],
        limits: CommitLimits,
    ) -> Result<(), Error> {
        let part = self.commit_telling(codec, rank, bytes, limits, |_, _| ());
        part.map(drop)
    }

    /// Stores the payload of a commit like [`Self::commit_within`], and calls `told` for each key
    /// that the commit stores or removes. The caller retries only requests that wait for these
    /// keys, and informs the processes that may have read a removed key. Returns the position of
    /// the message in the commit.
    ///
    /// # Errors
    ///
    /// As for [`Self::commit_within`]. After an error, the reported keys have not changed.
    pub fn commit_telling(
        &mut self,
        codec: &Codec<'_>,
        rank: Rank,
        bytes: &[u8],
        limits: CommitLimits,
        mut told: impl FnMut(&Key<'static>, KeyChange),
    ) -> Result<CommitPart, Error> {
        let mut staged = self.begin_commit(rank, limits);
        while !staged.advance(codec, bytes, &mut told)? {}
        self.end_commit(&mut staged);
        Ok(staged.part())
    }

    /// Packs the reply to a direct modex: the data that a process of this node put for other nodes.
    ///
    /// # Errors
    ///
    /// A value cannot be packed. The error has its key.
    pub fn direct(&self, codec: &Codec<'_>, rank: Rank) -> Result<Vec<u8>, Error> {
        self.seen(codec, rank, ScopeSet::REMOTE)
    }

    /// Stores another server's reply to a direct modex about a process of its node.
    ///
    /// # Errors
    ///
    /// The cause and the offset. Then nothing has changed.
    pub fn absorb_direct(
        &mut self,
        codec: &Codec<'_>,
        rank: Rank,
        bytes: &[u8],
    ) -> Result<(), Error> {
        let mut entries = Vec::new();
        let mut limits = CommitLimits::NONE;
        codec.reader(bytes).kvals(&mut entries, &mut limits)?;
        check_variants(&entries, MAX_STORED_VARIANTS)?;
        for same in qualified(&entries).chunk_by(|a, b| a.key() == b.key()) {
            self.make_room(rank, same);
        }
        self.merge(rank, ScopeSet::REMOTE, entries);
        Ok(())
    }

    /// Removes outdated values, if a key would otherwise have too many values with different
    /// qualifiers. The reply to a direct modex contains all current values but no removals, so
    /// values that it does not repeat are outdated.
    fn make_room(&mut self, rank: Rank, said: &[&Entry]) {
        let Some(key) = said.first().map(|entry| entry.key()) else {
            return;
        };
        let stored = self.num_variants(rank, key, ScopeSet::REMOTE);
        if stored + said.len() > MAX_STORED_VARIANTS {
            let is_said = |old: &Entry| said.iter().any(|entry| entry.excludes(old));
            self.change(rank, |data| {
                data.take_unsaid(key.as_bytes(), ScopeSet::REMOTE, is_said)
            });
        }
    }

    /// Packs all data of a process that a scope makes visible, as calls of one `PMIX_KVAL` each. In
    /// the reply to a get, they follow the process.
    ///
    /// # Errors
    ///
    /// The status of a value that cannot be packed for this client, with its key;
    /// `PMIX_ERR_BAD_PARAM` for a scope that is not allowed in a fetch.
    pub fn kvals(&self, codec: &Codec<'_>, rank: Rank, scope: Scope) -> Result<Vec<u8>, Error> {
        self.seen(codec, rank, seen_in(scope)?)
    }

    /// Packs a reply that ends with the output of [`kvals`](Self::kvals). `front` packs the
    /// beginning of the reply, given the length of the data. The reply is packed once for all
    /// clients with the same layout and form, until the process puts other data. A reply of more
    /// than 4 MiB is only shared while a client uses it, and packed again afterwards.
    ///
    /// # Errors
    ///
    /// As for [`kvals`](Self::kvals), and the errors of `front`.
    pub fn packed_once<E: From<Error>>(
        &self,
        codec: &Codec<'_>,
        rank: Rank,
        scope: Scope,
        form: u32,
        front: impl Fn(usize) -> Result<Vec<u8>, E>,
    ) -> Result<PackedPuts, E> {
        let scopes = seen_in(scope)?;
        let pack = || {
            let most = self.likely_bytes(rank, scopes);
            PackedPuts::new(most, |out| self.pack_seen(codec, rank, scopes, out), front)
        };
        let layout = codec.layout();
        let audience = Audience {
            layout,
            scopes,
            form,
        };
        match self.data(rank) {
            Some(data) => data.packed().get(audience, pack),
            None => pack(),
        }
    }

    /// Returns the approximate length of the output of [`kvals`](Self::kvals) without packing. It
    /// is at least the actual length. It is greater if values take more bytes in memory.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` for a scope that is not allowed in a fetch.
    pub fn num_bytes_seen(&self, rank: Rank, scope: Scope) -> Result<usize, Error> {
        let entries = self.entries(rank, seen_in(scope)?);
        Ok(entries.map(super::Entry::bytes).sum())
    }

    /// Returns the approximate packed length of the values for a set of scopes.
    fn likely_bytes(&self, rank: Rank, scopes: ScopeSet) -> usize {
        let entries = self.entries(rank, scopes);
        entries.map(super::Entry::likely_bytes).sum()
    }

    fn seen(&self, codec: &Codec<'_>, rank: Rank, scopes: ScopeSet) -> Result<Vec<u8>, Error> {
        let mut out = memory::list(self.likely_bytes(rank, scopes))?;
        self.pack_seen(codec, rank, scopes, &mut out)?;
        Ok(out)
    }

    fn pack_seen(
        &self,
        codec: &Codec<'_>,
        rank: Rank,
        scopes: ScopeSet,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        #[cfg(test)]
        counted::add_one(&counted::PACKED);
        let mut encoder = codec.encoder(out);
        for entry in self.entries(rank, scopes) {
            let packed = entry.encode(&mut encoder);
            packed.map_err(|error| entry.unsent(&error, rank))?;
        }
        Ok(())
    }
}

/// Packs the block of a commit for a scope, unless it is empty.
pub(super) fn pack(
    codec: &Codec<'_>,
    out: &mut Vec<u8>,
    scope: Scope,
    block: Vec<u8>,
) -> Result<(), Error> {
    if !block.is_empty() {
        let mut encoder = codec.encoder(out);
        encoder.one::<wire_type::Scope>(&scope)?;
        encoder.one::<wire_type::Buffer>(&Bytes::Owned(block))?;
    }
    Ok(())
}

/// Packs the block that marks a continued commit.
pub(super) fn pack_goes_on(codec: &Codec<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
    let mut encoder = codec.encoder(out);
    encoder.one::<wire_type::Scope>(&GOES_ON)?;
    encoder.one::<wire_type::Buffer>(&Bytes::Owned(Vec::new()))?;
    Ok(())
}
