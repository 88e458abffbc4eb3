// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data that need no request to the server: job info, data of other processes, and the own puts. They are kept beside
//! the core of the connection, so a get that finds its value here waits for no other thread.
//!
//! Source: PMIx Standard, chapter "Data Access and Sharing", `PMIx_Get`.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use gds_hash::{Codec, ModexStore, OwnPuts};
use pmix_proto::reply::{self, JobInfo, Objects};
use pmix_proto::{MAX_REQUEST_BYTES, PeerForm, Request, request};
use pmix_types::{
    DataArray, Info, IntoOwned as _, Key, Nspace, Proc, QualifiedValue, Rank, Scope, Status, Value,
    keys,
};

use crate::cache::{Copied, JobCache, copied};
use crate::commit::Commit;
use crate::core::{RequestCall, Waiting};
use crate::get::{
    PendingGet, absorb, is_directive, is_unmarked_qualifier, missing, offer_prefetch, request_of,
    take_prefetched,
};
use crate::group::{OwnGroups, endpoint_data};
use crate::inflate::inflated;
use crate::obeyed::{check_get, is_true};
use crate::prefetch::Prefetch;
use crate::{Error, Group, Settings};

/// The largest size of the endpoint data of a process in bytes. They travel in events, which reach every member.
const MAX_ENDPOINT_BYTES: usize = 1 << 20;

/// Decodes the job info in a reply.
///
/// # Errors
///
/// `PMIX_ERR_NOMEM` if the server had no memory for the job info, or this process none for the reply.
pub(crate) fn read_job_info<'p>(form: &PeerForm, payload: &'p [u8]) -> Result<JobInfo<'p>, Error> {
    // In both cases the payload is the status alone, as in replies to other requests.
    if *payload == *reply::status(form, Status::ERR_NOMEM)? {
        return Err(Error::answered(Status::ERR_NOMEM, "job info"));
    }
    Ok(JobInfo::decode(form, None, payload)?)
}

/// The outcome of a search in the local data.
pub(crate) enum Found {
    /// The value, or the error of a get that needs no server.
    Known(Result<Value<'static>, Error>),
    /// The request to send to the server.
    AskServer(Box<RequestCall<'static>>),
}

impl Found {
    /// Returns the request for a value and the operation that waits for its reply.
    pub(crate) fn request(request: Request<'static>, waiting: Waiting) -> Self {
        Self::AskServer(Box::new(RequestCall { request, waiting }))
    }
}

/// The local data of a process. Each part has its own lock, if any, and no thread waits while it holds one.
pub(crate) struct Known {
    form: PeerForm,
    /// The major release whose requests about groups the server takes; 0 if the server does not state it.
    server_major: u32,
    proc: Proc<'static>,
    /// The largest length of a decompressed string.
    max_string_bytes: usize,
    /// The job info and put data from the server; set when init completes.
    cache: OnceLock<JobCache>,
    /// The own puts, shared with commits that the server has not acknowledged.
    own: Arc<Mutex<OwnPuts>>,
    /// The values that `PMIx_Store_internal` stored for other processes and jobs; unset until the first one.
    stored: OnceLock<Mutex<HashMap<Nspace<'static>, ModexStore>>>,
    prefetch: Prefetch,
    groups: OwnGroups,
    /// The address of the server, if there is one.
    server_uri: Option<String>,
}

/// Creates the store of a process without puts.
fn own_puts(settings: &Settings) -> OwnPuts {
    let most = usize::try_from(MAX_REQUEST_BYTES).unwrap_or(usize::MAX);
    OwnPuts::new(settings.proc.rank, most)
        .with_removals(settings.removes_keys)
        .with_parts(settings.reads_commit_parts)
}

impl Known {
    /// Creates the local data of a process before init.
    pub(crate) fn new(form: PeerForm, settings: &Settings) -> Self {
        let version = settings.server_version.as_deref().unwrap_or_default();
        Self {
            server_major: match settings.reads_commit_parts {
                // Servers of this project have requests about groups for which clients of 7.0 send events.
                true => 5,
                false => PeerForm::new(form.layout, version.as_bytes()).major,
            },
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

    /// Returns the major release whose requests about groups the server takes, or 0 if the server does not state it.
    pub(crate) const fn server_major(&self) -> u32 {
        self.server_major
    }

    /// Returns the name of this process.
    pub(crate) const fn proc(&self) -> &Proc<'static> {
        &self.proc
    }

    /// Returns the groups of this process.
    pub(crate) const fn groups(&self) -> &OwnGroups {
        &self.groups
    }

    /// Replaces the names of groups by their members, unless the server does so. Returns `None` if there are none.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NOT_FOUND` for a rank that no member of the group has.
    pub(crate) fn resolved(&self, procs: &[Proc<'_>]) -> Result<Option<Vec<Proc<'static>>>, Error> {
        self.groups.resolved(procs, |nspace| {
            let job = Proc::new(nspace.clone(), Rank::WILDCARD);
            let size = self.find(&job, keys::JOB_SIZE, &[])?.ok()?;
            size.to_number::<u32>().ok()
        })
    }

    /// Sets the cache, once.
    pub(crate) fn begin(&self, cache: JobCache) {
        // Init completes once, so the cache cannot be set already.
        let _ = self.cache.set(cache);
    }

    /// Returns the cache if init has completed.
    pub(crate) fn cache(&self) -> Option<&JobCache> {
        self.cache.get()
    }

    /// Puts a value of this process.
    pub(crate) fn put(&self, scope: Scope, info: Info<'_>) -> Result<(), Error> {
        let wire = Codec::new(self.form.layout);
        Ok(self.own().put(&wire, scope, info)?)
    }

    /// Stores a value about a process in this client only.
    pub(crate) fn store(&self, proc: &Proc<'_>, info: Info<'_>) -> Result<(), Error> {
        if *proc == self.proc {
            return self.put(Scope::INTERNAL, info);
        }
        self.keep(proc, info)
    }

    /// Stores a value that this process has not put, for any process.
    fn keep(&self, proc: &Proc<'_>, info: Info<'_>) -> Result<(), Error> {
        let stored = self.stored.get_or_init(Mutex::default);
        let mut stored = stored.lock().unwrap_or_else(PoisonError::into_inner);
        let job = stored.entry(proc.nspace.clone().into_owned()).or_default();
        Ok(job.put(proc.rank, Scope::INTERNAL, info)?)
    }

    /// Stores the infos that the members of a group share (`PMIX_GROUP_INFO`), which servers since 6.0 send with the
    /// reply to a construct. Gets with the context id of the group find them.
    pub(crate) fn store_shared(&self, group: &Group) -> Result<(), Error> {
        let Some(context_id) = group.context_id else {
            return Ok(());
        };
        for info in &group.infos {
            let Value::DataArray(DataArray::Info(infos)) = &info.value else {
                continue;
            };
            let Some((first, shared)) = infos.split_first() else {
                continue;
            };
            let (Value::Proc(of), true) = (&first.value, info.key.is(keys::GROUP_INFO)) else {
                continue;
            };
            for info in shared {
                let mut value = QualifiedValue::new(info.try_clone()?);
                value.qualify(keys::GROUP_CONTEXT_ID, Value::Size(context_id));
                self.store(of, value.into_info())?;
            }
        }
        Ok(())
    }

    /// Returns the values that this process has put for remote processes, committed or not, as the endpoint data that
    /// it contributes to a group by invitation. There are none if they are longer than [`MAX_ENDPOINT_BYTES`].
    pub(crate) fn endpoints(&self) -> Option<Info<'static>> {
        let own = self.own();
        let rank = self.proc.rank;
        match own.all().num_bytes(rank) {
            0 => return None,
            1..=MAX_ENDPOINT_BYTES => {}
            bytes => {
                tracing::warn!(
                    "the {bytes} bytes that this process has put are not sent to its group; a commit makes them known"
                );
                return None;
            }
        }
        let mut infos = vec![
            Info::new(keys::PROCID, self.proc.clone()),
            Info::new(keys::DATA_SCOPE, Value::Scope(Scope::REMOTE)),
        ];
        let about = infos.len();
        let values = own.all().all(rank, Scope::REMOTE).into_iter().flatten();
        let values = values.filter(|kval| !kval.key.is_reserved());
        infos.extend(values.map(|kval| {
            let kval = kval.into_owned();
            Info::new(kval.key, kval.value)
        }));
        (infos.len() > about).then(|| Info::new(keys::PROC_INFO_ARRAY, infos))
    }

    /// Stores the endpoint data in the announcement of a group by invitation. Gets find them with the context id of the
    /// group if it has one.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NOMEM` if the process has no memory for them.
    pub(crate) fn store_endpoints(&self, infos: &[Info<'_>]) -> Result<(), Error> {
        let context_id = infos
            .iter()
            .find(|info| info.key.is(keys::GROUP_CONTEXT_ID));
        let context_id = context_id.and_then(|info| info.value.to_number::<u64>().ok());
        for (of, values) in infos.iter().filter_map(endpoint_data) {
            let is_value =
                |info: &&Info<'_>| !info.key.is(keys::DATA_SCOPE) && !info.key.is_reserved();
            for info in values.iter().filter(is_value) {
                match (context_id, self.cache()) {
                    (Some(id), _) => {
                        let mut value = QualifiedValue::new(info.try_clone()?);
                        value.qualify(keys::GROUP_CONTEXT_ID, Value::Size(id));
                        // Own values, too: they are not puts of this process, which it sends to groups and commits.
                        self.keep(of, value.into_info())?;
                    }
                    // Own values without a context id are found as they were put.
                    (None, Some(cache)) if *of != self.proc => {
                        cache.put_of_member(of, info.try_clone()?)?;
                    }
                    (None, _) => {}
                }
            }
        }
        Ok(())
    }

    /// Returns a value that was stored for another process.
    fn stored(&self, proc: &Proc<'_>, key: &str, infos: &[Info<'_>]) -> Option<Copied> {
        let stored = self.stored.get()?.lock();
        let stored = stored.unwrap_or_else(PoisonError::into_inner);
        let job = stored.get(proc.nspace.as_bytes())?;
        copied(job.get_known(proc.rank, Scope::INTERNAL, key, infos))
    }

    /// Returns `true` if there are puts that are not part of a commit.
    pub(crate) fn has_uncommitted(&self) -> bool {
        self.own().has_uncommitted()
    }

    /// Packs the values put since the last commit.
    pub(crate) fn commit(&self) -> Result<Commit, Error> {
        Commit::begin(&self.own, self.form.layout)
    }

    /// Returns the value of a key, its error, or the request for the server. The request is for the job info if init
    /// did not request it and it may have the key, else for the data of the process.
    pub(crate) fn search(&self, proc: &Proc<'_>, key: &str, infos: &[Info<'_>]) -> Found {
        // A required directive that is not supported must fail the get even if the value is known.
        if let Err(error) = check_get(infos) {
            return Found::Known(Err(error));
        }
        if infos.iter().any(is_unmarked_qualifier) {
            let mut infos = infos.to_vec();
            for info in infos.iter_mut().filter(|info| is_unmarked_qualifier(info)) {
                info.set_qualifier();
            }
            return self.search(proc, key, &infos);
        }
        let of_group = match self.resolved(std::slice::from_ref(proc)) {
            Ok(resolved) => resolved.unwrap_or_default(),
            Err(error) => return Found::Known(Err(error)),
        };
        // The name of a group with `PMIX_RANK_WILDCARD` is not a single process.
        let proc = match &*of_group {
            [only] if proc.rank != Rank::WILDCARD => only,
            _ => proc,
        };
        if let Some(value) = self.of_itself(proc, key) {
            return Found::Known(Ok(value));
        }
        let found = self.get(proc, key, infos);
        let is_fresh = is_true(infos, keys::GET_REFRESH_CACHE);
        let may_be_in_job_info = || {
            let lacks_job_info = self.cache().is_some_and(JobCache::lacks_job_info);
            !is_fresh && lacks_job_info && Key::from(key).is_reserved()
        };
        match found {
            Some(Ok(value)) => Found::Known(Ok(value)),
            _ if may_be_in_job_info() => {
                let (_, pending) = self.request_for(proc, key, infos);
                Found::request(Request::JobInfo, Waiting::JobInfoForGet(pending))
            }
            Some(known) => Found::Known(known),
            None => {
                let (get, pending) = self.request_for(proc, key, infos);
                Found::request(Request::Get(get), Waiting::Get(pending))
            }
        }
    }

    /// Stores the job info that a get requested, and repeats the search. Returns the value, its error, or the next
    /// request.
    pub(crate) fn handle_job_info(&self, payload: &[u8], pending: &PendingGet) -> Found {
        match self.store_job_info(payload) {
            // A new request would bring the same job info, for which there is no memory either.
            Err(error) if error.status() == Status::ERR_NOMEM => return Found::Known(Err(error)),
            // The request that follows gets the error of its own reply.
            Err(error) => tracing::debug!("cannot load the job info: {error}"),
            Ok(()) => {}
        }
        let PendingGet {
            proc, key, infos, ..
        } = pending;
        match self.get(proc, key, infos) {
            Some(known) => Found::Known(known),
            None => {
                let (get, pending) = self.request_for(proc, key, infos);
                Found::request(Request::Get(get), Waiting::Get(pending))
            }
        }
    }

    /// Returns the request that repeats a get without `PMIX_GET_REFRESH_CACHE`.
    pub(crate) fn repeat(&self, pending: &PendingGet) -> Found {
        let directives = pending.infos.iter();
        let infos: Vec<_> = directives
            .filter(|info| !info.key.is(keys::GET_REFRESH_CACHE))
            .cloned()
            .collect();
        let (get, pending) = self.request_for(&pending.proc, &pending.key, &infos);
        Found::request(Request::Get(get), Waiting::Get(pending))
    }

    fn store_job_info(&self, payload: &[u8]) -> Result<(), Error> {
        let info = read_job_info(&self.form, payload)?;
        let cache = self.cache().ok_or_else(Error::not_begun)?;
        cache.absorb_job_info(&info)
    }

    /// Returns the value of a key or the error of a get that needs no server; see [`Core::known`](crate::core::Core::known).
    pub(crate) fn get(
        &self,
        proc: &Proc<'_>,
        key: &str,
        infos: &[Info<'_>],
    ) -> Option<Result<Value<'static>, Error>> {
        if is_true(infos, keys::GET_REFRESH_CACHE) {
            // Own values change only by calls of this process, and the server does not have all of them.
            if let Some(value) = self.find_own(proc, key, &qualifiers(infos)) {
                return Some(value.and_then(|value| self.decompress(key, value)));
            }
            if let Some(cache) = self.cache() {
                cache.forget(proc);
            }
            // Data sent in advance may be older than the requested ones.
            self.prefetch.take(proc.rank);
        } else if (is_true(infos, keys::OPTIONAL) || !self.must_request_session(proc, infos))
            && let Some(value) = self.find(proc, key, infos)
        {
            return Some(value.and_then(|value| self.decompress(key, value)));
        }
        is_true(infos, keys::OPTIONAL).then(|| Err(missing(proc, key)))
    }

    /// Returns `true` if a get is about a session that the server has not described yet. A local value may then be that
    /// of the job, since servers of OpenPMIx send data of a session only on request.
    fn must_request_session(&self, proc: &Proc<'_>, infos: &[Info<'_>]) -> bool {
        is_true(infos, keys::SESSION_INFO)
            && !self
                .cache()
                .is_some_and(|cache| cache.knows_session(&proc.nspace))
    }

    /// Returns the request for a value, and the get that its reply belongs to.
    fn request_for(
        &self,
        proc: &Proc<'_>,
        key: &str,
        infos: &[Info<'_>],
    ) -> (request::Get<'static>, PendingGet) {
        let mut get = request_of(proc, key, infos);
        if self.cache().is_some_and(|cache| cache.is_local(proc)) {
            // The server of a local process always has its newest data. Servers of OpenPMIx reply to the directive
            // without data.
            get.infos
                .retain(|info| !info.key.is(keys::GET_REFRESH_CACHE));
        }
        let portion = offer_prefetch(&mut get, &self.prefetch, &self.proc);
        let pending = PendingGet {
            proc: proc.clone().into_owned(),
            key: key.to_owned(),
            infos: infos.to_vec().into_owned(),
            portion,
        };
        (get, pending)
    }

    /// Stores the reply to a get, with all data of the process, and returns the value.
    pub(crate) fn store_reply(
        &self,
        pending: &PendingGet,
        objects: &Objects<'_>,
    ) -> Result<Value<'static>, Error> {
        let PendingGet {
            proc, key, infos, ..
        } = pending;
        if !objects.status.is_success() {
            // If the host defines a key only for the job, its value applies to the session as well.
            if pending.session().is_some()
                && let Some(value) = self.find(proc, key, infos)
            {
                return self.decompress(key, value?);
            }
            let what = format!("{key} of {} rank {}", proc.nspace, proc.rank);
            return Err(Error::answered(objects.status, what));
        }
        let cache = self.cache().ok_or_else(Error::not_begun)?;
        absorb(cache, &self.prefetch, pending, objects)?;
        let value = self.find(proc, key, infos);
        let value = value.ok_or_else(|| missing(proc, key))??;
        self.decompress(key, value)
    }

    /// Drops the data that were sent in advance.
    pub(crate) fn drop_prefetched(&self) {
        self.prefetch.clear();
    }

    /// Returns the number of processes with data sent in advance.
    pub(crate) fn num_prefetched(&self) -> usize {
        self.prefetch.num_held()
    }

    /// Decompresses a value if its process compressed it.
    fn decompress(&self, key: &str, value: Value<'static>) -> Result<Value<'static>, Error> {
        inflated(value, self.max_string_bytes).map_err(|error| error.of(key))
    }

    /// Searches the cache and the own puts for a value. Returns an error if the process has no memory to copy it.
    pub(crate) fn find(&self, proc: &Proc<'_>, key: &str, infos: &[Info<'_>]) -> Option<Copied> {
        let qualifiers = qualifiers(infos);
        // A value that this process has put or stored overrides those of others.
        if let Some(value) = self.find_own(proc, key, &qualifiers) {
            return Some(value);
        }
        let cache = self.cache()?;
        match Key::from(key).is_reserved() {
            true => {
                let value = cache.job_value(proc, key, &qualifiers);
                // Values shared by the members of a group are distinguished by the context id of the group.
                let value = value.or_else(|| cache.put_value(proc, key, &qualifiers));
                value.or_else(|| cache.put_value(proc, key, &[]))
            }
            // A host may register values for a whole job under keys that are not reserved.
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

    /// Returns a value that this process has put, or stored for a process.
    fn find_own(&self, proc: &Proc<'_>, key: &str, qualifiers: &[Info<'_>]) -> Option<Copied> {
        if *proc == self.proc {
            let own = self.own();
            let found = own
                .all()
                .get_known(proc.rank, Scope::INTERNAL, key, qualifiers);
            if let Some(value) = copied(found) {
                return Some(value);
            }
        }
        self.stored(proc, key, qualifiers)
    }

    /// Returns the values that need no server: the own name and the address of the server. A request with
    /// `PMIX_RANK_INVALID` finds the rank as well.
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

    /// Returns all local values of a process, each key once: the values that this process has put or stored, then those
    /// from the server.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NOT_FOUND` if there are none.
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
        let from_server = { self.cache() }.map(|cache| cache.all(proc, &qualifiers(infos)));
        let mut known: HashSet<_> = all.iter().map(|info| info.key.clone()).collect();
        let from_server = from_server.unwrap_or_default().into_iter();
        all.extend(from_server.filter(|info| known.insert(info.key.clone())));
        match all.is_empty() {
            true => Err(missing(proc, "all known values")),
            false => Ok(all),
        }
    }

    fn own(&self) -> MutexGuard<'_, OwnPuts> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the infos of a get that select or qualify the value.
fn qualifiers<'i>(infos: &[Info<'i>]) -> Vec<Info<'i>> {
    let selecting = infos.iter().filter(|info| !is_directive(info));
    selecting.cloned().collect()
}

/// Returns all values stored for a rank.
fn puts(store: &ModexStore, rank: Rank) -> Result<Vec<Info<'static>>, Error> {
    let all = store.all(rank, Scope::INTERNAL)?;
    Ok(all
        .map(|put| {
            let put = put.into_owned();
            Info::new(put.key, put.value)
        })
        .collect())
}
