// SPDX-License-Identifier: MIT OR Apache-2.0
//! The data that a server of this project shares in memory with its clients on the node: their keys
//! and their packed values. This module also defines how server and client announce that they
//! support shared data.
//!
//! | key | value |
//! | --- | --- |
//! | `j` | the name of the job; present if the job info is |
//! | `i`, rank (4 bytes, big-endian), name of a key | 1 byte: 1 if it is valid for every process of the job; then `PMIX_KVAL` |
//! | `i`, rank | nothing; present if all values of this process are |
//! | `p`, rank | `PMIX_KVAL` each: the data that the process put, as in a reply to a get |
//!
//! Frozen: append only. All values are packed in [`form`], which does not depend on the form of the
//! connection.

use bfrops::{Layout, Module};
use pmix_types::{Kval, Rank, Value};

use crate::codec::Reader;
use crate::reply::pack_kvals;
use crate::{Error, PeerForm, wire_type};

/// The environment variable with which a server announces shared data. Its value is the name of the
/// server as in its address, a space, and the handle for opening the data. A client compares the
/// name: the process may have inherited the variable through a server of another implementation.
pub const VARIABLE: &str = "PMIXRS_SHARED_DATA";

/// The datastore module with which a client announces in its hello that it reads shared data. It
/// precedes `hash`.
pub const MODULE: &str = "pmixrs";

/// The key of an entry of the shared data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedKey<'k> {
    /// The entry that is present if the job info is.
    Job,
    /// A value of the job, or of a process of this node.
    Info(Rank, &'k [u8]),
    /// The entry that is present if all values of a process that differ from job-level values are.
    Described(Rank),
    /// The data that a process put.
    Puts(Rank),
}

impl SharedKey<'_> {
    /// Returns the rank if the key is [`Puts`](Self::Puts). All other keys are job info.
    #[must_use]
    pub fn rank_of_puts(bytes: &[u8]) -> Option<Rank> {
        let rank = bytes.strip_prefix(b"p")?;
        Some(Rank::new(u32::from_be_bytes(rank.try_into().ok()?)))
    }

    /// Returns the key as bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let of = |kind: u8, rank: Rank, name: &[u8]| {
            let mut bytes = Vec::with_capacity(5 + name.len());
            bytes.push(kind);
            bytes.extend_from_slice(&rank.as_raw().to_be_bytes());
            bytes.extend_from_slice(name);
            bytes
        };
        match self {
            Self::Job => vec![b'j'],
            Self::Info(rank, name) => of(b'i', *rank, name),
            Self::Described(rank) => of(b'i', *rank, b""),
            Self::Puts(rank) => of(b'p', *rank, b""),
        }
    }
}

/// Returns the form in which the values are packed.
#[must_use]
pub fn form() -> PeerForm {
    PeerForm::new(Layout::new(Module::V41), b"5.0.11")
}

/// Packs the value of a key.
///
/// # Errors
///
/// `PMIX_ERR_UNKNOWN_DATA_TYPE` if the form does not have the type of the value,
/// `PMIX_ERR_PACK_FAILURE` if the value cannot be packed.
pub fn pack_info(kval: &Kval<'_>, is_for_all: bool) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![u8::from(is_for_all)];
    bytes.extend(pack_kvals(&form(), None, std::slice::from_ref(kval))?);
    Ok(bytes)
}

/// Parses the output of [`pack_info`], in the form that [`form`](form()) returns. Returns the value, and `true` if it
/// is valid for every process of the job.
///
/// # Errors
///
/// The cause and the offset.
pub fn read_info<'a>(form: &PeerForm, bytes: &'a [u8]) -> Result<(Value<'a>, bool), Error> {
    let (is_for_all, kval) = bytes.split_first().unwrap_or((&0, &[]));
    let kval = Reader::new(form, None, kval).one::<wire_type::Kval>()?;
    Ok((kval.value, *is_for_all == 1))
}

/// Returns the value of a key among the data that a process put.
///
/// # Errors
///
/// The cause and the offset, if the data are invalid before the key.
pub fn find_put<'a>(
    form: &PeerForm,
    bytes: &'a [u8],
    key: &str,
) -> Result<Option<Value<'a>>, Error> {
    let mut reader = Reader::new(form, None, bytes);
    while !reader.is_empty() {
        let kval = reader.one::<wire_type::Kval>()?;
        if kval.key.is(key) {
            return Ok(Some(kval.value));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmix_types::keys;

    #[test]
    fn keys_of_entries_are_distinct() {
        let (a, b) = (Rank::new(1), Rank::WILDCARD);
        let all = [
            SharedKey::Job,
            SharedKey::Info(a, b"x"),
            SharedKey::Info(b, b"x"),
            SharedKey::Info(a, b"xy"),
            SharedKey::Described(a),
            SharedKey::Puts(a),
            SharedKey::Puts(b),
        ];
        let mut bytes: Vec<_> = all.iter().map(SharedKey::to_bytes).collect();
        bytes.sort();
        bytes.dedup();
        assert_eq!(bytes.len(), all.len());
        let of_puts = all
            .iter()
            .map(|key| SharedKey::rank_of_puts(&key.to_bytes()));
        let named: Vec<_> = of_puts.flatten().collect();
        assert_eq!(named, [a, b]);
        let info = SharedKey::Info(Rank::new(258), b"pmix.x").to_bytes();
        assert_eq!(info, b"i\0\0\x01\x02pmix.x");
    }

    #[test]
    fn values_survive_and_truncated_ones_are_errors() {
        let kval = Kval {
            key: keys::HOSTNAME.into(),
            value: Value::from("n01"),
        };
        for is_for_all in [false, true] {
            let bytes = pack_info(&kval, is_for_all).unwrap();
            let read = read_info(&form(), &bytes).unwrap();
            assert_eq!(read, (kval.value.clone(), is_for_all));
            for len in 0..bytes.len() {
                assert!(read_info(&form(), &bytes[..len]).is_err(), "{len}");
            }
        }
    }
}
