// SPDX-License-Identifier: MIT OR Apache-2.0
//! The writer of a table.

use std::collections::HashMap;
use std::fmt;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};

use rustix::fs::{FallocateFlags, MemfdFlags, Mode, SealFlags};

use crate::layout::{
    AT_CHAINS, AT_END, AT_LEN, AT_MAGIC, AT_NUM_CHAINS, AT_STATE, AT_TOKEN, AT_VERSION, CHECKSUM,
    CLOSED, Checksum, HASH, KEY, KEY_LEN, MAGIC, NEXT, OPEN, ROOM, VALUE_LEN, VERSION, WORD, chain,
    hash, removed, versions, whole_words, words,
};
use crate::mapping::Mapping;
use crate::{Address, Error};

/// The name of the object in `/proc`.
pub(crate) const NAME: &str = "pmix-rs";

/// The seals of an object: against shortening, growing, and writes other than through the existing
/// mapping.
pub(crate) const SEALS: SealFlags = SealFlags::SHRINK
    .union(SealFlags::GROW)
    .union(SealFlags::FUTURE_WRITE)
    .union(SealFlags::SEAL);

/// The unit of an object's length in bytes, a multiple of every page size.
const PAGES: u64 = 64 << 10;

/// The minimum and maximum number of bytes that are reserved at once.
const LEAST: u64 = PAGES;
const MOST: u64 = 1 << 20;

const NUM_CHAINS: u64 = 1 << 12;

/// The writer of a table. Readers see each change atomically. Dropping the writer closes the table;
/// then readers find no values.
///
/// Memory is reserved as values are added, up to the length of the table. A value that is put again
/// replaces the old one in place if it fits.
pub struct Writer {
    object: OwnedFd,
    mapping: Mapping,
    address: Address,
    len: u64,
    /// The position of the next record.
    end: u64,
    /// The end of the reserved memory.
    given: u64,
    /// The position of the record of each key.
    records: HashMap<Box<[u8]>, u64>,
}

/// Returns `len` rounded up to whole pages, but at most `RLIMIT_FSIZE`. A write beyond that limit
/// would terminate the process by SIGXFSZ, even with enough free memory.
fn within_limit(len: u64, least: u64) -> Result<u64, Error> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
    let most = limit.unwrap_or(u64::MAX) / PAGES * PAGES;
    let len = len
        .checked_next_multiple_of(PAGES)
        .ok_or(Error::Full)?
        .min(most);
    match len >= least {
        true => Ok(len),
        false => Err(Error::Full),
    }
}

impl Writer {
    /// Creates an empty table of at most `max_bytes` bytes including its index. Memory is reserved
    /// on demand.
    ///
    /// # Errors
    ///
    /// The system has no memory, address space, descriptor or random bytes, or cannot seal the
    /// object (Linux before 5.1); [`Error::Full`] if the limit on file sizes is too low.
    pub fn create(max_bytes: usize) -> Result<Self, Error> {
        let least = AT_CHAINS + NUM_CHAINS * WORD;
        let len = u64::try_from(max_bytes).unwrap_or(u64::MAX).max(least);
        let len = within_limit(len, least)?;
        let address_space = usize::try_from(len).map_err(|_| Error::Full)?;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let made = rustix::fs::memfd_create(NAME, flags);
        let object = made.map_err(Error::system("making a memory object"))?;
        rustix::fs::ftruncate(&object, len).map_err(Error::system("sizing a memory object"))?;
        let private = rustix::fs::fchmod(&object, Mode::RUSR);
        private.map_err(Error::system("making a memory object private"))?;
        let mapping = Mapping::new(&object, address_space, true)?;
        let sealed = rustix::fs::fcntl_add_seals(&object, SEALS);
        sealed.map_err(Error::system("sealing a memory object"))?;
        let address = Address {
            pid: std::process::id(),
            fd: u32::try_from(object.as_raw_fd()).map_err(|_| Error::Address)?,
            token: token()?,
        };
        let mut writer = Self {
            object,
            mapping,
            address,
            len,
            end: least,
            given: 0,
            records: HashMap::new(),
        };
        writer.take_memory(AT_CHAINS)?;
        writer.write_head()?;
        Ok(writer)
    }

    /// Returns the address at which processes of the same user can open the table, until this
    /// writer is dropped.
    #[must_use]
    pub const fn address(&self) -> Address {
        self.address
    }

    /// Returns the bytes of memory that the table takes.
    #[must_use]
    pub const fn memory_bytes(&self) -> u64 {
        self.given
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    ///
    /// [`Error::Full`] if the table has no space, or the system's error if it has no memory. Then
    /// the key has no value.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let known = self.records.get(key).copied();
        if let Some(record) = known
            && self.load(record + ROOM)? >= value.len() as u64
        {
            return self.write_value(record, key, value);
        }
        // The new record is added before the old one is removed, so that a reader always finds one
        // of them.
        let appended = self.append(key, value);
        self.remove(key);
        self.records.insert(key.into(), appended?);
        Ok(())
    }

    /// Removes a key. A missing key is not an error.
    pub fn remove(&mut self, key: &[u8]) {
        if let Some(record) = self.records.get(key)
            && let Some(word) = self.mapping.word(*record)
        {
            word.store(removed(word.load(Relaxed)), Release);
        }
    }

    /// Appends a record for a key that has none, or whose record is too small for the value.
    fn append(&mut self, key: &[u8], value: &[u8]) -> Result<u64, Error> {
        let hash = hash(key);
        let key_words = whole_words(key.len() as u64).ok_or(Error::Full)?;
        // The capacity of a growing value doubles, so its old records together take no more space
        // than the current one.
        let grown = self.records.contains_key(key);
        let room = match grown {
            true => (value.len() as u64).checked_next_power_of_two(),
            false => whole_words(value.len() as u64),
        };
        let room = room.and_then(whole_words).ok_or(Error::Full)?;
        let len = KEY
            .checked_add(key_words)
            .and_then(|len| len.checked_add(room));
        let record = self.end;
        let end = len
            .and_then(|len| record.checked_add(len))
            .ok_or(Error::Full)?;
        self.take_memory(end)?;
        let chain = chain(hash, NUM_CHAINS);
        let head = self.load(chain)?;
        self.store(record + NEXT, head)?;
        self.store(record + HASH, hash)?;
        self.store(record + KEY_LEN, key.len() as u64)?;
        self.store(record + ROOM, room)?;
        self.store_words(record + KEY, key)?;
        self.write_value(record, key, value)?;
        self.end = end;
        // The record is complete before the chain refers to it (release ordering).
        self.at(AT_END)?.store(end, Release);
        self.at(chain)?.store(record, Release);
        Ok(record)
    }

    /// Writes the value of a record. Concurrent readers detect the write by the version.
    fn write_value(&self, record: u64, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let (being_written, there) = versions(self.load(record)?);
        self.store(record, being_written)?;
        fence(Release);
        let key_words = whole_words(key.len() as u64).ok_or(Error::Full)?;
        let mut sum = Checksum::new(value.len() as u64);
        words(key).for_each(|word| sum.add(word));
        words(value).for_each(|word| sum.add(word));
        self.store(record + VALUE_LEN, value.len() as u64)?;
        self.store(record + CHECKSUM, sum.finish())?;
        self.store_words(record + KEY + key_words, value)?;
        self.at(record)?.store(there, Release);
        Ok(())
    }

    fn write_head(&self) -> Result<(), Error> {
        self.store(AT_VERSION, VERSION)?;
        let [upper, lower] = token_words(self.address.token);
        self.store(AT_TOKEN, upper)?;
        self.store(AT_TOKEN + WORD, lower)?;
        self.store(AT_LEN, self.len)?;
        self.store(AT_NUM_CHAINS, NUM_CHAINS)?;
        self.store(AT_END, self.end)?;
        self.store(AT_STATE, OPEN)?;
        self.at(AT_MAGIC)?.store(MAGIC, Release);
        Ok(())
    }

    /// Reserves memory up to a position. A write without memory would terminate the process by
    /// SIGBUS.
    fn take_memory(&mut self, end: u64) -> Result<(), Error> {
        if end <= self.given {
            return Ok(());
        }
        if end > self.len {
            return Err(Error::Full);
        }
        // A table without values reserves only its header.
        let more = match end <= AT_CHAINS {
            true => AT_CHAINS,
            false => self.given.clamp(LEAST, MOST),
        };
        let until = end.checked_next_multiple_of(more).unwrap_or(self.len);
        let until = until.min(self.len);
        let len = until - self.given;
        // For memory objects, unlike other files, a signal interrupts this call.
        let given = rustix::io::retry_on_intr(|| {
            rustix::fs::fallocate(&self.object, FallocateFlags::empty(), self.given, len)
        });
        given.map_err(Error::system("taking memory"))?;
        self.given = until;
        Ok(())
    }

    fn at(&self, position: u64) -> Result<&AtomicU64, Error> {
        debug_assert!(self.mapping.is_writable());
        self.mapping.word(position).ok_or(Error::Full)
    }

    fn load(&self, position: u64) -> Result<u64, Error> {
        Ok(self.at(position)?.load(Relaxed))
    }

    fn store(&self, position: u64, word: u64) -> Result<(), Error> {
        self.at(position)?.store(word, Relaxed);
        Ok(())
    }

    fn store_words(&self, position: u64, bytes: &[u8]) -> Result<(), Error> {
        let num_words = bytes.len().div_ceil(size_of::<u64>()) as u64;
        let place = self.mapping.words(position, num_words).ok_or(Error::Full)?;
        for (place, word) in place.iter().zip(words(bytes)) {
            place.store(word, Relaxed);
        }
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Readers keep their mapping, whose content may be outdated from now on, so the table is
        // marked as closed. A forked child must not close the table of its parent, so the process
        // id is compared.
        if self.address.pid == std::process::id()
            && let Some(state) = self.mapping.word(AT_STATE)
        {
            state.store(CLOSED, Release);
        }
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("object", &self.object)
            .field("keys", &self.records.len())
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

/// Returns the two words of a token.
pub(crate) fn token_words(token: u128) -> [u64; 2] {
    let bytes = token.to_ne_bytes();
    let (words, _) = bytes.as_chunks::<8>();
    std::array::from_fn(|word| words.get(word).map_or(0, |word| u64::from_ne_bytes(*word)))
}

/// Returns unpredictable random bytes.
fn token() -> Result<u128, Error> {
    let mut bytes = [0; 16];
    let mut file = std::fs::File::open("/dev/urandom");
    let read = file
        .as_mut()
        .map_err(|error| error.kind())
        .and_then(|file| std::io::Read::read_exact(file, &mut bytes).map_err(|error| error.kind()));
    read.map_err(|kind| Error::System("random bytes", kind))?;
    Ok(u128::from_ne_bytes(bytes))
}
