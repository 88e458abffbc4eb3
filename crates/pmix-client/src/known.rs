// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a process knows without asking: of jobs, of what others put, and what it put itself. It stands
//! beside the core of the connection, so that who finds something here waits for nobody who asks.
//!
//! Source: PMIx Standard, chapter "Data Access and Sharing", `PMIx_Get`.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use gds_hash::{Codec, ModexStore, OwnPuts};
use pmix_proto::reply::{JobInfo, Objects};
use pmix_proto::{MAX_REQUEST_BYTES, PeerForm, Request, request};
use pmix_types::{Info, IntoOwned as _, Key, Nspace, Proc, Rank, Scope, Value, keys};

use crate::cache::{Copied, JobCache, copied};
use crate::commit::Commit;
use crate::core::Waiting;
use crate::get::{
    Wanted, absorb, ask_for_more, is_directive, is_unmarked_qualifier, missing, request_of, says,
    take_prefetched,
};
use crate::group::OwnGroups;
use crate::inflate::inflated;
use crate::obeyed::check_get;
use crate::prefetch::Prefetch;
use crate::{Error, Found, Settings};

/// Holds what a process knows. Each part has a lock of its own, if any, under which nothing is waited for.
pub(crate) struct Known {
    form: PeerForm,
    proc: Proc<'static>,
    /// How long a string may become that was compressed for the wire.
    max_string_bytes: usize,
    /// Since the server said what it knows of the own job.
    cache: OnceLock<JobCache>,
    /// Shared with the commits that the server has not answered.
    own: Arc<Mutex<OwnPuts>>,
    /// The values that `PMIx_Store_internal` kept about other processes and jobs; unset until the first one.
    stored: OnceLock<Mutex<HashMap<Nspace<'static>, ModexStore>>>,
    prefetch: Prefetch,
    groups: OwnGroups,
    /// The address of the server, if there is one.
    server_uri: Option<String>,
}

/// Creates the store of a process that has put nothing.
fn own_puts(settings: &Settings) -> OwnPuts {
    let most = usize::try_from(MAX_REQUEST_BYTES).unwrap_or(usize::MAX);
    OwnPuts::new(settings.proc.rank, most)
        .with_removals(settings.removes_keys)
        .with_parts(settings.reads_commit_parts)
}

impl Known {
    /// Creates it for a process of which nothing is known yet.
    pub(crate) fn new(form: PeerForm, settings: &Settings) -> Self {
        Self {
            form,
            proc: settings.proc.clone(),
            max_string_bytes: settings.max_string_bytes,
            cache: OnceLock::new(),
            own: Arc::new(Mutex::new(own_puts(settings))),
            stored: OnceLock::new(),
            prefetch: Prefetch::new(settings.max_prefetch_bytes),
            groups: OwnGroups::new(settings.resolves_groups),
            server_uri: settings.server.as_ref().map(ToString::to_string),
        }
    }

    /// Returns the groups of this process.
    pub(crate) const fn groups(&self) -> &OwnGroups {
        &self.groups
    }

    /// Puts members in the place of the names of groups, if there are any and the server does not do it.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_NOT_FOUND` for a rank that no member of the group has.
    pub(crate) fn resolved(&self, procs: &[Proc<'_>]) -> Result<Option<Vec<Proc<'static>>>, Error> {
        self.groups.resolved(procs, |nspace| {
            let job = Proc::new(nspace.clone(), Rank::WILDCARD);
            let size = self.find(&job, keys::JOB_SIZE, &[])?.ok()?;
            size.to_number::<u32>().ok()
        })
    }

    /// Takes what is known of jobs, which is said once.
    pub(crate) fn begin(&self, cache: JobCache) {
        // Init ends once.
        let _ = self.cache.set(cache);
    }

    /// Returns what is known of jobs, if the server has said it.
    pub(crate) fn cache(&self) -> Option<&JobCache> {
        self.cache.get()
    }

    /// Puts a value of this process.
    pub(crate) fn put(&self, scope: Scope, info: Info<'_>) -> Result<(), Error> {
        let wire = Codec::new(self.form.layout);
        Ok(self.own().put(&wire, scope, info)?)
    }

    /// Stores a value about a process here alone.
    pub(crate) fn store(&self, proc: &Proc<'_>, info: Info<'_>) -> Result<(), Error> {
        if *proc == self.proc {
            return self.put(Scope::INTERNAL, info);
        }
        let stored = self.stored.get_or_init(Mutex::default);
        let mut stored = stored.lock().unwrap_or_else(PoisonError::into_inner);
        let job = stored.entry(proc.nspace.clone().into_owned()).or_default();
        Ok(job.put(proc.rank, Scope::INTERNAL, info)?)
    }

    /// Returns what was stored here about another process.
    fn stored(&self, proc: &Proc<'_>, key: &str, infos: &[Info<'_>]) -> Option<Copied> {
        let stored = self.stored.get()?.lock();
        let stored = stored.unwrap_or_else(PoisonError::into_inner);
        let job = stored.get(proc.nspace.as_bytes())?;
        copied(job.get(proc.rank, Scope::INTERNAL, key, infos))
    }

    /// Whether something was put that no commit has said.
    pub(crate) fn has_uncommitted(&self) -> bool {
        self.own().has_uncommitted()
    }

    /// Packs what was put since the last commit for the server, which says whether it has stored it.
    pub(crate) fn commit(&self) -> Result<Commit, Error> {
        Commit::begin(&self.own, self.form.layout)
    }

    /// Returns the value of a key, that there is none, or else what to ask the server for: the job info, if
    /// that was not asked for at init and may have the key, else what the process has put.
    pub(crate) fn look(&self, proc: &Proc<'_>, key: &str, infos: &[Info<'_>]) -> Found {
        if let Err(error) = check_get(infos) {
            return Found::Known(Err(error));
        }
        if infos.iter().any(is_unmarked_qualifier) {
            let mut infos = infos.to_vec();
            for info in infos.iter_mut().filter(|info| is_unmarked_qualifier(info)) {
                info.set_qualifier();
            }
            return self.look(proc, key, &infos);
        }
        let of_group = match self.resolved(std::slice::from_ref(proc)) {
            Ok(resolved) => resolved.unwrap_or_default(),
            Err(error) => return Found::Known(Err(error)),
        };
        // A name with the wildcard stands for no single process.
        let proc = match &*of_group {
            [only] if proc.rank != Rank::WILDCARD => only,
            _ => proc,
        };
        if let Some(value) = self.of_itself(proc, key) {
            return Found::Known(Ok(value));
        }
        let found = self.get(proc, key, infos);
        let is_fresh = says(infos, keys::GET_REFRESH_CACHE);
        let may_be_told = || {
            let is_unasked = self.cache().is_some_and(JobCache::is_to_ask);
            !is_fresh && is_unasked && Key::from(key).is_reserved()
        };
        match found {
            Some(Ok(value)) => Found::Known(Ok(value)),
            _ if may_be_told() => {
                let (_, wanted) = self.ask(proc, key, infos);
                Found::asking(Request::JobInfo, Waiting::Learn(wanted))
            }
            Some(known) => Found::Known(known),
            None => {
                let (get, wanted) = self.ask(proc, key, infos);
                Found::asking(Request::Get(get), Waiting::Get(wanted))
            }
        }
    }

    /// Takes the job info that was not asked for at init, and looks for what it was asked for: the value, that
    /// there is none, or what to ask for next.
    pub(crate) fn learnt(&self, payload: &[u8], wanted: &Wanted) -> Found {
        // Whoever asks the server next is told what is wrong.
        if let Err(error) = self.learn(payload) {
            tracing::debug!("cannot load the job info: {error}");
        }
        let Wanted {
            proc, key, infos, ..
        } = wanted;
        match self.get(proc, key, infos) {
            Some(known) => Found::Known(known),
            None => {
                let (get, wanted) = self.ask(proc, key, infos);
                Found::asking(Request::Get(get), Waiting::Get(wanted))
            }
        }
    }

    fn learn(&self, payload: &[u8]) -> Result<(), Error> {
        let info = JobInfo::decode(&self.form, None, payload)?;
        let cache = self.cache().ok_or_else(Error::not_begun)?;
        cache.absorb_job_info(&info)
    }

    /// Returns the value of a key, or that there is none, as far as the server need not be asked; see
    /// [`Core::known`](crate::Core::known).
    pub(crate) fn get(
        &self,
        proc: &Proc<'_>,
        key: &str,
        infos: &[Info<'_>],
    ) -> Option<Result<Value<'static>, Error>> {
        if says(infos, keys::GET_REFRESH_CACHE) {
            // Only this process changes what it stored itself, and no server knows all of it.
            if let Some(value) = self.find_own(proc, key, &qualifiers(infos)) {
                return Some(value.and_then(|value| self.whole(key, value)));
            }
            if let Some(cache) = self.cache() {
                cache.forget(proc);
            }
            self.prefetch.take(proc.rank);
        } else if (says(infos, keys::OPTIONAL) || !self.has_to_ask_for_session(proc, infos))
            && let Some(value) = self.find(proc, key, infos)
        {
            return Some(value.and_then(|value| self.whole(key, value)));
        }
        says(infos, keys::OPTIONAL).then(|| Err(missing(proc, key)))
    }

    /// Whether what is known here may be of the job, where its session is asked about: servers of OpenPMIx tell
    /// nothing of a session until they are asked.
    fn has_to_ask_for_session(&self, proc: &Proc<'_>, infos: &[Info<'_>]) -> bool {
        says(infos, keys::SESSION_INFO)
            && !self
                .cache()
                .is_some_and(|cache| cache.knows_session(&proc.nspace))
    }

    /// Returns what to ask the server for where a value is not known, and what becomes of its answer.
    fn ask(
        &self,
        proc: &Proc<'_>,
        key: &str,
        infos: &[Info<'_>],
    ) -> (request::Get<'static>, Wanted) {
        let mut get = request_of(proc, key, infos);
        let portion = ask_for_more(&mut get, &self.prefetch, &self.proc);
        let wanted = Wanted {
            proc: proc.clone().into_owned(),
            key: key.to_owned(),
            infos: infos.to_vec().into_owned(),
            portion,
        };
        (get, wanted)
    }

    /// Keeps what the server answers to a get, all that there is of the process, and finds the value.
    pub(crate) fn answered(
        &self,
        wanted: &Wanted,
        objects: &Objects<'_>,
    ) -> Result<Value<'static>, Error> {
        let Wanted {
            proc, key, infos, ..
        } = wanted;
        if !objects.status.is_success() {
            // What a host states of the job alone holds for its session.
            if wanted.session().is_some()
                && let Some(value) = self.find(proc, key, infos)
            {
                return self.whole(key, value?);
            }
            let what = format!("{key} of {} rank {}", proc.nspace, proc.rank);
            return Err(Error::answered(objects.status, what));
        }
        let cache = self.cache().ok_or_else(Error::not_begun)?;
        absorb(cache, &self.prefetch, wanted, objects)?;
        let value = self.find(proc, key, infos);
        let value = value.ok_or_else(|| missing(proc, key))??;
        self.whole(key, value)
    }

    /// Drops data of others that came unasked.
    pub(crate) fn drop_prefetched(&self) {
        self.prefetch.clear();
    }

    /// Returns of how many processes there are such data.
    pub(crate) fn num_prefetched(&self) -> usize {
        self.prefetch.num_held()
    }

    /// The value as it was put, if it was compressed for the wire.
    fn whole(&self, key: &str, value: Value<'static>) -> Result<Value<'static>, Error> {
        inflated(value, self.max_string_bytes).map_err(|error| error.of(key))
    }

    /// Looks for a value in the cache and among the own puts. One that is there and that the process has no memory
    /// to copy is an error.
    pub(crate) fn find(&self, proc: &Proc<'_>, key: &str, infos: &[Info<'_>]) -> Option<Copied> {
        let qualifiers = qualifiers(infos);
        // What this process says to itself goes before what others say.
        if let Some(value) = self.find_own(proc, key, &qualifiers) {
            return Some(value);
        }
        let cache = self.cache()?;
        match Key::from(key).is_reserved() {
            true => {
                let value = cache.job_value(proc, key, &qualifiers);
                // What members of a group shared is told apart by the context id of the group.
                let value = value.or_else(|| cache.put_value(proc, key, &qualifiers));
                value.or_else(|| cache.put_value(proc, key, &[]))
            }
            // What the host says of all processes it may say under a key of its own.
            false if !proc.rank.is_valid() => {
                let value = cache.put_value(proc, key, &qualifiers);
                value.or_else(|| cache.job_value(proc, key, &qualifiers))
            }
            false => cache.put_value(proc, key, &qualifiers).or_else(|| {
                take_prefetched(cache, &self.prefetch, &self.proc, proc)?;
                cache.put_value(proc, key, &qualifiers)
            }),
        }
    }

    /// Returns a value that this process put, or stored about a process.
    fn find_own(&self, proc: &Proc<'_>, key: &str, qualifiers: &[Info<'_>]) -> Option<Copied> {
        if *proc == self.proc {
            let own = self.own();
            let found = own.all().get(proc.rank, Scope::INTERNAL, key, qualifiers);
            if let Some(value) = copied(found) {
                return Some(value);
            }
        }
        self.stored(proc, key, qualifiers)
    }

    /// Returns what this process knows of itself without its server: who it is, and where the server is. The rank is
    /// also found without a rank in the question (`PMIX_RANK_INVALID`).
    fn of_itself(&self, proc: &Proc<'_>, key: &str) -> Option<Value<'static>> {
        let own = &self.proc;
        let is_named = proc.rank == own.rank || proc.rank == Rank::UNDEF;
        let is_own = proc.nspace == own.nspace && !own.nspace.is_invalid();
        match key {
            keys::RANK if is_own && (is_named || proc.rank == Rank::INVALID) => {
                Some(Value::Rank(own.rank))
            }
            _ if !is_own || !is_named => None,
            keys::NSPACE => Some(Value::String(Some(own.nspace.as_text().clone()))),
            keys::PROCID => Some(Value::Proc(own.clone())),
            keys::SERVER_URI => self.server_uri.clone().map(Value::from),
            _ => None,
        }
    }

    /// Returns all known values of a process without asking, each key once: what this process put or stored,
    /// then what its server said.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_NOT_FOUND` if nothing is known of it.
    pub(crate) fn all(
        &self,
        proc: &Proc<'_>,
        infos: &[Info<'_>],
    ) -> Result<Vec<Info<'static>>, Error> {
        let mut all = Vec::new();
        if *proc == self.proc {
            let itself = [keys::RANK, keys::NSPACE, keys::PROCID, keys::SERVER_URI];
            let itself = itself.into_iter();
            all.extend(itself.filter_map(|key| Some(Info::new(key, self.of_itself(proc, key)?))));
            all.extend(puts(self.own().all(), proc.rank)?);
        } else if let Some(stored) = self.stored.get() {
            let stored = stored.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(job) = stored.get(proc.nspace.as_bytes()) {
                all.extend(puts(job, proc.rank)?);
            }
        }
        let said = { self.cache() }.map(|cache| cache.all(proc, &qualifiers(infos)));
        let mut known: HashSet<_> = all.iter().map(|info| info.key.clone()).collect();
        let said = said.unwrap_or_default().into_iter();
        all.extend(said.filter(|info| known.insert(info.key.clone())));
        match all.is_empty() {
            true => Err(missing(proc, "all known values")),
            false => Ok(all),
        }
    }

    fn own(&self) -> MutexGuard<'_, OwnPuts> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the infos of a get that are part of what is asked for.
fn qualifiers<'i>(infos: &[Info<'i>]) -> Vec<Info<'i>> {
    let asked = infos.iter().filter(|info| !is_directive(info));
    asked.cloned().collect()
}

/// Returns all that is stored of a rank.
fn puts(store: &ModexStore, rank: Rank) -> Result<Vec<Info<'static>>, Error> {
    let all = store.all(rank, Scope::INTERNAL)?;
    Ok(all
        .map(|put| {
            let put = put.into_owned();
            Info::new(put.key, put.value)
        })
        .collect())
}
