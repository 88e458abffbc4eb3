// SPDX-License-Identifier: MIT OR Apache-2.0
//! The positions, hashes and checksums of the layout in the crate's documentation; the address of a memory object.

use std::fmt;
use std::str::FromStr;

use crate::Error;

/// The bytes "pmix-rs" and a zero byte, as a little-endian number.
pub(crate) const MAGIC: u64 = 0x0073_722d_7869_6d70;

pub(crate) const VERSION: u64 = 1;

pub(crate) const AT_MAGIC: u64 = 0;

pub(crate) const AT_VERSION: u64 = 8;

pub(crate) const AT_TOKEN: u64 = 16;

pub(crate) const AT_LEN: u64 = 32;

pub(crate) const AT_NUM_CHAINS: u64 = 40;

pub(crate) const AT_STATE: u64 = 48;

pub(crate) const AT_END: u64 = 56;

pub(crate) const AT_CHAINS: u64 = 128;

pub(crate) const OPEN: u64 = 1;

pub(crate) const CLOSED: u64 = 2;

/// The offsets of the words of a record from its position.
pub(crate) const NEXT: u64 = 8;

pub(crate) const HASH: u64 = 16;

pub(crate) const KEY_LEN: u64 = 24;

pub(crate) const ROOM: u64 = 32;

pub(crate) const VALUE_LEN: u64 = 40;

pub(crate) const CHECKSUM: u64 = 48;

pub(crate) const KEY: u64 = 56;

pub(crate) const WORD: u64 = 8;

/// The mask of the lower bits of a value's version, which are its state.
const STATE_OF_VALUE: u64 = 3;

const REMOVED: u64 = 0;

const BEING_WRITTEN: u64 = 1;

const THERE: u64 = 2;

/// Returns the versions of a value during a write and after it.
pub(crate) const fn versions(version: u64) -> (u64, u64) {
    let next = removed(version);
    (next | BEING_WRITTEN, next | THERE)
}

/// Returns the version of a value after its removal.
pub(crate) const fn removed(version: u64) -> u64 {
    (version & !STATE_OF_VALUE).wrapping_add(STATE_OF_VALUE + 1) | REMOVED
}

pub(crate) const fn is_there(version: u64) -> bool {
    version & STATE_OF_VALUE == THERE
}

pub(crate) const fn is_being_written(version: u64) -> bool {
    version & STATE_OF_VALUE == BEING_WRITTEN
}

/// Rounds a length up to whole words. Returns `None` on overflow.
pub(crate) const fn whole_words(len: u64) -> Option<u64> {
    match len.checked_add(WORD - 1) {
        Some(up) => Some(up & !(WORD - 1)),
        None => None,
    }
}

/// Returns the position of the chain of a hash.
pub(crate) const fn chain(hash: u64, num_chains: u64) -> u64 {
    AT_CHAINS + (hash & (num_chains - 1)) * WORD
}

/// Returns bytes as words. The last word is padded with zeros.
pub(crate) fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let (whole, rest) = bytes.as_chunks::<8>();
    let last = (!rest.is_empty()).then(|| {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        u64::from_ne_bytes(last)
    });
    whole
        .iter()
        .map(|word| u64::from_ne_bytes(*word))
        .chain(last)
}

/// Returns the hash of a key.
pub(crate) fn hash(key: &[u8]) -> u64 {
    let mut sum = Checksum::new(key.len() as u64);
    words(key).for_each(|word| sum.add(word));
    sum.finish()
}

/// A checksum of words, computed in four parallel lanes.
///
/// It detects accidental damage, not forgery: only the writer can change the object.
pub(crate) struct Checksum {
    lanes: [u64; 4],
    at: usize,
}

const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl Checksum {
    pub(crate) const fn new(seed: u64) -> Self {
        Self {
            lanes: [seed ^ FACTOR, 0x1234_5678, 0x5a5a_a5a5, !seed],
            at: 0,
        }
    }

    pub(crate) const fn add(&mut self, word: u64) {
        let lane = &mut self.lanes[self.at & 3];
        *lane = (*lane ^ word).wrapping_mul(FACTOR).rotate_left(23);
        self.at += 1;
    }

    pub(crate) fn finish(self) -> u64 {
        let mut sum = self.at as u64;
        for lane in self.lanes {
            sum = (sum ^ lane).wrapping_mul(FACTOR);
            sum ^= sum >> 29;
        }
        sum
    }
}

/// The address of a memory object on this node. It names the process that created the object, the
/// descriptor in that process, and the unique token in the object.
///
/// The text form is `<pid>.<descriptor>.<token>`, with the token in 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    pub(crate) pid: u32,
    pub(crate) fd: u32,
    pub(crate) token: u128,
}

impl Address {
    /// Returns the path through which the kernel opens the object.
    pub(crate) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", self.pid, self.fd)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pid, fd, token } = self;
        write!(f, "{pid}.{fd}.{token:032x}")
    }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut parts = text.split('.');
        let (Some(pid), Some(fd), Some(token), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(Error::Address);
        };
        let is_token = token.len() == 32 && token.bytes().all(|digit| digit.is_ascii_hexdigit());
        let token = is_token.then(|| u128::from_str_radix(token, 16).ok());
        Ok(Self {
            pid: number(pid)?,
            fd: number(fd)?,
            token: token.flatten().ok_or(Error::Address)?,
        })
    }
}

/// Parses decimal digits. Rejects a sign, which `parse` would accept.
fn number(text: &str) -> Result<u32, Error> {
    let is_plain = text.bytes().all(|digit| digit.is_ascii_digit());
    let number = is_plain.then(|| text.parse().ok()).flatten();
    number.ok_or(Error::Address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bit_changes_the_checksum() {
        let of = |bytes: &[u8]| {
            let mut sum = Checksum::new(7);
            words(bytes).for_each(|word| sum.add(word));
            sum.finish()
        };
        let bytes: Vec<u8> = (0..=99).collect();
        let whole = of(&bytes);
        for bit in 0..bytes.len() * 8 {
            let mut other = bytes.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(of(&other), whole, "bit {bit}");
        }
    }

    #[test]
    fn words_are_padded() {
        assert_eq!(words(b"").count(), 0);
        let one = u64::from_ne_bytes(*b"abc\0\0\0\0\0");
        assert_eq!(words(b"abc").collect::<Vec<_>>(), [one]);
        assert_eq!((whole_words(0), whole_words(9)), (Some(0), Some(16)));
        assert_eq!(whole_words(u64::MAX), None);
    }

    #[test]
    fn an_address_survives_as_text_and_other_text_is_rejected() {
        let address = Address {
            pid: 17,
            fd: 4,
            token: 0xab,
        };
        let text = address.to_string();
        assert_eq!(text, "17.4.000000000000000000000000000000ab");
        assert_eq!(text.parse(), Ok(address));
        let others = [
            "",
            "17.4",
            "17.4.ab",
            "+7.4.000000000000000000000000000000ab",
            "17.-4.000000000000000000000000000000ab",
            "17.4.+00000000000000000000000000000ab",
            "17.4.000000000000000000000000000000ab.",
            "99999999999.4.000000000000000000000000000000ab",
        ];
        for other in others {
            assert_eq!(other.parse::<Address>(), Err(Error::Address), "{other}");
        }
    }
}
