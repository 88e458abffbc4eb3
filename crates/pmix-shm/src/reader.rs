// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reader of a table.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::fence;

use rustix::fs::{FileType, Mode, OFlags};

use crate::layout::{
    AT_CHAINS, AT_END, AT_LEN, AT_MAGIC, AT_NUM_CHAINS, AT_STATE, AT_TOKEN, AT_VERSION, CHECKSUM,
    Checksum, HASH, KEY, KEY_LEN, MAGIC, NEXT, OPEN, ROOM, VALUE_LEN, VERSION, WORD, chain, hash,
    is_being_written, is_there, whole_words, words,
};
use crate::mapping::Mapping;
use crate::writer::{NAME, SEALS, token_words};
use crate::{Address, Error};

/// The number of attempts to read a value during concurrent writes, before the reader gives up with
/// `Error::Busy`.
const TRIES: usize = 4;

/// A reader of a table that another process writes. Any number of threads may read at the same
/// time. Readers never wait for each other or for the writer.
pub struct Reader {
    mapping: Mapping,
    num_chains: u64,
    max_value_bytes: u64,
}

impl Reader {
    /// The default limit on the length of a value, in bytes.
    pub const MAX_VALUE_BYTES: usize = 512 << 20;

    /// Opens the table at an address.
    ///
    /// # Errors
    ///
    /// The object cannot be opened or mapped: its process has exited, belongs to another user or is
    /// invisible from here. [`Error::Foreign`] if the object is not the one to which the address
    /// belongs, has another version, or is not sealed; [`Error::Damaged`] if its header is
    /// inconsistent.
    pub fn open(address: &Address) -> Result<Self, Error> {
        let object = open(address)?;
        let stat = rustix::fs::fstat(&object).map_err(Error::system("a memory object"))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(Error::Foreign("it is not a memory object"));
        }
        if stat.st_uid != rustix::process::geteuid().as_raw() {
            return Err(Error::Foreign("it belongs to another user"));
        }
        let seals = rustix::fs::fcntl_get_seals(&object);
        let seals = seals.map_err(|_| Error::Foreign("it cannot be sealed"))?;
        if !seals.contains(SEALS) {
            return Err(Error::Foreign("others can change it"));
        }
        let len = u64::try_from(stat.st_size).map_err(|_| Error::Damaged("its length"))?;
        let address_space = usize::try_from(len).map_err(|_| Error::Damaged("its length"))?;
        if len < AT_CHAINS {
            return Err(Error::Damaged("its length"));
        }
        let mapping = Mapping::new(&object, address_space, false)?;
        let mut reader = Self {
            mapping,
            num_chains: 0,
            max_value_bytes: Self::MAX_VALUE_BYTES as u64,
        };
        reader.check_head(address.token, len)?;
        Ok(reader)
    }

    /// Sets the maximum length of a value in bytes. [`get`](Self::get) neither reads nor copies a
    /// longer value.
    #[must_use]
    pub fn with_max_value_bytes(mut self, most: usize) -> Self {
        self.max_value_bytes = u64::try_from(most).unwrap_or(u64::MAX);
        self
    }

    fn check_head(&mut self, token: u128, len: u64) -> Result<(), Error> {
        if self.load(AT_MAGIC)? != MAGIC {
            return Err(Error::Foreign("it begins with other bytes"));
        }
        fence(Acquire);
        if self.load(AT_VERSION)? != VERSION {
            return Err(Error::Foreign("it has another version"));
        }
        let told = [self.load(AT_TOKEN)?, self.load(AT_TOKEN + WORD)?];
        if told != token_words(token) {
            return Err(Error::Foreign("it has another token"));
        }
        if self.load(AT_LEN)? != len {
            return Err(Error::Damaged("its length"));
        }
        let num_chains = self.load(AT_NUM_CHAINS)?;
        let most = (len - AT_CHAINS) / WORD;
        if !num_chains.is_power_of_two() || num_chains > most {
            return Err(Error::Damaged("the number of chains"));
        }
        self.num_chains = num_chains;
        Ok(())
    }

    /// Returns `true` until the writer closes the table. A closed table has no values.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.load(AT_STATE) == Ok(OPEN)
    }

    /// Returns the current value of a key, or `None` if there is none or if the table is closed.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] if the writer changes the value repeatedly during the call;
    /// [`Error::TooLong`] if the value exceeds the [limit](Self::with_max_value_bytes);
    /// [`Error::NoMemory`] if this process has no memory for the copy; [`Error::Damaged`] if the
    /// bytes are inconsistent, in which case the table must not be read again.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        if !self.is_open() {
            return Ok(None);
        }
        let Some(mut record) = self.find(key)? else {
            return Ok(None);
        };
        for _ in 0..TRIES {
            let before = self.load(record)?;
            if is_being_written(before) {
                std::hint::spin_loop();
                continue;
            }
            fence(Acquire);
            if !is_there(before) {
                // If the value has grown, it is in a newer record, which was added before the old
                // one was removed.
                match self.find(key)? {
                    Some(newer) if newer != record => record = newer,
                    _ => return Ok(None),
                }
                continue;
            }
            let copy = self.copy(record, key);
            fence(Acquire);
            // If the version has changed, the copy may be inconsistent.
            if self.load(record)? == before {
                // If the table was closed during the copy, the value may be outdated.
                return copy.map(|copy| self.is_open().then_some(copy));
            }
        }
        Err(Error::Busy)
    }

    /// Returns the position of the record of a key.
    fn find(&self, key: &[u8]) -> Result<Option<u64>, Error> {
        let hash = hash(key);
        let mut record = self.load(chain(hash, self.num_chains))?;
        fence(Acquire);
        let end = self.load(AT_END)?;
        let first = AT_CHAINS + self.num_chains * WORD;
        let mut before = end;
        while record != 0 {
            // Each record must precede the one that refers to it, so a damaged chain cannot be
            // circular.
            if record < first || record >= before || !record.is_multiple_of(WORD) {
                return Err(Error::Damaged("a position"));
            }
            if self.load(record + HASH)? == hash && self.has_key(record, key)? {
                return Ok(Some(record));
            }
            before = record;
            record = self.load(record + NEXT)?;
        }
        Ok(None)
    }

    fn has_key(&self, record: u64, key: &[u8]) -> Result<bool, Error> {
        let len = key.len() as u64;
        if self.load(record + KEY_LEN)? != len {
            return Ok(false);
        }
        let num_words = len.div_ceil(WORD);
        let there = self.mapping.words(record + KEY, num_words);
        let there = there.ok_or(Error::Damaged("a key"))?;
        Ok(there
            .iter()
            .zip(words(key))
            .all(|(there, word)| there.load(Relaxed) == word))
    }

    /// Copies the value of a record and verifies its checksum.
    fn copy(&self, record: u64, key: &[u8]) -> Result<Vec<u8>, Error> {
        let (len, room) = (self.load(record + VALUE_LEN)?, self.load(record + ROOM)?);
        if len > room {
            return Err(Error::Damaged("the length of a value"));
        }
        let key_words = whole_words(key.len() as u64).ok_or(Error::Damaged("a key"))?;
        let there = self
            .mapping
            .words(record + KEY + key_words, len.div_ceil(WORD));
        let there = there.ok_or(Error::Damaged("the length of a value"))?;
        // This check comes after the check against the mapping: a length beyond the mapping means
        // damage, not a long value.
        if len > self.max_value_bytes {
            return Err(Error::TooLong(len, self.max_value_bytes));
        }
        let len_here = usize::try_from(len).map_err(|_| Error::Damaged("a length"))?;
        let mut sum = Checksum::new(len);
        words(key).for_each(|word| sum.add(word));
        let room = there.len() * size_of::<u64>();
        let mut copy = Vec::new();
        // The length comes from the writer, so a failed allocation must not abort the process.
        copy.try_reserve_exact(room)
            .map_err(|_| Error::NoMemory(room))?;
        copy.resize(room, 0);
        let (places, _) = copy.as_chunks_mut::<8>();
        for (word, place) in there.iter().zip(places) {
            let word = word.load(Relaxed);
            sum.add(word);
            *place = word.to_ne_bytes();
        }
        copy.truncate(len_here);
        if sum.finish() != self.load(record + CHECKSUM)? {
            return Err(Error::Damaged("a checksum"));
        }
        Ok(copy)
    }

    fn load(&self, position: u64) -> Result<u64, Error> {
        let word = self.mapping.word(position);
        word.map(|word| word.load(Relaxed))
            .ok_or(Error::Damaged("a position"))
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("is_open", &self.is_open())
            .finish_non_exhaustive()
    }
}

/// Opens the object for reading. First checks that the descriptor refers to a memory object with
/// the expected name.
fn open(address: &Address) -> Result<OwnedFd, Error> {
    let path = address.path();
    let link = rustix::fs::readlink(&path, Vec::new());
    let link = link.map_err(Error::system("a memory object of the server"))?;
    if !link
        .as_bytes()
        .starts_with(format!("/memfd:{NAME}").as_bytes())
    {
        return Err(Error::Foreign("the descriptor is of something else"));
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = rustix::fs::open(&path, flags, Mode::empty());
    opened.map_err(Error::system("a memory object of the server"))
}
