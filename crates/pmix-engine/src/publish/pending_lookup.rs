// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lookups that wait (`PMIX_WAIT`), and their results.

use std::time::Instant;

use pmix_types::{Key, Pdata, Status};

use super::caller::{Caller, Range};

/// The keys that a lookup names, and the range of publishers it looks among.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Search {
    pub(super) caller: Caller,
    pub(super) keys: Vec<Key<'static>>,
    /// Among which publishers.
    pub(super) among: Range,
}

/// A lookup that waits until enough is published.
#[derive(Debug)]
pub(super) struct PendingLookup<T> {
    pub(super) token: T,
    pub(super) wanted: Search,
    /// How many keys have to be there.
    pub(super) enough: usize,
    /// When it has waited long enough, if ever.
    pub(super) until: Option<Instant>,
}

/// What is there of the keys that a lookup names.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// What may be read, in the order of the keys.
    pub(super) data: Vec<Pdata<'static>>,
    /// How many more are there but may not be read.
    pub(super) num_denied: usize,
}

impl Found {
    /// What the Standard calls it.
    pub(super) fn status(&self, num_keys: usize) -> Status {
        match (self.data.len(), self.num_denied) {
            (read, _) if read == num_keys => Status::SUCCESS,
            (0, denied) if denied == num_keys => Status::ERR_NO_PERMISSIONS,
            (0, _) => Status::ERR_NOT_FOUND,
            _ => Status::ERR_PARTIAL_SUCCESS,
        }
    }

    /// How many keys there is something of.
    pub(super) fn num_keys(&self) -> usize {
        self.data.len() + self.num_denied
    }
}

/// The result of a lookup, for the process that called it.
#[derive(Clone, Debug, PartialEq)]
pub struct LookupResult<T> {
    /// Who asked, in the words of the host.
    pub token: T,
    /// `PMIX_SUCCESS` with a value for each key, `PMIX_ERR_PARTIAL_SUCCESS` with some,
    /// `PMIX_ERR_NOT_FOUND`, `PMIX_ERR_NO_PERMISSIONS` or `PMIX_ERR_TIMEOUT` with none.
    pub status: Status,
    /// The values that were found and may be read, in the order of the keys.
    pub data: Vec<Pdata<'static>>,
}
