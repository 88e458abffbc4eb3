// SPDX-License-Identifier: MIT OR Apache-2.0
//! When data are shared with clients in memory, and which: what a get would be answered with.

use std::collections::BTreeSet;

use gds_hash::ModexStore;
use pmix_proto::shared::{self, SharedKey};
use pmix_types::{IntoOwned as _, Nspace, Proc, Rank, Scope};

use crate::Error;
use crate::cx::Cx;
use crate::registry::ClientState;

/// Up to how many bytes what a process put is shared, as [`ModexStore::num_bytes_seen`] counts them. A client
/// unpacks shared data up to the key at every get; larger data are cheaper in its cache, by a request.
const MAX_PUTS: usize = 64 << 10;

impl Cx {
    /// A process of a job reads shared data: from now on there are some.
    pub(crate) fn share_job(&mut self, nspace: &Nspace<'static>) {
        if self.shared.has(nspace) {
            return;
        }
        let puts = self.store.job(nspace).map(|job| job.modex_store());
        let ranks = puts.iter().flat_map(|puts| puts.others_after(Rank::UNDEF));
        self.shared.begin(nspace.clone(), ranks.collect());
        self.share_infos(nspace);
    }

    /// The job info of a job has changed, or has come.
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
            // What cannot be packed is asked for, and whoever asks is told why.
            let value = shared::pack_info(&answer.kval, answer.is_for_all);
            let value = value.inspect_err(|_| {
                left_out.insert(answer.rank);
            });
            Some((key, value.ok()?))
        });
        let infos: Vec<_> = infos.collect();
        // Of such a process the values of its job do not tell what is missing.
        let described = answers.described.iter();
        let described = described.filter(|rank| !left_out.contains(rank));
        let described = described.map(|rank| (SharedKey::Described(*rank), Vec::new()));
        let there = std::iter::once((SharedKey::Job, nspace.as_bytes().to_vec()));
        let infos = infos.into_iter().chain(described).chain(there);
        self.shared.set_infos(nspace, infos);
    }

    /// A fence has brought together what the processes of a job put: what they put for processes of this node
    /// is shared.
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

    /// What a get of a process would be answered with, if that is shared.
    pub(crate) fn shared_puts_of(&self, proc: &Proc<'_>) -> Option<Vec<u8>> {
        let puts = self.store.job(&proc.nspace)?.modex_store();
        let is_shared = self.shared.has_puts(proc);
        is_shared.then(|| self.packed_puts(proc, &puts).unwrap_or_default())
    }

    /// What a get of the process would be answered with; nothing if it would have to wait, or if that is too
    /// long to be shared.
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

    /// Returns whether a get of a process would be answered with what is known here: one of another node
    /// brought it as a whole, one of this node has committed and was not lost.
    pub(crate) fn is_complete(&self, proc: &Proc<'_>) -> bool {
        let client = self.registry.client_of(proc);
        client.is_none_or(|client| client.has_committed && client.state != ClientState::Lost)
    }

    /// Returns who is to see the data of a process: processes of this node see what local ones put for them.
    pub(crate) fn scope_to_see(&self, proc: &Proc<'_>) -> Scope {
        match self.registry.was_here(proc) {
            true => Scope::LOCAL,
            false if proc.rank.is_valid() => Scope::REMOTE,
            false => Scope::GLOBAL,
        }
    }
}
