// SPDX-License-Identifier: MIT OR Apache-2.0
//! The encoder of this server's contribution.
//!
//! Source: as in the parent module.

use std::collections::HashMap;

use bfrops::wire_type;
use pmix_types::{Bytes, Key, Kval, Proc, Rank, Text, Value};

use super::{Modex, ModexForm, Participant, no_member, ranks_before};
use crate::exchange::modex_store::{Entry, ScopeSet};
use crate::{Codec, Error, ModexStore};

/// The flag for collected data.
pub(super) const COLLECTED: u8 = 1;
/// The flag for numbered keys.
pub(super) const NUMBERED: u8 = 2;
/// The flag for changes only.
pub(super) const CHANGES: u8 = 2;

impl Modex {
    /// Packs the contribution of this server to a fence: the data that its processes put for other
    /// nodes.
    ///
    /// Processes without data are omitted. The named form also contains the keys that were removed
    /// after other nodes saw them.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` for a process of a job that does not participate; an error of packing,
    /// with the process and the key.
    pub fn contribution(
        codec: &Codec<'_>,
        form: ModexForm,
        participants: &[Participant<'_>],
        procs: &[(Proc<'_>, &ModexStore)],
    ) -> Result<Vec<u8>, Error> {
        let data = match form {
            ModexForm::Numbered => numbered(codec, participants, procs)?,
            ModexForm::Named => named(codec, procs)?,
        };
        envelope(codec, form, data)
    }

    /// Packs the contribution of this server to a fence that collects no data. In the numbered
    /// form, it is empty.
    ///
    /// # Errors
    ///
    /// None for the layouts of servers.
    pub fn without_data(codec: &Codec<'_>, form: ModexForm) -> Result<Vec<u8>, Error> {
        match form {
            ModexForm::Numbered => Ok(Vec::new()),
            ModexForm::Named => {
                let data = codec.pack(|encoder| encoder.one::<wire_type::Byte>(&0));
                envelope(codec, form, data?)
            }
        }
    }
}

fn envelope(codec: &Codec<'_>, form: ModexForm, data: Vec<u8>) -> Result<Vec<u8>, Error> {
    let object = |bytes: Vec<u8>, compressible: bool| {
        codec.pack(|encoder| {
            if compressible {
                encoder.one::<wire_type::Bool>(&false)?;
            }
            encoder.one::<wire_type::ByteObject>(&Bytes::Owned(bytes))
        })
    };
    let packed = match form {
        ModexForm::Numbered => object(data, false),
        ModexForm::Named => object(data, true).and_then(|inner| object(inner, false)),
    };
    Ok(packed?)
}

/// Returns the processes that put data for other nodes, with these data.
fn shared<'p>(
    procs: &'p [(Proc<'p>, &'p ModexStore)],
) -> impl Iterator<Item = (&'p Proc<'p>, Vec<&'p Entry>)> {
    procs.iter().filter_map(|(proc, puts)| {
        let entries: Vec<_> = puts.entries(proc.rank, ScopeSet::REMOTE).collect();
        (!entries.is_empty()).then_some((proc, entries))
    })
}

/// Packs flags, keys and processes in the numbered form.
fn numbered(
    codec: &Codec<'_>,
    participants: &[Participant<'_>],
    procs: &[(Proc<'_>, &ModexStore)],
) -> Result<Vec<u8>, Error> {
    let keys = Keys::of(codec, shared(procs).flat_map(|(_, entries)| entries))?;
    let mut out = codec.pack(|encoder| keys.head(encoder))?;
    for (proc, entries) in shared(procs) {
        let rank = number_of(participants, proc)?;
        let bytes = numbered_proc(codec, &keys, rank, proc, &entries)?;
        let mut encoder = codec.encoder(&mut out);
        let object = Bytes::Owned(bytes);
        encoder.one::<wire_type::ByteObject>(&object)?;
    }
    Ok(out)
}

fn numbered_proc(
    codec: &Codec<'_>,
    keys: &Keys<'_>,
    rank: Rank,
    proc: &Proc<'_>,
    entries: &[&Entry],
) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let mut encoder = codec.encoder(&mut bytes);
    encoder.one::<wire_type::Rank>(&rank)?;
    for entry in entries {
        let packed = match keys.number(entry.wire_key()) {
            Some(number) => (encoder.one::<wire_type::Uint32>(&number))
                .and_then(|()| entry.encode_value(&mut encoder)),
            None => entry.encode(&mut encoder),
        };
        packed.map_err(|error| entry.unsent(&error, proc.rank))?;
    }
    Ok(bytes)
}

/// Returns the number of a process in the fence.
fn number_of(participants: &[Participant<'_>], proc: &Proc<'_>) -> Result<Rank, Error> {
    let place = participants.iter().position(|m| m.nspace == proc.nspace);
    let place = place.ok_or_else(|| no_member(&proc.nspace))?;
    let number = ranks_before(participants, place) + u64::from(proc.rank.as_raw());
    let rank = u32::try_from(number).ok().map(Rank::new);
    let rank = rank.filter(|rank| proc.rank.is_valid() && rank.is_valid());
    rank.ok_or_else(|| {
        let (rank, nspace) = (proc.rank, &proc.nspace);
        Error::bad(format!(
            "rank {rank} of {nspace} has no number in the fence"
        ))
    })
}

/// The keys of a contribution with their numbers, if numbers are shorter than repeating the names.
struct Keys<'k> {
    names: Vec<&'k Key<'static>>,
    numbers: HashMap<&'k Key<'static>, u32>,
}

impl<'k> Keys<'k> {
    /// DEVIATION: the choice of the shorter form takes all keys into account; OpenPMIx 4.2 and 5.0
    /// compare only the size of the last key. Decoders accept both forms;
    /// `keys_are_numbered_where_it_pays`.
    fn of(codec: &Codec<'_>, entries: impl Iterator<Item = &'k Entry>) -> Result<Self, Error> {
        let (mut names, mut numbers) = (Vec::new(), HashMap::new());
        let mut uses: Vec<usize> = Vec::new();
        for entry in entries {
            let key = entry.wire_key();
            let next = u32::try_from(names.len()).unwrap_or(u32::MAX);
            let number = *numbers.entry(key).or_insert_with(|| {
                names.push(key);
                uses.push(0);
                next
            });
            if let Some(uses) = usize::try_from(number).ok().and_then(|n| uses.get_mut(n)) {
                *uses += 1;
            }
        }
        let (mut plain, mut by_number) = (0, 0);
        for ((key, uses), number) in names.iter().zip(&uses).zip(0_u32..) {
            let text = Some(Text::without_nul(key.as_bytes()));
            let name = codec.pack(|encoder| encoder.one::<wire_type::String>(&text));
            let name = name?.len();
            let short = codec.pack(|encoder| encoder.one::<wire_type::Uint32>(&number));
            plain += name * uses;
            by_number += name + short?.len() * uses;
        }
        if plain <= by_number {
            numbers.clear();
        }
        Ok(Self { names, numbers })
    }

    /// Returns the number of a key, or `None` if keys are not numbered.
    fn number(&self, key: &Key<'static>) -> Option<u32> {
        self.numbers.get(key).copied()
    }

    /// Packs the data before the processes.
    fn head(&self, encoder: &mut bfrops::Encoder<'_>) -> Result<(), bfrops::Error> {
        if self.numbers.is_empty() {
            return encoder.one::<wire_type::Byte>(&COLLECTED);
        }
        encoder.one::<wire_type::Byte>(&(COLLECTED | NUMBERED))?;
        let count = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        encoder.one::<wire_type::Uint32>(&count)?;
        let names = self.names.iter();
        let texts: Vec<_> = names
            .map(|key| Some(Text::without_nul(key.as_bytes())))
            .collect();
        encoder.call::<wire_type::String>(&texts)
    }
}

/// Packs the flag and the processes in the named form.
fn named(codec: &Codec<'_>, procs: &[(Proc<'_>, &ModexStore)]) -> Result<Vec<u8>, Error> {
    let collected = codec.pack(|encoder| encoder.one::<wire_type::Byte>(&COLLECTED));
    let mut out = collected?;
    for (proc, puts) in procs {
        let bytes = named_proc(codec, proc, puts)?;
        if let Some(bytes) = bytes {
            let mut encoder = codec.encoder(&mut out);
            let object = Bytes::Owned(bytes);
            encoder.one::<wire_type::ByteObject>(&object)?;
        }
    }
    Ok(out)
}

fn named_proc(
    codec: &Codec<'_>,
    proc: &Proc<'_>,
    puts: &ModexStore,
) -> Result<Option<Vec<u8>>, Error> {
    let mut bytes = Vec::new();
    let mut encoder = codec.encoder(&mut bytes);
    encoder.one::<wire_type::Proc>(proc)?;
    let mut empty = true;
    // Removed keys precede the values, because a removed key may still have other values.
    for key in puts.removed(proc.rank) {
        let removed = Kval {
            key: key.clone(),
            value: Value::Undef,
        };
        encoder.one::<wire_type::Kval>(&removed)?;
        empty = false;
    }
    for entry in puts.entries(proc.rank, ScopeSet::REMOTE) {
        let packed = entry.encode(&mut encoder);
        packed.map_err(|error| entry.unsent(&error, proc.rank))?;
        empty = false;
    }
    Ok((!empty).then_some(bytes))
}
