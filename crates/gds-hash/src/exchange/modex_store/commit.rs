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

use std::collections::HashSet;

use bfrops::wire_type;
use pmix_types::{Bytes, Key, Rank, Scope, Status, memory};

use super::entry::Action;
use super::packed::{Audience, PackedPuts};
use super::{Entry, ScopeSet, seen_in};
use crate::exchange::codec::{
    MAX_STORED_VARIANTS, MAX_VARIANTS, check_num_variants, check_variants, qualified,
};
#[cfg(test)]
use crate::exchange::counted;
use crate::{Codec, CommitLimits, Error, ModexStore};

/// The scope of the block that marks a continued commit. This scope is never used for data.
const GOES_ON: Scope = Scope::DEL_INTERNAL;

/// Checks that the data of a process are within its limits.
fn check(limits: CommitLimits, puts: &ModexStore, rank: Rank) -> Result<(), Error> {
    for (what, found, most) in [
        ("keys", puts.num_keys(rank), limits.keys),
        ("bytes", puts.num_bytes(rank), limits.bytes),
    ] {
        if found > most {
            let message = format!("a process with {found} {what} put, more than {most}");
            return Err(Error::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
    }
    Ok(())
}

/// A change of a key by a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyChange {
    /// The commit has a value of the key, or removes a key that processes of this node did not see.
    Stored,
    /// Processes of this node saw a value of the key, which the commit removes.
    Removed,
}

/// The position of a message in its commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitPart {
    /// The commit continues in another message.
    Begin,
    /// The message is the last one of the commit.
    End,
}

/// A step of a commit, in order.
enum Step {
    Merge(ScopeSet, Vec<Entry>),
    Remove(ScopeSet, Vec<Key<'static>>),
}

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
        told: impl FnMut(&Key<'static>, KeyChange),
    ) -> Result<CommitPart, Error> {
        let before = self.clone();
        let done = self.take_commit(codec, rank, bytes, limits, told);
        if done.is_err() {
            *self = before;
        }
        done
    }

    fn take_commit(
        &mut self,
        codec: &Codec<'_>,
        rank: Rank,
        bytes: &[u8],
        limits: CommitLimits,
        mut told: impl FnMut(&Key<'static>, KeyChange),
    ) -> Result<CommitPart, Error> {
        let keys = limits.keys.saturating_mul(2);
        let (steps, part) = steps(codec, bytes, CommitLimits { keys, ..limits })?;
        let mut keys = HashSet::new();
        for of in [ScopeSet::LOCAL, ScopeSet::REMOTE] {
            let batches = steps.iter().filter_map(|step| match step {
                Step::Merge(scopes, entries) if scopes.meets(of) => Some(entries),
                _ => None,
            });
            let entries = batches.flatten();
            check_variants(entries.clone(), MAX_VARIANTS)?;
            keys.extend(
                qualified(entries)
                    .into_iter()
                    .map(|entry| entry.key().clone()),
            );
        }
        for step in steps {
            match step {
                Step::Merge(scopes, entries) => {
                    let keys = entries.iter().map(Entry::key);
                    keys.for_each(|key| told(key, KeyChange::Stored));
                    self.merge(rank, scopes, entries);
                }
                Step::Remove(scopes, keys) => {
                    let mut keys: Vec<_> = keys.iter().collect();
                    keys.sort_unstable();
                    keys.dedup();
                    let lost = self.remove_all(rank, scopes, &keys);
                    for (key, lost) in keys.into_iter().zip(lost) {
                        told(
                            key,
                            match lost.meets(ScopeSet::LOCAL) {
                                true => KeyChange::Removed,
                                false => KeyChange::Stored,
                            },
                        );
                    }
                }
            }
        }
        check(limits, self, rank)?;
        // The limits are checked after all steps, so that values that the commit removes do not
        // count.
        for key in &keys {
            for of in [ScopeSet::LOCAL, ScopeSet::REMOTE] {
                check_num_variants(self.num_variants(rank, key, of), MAX_STORED_VARIANTS)?;
            }
        }
        Ok(part)
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

/// Decodes a whole commit, if it is within limits.
fn steps(
    codec: &Codec<'_>,
    bytes: &[u8],
    mut limits: CommitLimits,
) -> Result<(Vec<Step>, CommitPart), Error> {
    let mut steps = Vec::new();
    let mut reader = codec.reader(bytes);
    while !reader.is_empty() {
        let start = reader.offset();
        let scope = reader.one::<wire_type::Scope>()?;
        if scope == GOES_ON {
            let block = reader.object::<wire_type::Buffer>()?;
            return match block.is_empty() && reader.is_empty() {
                true => Ok((steps, CommitPart::Begin)),
                false => Err(Error::bad(
                    "the mark of a continued commit is not the end of the message",
                )
                .at(start)),
            };
        }
        let action = Action::of(scope).filter(|(_, scopes)| *scopes != ScopeSet::OWN);
        let (action, scopes) = action.ok_or_else(|| {
            Error::bad(format!("{scope} is no scope of data that are sent")).at(start)
        })?;
        let mut entries = Vec::new();
        let mut block = reader.object::<wire_type::Buffer>()?;
        let start = block.offset();
        block.kvals(&mut entries, &mut limits)?;
        check_variants(&entries, MAX_VARIANTS).map_err(|error| error.at(start))?;
        match action {
            Action::Store => store(&mut steps, scopes, entries),
            Action::Remove => {
                let keys = entries.iter().map(|entry| entry.key().clone()).collect();
                steps.push(Step::Remove(scopes | ScopeSet::OWN, keys));
            }
        }
    }
    Ok((steps, CommitPart::End))
}

/// Adds steps that store values. A value of no type removes its key.
fn store(steps: &mut Vec<Step>, scopes: ScopeSet, entries: Vec<Entry>) {
    let mut batch = Vec::new();
    let mut removed = Vec::new();
    // The order of values and removals matters only for the same key, but it is kept for all.
    for entry in entries {
        if entry.is_deletion() {
            if !batch.is_empty() {
                steps.push(Step::Merge(scopes, std::mem::take(&mut batch)));
            }
            removed.push(entry.key().clone());
        } else {
            if !removed.is_empty() {
                steps.push(Step::Remove(scopes, std::mem::take(&mut removed)));
            }
            batch.push(entry);
        }
    }
    if !removed.is_empty() {
        steps.push(Step::Remove(scopes, removed));
    }
    steps.push(Step::Merge(scopes, batch));
}
