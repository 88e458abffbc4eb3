// SPDX-License-Identifier: MIT OR Apache-2.0
//! The datastore: all jobs of a server or client.
//!
//! Source: PMIx Standard, chapters "Data Access and Sharing" and "Server-Specific Interfaces".

mod sessions;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::sync::{Arc, PoisonError};

use pmix_types::{
    Info, IntoOwned as _, Key, Nspace, Proc, Rank, Release, Scope, Status, Value, keys,
};

use crate::job::{Session, other_jobs, owned_answer};
use crate::shared::{ArcSwap, Mutex, NameHasher};
use crate::{
    Codec, Error, Job, JobInfoReplies, LocalNode, MapReader, Modex, ModexStore, Registration,
    Remote, Request,
};

/// The number of parts of the store. A registration copies one part, so its time hardly grows up to
/// 100,000 jobs. The loom tests (`store/schedules.rs`) use fewer, because they create all parts
/// for each order of threads.
const PARTS: usize = if cfg!(all(test, schedules)) { 64 } else { 1024 };

/// The registered sessions by number, each as a job that has only a session.
type Sessions = HashMap<u32, Arc<Job>>;

/// The jobs of a part by name. A copy of the part shares the jobs.
type Jobs = HashMap<Arc<[u8]>, Arc<Registered>>;

/// The datastore: all jobs of a server or client, with the data that their processes put. Readers
/// take no lock.
///
/// Any number of threads may read while another registers: a reader takes a snapshot without
/// waiting, and a writer replaces the changed part. A failed registration changes nothing.
pub struct Store {
    local_node: LocalNode,
    maps: Arc<dyn MapReader>,
    parts: Box<[ArcSwap<Jobs>]>,
    hasher: NameHasher,
    /// The sessions that the host registered, by number.
    sessions: ArcSwap<Sessions>,
    /// The lock of writers, and the jobs that other registrations described.
    writer: Mutex<Described>,
}

/// The jobs that are described by registrations of other jobs.
#[derive(Default)]
struct Described {
    /// The described jobs, without duplicates, by the job whose registration describes them.
    by: HashMap<Nspace<'static>, Vec<Nspace<'static>>>,
    /// The inverse of `by`: the describing jobs by described job.
    of: HashMap<Nspace<'static>, HashSet<Nspace<'static>>>,
}

impl Described {
    fn add(&mut self, by: &Nspace<'static>, other: &Nspace<'static>) {
        if self.of.entry(other.clone()).or_default().insert(by.clone()) {
            self.by.entry(by.clone()).or_default().push(other.clone());
        }
    }

    /// Removes the descriptions by a job. Returns the jobs that no other job describes.
    fn remove(&mut self, by: &Nspace<'_>) -> Vec<Nspace<'static>> {
        let mut others = self.by.remove(by.as_bytes()).unwrap_or_default();
        others.retain(|other| {
            let Some(describing) = self.of.get_mut(other) else {
                return true;
            };
            describing.remove(by.as_bytes());
            let is_last = describing.is_empty();
            if is_last {
                self.of.remove(other);
            }
            is_last
        });
        others
    }
}

/// A job that the registration of another job describes: nspace, previous state and new state.
type DescribedJob = (Nspace<'static>, Option<Arc<Registered>>, Job);

/// A registered job, the data that its processes put, and the packed job info for its clients.
#[derive(Debug)]
pub struct Registered {
    job: Job,
    num_local_procs: u32,
    /// The data that processes put. They are kept when an update replaces the job.
    puts: Arc<ArcSwap<ModexStore>>,
    replies: JobInfoReplies,
    /// `true` if only session arrays of other jobs describe the job, and the host has not
    /// registered it.
    is_described: bool,
}

impl Registered {
    /// Returns the job info.
    #[must_use]
    pub const fn job(&self) -> &Job {
        &self.job
    }

    /// Returns the number of processes on the node of this server, as the host registered it.
    #[must_use]
    pub const fn num_local_procs(&self) -> u32 {
        self.num_local_procs
    }

    /// Returns a snapshot of the data that processes of the job have put.
    #[must_use]
    pub fn modex_store(&self) -> Arc<ModexStore> {
        self.puts.load_full()
    }

    /// Returns the packed job info for a client of a release. The first request packs it, and all
    /// clients of the same release, layout and extent share it.
    ///
    /// # Errors
    ///
    /// As for [`Job::reply`].
    pub fn reply(
        &self,
        codec: &Codec<'_>,
        release: Release,
        remote: Remote,
    ) -> Result<Arc<Vec<u8>>, Error> {
        self.replies.get(&self.job, codec, release, remote)
    }

    /// Drops the packed job info. The caller does this when it expects no more clients. A later
    /// request packs it again.
    pub fn forget_replies(&self) {
        self.replies.clear();
    }
}

impl Store {
    /// Creates a store without jobs. `maps` parses encoded maps.
    #[must_use]
    pub fn new(maps: Arc<dyn MapReader>, local_node: LocalNode) -> Self {
        let none = Arc::<Jobs>::default();
        Self {
            local_node,
            maps,
            parts: (0..PARTS)
                .map(|_| ArcSwap::new(Arc::clone(&none)))
                .collect(),
            hasher: NameHasher::default(),
            sessions: ArcSwap::new(Arc::default()),
            writer: Mutex::new(Described::default()),
        }
    }

    /// Returns the node of this server.
    #[must_use]
    pub const fn local_node(&self) -> &LocalNode {
        &self.local_node
    }

    /// Returns the parser of encoded maps.
    #[must_use]
    pub fn maps(&self) -> &dyn MapReader {
        &*self.maps
    }

    /// Registers or updates a job. New values replace previous ones. All other values are kept
    /// (PMIx Standard, `PMIx_server_register_nspace`).
    ///
    /// With `PMIX_REGISTER_NODATA` only the name of the job is registered.
    ///
    /// Session arrays may describe other jobs, which then exist until this job is removed (the same
    /// chapter, "Assembling information"). If the host registers such a job, that registration
    /// takes precedence and is not removed with this job.
    ///
    /// Returns warnings for the host: contradictions ([`Job::contradictions`]), and missing maps.
    ///
    /// # Errors
    ///
    /// As for [`Job::register`], and `PMIX_ERR_BAD_PARAM` for a contradiction if the registration
    /// rejects them ([`Registration::refuse_contradictions`]); then the store is unchanged.
    pub fn register_nspace<'i>(
        &self,
        nspace: &Nspace<'_>,
        num_local_procs: u32,
        registration: impl Into<Registration<'i>>,
    ) -> Result<Vec<Error>, Error> {
        let nspace = registrable(nspace)?;
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.job(&nspace);
        let registration = registration.into();
        let (refuses, has_no_data) = (
            registration.refuses_contradictions,
            registration.has_no_data(),
        );
        let others = match has_no_data {
            true => Vec::new(),
            false => self.described(&nspace, registration.infos)?,
        };
        let job = match &known {
            Some(known) => known.job.updated(&*self.maps, registration)?,
            None => Job::register(&*self.maps, &self.local_node, nspace.clone(), registration)?,
        };
        let mut warnings = job.contradictions();
        if refuses && !warnings.is_empty() {
            return Err(warnings.swap_remove(0));
        }
        if !has_no_data && !job.has_maps() {
            let (nodes, procs) = (keys::NODE_MAP, keys::PROC_MAP);
            warnings.push(Error::not_found(format!(
                "neither {nodes} nor {procs} is given: the nodes of processes are unknown"
            )));
        }
        for (other, known, job) in others {
            writer.add(&nspace, &other);
            self.publish(other, known, job, 0, true);
        }
        self.publish(nspace, known, job, num_local_procs, false);
        Ok(warnings)
    }

    /// Returns the other jobs that a registration describes, except those that the host has
    /// registered.
    ///
    /// # Errors
    ///
    /// As for [`Job::register`], with the name of the described job.
    fn described(
        &self,
        nspace: &Nspace<'static>,
        infos: &[Info<'_>],
    ) -> Result<Vec<DescribedJob>, Error> {
        let mut all = Vec::new();
        let mut names = HashSet::new();
        for other in other_jobs(nspace, infos)? {
            let about = |error: Error| {
                let message = format!("job {} of the session: {}", other.nspace, error.message());
                Error::new(error.status(), message)
            };
            let infos = other.infos();
            let other = registrable(&other.nspace)?;
            if !names.insert(other.clone()) {
                return Err(Error::bad(format!(
                    "job {other} of the session is described twice"
                )));
            }
            let known = self.job(&other);
            let job = match &known {
                Some(known) if !known.is_described => continue,
                Some(known) => known.job.updated(&*self.maps, &infos),
                None => Job::register(&*self.maps, &self.local_node, other.clone(), &infos),
            };
            all.push((other, known, job.map_err(about)?));
        }
        Ok(all)
    }

    /// Registers or updates a job with the valid infos, and returns the errors of the others.
    ///
    /// Clients use this, because a newer server may send entries that this library does not know.
    /// An entry with an error is omitted as a whole. If two entries contradict each other, the
    /// second is omitted. The time is proportional to the infos, for any number of errors.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` if the nspace is empty or too long.
    pub fn register_understood(
        &self,
        nspace: &Nspace<'_>,
        infos: &[Info<'_>],
    ) -> Result<Vec<Error>, Error> {
        let nspace = registrable(nspace)?;
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.job(&nspace);
        let before = known.as_ref().map(|known| &known.job);
        let (job, refused) = Job::understood(&*self.maps, &self.local_node, &nspace, before, infos);
        let num_local_procs = known.as_ref().map_or(0, |known| known.num_local_procs);
        self.publish(nspace, known, job, num_local_procs, false);
        Ok(refused)
    }

    /// Publishes a job, or its new state.
    fn publish(
        &self,
        nspace: Nspace<'static>,
        known: Option<Arc<Registered>>,
        mut job: Job,
        num_local_procs: u32,
        is_described: bool,
    ) {
        let sessions = self.sessions.load();
        // A registered session is described once, so that all of its jobs agree about it.
        if let Some(session) = job.session.id.and_then(|id| sessions.get(&id)) {
            job.session = session.session.clone();
        }
        let registered = Arc::new(Registered {
            job,
            num_local_procs,
            puts: known.map_or_else(Arc::default, |known| Arc::clone(&known.puts)),
            replies: JobInfoReplies::default(),
            is_described,
        });
        self.replace(&nspace, |jobs| {
            jobs.insert(nspace.as_bytes().into(), registered);
        });
    }

    /// Returns the other jobs that registrations of a job describe, in order.
    #[must_use]
    pub fn described_by(&self, nspace: &Nspace<'_>) -> Vec<Nspace<'static>> {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let described = writer.by.get(nspace.as_bytes());
        described.cloned().unwrap_or_default()
    }

    /// Removes a job, the data that its processes put, and other jobs that only its registration
    /// describes.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_NOT_FOUND` if the job is unknown.
    pub fn deregister_nspace(&self, nspace: &Nspace<'_>) -> Result<(), Error> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if self.job(nspace).is_none() {
            return Err(unknown(nspace));
        }
        let remove = |nspace: &Nspace<'_>| {
            self.replace(nspace, |jobs| {
                jobs.remove(nspace.as_bytes());
            });
        };
        remove(nspace);
        for other in writer.remove(nspace) {
            if self.job(&other).is_some_and(|known| known.is_described) {
                remove(&other);
            }
        }
        Ok(())
    }

    /// Returns a snapshot of a job. Later changes do not affect it.
    #[must_use]
    pub fn job(&self, nspace: &Nspace<'_>) -> Option<Arc<Registered>> {
        self.part(nspace).load().get(nspace.as_bytes()).cloned()
    }

    /// Returns the value of a key of a process or of its job.
    ///
    /// # Errors
    ///
    /// As for [`Job::get`], and `PMIX_ERR_NOT_FOUND` if the job is unknown and the request names no
    /// registered session.
    pub fn get(&self, nspace: &Nspace<'_>, request: &Request<'_>) -> Result<Value<'static>, Error> {
        let jobs = self.part(nspace).load();
        let Some(known) = jobs.get(nspace.as_bytes()) else {
            // A host may ask about a session before its first job is registered.
            let session = self.registered_session(request);
            return session.ok_or_else(|| unknown(nspace));
        };
        match known.job.get(request) {
            Ok(answer) => owned_answer(answer),
            Err(error) => self.foreign_session(request).ok_or(error),
        }
    }

    /// Returns all values of a process, or, with [`Rank::WILDCARD`](pmix_types::Rank::WILDCARD), of
    /// its whole job. The order is: registered values, derived values, and the data that the
    /// process put for other processes of this node or that a fence collected. Qualifiers may
    /// select another realm, as for [`Job::known`].
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_NOT_FOUND` if there are no values; `PMIX_ERR_BAD_PARAM` if a qualifier has an
    /// invalid type.
    pub fn known(
        &self,
        proc: &Proc<'_>,
        qualifiers: &[Info<'_>],
    ) -> Result<Vec<Info<'static>>, Error> {
        let (nspace, rank) = (&proc.nspace, proc.rank);
        let nothing = || Error::not_found(format!("nothing is known of rank {rank} of {nspace}"));
        let job = self.job(nspace).ok_or_else(nothing)?;
        let request = Request::all(rank).with(qualifiers);
        let mut infos = match job.job().known(&request) {
            Err(error) if error.status() != Status::ERR_NOT_FOUND => return Err(error),
            stated => stated.unwrap_or_default(),
        };
        if rank.is_valid() {
            let puts = job.modex_store();
            let puts = puts.all(rank, Scope::LOCAL)?;
            for put in puts {
                let put = match put {
                    Cow::Owned(put) => put,
                    Cow::Borrowed(put) => put.try_clone()?,
                };
                infos.push(Info::new(put.key, put.value));
            }
        }
        match infos.is_empty() {
            true => Err(nothing()),
            false => Ok(infos),
        }
    }

    /// Changes the data that processes of a job put. Readers see all changes at once.
    ///
    /// # Errors
    ///
    /// The error of `change`, which then has no effect; `PMIX_ERR_NOT_FOUND` if the job is unknown.
    pub fn update_modex<T>(
        &self,
        nspace: &Nspace<'_>,
        change: impl FnOnce(&mut ModexStore) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.job(nspace).ok_or_else(|| unknown(nspace))?;
        let mut puts = ModexStore::clone(&known.puts.load());
        let answer = change(&mut puts)?;
        known.puts.store(Arc::new(puts));
        Ok(answer)
    }

    /// Stores the data of a modex for all registered jobs, and calls `removed` for each key that
    /// had a value and that the modex removes.
    pub fn absorb(
        &self,
        modex: &Modex,
        mut removed: impl FnMut(&Nspace<'static>, Rank, &Key<'static>),
    ) {
        let mut nspaces: Vec<_> = modex.procs().map(|(nspace, _)| nspace).collect();
        nspaces.dedup();
        for nspace in nspaces {
            // Data of an unknown job are dropped, because no process of this node can request them.
            let _ = self.update_modex(nspace, |puts| {
                puts.absorb(nspace, modex, |rank, key| removed(nspace, rank, key));
                Ok(())
            });
        }
    }

    /// Returns the names of all jobs, unordered.
    #[must_use]
    pub fn nspaces(&self) -> Vec<Nspace<'static>> {
        let name = |name: &Arc<[u8]>| Nspace::new(name.to_vec());
        let parts = self.parts.iter().map(ArcSwap::load);
        parts
            .flat_map(|jobs| jobs.keys().map(name).collect::<Vec<_>>())
            .collect()
    }

    /// Returns the processes of all jobs on the node of this server, for `PMIX_LOCAL_PROCS` without
    /// a job.
    #[must_use]
    pub fn local_procs(&self) -> Vec<Proc<'static>> {
        let mut procs = Vec::new();
        for part in &self.parts {
            for known in part.load().values() {
                procs.extend(known.job.local_procs());
            }
        }
        procs
    }

    /// Returns a value of a session that the host registered, or to which another job belongs.
    fn foreign_session(&self, request: &Request<'_>) -> Option<Value<'static>> {
        let id = request.session()?;
        if let Some(value) = self.registered_session(request) {
            return Some(value);
        }
        for part in &self.parts {
            for known in part.load().values() {
                if let Some(value) = known.job.session_of(id, request) {
                    return Some(value);
                }
            }
        }
        None
    }

    fn part(&self, nspace: &Nspace<'_>) -> &ArcSwap<Jobs> {
        let hash = self.hasher.hash_one(nspace.as_bytes());
        let place = usize::try_from(hash % PARTS as u64).unwrap_or_default();
        &self.parts[place]
    }

    fn replace(&self, nspace: &Nspace<'_>, change: impl FnOnce(&mut Jobs)) {
        let part = self.part(nspace);
        let mut jobs = Jobs::clone(&part.load());
        change(&mut jobs);
        part.store(Arc::new(jobs));
    }
}

/// Returns an nspace if a job can have it.
fn registrable(nspace: &Nspace<'_>) -> Result<Nspace<'static>, Error> {
    let nspace = Nspace::new(nspace.as_bytes().to_vec());
    if nspace.is_empty() || nspace.as_bytes().len() > Nspace::MAX_LEN {
        let most = Nspace::MAX_LEN;
        return Err(Error::bad(format!(
            "an nspace has 1 to {most} bytes: {nspace:?}"
        )));
    }
    Ok(nspace)
}

fn unknown(nspace: &Nspace<'_>) -> Error {
    Error::new(
        Status::ERR_NOT_FOUND,
        format!("no job {nspace} is registered"),
    )
}

impl Job {
    /// Returns the value of a session key if the job belongs to that session.
    fn session_of(&self, id: u32, request: &Request<'_>) -> Option<Value<'static>> {
        let Session { id: own, .. } = self.session;
        let found = (own == Some(id)).then(|| self.get(request).ok())??;
        owned_answer(found).ok()
    }
}

#[cfg(all(test, schedules))]
mod schedules;
