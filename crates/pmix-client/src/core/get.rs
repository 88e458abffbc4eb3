// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gets: a value from what is known here, else from the server.
//!
//! Source: PMIx Standard, chapter "Data Access and Sharing", `PMIx_Get`.

use std::borrow::Cow;
use std::time::Instant;

use pmix_proto::Request;
use pmix_proto::reply::Objects;
use pmix_types::{Info, IntoOwned as _, Key, Proc, Scope, Value, keys};

use super::operation::{Answer, OperationId, Waiting};
use super::{Core, not_begun};
use crate::Error;
use crate::cache::JobCache;
use crate::get::{absorb, ask_for_more, is_directive, request_of, says, take_prefetched};
use crate::inflate::inflated;
use crate::prefetch::Portion;

impl Core {
    /// Looks for the value of a key (`PMIx_Get`): [`Answer::Value`], at once if it is known here. See
    /// [`Client::get`](crate::Client::get) for directives and for what is kept.
    ///
    /// # Errors
    ///
    /// As [`commit`](Self::commit). That there is no such value is how the operation ends.
    pub fn get(
        &mut self,
        proc: &Proc<'_>,
        key: &str,
        infos: &[Info<'_>],
        end: Option<Instant>,
    ) -> Result<OperationId, Error> {
        match self.known(proc, key, infos) {
            Some(known) => Ok(self.ended(known.map(Answer::Value))),
            None => self.fetch(proc, key, infos, end),
        }
    }

    /// Asks the server for the value of a key that is not known here.
    pub(crate) fn fetch(
        &mut self,
        proc: &Proc<'_>,
        key: &str,
        infos: &[Info<'_>],
        end: Option<Instant>,
    ) -> Result<OperationId, Error> {
        let mut get = request_of(proc, key, infos);
        let portion = ask_for_more(&mut get, &self.prefetch, &self.settings.proc);
        let waiting = Waiting::Get {
            proc: proc.clone().into_owned(),
            key: key.to_owned(),
            infos: infos.to_vec().into_owned(),
            portion,
        };
        self.begin(&Request::Get(get), waiting, end)
    }

    /// Returns whether the server may say more of the own job than is shared, and was not asked.
    pub(crate) fn is_to_learn(&self, key: &str) -> bool {
        Key::from(key).is_reserved() && self.cache.as_ref().is_some_and(JobCache::is_to_ask)
    }

    /// Asks for the job info that was not asked for at init.
    pub(crate) fn learn(&mut self, end: Option<Instant>) -> Result<OperationId, Error> {
        self.begin(&Request::JobInfo, Waiting::MoreJobInfo, end)
    }

    /// Returns the value of a key, or that there is none, as far as the server need not be asked. With
    /// `pmix.get.refresh` among the infos what is known of the process is forgotten.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_NOT_FOUND` where the infos say that nobody is to be asked (`pmix.optional`);
    /// `PMIX_ERR_OUT_OF_RESOURCE` for a compressed string longer than
    /// [`Settings::max_string_bytes`](crate::Settings::max_string_bytes).
    pub fn known(
        &self,
        proc: &Proc<'_>,
        key: &str,
        infos: &[Info<'_>],
    ) -> Option<Result<Value<'static>, Error>> {
        if says(infos, keys::GET_REFRESH_CACHE) {
            if let Some(cache) = &self.cache {
                cache.forget(proc);
            }
            self.prefetch.take(proc.rank);
        } else if let Some(value) = self.find(proc, key, infos) {
            return Some(self.whole(key, value));
        }
        says(infos, keys::OPTIONAL).then(|| Err(missing(proc, key)))
    }

    /// The value as it was put, if it was compressed for the wire.
    fn whole(&self, key: &str, value: Value<'static>) -> Result<Value<'static>, Error> {
        inflated(value, self.settings.max_string_bytes).map_err(|error| error.of(key))
    }

    /// Looks for a value in the cache and among the own puts.
    fn find(&self, proc: &Proc<'_>, key: &str, infos: &[Info<'_>]) -> Option<Value<'static>> {
        let qualifiers = infos.iter().filter(|info| !is_directive(info));
        let qualifiers: Vec<_> = qualifiers.cloned().collect();
        let own = &self.settings.proc;
        if proc == own {
            let found = self.own.get(own.rank, Scope::INTERNAL, key, &qualifiers);
            if let Ok(value) = found {
                return Some(Cow::into_owned(value));
            }
        }
        let cache = self.cache.as_ref()?;
        match Key::from(key).is_reserved() {
            true => {
                let value = cache.job_value(proc, key, &qualifiers);
                value.or_else(|| cache.put_value(proc, key, &[]))
            }
            false => cache.put_value(proc, key, &qualifiers).or_else(|| {
                take_prefetched(cache, &self.prefetch, own, proc)?;
                cache.put_value(proc, key, &qualifiers)
            }),
        }
    }

    /// Keeps what the server answers to a get, all that there is of the process, and finds the value.
    pub(super) fn read_get(
        &self,
        proc: &Proc<'static>,
        key: &str,
        infos: &[Info<'static>],
        portion: Option<Portion>,
        payload: &[u8],
    ) -> Result<Answer, Error> {
        let objects = Objects::decode(&self.form, None, payload)?;
        if !objects.status.is_success() {
            let what = format!("{key} of {} rank {}", proc.nspace, proc.rank);
            return Err(Error::answered(objects.status, what));
        }
        let cache = self.cache.as_ref().ok_or_else(not_begun)?;
        absorb(cache, &self.prefetch, proc, portion, &objects)?;
        let value = self.find(proc, key, infos);
        let value = value.ok_or_else(|| missing(proc, key))?;
        self.whole(key, value).map(Answer::Value)
    }
}

fn missing(proc: &Proc<'_>, key: &str) -> Error {
    Error::not_found(format!("{key} of {} rank {}", proc.nspace, proc.rank))
}
