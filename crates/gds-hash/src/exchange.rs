// SPDX-License-Identifier: MIT OR Apache-2.0
//! The exchange of data: the data that processes put, and the job info that servers send to
//! clients.

mod codec;
mod modex;
mod modex_store;
mod reply;

use bfrops::wire_type;
use pmix_types::{Bytes, Info, IntoOwned as _, Nspace, Release, Text, memory};

use crate::{Error, Store};

pub use self::codec::{Codec, Inflate};
pub use self::modex::{Modex, ModexForm, Participant};
pub use self::modex_store::{
    CommitMessage, CommitPart, KeyChange, ModexStore, OwnPuts, PackedPuts, StagedCommit,
    UnansweredCommit,
};
pub use self::reply::{JobInfoReplies, Remote, job_infos};

/// Counters of pack and unpack operations per thread, for tests of the amount of work.
#[cfg(test)]
mod counted {
    use std::cell::Cell;
    use std::thread::LocalKey;

    /// A counter of each thread.
    pub(crate) type Count = LocalKey<Cell<usize>>;

    thread_local! {
        /// The number of times that this thread has packed the data of a process, or a value.
        pub(crate) static PACKED: Cell<usize> = const { Cell::new(0) };
        /// The number of values that this thread has unpacked from stored bytes.
        pub(crate) static UNPACKED: Cell<usize> = const { Cell::new(0) };
        /// The number of passes of this thread over all keys of a process to remove some of them.
        pub(crate) static PASSES: Cell<usize> = const { Cell::new(0) };
    }

    /// Increments a counter.
    pub(crate) fn add_one(count: &'static Count) {
        count.set(count.get() + 1);
    }

    /// Returns the increase of a counter during a closure.
    pub(crate) fn raised(count: &'static Count, run: impl FnOnce()) -> usize {
        let before = count.get();
        run();
        count.get() - before
    }
}

// Limits on the data that a process may put.
//
// Source: this project; the limits are this project's own, in bytes.

/// Limits on the data that a process may put. A commit may have twice as many keys, because it
/// contains global values twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitLimits {
    /// The number of bytes ([`ModexStore::num_bytes`](crate::ModexStore::num_bytes)).
    pub bytes: usize,
    /// The number of keys ([`ModexStore::num_keys`](crate::ModexStore::num_keys)).
    pub keys: usize,
}

impl CommitLimits {
    /// No limits.
    pub const NONE: Self = Self {
        bytes: usize::MAX,
        keys: usize::MAX,
    };

    /// Returns the limits that remain after another key with this number of bytes, or `None` if the
    /// key exceeds them.
    pub(crate) fn beside(self, bytes: usize) -> Option<Self> {
        Some(Self {
            bytes: self.bytes.checked_sub(bytes)?,
            keys: self.keys.checked_sub(1)?,
        })
    }
}

// The job information of several jobs in one buffer, which a host transfers to another node.
//
// | part | call | content |
// | --- | --- | --- |
// | job | `PMIX_BYTE_OBJECT` each | the following calls |
// | nspace | `PMIX_STRING` | name of the job |
// | job information | `PMIX_KVAL` each | as [`Job::kvals`](crate::Job::kvals) packs it |
//
// Frozen: append only. OpenPMIx since 6.0 has the same form.
//
// Source: OpenPMIx, `PMIx_server_collect_job_info`; `PMIX_GROUP_JOB_INFO` of
// `PMIx_server_register_resources`.

impl Store {
    /// Packs the job information of jobs, each once. Unknown jobs are omitted.
    ///
    /// # Errors
    ///
    /// None for the layouts of servers.
    pub fn collect_job_info<'n>(
        &self,
        codec: &Codec<'_>,
        release: Release,
        nspaces: impl IntoIterator<Item = &'n Nspace<'n>>,
    ) -> Result<Vec<u8>, Error> {
        let mut out = Vec::new();
        for nspace in nspaces {
            let Some(known) = self.job(nspace) else {
                continue;
            };
            let name = Some(Text::without_nul(nspace.as_bytes()));
            let mut bytes = codec.pack(|encoder| encoder.one::<wire_type::String>(&name))?;
            memory::append(&mut bytes, &known.job().kvals(codec, release)?)?;
            let object = Bytes::Owned(bytes);
            codec
                .encoder(&mut out)
                .one::<wire_type::ByteObject>(&object)?;
        }
        Ok(out)
    }

    /// Stores the output of [`collect_job_info`](Self::collect_job_info) from another node. Returns
    /// the jobs that it added or updated, each with the errors of omitted entries. Jobs for which
    /// `has_own` returns `true` are not changed.
    ///
    /// # Errors
    ///
    /// The bytes cannot be decoded. Jobs before the offset of the error have been stored.
    pub fn absorb_collected(
        &self,
        codec: &Codec<'_>,
        bytes: &[u8],
        has_own: impl Fn(&Nspace<'_>) -> bool,
    ) -> Result<Vec<Told>, Error> {
        let mut reader = codec.reader(bytes);
        let mut told = Vec::new();
        while !reader.is_empty() {
            let start = reader.offset();
            let mut of_job = reader.object::<wire_type::ByteObject>()?;
            let name = of_job.one::<wire_type::String>()?.unwrap_or_default();
            let nspace = Nspace::new(name).try_into_owned()?;
            let mut kvals = Vec::new();
            while !of_job.is_empty() {
                memory::reserve(&mut kvals, 1)?;
                kvals.push(of_job.kval()?.0);
            }
            if has_own(&nspace) {
                continue;
            }
            let mut refused = Vec::new();
            let infos = job_infos(codec, kvals);
            let infos = infos.filter_map(|info| info.map_err(|error| refused.push(error)).ok());
            let infos: Vec<Info<'_>> = infos.collect();
            let others = self.register_understood(&nspace, &infos);
            refused.extend(others.map_err(|error| error.at(start))?);
            told.push((nspace, refused));
        }
        Ok(told)
    }
}

/// A job from another node, and the errors of the entries that were omitted.
pub type Told = (Nspace<'static>, Vec<Error>);
