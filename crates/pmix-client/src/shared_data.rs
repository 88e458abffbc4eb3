// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reading side of the table that a server shares with the processes of its node.
//!
//! The table is optional. The client requests every value from the server that it cannot find or read here.

use std::sync::atomic::{AtomicBool, Ordering};

use pmix_proto::PeerForm;
use pmix_proto::shared::{self, SharedKey};
use pmix_shm::{Address, Reader};
use pmix_types::{IntoOwned as _, Nspace, Proc, Rank, Value, memory};

/// The data of the own job that the processes of this node share.
pub(crate) struct SharedData {
    nspace: Nspace<'static>,
    form: PeerForm,
    table: Reader,
    /// `true` once the table was found to have the job info of the own job.
    is_own: AtomicBool,
    /// `true` once damage was found. The table is not read again then.
    is_damaged: AtomicBool,
}

/// The outcome of a search in the table.
enum Lookup<T> {
    Found(T),
    /// The table has no such entry.
    Absent,
    /// The entry cannot be read: the table is being written, is closed or damaged, or belongs to another job.
    Unknown,
}

impl SharedData {
    /// Opens the table at an address, and returns `None` if that fails. Entries longer than `max_entry_bytes` are not
    /// read.
    pub(crate) fn open(
        nspace: &Nspace<'static>,
        address: &str,
        max_entry_bytes: u32,
    ) -> Option<Self> {
        let most = usize::try_from(max_entry_bytes).unwrap_or(usize::MAX);
        let opened = address
            .parse()
            .and_then(|address: Address| Reader::open(&address))
            .map(|table| table.with_max_value_bytes(most));
        let table = opened
            .inspect_err(|error| tracing::debug!("cannot use shared memory: {error}"))
            .ok()?;
        Some(Self {
            nspace: nspace.clone(),
            form: shared::form(),
            table,
            is_own: AtomicBool::new(false),
            is_damaged: AtomicBool::new(false),
        })
    }

    /// Returns `true` if the table has the job info of the own job. The environment may have been inherited from a
    /// process of another job, so the name in the table is compared.
    pub(crate) fn has_job_info(&self) -> bool {
        if self.is_own.load(Ordering::Relaxed) {
            return true;
        }
        let is_own = match self.look_up(SharedKey::Job) {
            Lookup::Found(name) => *name == *self.nspace.as_bytes(),
            Lookup::Absent | Lookup::Unknown => false,
        };
        self.is_own.store(is_own, Ordering::Relaxed);
        is_own
    }

    /// Returns job info: a value of the own job or of one of its processes.
    pub(crate) fn info(&self, proc: &Proc<'_>, key: &str) -> Option<Value<'static>> {
        if proc.nspace != self.nspace || !self.has_job_info() {
            return None;
        }
        let find = |rank| match self.look_up(SharedKey::Info(rank, key.as_bytes())) {
            Lookup::Found(bytes) => match shared::read_info(&self.form, &bytes) {
                Ok((value, is_for_all)) => match memory::check(bytes.len()) {
                    Ok(()) => Lookup::Found((value.into_owned(), is_for_all)),
                    Err(error) => unread(&error),
                },
                Err(error) => self.damaged(&error),
            },
            Lookup::Absent => Lookup::Absent,
            Lookup::Unknown => Lookup::Unknown,
        };
        match find(proc.rank) {
            Lookup::Found((value, _)) => return Some(value),
            // The process may have a value of its own that cannot be read at the moment; the value of the job would be
            // wrong.
            Lookup::Unknown => return None,
            Lookup::Absent if !proc.rank.is_valid() => return None,
            Lookup::Absent => {}
        }
        let Lookup::Found((value, is_for_all)) = find(Rank::WILDCARD) else {
            return None;
        };
        let described = || {
            matches!(
                self.look_up(SharedKey::Described(proc.rank)),
                Lookup::Found(_)
            )
        };
        (is_for_all || described()).then_some(value)
    }

    /// Returns an unqualified value that a process of the own job has put.
    pub(crate) fn put(&self, proc: &Proc<'_>, key: &str) -> Option<Value<'static>> {
        if proc.nspace != self.nspace || !proc.rank.is_valid() || !self.has_job_info() {
            return None;
        }
        let Lookup::Found(bytes) = self.look_up(SharedKey::Puts(proc.rank)) else {
            return None;
        };
        match shared::find_put(&self.form, &bytes, key) {
            Ok(found) => {
                memory::check(bytes.len()).ok()?;
                found.map(Value::into_owned)
            }
            Err(error) => {
                self.damaged::<()>(&error);
                None
            }
        }
    }

    fn look_up(&self, key: SharedKey<'_>) -> Lookup<Vec<u8>> {
        if self.is_damaged.load(Ordering::Relaxed) {
            return Lookup::Unknown;
        }
        match self.table.get(&key.to_bytes()) {
            Ok(Some(found)) => Lookup::Found(found),
            // A closed table may have lost entries, so an absent one proves nothing.
            Ok(None) if self.table.is_open() => Lookup::Absent,
            Ok(None) | Err(pmix_shm::Error::Busy) => Lookup::Unknown,
            // The reply of the server has the same limit. The other entries of the table remain readable.
            Err(error @ (pmix_shm::Error::TooLong(..) | pmix_shm::Error::NoMemory(_))) => {
                unread(&error)
            }
            Err(error) => self.damaged(&error),
        }
    }

    fn damaged<T>(&self, error: &dyn std::fmt::Display) -> Lookup<T> {
        // The warning appears once. Later gets are requests, as without the table.
        if !self.is_damaged.swap(true, Ordering::Relaxed) {
            tracing::warn!("stopped using shared memory: {error}");
        }
        Lookup::Unknown
    }
}

fn unread<T>(error: &dyn std::fmt::Display) -> Lookup<T> {
    tracing::debug!("cannot read an entry in shared memory: {error}");
    Lookup::Unknown
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmix_shm::Writer;
    use pmix_types::{Kval, keys};

    fn of_job(name: &str) -> Writer {
        let mut table = Writer::create(1 << 20).unwrap();
        let mut put = |key: SharedKey<'_>, value: &[u8]| table.put(&key.to_bytes(), value).unwrap();
        let size = Kval {
            key: keys::JOB_SIZE.into(),
            value: Value::Uint32(4),
        };
        let size = shared::pack_info(&size, true).unwrap();
        put(
            SharedKey::Info(Rank::WILDCARD, keys::JOB_SIZE.as_bytes()),
            &size,
        );
        put(SharedKey::Job, name.as_bytes());
        table
    }

    #[test]
    fn a_table_of_another_job_is_not_read() {
        let table = of_job("job");
        let address = table.address().to_string();
        for (name, is_own) in [("job", true), ("another", false)] {
            let shared = SharedData::open(&Nspace::new(name), &address, 1 << 20).unwrap();
            let job = Proc::new(Nspace::new(name), Rank::WILDCARD);
            let size = shared.info(&job, keys::JOB_SIZE);
            assert_eq!(shared.has_job_info(), is_own, "{name}");
            assert_eq!(size, is_own.then_some(Value::Uint32(4)), "{name}");
        }
    }

    #[test]
    fn a_removed_table_returns_no_job_info() {
        let table = of_job("job");
        let shared =
            SharedData::open(&Nspace::new("job"), &table.address().to_string(), 1 << 20).unwrap();
        let proc = Proc::new(Nspace::new("job"), Rank::new(1));
        assert_eq!(shared.info(&proc, keys::JOB_SIZE), Some(Value::Uint32(4)));
        drop(table);
        assert_eq!(shared.info(&proc, keys::JOB_SIZE), None);
    }

    #[test]
    fn an_entry_longer_than_the_reply_limit_is_requested_and_others_are_read() {
        let mut table = of_job("job");
        let mut put = |key: &'static str, value: Value<'_>| {
            let kval = Kval {
                key: key.into(),
                value,
            };
            let bytes = shared::pack_info(&kval, true).unwrap();
            let key = SharedKey::Info(Rank::WILDCARD, key.as_bytes());
            table.put(&key.to_bytes(), &bytes).unwrap();
        };
        put("long", Value::from("x".repeat(5000)));
        put("short", Value::from("x"));
        let address = table.address().to_string();
        let shared = SharedData::open(&Nspace::new("job"), &address, 4096).unwrap();
        let job = Proc::new("job", Rank::WILDCARD);
        assert_eq!(shared.info(&job, "long"), None);
        assert_eq!(shared.info(&job, "short"), Some(Value::from("x")));
    }
}
