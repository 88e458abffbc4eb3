// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory that clients share with this server: one table for each job
//! (`docs/decisions/0023-shared-data-is-a-sealed-table.md`).

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use pmix_engine::{Engine, SharedChange};
use pmix_proto::shared::SharedKey;
use pmix_shm::{Address, Error, Writer};
use pmix_types::{IntoOwned as _, Nspace};

/// Maximum number of jobs with a table: each takes a descriptor, which connections also need.
const MAX_TABLES: usize = 128;

/// The tables of the jobs of a server.
pub(crate) struct SharedTables {
    /// The largest size of a table; 0 for no tables.
    max_bytes: usize,
    tables: Mutex<HashMap<Nspace<'static>, Writer>>,
    /// The addresses of the tables, for callers that must not block on a lock.
    addresses: ArcSwap<HashMap<Nspace<'static>, Address>>,
}

impl SharedTables {
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            tables: Mutex::default(),
            addresses: ArcSwap::default(),
        }
    }

    /// Creates a table for a job unless it has one. If that fails, its processes use messages.
    pub(crate) fn open(&self, nspace: &Nspace<'_>) {
        let mut tables = self.lock();
        if self.max_bytes == 0 || tables.contains_key(nspace.as_bytes()) {
            return;
        }
        if tables.len() >= MAX_TABLES {
            return tracing::debug!(
                "the limit of {MAX_TABLES} jobs with shared memory is reached; job \
            {nspace} does not share memory"
            );
        }
        match Writer::create(self.max_bytes) {
            Ok(table) => {
                tables.insert(nspace.clone().into_owned(), table);
                self.publish(&tables);
            }
            Err(error) => tracing::debug!("job {nspace} does not use shared memory: {error}"),
        }
    }

    /// Removes the table of a job. Its processes find no more entries in their mappings.
    pub(crate) fn close(&self, nspace: &Nspace<'_>) {
        let mut tables = self.lock();
        if tables.remove(nspace.as_bytes()).is_some() {
            self.publish(&tables);
        }
    }

    /// Removes all tables.
    pub(crate) fn close_all(&self) {
        let mut tables = self.lock();
        tables.clear();
        self.publish(&tables);
    }

    /// Returns the address of the table of a job without a lock.
    pub(crate) fn address(&self, nspace: &Nspace<'_>) -> Option<Address> {
        self.addresses.load().get(nspace.as_bytes()).copied()
    }

    /// Applies the changes of an engine, and reports the entries without room to it.
    pub(crate) fn apply(&self, engine: &mut Engine) {
        // Most calls change nothing, and then no lock is taken.
        let Some(first) = engine.poll_shared() else {
            return;
        };
        let mut tables = self.lock();
        let mut is_any_closed = false;
        let mut next = Some(first);
        while let Some(change) = next {
            match change {
                SharedChange::Put { nspace, key, value } => {
                    let Some(table) = tables.get_mut(nspace.as_bytes()) else {
                        // Without a table, the engine need not pack data for this job.
                        engine.shared_left_out(&nspace, &key);
                        next = engine.poll_shared();
                        continue;
                    };
                    if let Err(error) = table.put(&key, &value) {
                        match error {
                            Error::Full => {
                                tracing::debug!(
                                    "job {nspace} stores no more data in shared memory: the \
                                limit is reached"
                                );
                            }
                            error => tracing::warn!(
                                "job {nspace} stores less data in shared memory: {error}"
                            ),
                        }
                        // Clients could not detect missing entries in partial job info.
                        if SharedKey::rank_of_puts(&key).is_none() {
                            is_any_closed |= tables.remove(nspace.as_bytes()).is_some();
                        }
                        engine.shared_left_out(&nspace, &key);
                    }
                }
                SharedChange::Remove { nspace, key } => {
                    if let Some(table) = tables.get_mut(nspace.as_bytes()) {
                        table.remove(&key);
                    }
                }
                other => tracing::debug!(?other, "an unknown change of the shared data is ignored"),
            }
            next = engine.poll_shared();
        }
        if is_any_closed {
            self.publish(&tables);
        }
    }

    fn publish(&self, tables: &HashMap<Nspace<'static>, Writer>) {
        let addresses = tables.iter();
        let addresses = addresses.map(|(nspace, table)| (nspace.clone(), table.address()));
        self.addresses
            .store(addresses.collect::<HashMap<_, _>>().into());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Nspace<'static>, Writer>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
