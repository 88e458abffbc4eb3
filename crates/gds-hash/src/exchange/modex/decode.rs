// SPDX-License-Identifier: MIT OR Apache-2.0
//! The decoder of the contributions of all servers. It decodes all of them before any is stored.
//!
//! Source: as in the parent module.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};

use bfrops::{Layout, wire_type};
use pmix_types::{Key, Kval, Nspace, Rank, Status, memory};

use super::encode::{CHANGES, COLLECTED, NUMBERED};
use super::{Modex, ModexForm, Part, Participant, no_member, ranks_before};
use crate::exchange::codec::{MAX_STORED_VARIANTS, Reader, check_variants};
use crate::exchange::modex_store::Entry;
use crate::{Codec, Error};

impl Modex {
    /// Decodes the concatenated contributions of servers.
    ///
    /// DEVIATION: the whole modex is rejected for a process that is no participant, an invalid key
    /// number, an unknown flag or truncated bytes; OpenPMIx keeps the data before the error and
    /// drops the rest; `a_hostile_blob_is_refused_as_a_whole`.
    ///
    /// # Errors
    ///
    /// The cause and the offset ([`Error::offset`]). `PMIX_ERR_BAD_PARAM` also if the flag of a
    /// server means that it did not collect data; `PMIX_ERR_NOT_SUPPORTED` if data are compressed
    /// and there is no function to inflate them.
    pub fn parse(
        codec: &Codec<'_>,
        form: ModexForm,
        participants: &[Participant<'_>],
        bytes: &[u8],
    ) -> Result<Self, Error> {
        let mut decoder = ModexDecoder {
            codec,
            participants,
            found: BTreeMap::new(),
            equal: Interner::default(),
        };
        let mut reader = codec.reader(bytes);
        while !reader.is_empty() {
            let mut part = reader.object::<wire_type::ByteObject>()?;
            match form {
                // A server without data sends an empty object.
                _ if part.is_empty() => {}
                ModexForm::Numbered => decoder.numbered(&mut part)?,
                ModexForm::Named => decoder.named(&mut part)?,
            }
        }
        decoder.finish()
    }
}

struct ModexDecoder<'p, 'w> {
    codec: &'p Codec<'w>,
    participants: &'p [Participant<'p>],
    /// The entries of each process, by the index of the participant and the rank.
    found: BTreeMap<(usize, u32), Vec<Entry>>,
    equal: Interner,
}

impl ModexDecoder<'_, '_> {
    fn numbered(&mut self, reader: &mut Reader<'_>) -> Result<(), Error> {
        let start = reader.offset();
        let flags = reader.one::<wire_type::Byte>()?;
        if flags & COLLECTED == 0 || flags & !(COLLECTED | NUMBERED) != 0 {
            return Err(flag(flags, start));
        }
        let keys = match flags & NUMBERED {
            0 => None,
            _ => Some(keys(reader)?),
        };
        while !reader.is_empty() {
            let mut proc = reader.object::<wire_type::ByteObject>()?;
            let start = proc.offset();
            let rank = proc.one::<wire_type::Rank>()?;
            let place = self.place(rank).map_err(|error| error.at(start))?;
            let entries = self.found.entry(place).or_default();
            match &keys {
                Some(keys) => numbered_data(&mut proc, keys, &mut self.equal, entries)?,
                None => named_data(&mut proc, &mut self.equal, entries)?,
            }
        }
        Ok(())
    }

    /// Returns the index of the participant and the rank of the process with this number in the
    /// fence.
    fn place(&self, number: Rank) -> Result<(usize, u32), Error> {
        let number = u64::from(number.as_raw());
        for (place, participant) in self.participants.iter().enumerate() {
            let rank = number.checked_sub(ranks_before(self.participants, place));
            let rank = rank.and_then(|rank| u32::try_from(rank).ok());
            if let Some(rank) = rank.filter(|rank| *rank < participant.num_procs) {
                return Ok((place, rank));
            }
        }
        let most = ranks_before(self.participants, self.participants.len());
        Err(Error::bad(format!(
            "process {number} of {most} in the fence"
        )))
    }

    fn named(&mut self, reader: &mut Reader<'_>) -> Result<(), Error> {
        while !reader.is_empty() {
            let compressed = reader.one::<wire_type::Bool>()?;
            let start = reader.offset();
            let mut data = reader.object::<wire_type::ByteObject>()?;
            if !compressed {
                self.named_data(&mut data)?;
                continue;
            }
            let inflate = self.codec.inflate().ok_or_else(|| {
                let message = "compressed data, and no compression is active";
                Error::new(Status::ERR_NOT_SUPPORTED, message).at(start)
            })?;
            let bytes = inflate(data.rest()).ok_or_else(|| {
                let message = "compressed data that cannot be read";
                Error::new(Status::ERR_UNPACK_FAILURE, message).at(start)
            })?;
            self.named_data(&mut self.codec.reader(&bytes).inside(start))?;
        }
        Ok(())
    }

    fn named_data(&mut self, reader: &mut Reader<'_>) -> Result<(), Error> {
        let start = reader.offset();
        let kind = reader.one::<wire_type::Byte>()?;
        if kind != COLLECTED && kind != CHANGES {
            return Err(flag(kind, start));
        }
        while !reader.is_empty() {
            let mut part = reader.object::<wire_type::ByteObject>()?;
            let start = part.offset();
            let proc = part.one::<wire_type::Proc>()?;
            let place = self
                .participants
                .iter()
                .position(|m| m.nspace == proc.nspace);
            let Some(place) = place else {
                return Err(no_member(&proc.nspace).at(start));
            };
            let rank = proc.rank.as_raw();
            let most = self
                .participants
                .get(place)
                .map_or(0, |participant| participant.num_procs);
            if rank >= most {
                let nspace = &proc.nspace;
                let message = format!("rank {rank} of {nspace}, which has {most} processes");
                return Err(Error::bad(message).at(start));
            }
            let entries = self.found.entry((place, rank)).or_default();
            named_data(&mut part, &mut self.equal, entries)?;
        }
        Ok(())
    }

    fn finish(self) -> Result<Modex, Error> {
        let mut parts = memory::list(self.found.len())?;
        // All processes of a job share one copy of its name.
        let mut shared: Option<(usize, Nspace<'static>)> = None;
        for ((place, rank), entries) in self.found {
            check_variants(&entries, MAX_STORED_VARIANTS)?;
            let Some(participant) = self.participants.get(place) else {
                continue;
            };
            let nspace = match shared.take() {
                Some((of, nspace)) if of == place => nspace,
                _ => participant.nspace.to_shared(),
            };
            shared = Some((place, nspace.clone()));
            parts.push(Part {
                nspace,
                rank: Rank::new(rank),
                entries,
            });
        }
        Ok(Modex { parts })
    }
}

/// Unpacks the keys. The number of a key is its index.
fn keys<'a>(reader: &mut Reader<'a>) -> Result<Vec<Key<'a>>, Error> {
    let start = reader.offset();
    let count = reader.one::<wire_type::Uint32>()?;
    let names = reader.all::<wire_type::String>()?;
    if u32::try_from(names.len()) != Ok(count) {
        let found = names.len();
        return Err(
            Error::bad(format!("{count} keys are stated, but there are {found}")).at(start),
        );
    }
    let keys = names.into_iter();
    Ok(keys
        .map(|name| Key::new(name.unwrap_or_default()))
        .collect())
}

/// Unpacks keys and values up to the end.
fn named_data(
    reader: &mut Reader<'_>,
    equal: &mut Interner,
    entries: &mut Vec<Entry>,
) -> Result<(), Error> {
    while !reader.is_empty() {
        let start = reader.offset();
        let (kval, bytes) = reader.kval()?;
        entries.push(
            equal
                .entry(kval, reader.layout(), bytes)
                .map_err(|e| e.at(start))?,
        );
    }
    Ok(())
}

/// Unpacks key numbers and values up to the end.
fn numbered_data(
    reader: &mut Reader<'_>,
    keys: &[Key<'_>],
    equal: &mut Interner,
    entries: &mut Vec<Entry>,
) -> Result<(), Error> {
    while !reader.is_empty() {
        let start = reader.offset();
        let number = reader.one::<wire_type::Uint32>()?;
        let key = usize::try_from(number).ok().and_then(|n| keys.get(n));
        let key = key.ok_or_else(|| {
            let count = keys.len();
            Error::bad(format!("key {number} of {count}")).at(start)
        })?;
        let (value, bytes) = reader.value()?;
        let kval = Kval {
            key: key.clone(),
            value,
        };
        entries.push(
            equal
                .entry(kval, reader.layout(), bytes)
                .map_err(|e| e.at(start))?,
        );
    }
    Ok(())
}

fn flag(flag: u8, start: usize) -> Error {
    let message = match flag & (COLLECTED | CHANGES) {
        0 => "a server did not collect data for this fence".to_owned(),
        _ => format!("flag {flag} has no meaning"),
    };
    Error::bad(message).at(start)
}

/// The entries decoded from a modex so far, by a hash of their key and packed value.
///
/// Most processes of an MPI job put the same values. Such a value is stored once, and its entry is
/// shared. If the hashes of two different entries are equal, both are stored.
#[derive(Default)]
pub(super) struct Interner {
    known: HashMap<u64, Entry>,
    hasher: RandomState,
}

impl Interner {
    /// Returns the entry for a kval whose value was unpacked from these bytes.
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
