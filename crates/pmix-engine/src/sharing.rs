// SPDX-License-Identifier: MIT OR Apache-2.0
//! The selection of the data to share with clients: data that a get would return without waiting.

use std::collections::BTreeSet;

use gds_hash::ModexStore;
use pmix_proto::shared::{self, SharedKey};
use pmix_types::{IntoOwned as _, Nspace, Proc, Rank, Scope};

use crate::Error;
use crate::cx::Cx;
use crate::registry::ClientState;

/// The greatest size of a process's shared data, as counted by [`ModexStore::num_bytes_seen`]. A client unpacks the
/// shared data up to the key at every get, so requesting and caching larger data costs less.
const MAX_PUTS: usize = 64 << 10;

impl Cx {
    /// Starts to share the data of a job, because one of its clients reads them.
    pub(crate) fn share_job(&mut self, nspace: &Nspace<'static>) {
        if self.shared.has(nspace) {
            return;
        }
        let puts = self.store.job(nspace).map(|job| job.modex_store());
        // Data of earlier fences count as changed, so that the next fence shares them.
        let ranks = puts.iter().flat_map(|puts| puts.others_after(Rank::UNDEF));
        self.shared.begin(nspace.clone(), ranks.collect());
        self.share_infos(nspace);
    }

    /// Shares the new or changed info of a job.
    pub(crate) fn share_infos(&mut self, nspace: &Nspace<'static>) {
        if !self.shared.takes_infos(nspace) {
            return;
        }
        let Some(known) = self.store.job(nspace) else {
            return;
        };
        let answers = known.job().answers();
        let mut left_out = BTreeSet::new();
        let infos = answers.answers.iter().filter_map(|answer| {
            let key = SharedKey::Info(answer.rank, answer.kval.key.as_bytes());
            // A value that cannot be packed is left out, so that clients request it and get the error.
            let value = shared::pack_info(&answer.kval, answer.is_for_all);
            let value = value.inspect_err(|_| {
                left_out.insert(answer.rank);
            });
            Some((key, value.ok()?))
        });
        let infos: Vec<_> = infos.collect();
        // For a process with a value left out, clients must not conclude from the job's values that it has no such key.
        let described = answers.described.iter();
        let described = described.filter(|rank| !left_out.contains(rank));
        let described = described.map(|rank| (SharedKey::Described(*rank), Vec::new()));
        // The mark comes last: a client that finds it finds all values.
        let there = std::iter::once((SharedKey::Job, nspace.as_bytes().to_vec()));
        let infos = infos.into_iter().chain(described).chain(there);
        self.shared.set_infos(nspace, infos);
    }

    /// Shares the data that the processes of a job put for this node, after a fence has collected them.
    pub(crate) fn share_puts(&mut self, nspace: &Nspace<'_>) {
        let changed = self.shared.take_changed(nspace);
        let Some(known) = self.store.job(nspace).filter(|_| !changed.is_empty()) else {
            return;
        };
        let puts = known.modex_store();
        for rank in changed {
            let proc = Proc::new(nspace.clone().into_owned(), rank);
            match self.packed_puts(&proc, &puts) {
                Ok(value) if !value.is_empty() => self.shared.set_puts(proc, value),
                Ok(_) => {}
                Err(error) => tracing::debug!(%error, %rank, "cannot share data of a process"),
            }
        }
    }

    /// Returns the reply of a get for a process, if its data are shared.
    pub(crate) fn shared_puts_of(&self, proc: &Proc<'_>) -> Option<Vec<u8>> {
        let puts = self.store.job(&proc.nspace)?.modex_store();
        let is_shared = self.shared.has_puts(proc);
        is_shared.then(|| self.packed_puts(proc, &puts).unwrap_or_default())
    }

    /// Returns the reply of a get for a process; empty if the get would wait or if the reply is too long to share.
    fn packed_puts(&self, proc: &Proc<'_>, puts: &ModexStore) -> Result<Vec<u8>, Error> {
        if !self.is_complete(proc) {
            return Ok(Vec::new());
        }
        if puts.num_bytes_seen(proc.rank, self.scope_to_see(proc))? > MAX_PUTS {
            return Ok(Vec::new());
        }
        let codec = self.codec(&shared::form());
        Ok(puts.kvals(&codec, proc.rank, self.scope_to_see(proc))?)
    }

    /// Returns `true` if a get for a process needs no further data: a process of another node whose data arrived, or a
    /// local process that has committed and was not lost.
    pub(crate) fn is_complete(&self, proc: &Proc<'_>) -> bool {
        let client = self.registry.client_of(proc);
        client.is_none_or(|client| client.has_committed && client.state != ClientState::Lost)
    }

    /// Returns the scope in which local processes see the data of a process.
    pub(crate) fn scope_to_see(&self, proc: &Proc<'_>) -> Scope {
        match self.registry.was_here(proc) {
            true => Scope::LOCAL,
            false if proc.rank.is_valid() => Scope::REMOTE,
            false => Scope::GLOBAL,
        }
    }
}
