// SPDX-License-Identifier: MIT OR Apache-2.0
//! The jobs whose processes may use the service, and the connections of these processes.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use pmix_client::Settings;
use pmix_types::{Nspace, Proc, Rank, Status, memory};

use crate::Error;
use crate::client::Handle;

/// The largest number of connections that do not belong to a process yet.
const MAX_UNKNOWN: usize = 64;

/// The largest number of bytes of the keys and values that the processes of a job on this node have put. The launcher
/// holds them here, in the client of each process, and in its server.
const MAX_VALUE_BYTES: usize = 32 << 20;

/// The longest value. Clients have arrays of 1,024 bytes for a value.
const MAX_VALUE: usize = 256 << 10;

/// The bytes that an entry takes in addition to its key and value, here and in the client.
const ENTRY: usize = 256;

/// The largest reply of the server to the client of a process. The client keeps the data of each process that it gets.
const MAX_REPLY_BYTES: u32 = 16 << 20;

/// The jobs whose processes may connect, and the connected processes.
pub(crate) struct Registry {
    state: Mutex<State>,
    unknown: Mutex<usize>,
    /// Notified when a connection belongs to a process or is closed.
    identified: Condvar,
    has_ended: AtomicBool,
    /// Called when the last command of a process that has ended was served.
    wake: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct State {
    jobs: HashMap<Nspace<'static>, Job>,
    /// The names of the jobs by the first id of their processes.
    by_id: BTreeMap<u32, Nspace<'static>>,
    next_id: u32,
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

/// The value that was put last, and the bytes that the client of each process holds for the key.
struct NodeValue {
    value: Arc<[u8]>,
    held: BTreeMap<Rank, usize>,
}

impl NodeValues {
    fn lock(&self) -> MutexGuard<'_, ValuesByKey> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a value of a process.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_OUT_OF_RESOURCE` for a value longer than [`MAX_VALUE`], or if the values of the job would
    /// exceed [`MAX_VALUE_BYTES`], and `PMIX_ERR_NOMEM` if the process has no memory for the value. The value before is
    /// kept then.
    pub(crate) fn put(&self, owner: Rank, key: &[u8], value: &[u8]) -> Result<(), Error> {
        if value.len() > MAX_VALUE {
            let message = format!("a value of PMI is longer than {MAX_VALUE} bytes");
            return Err(Error::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        let len = key.len() + value.len() + ENTRY;
        let mut all = self.lock();
        // The clients of other processes still hold the values that these have put.
        let before = all.values.get(key).and_then(|known| known.held.get(&owner));
        let bytes = all.bytes - before.copied().unwrap_or(0) + len;
        if bytes > MAX_VALUE_BYTES {
            let message = format!(
                "the values that the processes of a job have put by PMI on this node exceed {} MiB",
                MAX_VALUE_BYTES >> 20
            );
            return Err(Error::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        memory::check(len)?;
        let known = all.values.entry(key.to_vec());
        let known = known.or_insert_with(|| NodeValue {
            value: Arc::default(),
            held: BTreeMap::new(),
        });
        known.value = value.into();
        known.held.insert(owner, len);
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
    /// The id of rank 0.
    first_id: u32,
    settings: JobSettings,
    values: Arc<NodeValues>,
    connections: HashMap<Rank, Handle>,
    /// The processes that ended without a connection. A connection that comes later is not theirs.
    ended: HashSet<Rank>,
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
    /// Waits until there are fewer such connections. Returns `None` if the service has ended.
    pub(crate) fn begin(registry: &Arc<Registry>) -> Option<Self> {
        let unknown = registry
            .unknown
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut unknown = registry
            .identified
            .wait_while(unknown, |unknown| {
                *unknown >= MAX_UNKNOWN && !registry.has_ended()
            })
            .unwrap_or_else(PoisonError::into_inner);
        if registry.has_ended() {
            return None;
        }
        *unknown += 1;
        drop(unknown);
        Some(Self(Arc::clone(registry)))
    }
}

impl Drop for Unidentified {
    fn drop(&mut self) {
        let unknown = self.0.unknown.lock();
        *unknown.unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.identified.notify_all();
    }
}

impl Registry {
    pub(crate) fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            state: Mutex::default(),
            unknown: Mutex::default(),
            identified: Condvar::new(),
            has_ended: AtomicBool::new(false),
            wake: Box::new(wake),
        }
    }

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
            let message =
                "this launcher has numbered 2,147,483,647 processes for PMI: start another one";
            return Err(Error::new(Status::ERR_OUT_OF_RESOURCE, message));
        };
        let first_id = std::mem::replace(&mut state.next_id, next);
        let nspace = settings.client.proc.nspace.clone();
        let job = Job {
            first_id,
            settings,
            values: Arc::default(),
            connections: HashMap::new(),
            ended: HashSet::new(),
        };
        state.by_id.insert(first_id, nspace.clone());
        state.jobs.insert(nspace, job);
        Ok(())
    }

    /// Removes a job and closes its connections.
    pub(crate) fn deregister(&self, nspace: &Nspace<'_>) {
        let mut state = self.lock();
        let Some(job) = state.jobs.remove(nspace.as_bytes()) else {
            return;
        };
        state.by_id.remove(&job.first_id);
        drop(state);
        job.connections.values().for_each(Handle::close);
    }

    /// Closes all connections, and refuses later ones.
    pub(crate) fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
        // With the lock, so that no thread checks before and waits after this.
        drop(self.unknown.lock());
        self.identified.notify_all();
        let jobs = std::mem::take(&mut self.lock().jobs);
        for job in jobs.into_values() {
            job.connections.values().for_each(Handle::close);
        }
    }

    /// Returns `true` if the service has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Prepares the start of a process. Returns its id, the number of processes of its job, and `true` if the job was
    /// spawned.
    pub(crate) fn prepare(&self, proc: &Proc<'_>) -> Option<(u32, u32, bool)> {
        let mut state = self.lock();
        let job = state.jobs.get_mut(proc.nspace.as_bytes())?;
        // This is the next incarnation of a process that ended.
        job.ended.remove(&proc.rank);
        let (size, is_spawned) = (job.settings.size, job.settings.is_spawned);
        let rank = proc.rank.as_raw();
        let id = job.first_id.checked_add(rank).filter(|_| rank < size)?;
        Some((id, size, is_spawned))
    }

    /// Returns the connection of a process that has ended. Without one, later connections are refused.
    pub(crate) fn end_of(&self, proc: &Proc<'_>) -> Option<Handle> {
        let mut state = self.lock();
        let job = state.jobs.get_mut(proc.nspace.as_bytes())?;
        let handle = job.connections.get(&proc.rank).cloned();
        if handle.is_none() {
            job.ended.insert(proc.rank);
        }
        handle
    }

    /// Returns `true` if a process has a connection.
    pub(crate) fn is_connected(&self, proc: &Proc<'_>) -> bool {
        let state = self.lock();
        let job = state.jobs.get(proc.nspace.as_bytes());
        job.is_some_and(|job| job.connections.contains_key(&proc.rank))
    }

    /// Returns the process with an id.
    pub(crate) fn process(&self, id: u32) -> Result<Registered, Error> {
        let state = self.lock();
        let found = state.by_id.range(..=id).next_back();
        let found = found.and_then(|(first, nspace)| {
            let job = state.jobs.get(nspace.as_bytes())?;
            let rank = id - *first;
            (rank < job.settings.size).then(|| (Proc::new(nspace.clone(), Rank::new(rank)), job))
        });
        let Some((proc, job)) = found else {
            let message = format!("no process has PMI_ID {id}");
            return Err(Error::new(Status::ERR_NOT_FOUND, message));
        };
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
    /// Returns `PMIX_ERR_NOT_FOUND` if the process or its job has ended, and `PMIX_ERR_EXISTS` if the process uses
    /// another connection.
    pub(crate) fn add(&self, proc: &Proc<'static>, handle: Handle) -> Result<(), Error> {
        let mut state = self.lock();
        let job = state.jobs.get_mut(proc.nspace.as_bytes());
        let Some(job) = job.filter(|job| !job.ended.contains(&proc.rank)) else {
            let message = format!("{proc} has ended");
            return Err(Error::new(Status::ERR_NOT_FOUND, message));
        };
        let known = job.connections.get(&proc.rank);
        if known.is_some_and(Handle::is_in_use) {
            let message = format!("{proc} already uses PMI over another connection");
            return Err(Error::new(Status::ERR_EXISTS, message));
        }
        handle.begin_use();
        let before = job.connections.insert(proc.rank, handle);
        drop(state);
        if let Some(before) = before {
            before.close();
        }
        Ok(())
    }

    /// Removes the connection of a process, unless a later one has replaced it.
    pub(crate) fn remove(&self, proc: &Proc<'static>, handle: &Handle) {
        let mut state = self.lock();
        if let Some(job) = state.jobs.get_mut(proc.nspace.as_bytes())
            && job
                .connections
                .get(&proc.rank)
                .is_some_and(|other| other.is(handle))
        {
            job.connections.remove(&proc.rank);
        }
        drop(state);
        if handle.has_ended() {
            (self.wake)();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_bounded_by_what_all_processes_hold() {
        let values = NodeValues::default();
        let long = vec![b'x'; MAX_VALUE];
        let put = |rank, key: &[u8], value: &[u8]| values.put(Rank::new(rank), key, value);
        // Two processes replace each other's value, and each of their clients holds one.
        for turn in 0..1000 {
            put(turn % 2, b"k", &long).unwrap();
        }
        assert_eq!(values.lock().bytes, 2 * (long.len() + 1 + ENTRY));
        let too_long = vec![b'x'; MAX_VALUE + 1];
        put(0, b"k", &too_long).unwrap_err();
        let mut keys = 0_u32..;
        let refused = keys.find_map(|key| put(0, &key.to_be_bytes(), &long).err());
        let refused = refused.unwrap();
        assert_eq!(refused.status(), Status::ERR_OUT_OF_RESOURCE);
        assert!(values.lock().bytes <= MAX_VALUE_BYTES);
        assert!((100..130).contains(&keys.start), "{keys:?}");
        // Short values count with the memory of their entries.
        let short = NodeValues::default();
        let mut keys = 0_u32..;
        keys.find_map(|key| short.put(Rank::new(0), &key.to_be_bytes(), b"").err());
        assert!((100_000..140_000).contains(&keys.start), "{keys:?}");
        put(1, b"k", b"short").unwrap();
        assert_eq!(values.get(b"k").as_deref(), Some(&b"short"[..]));
        assert_eq!(values.get(b"other"), None);
    }
}
