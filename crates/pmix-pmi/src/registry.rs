// SPDX-License-Identifier: MIT OR Apache-2.0
//! The jobs whose processes may use the service, and the connections of these processes.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pmix_client::Settings;
use pmix_types::{Nspace, Proc, Rank, Status, memory};

use crate::Error;
use crate::client::Handle;

/// The largest number of connections that do not belong to a process yet.
pub(crate) const MAX_UNKNOWN: usize = 64;

/// The largest number of bytes of the keys and values that the processes of a job on this node have put. The launcher
/// holds them here, in the client of each process, and in its server.
const MAX_VALUE_BYTES: usize = 32 << 20;

/// The largest reply of the server to the client of a process. The client keeps the data of each process that it gets.
const MAX_REPLY_BYTES: u32 = 16 << 20;

/// The jobs whose processes may connect, and the connected processes.
#[derive(Default)]
pub(crate) struct Registry {
    state: Mutex<State>,
    num_unknown: AtomicUsize,
    has_ended: AtomicBool,
}

#[derive(Default)]
struct State {
    /// The jobs by the first id of their processes.
    jobs: BTreeMap<u32, Job>,
    next_id: u32,
    connections: HashMap<Nspace<'static>, HashMap<Rank, Handle>>,
}

/// The values that processes of a job on this node have put, by key.
///
/// The server has them, too, and so have its tools. But PMI names a key without its process, and NVSHMEM gets thousands
/// of keys one by one, while a reply of a PMIx server has all data of a process.
#[derive(Default)]
pub(crate) struct NodeValues(Mutex<ValuesByKey>);

#[derive(Default)]
struct ValuesByKey {
    values: HashMap<Vec<u8>, NodeValue>,
    /// The bytes of all keys and values that the clients of the processes hold.
    bytes: usize,
}

/// A value and the process that has put it.
struct NodeValue {
    owner: Rank,
    value: Arc<[u8]>,
}

impl NodeValues {
    fn lock(&self) -> MutexGuard<'_, ValuesByKey> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a value of a process.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_OUT_OF_RESOURCE` if the values of the job would exceed [`MAX_VALUE_BYTES`], and
    /// `PMIX_ERR_NOMEM` if the process has no memory for the value. The value before is kept then.
    pub(crate) fn put(&self, owner: Rank, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let len = key.len() + value.len();
        let mut all = self.lock();
        // The client of another process still holds the value that this process has put.
        let before = all.values.get(key).filter(|before| before.owner == owner);
        let before = before.map_or(0, |before| key.len() + before.value.len());
        let bytes = all.bytes - before + len;
        if bytes > MAX_VALUE_BYTES {
            let message = format!(
                "the values that the processes of this node have put by PMI exceed {} MiB",
                MAX_VALUE_BYTES >> 20
            );
            return Err(Error::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        memory::check(len)?;
        let value = NodeValue {
            owner,
            value: value.into(),
        };
        all.values.insert(key.to_vec(), value);
        all.bytes = bytes;
        Ok(())
    }

    /// Returns the value of a key.
    pub(crate) fn get(&self, key: &[u8]) -> Option<Arc<[u8]>> {
        let all = self.lock();
        all.values.get(key).map(|found| Arc::clone(&found.value))
    }
}

/// The description of a job whose processes may connect.
#[derive(Clone, Debug)]
pub struct JobSettings {
    /// The settings of a client of the job. Their rank has no effect.
    pub client: Settings,
    /// The number of processes of the job on all nodes.
    pub size: u32,
    /// The number of its processes on this node. If these are all, a barrier exchanges no data.
    pub num_here: u32,
    /// `true` if another job spawned it.
    pub is_spawned: bool,
}

/// A job whose processes may connect.
struct Job {
    nspace: Nspace<'static>,
    settings: JobSettings,
    values: Arc<NodeValues>,
}

/// A process that may connect.
pub(crate) struct Registered {
    pub(crate) proc: Proc<'static>,
    pub(crate) settings: Settings,
    /// `true` if the job has processes on other nodes.
    pub(crate) has_remote: bool,
    pub(crate) values: Arc<NodeValues>,
}

/// The place of a connection that does not belong to a process yet, among at most [`MAX_UNKNOWN`].
pub(crate) struct Unidentified(Arc<Registry>);

impl Unidentified {
    /// Returns `None` if there are too many such connections.
    pub(crate) fn begin(registry: &Arc<Registry>) -> Option<Self> {
        let before = registry.num_unknown.fetch_add(1, Ordering::Relaxed);
        let place = Self(Arc::clone(registry));
        (before < MAX_UNKNOWN).then_some(place)
    }
}

impl Drop for Unidentified {
    fn drop(&mut self) {
        self.0.num_unknown.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a job.
    pub(crate) fn register(&self, settings: JobSettings) -> Result<(), Error> {
        let mut state = self.lock();
        // Clients read the id as a signed number.
        let next = state.next_id.checked_add(settings.size.max(1));
        let next = next.filter(|next| i32::try_from(*next).is_ok());
        let Some(next) = next else {
            let message = "all ids of PMI are in use: start another launcher";
            return Err(Error::new(Status::ERR_OUT_OF_RESOURCE, message));
        };
        let first = std::mem::replace(&mut state.next_id, next);
        let job = Job {
            nspace: settings.client.proc.nspace.clone(),
            settings,
            values: Arc::default(),
        };
        state.jobs.insert(first, job);
        Ok(())
    }

    /// Removes a job and closes its connections.
    pub(crate) fn deregister(&self, nspace: &Nspace<'_>) {
        let mut state = self.lock();
        state.jobs.retain(|_, job| job.nspace != *nspace);
        let handles = state.connections.remove(nspace.as_bytes());
        drop(state);
        for handle in handles.unwrap_or_default().into_values() {
            handle.close();
        }
    }

    /// Closes all connections, and refuses later ones.
    pub(crate) fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
        let connections = std::mem::take(&mut self.lock().connections);
        for handle in connections.into_values().flat_map(HashMap::into_values) {
            handle.close();
        }
    }

    /// Returns `true` if the service has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Returns the id of a process, the number of processes of its job, and `true` if the job was spawned.
    pub(crate) fn id(&self, proc: &Proc<'_>) -> Option<(u32, u32, bool)> {
        let state = self.lock();
        // A launcher has few jobs at a time.
        let mut jobs = state.jobs.iter();
        let (first, job) = jobs.find(|(_, job)| job.nspace == proc.nspace)?;
        let JobSettings {
            size, is_spawned, ..
        } = job.settings;
        let rank = proc.rank.as_raw();
        let id = first.checked_add(rank).filter(|_| rank < size)?;
        Some((id, size, is_spawned))
    }

    /// Returns the connection of a process.
    pub(crate) fn connection(&self, proc: &Proc<'_>) -> Option<Handle> {
        let state = self.lock();
        let handles = state.connections.get(proc.nspace.as_bytes())?;
        handles.get(&proc.rank).cloned()
    }

    /// Returns the process with an id.
    pub(crate) fn process(&self, id: u32) -> Result<Registered, Error> {
        let state = self.lock();
        let job = state.jobs.range(..=id).next_back();
        let job = job.filter(|(first, job)| id - **first < job.settings.size);
        let Some((first, job)) = job else {
            let message = format!("no process has PMI_ID {id}");
            return Err(Error::new(Status::ERR_NOT_FOUND, message));
        };
        let proc = Proc::new(job.nspace.clone(), Rank::new(id - *first));
        let mut settings = job.settings.client.clone();
        settings.proc = proc.clone();
        settings.max_reply_bytes = MAX_REPLY_BYTES;
        Ok(Registered {
            proc,
            settings,
            has_remote: job.settings.num_here < job.settings.size,
            values: Arc::clone(&job.values),
        })
    }

    /// Adds the connection of a process. It replaces one of a process that has ended or finalized.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_EXISTS` if the process uses another connection.
    pub(crate) fn add(&self, proc: &Proc<'static>, handle: Handle) -> Result<(), Error> {
        let mut state = self.lock();
        let of_job = state.connections.entry(proc.nspace.clone()).or_default();
        if of_job.get(&proc.rank).is_some_and(Handle::is_in_use) {
            let message = format!("{proc} already uses PMI over another connection");
            return Err(Error::new(Status::ERR_EXISTS, message));
        }
        handle.begin_use();
        let before = of_job.insert(proc.rank, handle);
        drop(state);
        if let Some(before) = before {
            before.close();
        }
        Ok(())
    }

    /// Removes the connection of a process, unless a later one has replaced it.
    pub(crate) fn remove(&self, proc: &Proc<'static>, handle: &Handle) {
        let mut state = self.lock();
        let Some(of_job) = state.connections.get_mut(proc.nspace.as_bytes()) else {
            return;
        };
        if of_job.get(&proc.rank).is_some_and(|other| other.is(handle)) {
            of_job.remove(&proc.rank);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_bounded_by_what_all_processes_hold() {
        let values = NodeValues::default();
        let half = vec![b'x'; MAX_VALUE_BYTES / 2 - 1];
        let put = |rank, value: &[u8]| values.put(Rank::new(rank), b"k", value);
        put(0, &half).unwrap();
        // The same process replaces its value.
        put(0, &half).unwrap();
        put(1, &half).unwrap();
        // Both processes hold a value of this key.
        let refused = put(0, &half).unwrap_err();
        assert_eq!(refused.status(), Status::ERR_OUT_OF_RESOURCE);
        assert_eq!(values.get(b"k").unwrap().len(), half.len());
        put(1, b"short").unwrap();
        assert_eq!(values.get(b"k").as_deref(), Some(&b"short"[..]));
        assert_eq!(values.get(b"other"), None);
    }
}
