// SPDX-License-Identifier: MIT OR Apache-2.0
//! The data of the server's own process: the values that it puts or stores, and its gets.
//!
//! Only the server's process reads these values, so nothing is committed and no request is sent.
//!
//! Source: PMIx Standard, chapter "Server-Specific Interfaces": a server may call the functions of clients.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pmix_types::{Info, IntoOwned as _, Key, Proc, Rank, Scope, Status, Value, keys};

use super::Server;
use crate::Error;

/// The values that the server's process put or stored, by process and key.
#[derive(Default)]
pub(super) struct OwnData(Mutex<BTreeMap<(Proc<'static>, Key<'static>), Value<'static>>>);

impl OwnData {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(Proc<'static>, Key<'static>), Value<'static>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a value of a process. If the caller does not know the rank (`PMIX_RANK_UNDEF`), the lowest rank with the
    /// key wins.
    fn get(&self, of: &Proc<'static>, key: &Key<'static>) -> Result<Option<Value<'static>>, Error> {
        let values = self.lock();
        let is_it = |(proc, known): &(Proc<'static>, Key<'static>)| {
            of.rank == Rank::UNDEF && proc.nspace == of.nspace && known == key
        };
        let stored = values.get(&(of.clone(), key.clone())).or_else(|| {
            let named = values.iter().filter(|(at, _)| is_it(at));
            named
                .min_by_key(|((proc, _), _)| proc.rank)
                .map(|(_, value)| value)
        });
        let copy = stored.map(Value::try_clone).transpose();
        copy.map_err(|error| Error::new(error.status(), error.to_string()))
    }
}

impl Server {
    /// Puts a value of the server's own process (`PMIx_Put`, called by a server), or removes one if the scope is a
    /// removal such as `PMIX_DEL_LOCAL`.
    ///
    /// # Errors
    /// Returns `PMIX_ERR_BAD_PARAM` for an unknown scope.
    pub fn put(
        &self,
        scope: Scope,
        key: impl Into<Key<'static>>,
        value: impl Into<Value<'static>>,
    ) -> Result<(), Error> {
        match scope {
            Scope::LOCAL | Scope::REMOTE | Scope::GLOBAL | Scope::INTERNAL => {
                self.store(self.proc(), key, value);
            }
            Scope::DEL_LOCAL | Scope::DEL_REMOTE | Scope::DEL_GLOBAL | Scope::DEL_INTERNAL => {
                let own = self.proc().clone();
                self.0.own_data.lock().remove(&(own, key.into()));
            }
            _ => {
                let why = format!("{scope} is not a scope of a put");
                return Err(Error::new(Status::ERR_BAD_PARAM, why));
            }
        }
        Ok(())
    }

    /// Stores a value about a process for the gets of the server's own process (`PMIx_Store_internal`, called by a
    /// server).
    pub fn store(
        &self,
        proc: &Proc<'_>,
        key: impl Into<Key<'static>>,
        value: impl Into<Value<'static>>,
    ) {
        let at = (proc.clone().into_owned(), key.into());
        self.0.own_data.lock().insert(at, value.into());
    }

    /// Gets the value of a key for the server's own process (`PMIx_Get`, called by a server). No request is sent. In
    /// this order, the value is one that the process put or stored, one about itself, or one that is registered or that
    /// another process put for this node. So the process can replace a registered value by its own.
    ///
    /// # Errors
    /// Returns `PMIX_ERR_INIT` if the server is not running, `PMIX_ERR_NOT_FOUND` if the value is unknown,
    /// `PMIX_ERR_NOMEM` if there is no memory for a copy of it, or an error for an invalid qualifier.
    pub fn get<'k>(
        &self,
        proc: &Proc<'_>,
        key: impl Into<Key<'k>>,
        infos: &[Info<'_>],
    ) -> Result<Value<'static>, Error> {
        let (proc, key) = (proc.clone().into_owned(), key.into().into_owned());
        if let Some(stored) = self.0.own_data.get(&proc, &key)? {
            return Ok(stored);
        }
        let name = key.as_text().to_str_lossy();
        if proc == *self.proc()
            && let Some(known) = self.value_about_itself(&name)
        {
            return Ok(known);
        }
        let handle = &self.0.handle;
        let registered = |of: &Proc<'_>| handle.request(|engine, _| engine.get(of, &name, infos));
        registered(&proc).or_else(|error| {
            // A server is not part of a job, so data about its own process may be registered for the namespace as a
            // whole.
            if proc != *self.proc() {
                return Err(error);
            }
            registered(&Proc::new(proc.nspace.clone(), Rank::WILDCARD))
        })
    }

    fn value_about_itself(&self, key: &str) -> Option<Value<'static>> {
        let own = self.proc();
        match key {
            keys::MYSERVER_URI => Some(Value::from(self.uri().to_owned())),
            keys::RANK => Some(Value::Rank(own.rank)),
            keys::NSPACE => Some(Value::String(Some(own.nspace.as_text().clone()))),
            keys::PROCID => Some(Value::Proc(own.clone())),
            _ => None,
        }
    }

    /// Returns all values of a process, or, with the wildcard rank, of its whole job (`PMIx_Get` without a key, called by
    /// a server). Values that the server's own process put or stored replace registered ones.
    ///
    /// # Errors
    /// Returns `PMIX_ERR_INIT` if the server is not running, `PMIX_ERR_NOT_FOUND` if there are no values, or an error
    /// for an invalid qualifier.
    pub fn get_all(
        &self,
        proc: &Proc<'_>,
        infos: &[Info<'_>],
    ) -> Result<Vec<Info<'static>>, Error> {
        let stored: Vec<_> = {
            let values = self.0.own_data.lock();
            let stored = values.iter().filter(|((of, _), _)| of == proc);
            stored
                .map(|((_, key), value)| Info::new(key.clone(), value.clone()))
                .collect()
        };
        let handle = &self.0.handle;
        let registered = handle.request(|engine, _| engine.known(proc, infos));
        let mut all: Vec<Info<'static>> = match registered {
            Err(error) if stored.is_empty() => return Err(error),
            registered => registered.unwrap_or_default(),
        };
        let keys: HashSet<_> = stored.iter().map(|info| info.key.clone()).collect();
        all.retain(|info| !keys.contains(&info.key));
        all.extend(stored);
        Ok(all)
    }
}
