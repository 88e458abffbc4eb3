// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gets: a value from the cache, else from the server.
//!
//! Source: PMIx Standard, chapter "Data Access and Sharing", `PMIx_Get`.

use std::borrow::Cow;

use pmix_proto::reply::Objects;
use pmix_proto::{Request, request};
use pmix_types::{Info, InfoFlags, IntoOwned as _, Key, Proc, Rank, Scope, Value, keys};

use crate::cache::JobCache;
use crate::inflate::inflated;
use crate::prefetch::{Portion, Prefetch};
use crate::{Client, Error};

impl Client {
    /// Returns the value of a key (`PMIx_Get`).
    ///
    /// Reserved keys (`pmix.…`) tell about a process, its node, its application, its session or,
    /// with [`Rank::WILDCARD`], its job: most of it the server said at init. Other keys were put
    /// by the process; who asks before it has committed waits. What the server answers is kept:
    /// all that the process has put for this one. It is asked again only for a key that is not
    /// among it.
    ///
    /// Directives: `pmix.optional` asks nobody, `pmix.immediate` waits for nobody,
    /// `pmix.timeout` is how many seconds the server is to wait, `pmix.get.refresh` asks
    /// again. Other infos say which node, application or session is meant, or qualify a value.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_NOT_FOUND` if there is no such value; `PMIX_ERR_OUT_OF_RESOURCE` if it is a
    /// compressed string longer than
    /// [`Settings::max_string_bytes`](crate::Settings::max_string_bytes); otherwise what the server
    /// answers, or that it does not.
    pub fn get(
        &mut self,
        proc: &Proc<'_>,
        key: &str,
        infos: &[Info<'_>],
    ) -> Result<Value<'static>, Error> {
        if says(infos, keys::GET_REFRESH_CACHE) {
            self.cache.forget(proc);
            self.prefetch.take(proc.rank);
        } else if let Some(value) = self.find(proc, key, infos) {
            return self.whole(key, value);
        }
        let missing = || Error::not_found(format!("{key} of {} rank {}", proc.nspace, proc.rank));
        if says(infos, keys::OPTIONAL) {
            return Err(missing());
        }
        self.fetch(proc, key, infos)?;
        let value = self.find(proc, key, infos).ok_or_else(missing)?;
        self.whole(key, value)
    }

    /// The value as it was put, if it was compressed for the wire.
    fn whole(&self, key: &str, value: Value<'static>) -> Result<Value<'static>, Error> {
        inflated(value, self.settings.max_string_bytes).map_err(|error| error.of(key))
    }

    /// Returns the value of a key of the own job (`PMIx_Get` with [`Rank::WILDCARD`]).
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub fn get_of_job(&mut self, key: &str) -> Result<Value<'static>, Error> {
        let job = self.job();
        self.get(&job, key, &[])
    }

    /// Looks for a value in the cache and among the own puts.
    fn find(&self, proc: &Proc<'_>, key: &str, infos: &[Info<'_>]) -> Option<Value<'static>> {
        let qualifiers = infos.iter().filter(|info| !is_directive(info));
        let qualifiers: Vec<_> = qualifiers.cloned().collect();
        let own = *proc == self.settings.proc;
        let put = own.then(|| {
            let found = self
                .own
                .get(self.settings.proc.rank, Scope::INTERNAL, key, &qualifiers);
            found.ok().map(Cow::into_owned)
        });
        if let Some(value) = put.flatten() {
            return Some(value);
        }
        match Key::from(key).is_reserved() {
            true => {
                let value = self.cache.job_value(proc, key, &qualifiers);
                value.or_else(|| self.cache.put_value(proc, key, &[]))
            }
            false => {
                let cached = self.cache.put_value(proc, key, &qualifiers);
                cached.or_else(|| {
                    take_prefetched(&self.cache, &self.prefetch, self.proc(), proc)?;
                    self.cache.put_value(proc, key, &qualifiers)
                })
            }
        }
    }

    /// Asks the server and keeps what it answers: all that there is of the process.
    fn fetch(&mut self, proc: &Proc<'_>, key: &str, infos: &[Info<'_>]) -> Result<(), Error> {
        let mut get = request_of(proc, key, infos);
        let portion = ask_for_more(&mut get, &self.prefetch, self.proc());
        let payload = self.connection.ask(&Request::Get(get), self.end())?;
        let objects = Objects::decode(self.form(), None, &payload)?;
        if !objects.status.is_success() {
            let what = format!("{key} of {} rank {}", proc.nspace, proc.rank);
            return Err(Error::answered(objects.status, what));
        }
        absorb(&self.cache, &self.prefetch, proc, portion, &objects)
    }
}

/// Adds to a get of what a process of the own job put how much the server may send of others.
pub(crate) fn ask_for_more(
    get: &mut request::Get<'_>,
    prefetch: &Prefetch,
    own: &Proc<'_>,
) -> Option<Portion> {
    let is_reserved = get.key.as_ref().is_none_or(Key::is_reserved);
    let is_plain = get.infos.iter().all(|info| info.key.is(keys::TIMEOUT));
    if is_reserved || !is_plain || get.nspace != own.nspace || !get.rank.is_valid() {
        return None;
    }
    let portion = prefetch.portion()?;
    let info = Info::new(request::PREFETCH, portion.bytes);
    get.infos.push(info);
    Some(portion)
}

/// Stores the answer to a get of a process, and what came of others apart from it.
pub(crate) fn absorb(
    cache: &JobCache,
    prefetch: &Prefetch,
    proc: &Proc<'_>,
    portion: Option<Portion>,
    objects: &Objects<'_>,
) -> Result<(), Error> {
    let mut more = Vec::new();
    cache.absorb(objects, |of, kvals| {
        let is_more = portion.is_some() && of.nspace == proc.nspace && of.rank != proc.rank;
        if is_more {
            more.push((of.rank, kvals));
        }
        is_more
    })?;
    if let Some(portion) = portion {
        prefetch.keep(portion, more);
    }
    Ok(())
}

/// Stores what has come of a process already, if anything has.
pub(crate) fn take_prefetched(
    cache: &JobCache,
    prefetch: &Prefetch,
    own: &Proc<'_>,
    proc: &Proc<'_>,
) -> Option<()> {
    let is_of_job = own.nspace == proc.nspace;
    let kvals = is_of_job.then(|| prefetch.take(proc.rank)).flatten()?;
    // What cannot be read is asked for again, which says what is wrong with it.
    cache.absorb_put(proc, &kvals).ok()
}

/// What to ask the server for, if a key of a process is not known here.
pub(crate) fn request_of(proc: &Proc<'_>, key: &str, infos: &[Info<'_>]) -> request::Get<'static> {
    let mut infos = infos.to_vec().into_owned();
    let reserved = Key::from(key).is_reserved();
    if reserved && !says(&infos, keys::IMMEDIATE) {
        // Nobody puts it, so there is nothing to wait for.
        infos.push(Info::new(keys::IMMEDIATE, Value::Bool(true)));
    }
    let names_node = infos
        .iter()
        .any(|info| info.key.is(keys::HOSTNAME) || info.key.is(keys::NODEID));
    request::Get {
        nspace: proc.nspace.clone().into_owned(),
        // What is asked of a node is no process's.
        rank: match reserved && names_node {
            true => Rank::WILDCARD,
            false => proc.rank,
        },
        infos,
        key: Some(Key::from(key).into_owned()),
    }
}

/// Whether an info says how to look, not what for.
pub(crate) fn is_directive(info: &Info<'_>) -> bool {
    let directives = [
        keys::OPTIONAL,
        keys::IMMEDIATE,
        keys::TIMEOUT,
        keys::GET_REFRESH_CACHE,
        keys::DATA_SCOPE,
        keys::GET_STATIC_VALUES,
        keys::GET_POINTER_VALUES,
    ];
    let named = directives.iter().any(|key| info.key.is(key));
    named && !info.flags.contains(InfoFlags::QUALIFIER)
}

pub(crate) fn says(infos: &[Info<'_>], key: &str) -> bool {
    let found = infos.iter().find(|info| info.key.is(key));
    found.is_some_and(|info| info.truth().is_true())
}
