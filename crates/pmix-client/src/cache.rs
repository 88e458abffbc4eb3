// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cache of a client: the job info and put data that the server has sent.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gds_hash::{
    Answer, Codec, LocalNode, PlainMaps, Realm, Request, Store, Subject, job_infos, owned_answer,
};
use pmix_proto::PeerForm;
use pmix_proto::reply::{JobInfo, Objects};
use pmix_types::memory;
use pmix_types::{
    DataArray, Info, IntoOwned as _, Key, Kval, Nspace, Proc, Rank, Scope, Status, Value, keys,
};

use crate::Error;
use crate::shared_data::SharedData;

/// The job info and put data that the server has sent.
pub(crate) struct JobCache {
    form: PeerForm,
    proc: Proc<'static>,
    jobs: Store,
    /// The shared memory of the node, which is read without a request to the server.
    shared: Option<SharedData>,
    /// `true` once this process has requested the job info of the own job.
    has_requested: AtomicBool,
}

impl JobCache {
    /// Creates a cache from the job info of the process's own job.
    pub(crate) fn new(
        form: PeerForm,
        proc: &Proc<'_>,
        host: Option<&str>,
        info: &JobInfo<'_>,
    ) -> Result<Self, Error> {
        // Gets search for the own nspace and would never find this job info.
        if info.nspace != proc.nspace {
            let (sent, own) = (&info.nspace, &proc.nspace);
            let message = format!(
                "the server sent the job info of {sent}, but this process belongs to {own}"
            );
            return Err(Error::new(Status::ERR_BAD_PARAM, message));
        }
        let infos = infos(&form, info.kvals(&form, None)?)?;
        let host = host.map(|host| host.as_bytes().to_vec());
        let host = host.or_else(|| host_of(&infos, proc.rank));
        let known = Self::empty(form, proc, host, None);
        known.register(&proc.nspace, &infos)?;
        Ok(known)
    }

    /// Creates a cache for a process that reads its job info from shared memory. The client requests only values
    /// that are not found there.
    pub(crate) fn of_shared(
        form: PeerForm,
        proc: &Proc<'_>,
        host: Option<&str>,
        shared: SharedData,
    ) -> Self {
        let host = host.map(|host| host.as_bytes().to_vec());
        let host = host.or_else(|| match shared.info(proc, keys::HOSTNAME) {
            Some(Value::String(Some(name))) => Some(name.as_bytes().to_vec()),
            _ => None,
        });
        Self::empty(form, proc, host, Some(shared))
    }

    /// Creates a cache for a tool with a job that the server has just created. Such a job has hardly any job info, so
    /// the client sends a request only when a value is not found.
    pub(crate) fn of_tool(form: PeerForm, proc: &Proc<'_>, host: Option<&str>) -> Self {
        let host = host.map(|host| host.as_bytes().to_vec());
        let cache = Self::empty(form, proc, host, None);
        cache.has_requested.store(false, Ordering::Relaxed);
        cache
    }

    /// Creates an empty cache, for a process that does not request job info: a tool whose server is a launcher.
    pub(crate) fn of_unknown(form: PeerForm, proc: &Proc<'_>, host: Option<&str>) -> Self {
        let host = host.map(|host| host.as_bytes().to_vec());
        Self::empty(form, proc, host, None)
    }

    /// Creates the cache of a singleton, the only process of its job. Its job info is what OpenPMIx defines for such a
    /// job and what its maps imply.
    pub(crate) fn of_singleton(form: PeerForm, proc: &Proc<'_>, host: &str) -> Self {
        let cache = Self::empty(form, proc, Some(host.as_bytes().to_vec()), None);
        let of_rank = vec![
            Info::new(keys::RANK, proc.rank),
            Info::new(keys::APPNUM, 0_u32),
            Info::new(keys::APP_RANK, proc.rank),
            Info::new(keys::GLOBAL_RANK, proc.rank),
            Info::new(keys::NODE_RANK, 0_u16),
            Info::new(keys::LOCAL_RANK, 0_u16),
        ];
        let of_app = vec![
            Info::new(keys::APPNUM, 0_u32),
            Info::new(keys::APPLDR, proc.rank),
        ];
        let of_node = vec![
            Info::new(keys::HOSTNAME, host),
            Info::new(keys::NODE_SIZE, 1_u32),
        ];
        let infos = [
            Info::new(keys::NODE_MAP, host),
            Info::new(keys::PROC_MAP, proc.rank.to_string()),
            Info::new(keys::JOBID, proc.nspace.to_string()),
            Info::new(keys::JOB_SIZE, 1_u32),
            Info::new(keys::MAX_PROCS, 1_u32),
            Info::new(keys::NPROC_OFFSET, 0_u32),
            Info::new(keys::NODE_INFO_ARRAY, of_node),
            Info::new(keys::APP_INFO_ARRAY, of_app),
            Info::new(keys::PROC_DATA, of_rank),
        ];
        if let Err(error) = cache.register(&proc.nspace, &infos) {
            tracing::warn!("cannot store the job info of {}: {error}", proc.nspace);
        }
        cache
    }

    fn empty(
        form: PeerForm,
        proc: &Proc<'_>,
        host: Option<Vec<u8>>,
        shared: Option<SharedData>,
    ) -> Self {
        let host = LocalNode::new(host.unwrap_or_default());
        Self {
            form,
            proc: proc.clone().into_owned(),
            jobs: Store::new(Arc::new(PlainMaps::default()), host),
            has_requested: AtomicBool::new(shared.is_none()),
            shared,
        }
    }

    /// Returns `true` if the job info of the own job was not requested yet, so the server may have values that are not
    /// in the cache.
    pub(crate) fn lacks_job_info(&self) -> bool {
        !self.has_requested.load(Ordering::Relaxed)
    }

    /// Stores the job info of the own job, for a process that did not request it at init.
    pub(crate) fn absorb_job_info(&self, info: &JobInfo<'_>) -> Result<(), Error> {
        let infos = infos(&self.form, info.kvals(&self.form, None)?)?;
        self.register(&info.nspace, &infos)?;
        self.has_requested.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Stores the reply to a get.
    ///
    /// The objects of one job are registered together, so the cost depends on the size of the reply and not on the
    /// number of its objects. Objects of a process are skipped if `leaves_out` returns `true` for it. `session` is the
    /// requested key if the get was about a session.
    pub(crate) fn absorb<'o>(
        &self,
        objects: &Objects<'o>,
        session: Option<SessionKey<'_>>,
        mut leaves_out: impl FnMut(&Proc<'_>, &'o [u8]) -> bool,
    ) -> Result<(), Error> {
        let mut puts: BTreeMap<Nspace<'_>, Vec<(Rank, &[u8])>> = BTreeMap::new();
        let mut of_jobs: BTreeMap<Nspace<'_>, Vec<Info<'_>>> = BTreeMap::new();
        for object in objects.procs(&self.form, None) {
            let object = object?;
            let rank = object.of.rank;
            if rank.is_valid() && leaves_out(&object.of, object.kvals) {
                continue;
            }
            if rank.is_valid() {
                let of_procs = puts.entry(object.of.nspace).or_default();
                of_procs.push((rank, object.kvals));
            } else {
                let mut infos = infos(&self.form, object.kvals(&self.form, None)?)?;
                if let Some(session) = session {
                    session.enclose(&mut infos);
                }
                of_jobs.entry(object.of.nspace).or_default().extend(infos);
            }
        }
        for (nspace, infos) in of_jobs {
            self.register(&nspace, &infos)?;
        }
        let codec = Codec::new(self.form.layout);
        for (nspace, of_procs) in puts {
            self.make_known(&nspace)?;
            self.jobs.update_modex(&nspace, |puts| {
                let mut of_procs = of_procs.iter();
                of_procs.try_for_each(|(rank, kvals)| puts.absorb_direct(&codec, *rank, kvals))
            })?;
        }
        Ok(())
    }

    /// Stores the data of a process in the packed form of a server.
    pub(crate) fn absorb_put(&self, proc: &Proc<'_>, kvals: &[u8]) -> Result<(), Error> {
        let codec = Codec::new(self.form.layout);
        self.make_known(&proc.nspace)?;
        self.jobs.update_modex(&proc.nspace, |puts| {
            puts.absorb_direct(&codec, proc.rank, kvals)
        })?;
        Ok(())
    }

    /// Stores the reply to a connect: the job info of the other jobs.
    pub(crate) fn absorb_jobs(&self, objects: &Objects<'_>) -> Result<(), Error> {
        let mut of_jobs: BTreeMap<Nspace<'_>, Vec<Info<'_>>> = BTreeMap::new();
        for object in objects.jobs(&self.form, None) {
            let object = object?;
            let infos = infos(&self.form, object.kvals(&self.form, None)?)?;
            of_jobs.entry(object.of).or_default().extend(infos);
        }
        for (nspace, infos) in of_jobs {
            self.register(&nspace, &infos)?;
        }
        Ok(())
    }

    /// Returns `true` if the server has sent the session of a job and its number.
    pub(crate) fn knows_session(&self, nspace: &Nspace<'_>) -> bool {
        let any = Request::new(Rank::WILDCARD, keys::SESSION_ID);
        let job = self.jobs.job(nspace);
        let subject = job.and_then(|job| job.job().subject(&any).ok());
        matches!(subject, Some(Subject::Session(Some(number))) if number != NO_NUMBER)
    }

    /// Returns job info: a value of a job or of one of its nodes, applications or processes.
    pub(crate) fn job_value(
        &self,
        proc: &Proc<'_>,
        key: &str,
        qualifiers: &[Info<'_>],
    ) -> Option<Copied> {
        let shared = self.shared.as_ref().filter(|_| qualifiers.is_empty());
        if let Some(value) = shared.and_then(|shared| shared.info(proc, key)) {
            return Some(Ok(value));
        }
        let request = |rank| Request::new(rank, key).with(qualifiers);
        let found = there(self.jobs.get(&proc.nspace, &request(proc.rank)));
        // A value of the job applies to each of its processes.
        found.or_else(|| {
            let of_job = self.is_answered_by_job(proc, key);
            of_job.then(|| there(self.jobs.get(&proc.nspace, &request(Rank::WILDCARD))))?
        })
    }

    /// Returns `true` if a value of the job applies to a process that has none of its own. A job answers a key of a
    /// node for the node of this client, which has no data of processes on other nodes.
    fn is_answered_by_job(&self, proc: &Proc<'_>, key: &str) -> bool {
        if !proc.rank.is_valid() || Realm::of(key.as_bytes()) != Some(Realm::Node) {
            return true;
        }
        let job = self.jobs.job(&proc.nspace);
        *proc == self.proc || job.is_some_and(|job| job.job().is_here(proc.rank))
    }

    /// Returns `true` if a process is known to run on the node of this client.
    pub(crate) fn is_local(&self, proc: &Proc<'_>) -> bool {
        let job = self.jobs.job(&proc.nspace);
        proc.rank.is_valid() && job.is_some_and(|job| job.job().is_here(proc.rank))
    }

    /// Returns all values of a process that the server has sent.
    pub(crate) fn all(&self, proc: &Proc<'_>, qualifiers: &[Info<'_>]) -> Vec<Info<'static>> {
        self.jobs.known(proc, qualifiers).unwrap_or_default()
    }

    /// Returns a value that a process has put or that the server sent for it.
    pub(crate) fn put_value(
        &self,
        proc: &Proc<'_>,
        key: &str,
        qualifiers: &[Info<'_>],
    ) -> Option<Copied> {
        // The server updates the shared table at every commit; a cached reply may be older.
        let shared = self.shared.as_ref().filter(|_| qualifiers.is_empty());
        if let Some(value) = shared.and_then(|shared| shared.put(proc, key)) {
            return Some(Ok(value));
        }
        let job = self.jobs.job(&proc.nspace)?;
        let puts = job.modex_store();
        // The shared table has no entry for any process, so the process is that of an earlier reply.
        let first = match proc.rank {
            Rank::UNDEF => puts.first_with(Scope::REMOTE, key, qualifiers)?,
            _ => return copied(puts.get_known(proc.rank, Scope::REMOTE, key, qualifiers)),
        };
        let first = Proc::new(proc.nspace.clone(), first);
        match shared.and_then(|shared| shared.put(&first, key)) {
            Some(value) => Some(Ok(value)),
            None => copied(puts.get_known(first.rank, Scope::REMOTE, key, qualifiers)),
        }
    }

    /// Removes the data of a process, so that the next get requests them again.
    pub(crate) fn forget(&self, proc: &Proc<'_>) {
        // An error means that the job is unknown, so there is nothing to remove.
        let _ = self.jobs.update_modex(&proc.nspace, |puts| {
            puts.forget(proc.rank);
            Ok(())
        });
    }

    /// Stores a value of a process that the leader of a group has sent.
    pub(crate) fn put_of_member(&self, proc: &Proc<'_>, info: Info<'_>) -> Result<(), Error> {
        self.make_known(&proc.nspace)?;
        self.jobs.update_modex(&proc.nspace, |puts| {
            puts.put(proc.rank, Scope::REMOTE, info)
        })?;
        Ok(())
    }

    /// Removes the values of keys that processes have removed. Each change of the data of a job copies a table, so the
    /// keys of each job are removed together.
    pub(crate) fn forget_keys(&self, removed: &mut [(Proc<'_>, Key<'_>)]) {
        removed.sort_by(|(one, _), (other, _)| one.nspace.cmp(&other.nspace));
        for run in removed.chunk_by(|(one, _), (other, _)| one.nspace == other.nspace) {
            let Some((first, _)) = run.first() else {
                continue;
            };
            let Some(job) = self.jobs.job(&first.nspace) else {
                continue;
            };
            let known = job.modex_store();
            if !run.iter().any(|(proc, key)| known.holds(proc.rank, key)) {
                continue;
            }
            // An error means that the job is unknown, so there is nothing to remove.
            let _ = self.jobs.update_modex(&first.nspace, |puts| {
                for (proc, key) in run {
                    puts.forget_key(proc.rank, key);
                }
                Ok(())
            });
        }
    }

    fn make_known(&self, nspace: &Nspace<'_>) -> Result<(), Error> {
        if self.jobs.job(nspace).is_none() {
            self.register(nspace, &[])?;
        }
        Ok(())
    }

    /// Registers all entries that this release understands. A newer server may send others.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NOMEM` if the process has no memory for the entries.
    fn register(&self, nspace: &Nspace<'_>, infos: &[Info<'_>]) -> Result<(), Error> {
        // A newer server may send an entry that this release rejects. Then the other entries are stored one by one.
        let Err(all) = self.jobs.register_nspace(nspace, 0, infos) else {
            return Ok(());
        };
        if all.status() == Status::ERR_NOMEM {
            return Err(all.into());
        }
        tracing::debug!(
            "the reply of the server cannot be stored as a whole; storing it entry by entry: {all}"
        );
        match self.jobs.register_understood(nspace, infos) {
            Ok(refused) => {
                // An entry that memory has no room for is not one that this release does not understand.
                if let Some(short) = refused.iter().find(|e| e.status() == Status::ERR_NOMEM) {
                    return Err(Error::new(Status::ERR_NOMEM, short.to_string()));
                }
                for error in refused.iter().take(MAX_WARNINGS) {
                    tracing::warn!("ignoring an entry about {nspace} from the server: {error}");
                }
                if let Some(more @ 1..) = refused.len().checked_sub(MAX_WARNINGS) {
                    tracing::warn!("ignoring {more} more entries about {nspace} from the server");
                }
            }
            Err(error) if error.status() == Status::ERR_NOMEM => return Err(error.into()),
            Err(error) => {
                tracing::warn!("ignoring an entry about {nspace} from the server: {error}")
            }
        }
        Ok(())
    }
}

/// A copy of a cached value, or `PMIX_ERR_NOMEM` if the process has no memory for it.
pub(crate) type Copied = Result<Value<'static>, Error>;

/// Returns the outcome of a search in the store, or `None` if the value is not known.
fn there<T>(found: Result<T, gds_hash::Error>) -> Option<Result<T, Error>> {
    match found {
        Ok(value) => Some(Ok(value)),
        // The value is known, so a request to the server cannot help.
        Err(error) if error.status() == Status::ERR_NOMEM => Some(Err(error.into())),
        Err(_) => None,
    }
}

/// Copies a value that was found. Returns `None` if it is not known.
pub(crate) fn copied(found: Option<Result<Answer<'_>, gds_hash::Error>>) -> Option<Copied> {
    there(found?.and_then(owned_answer))
}

/// The number in replies of servers for a session without a number, or for one other than the session that the host
/// numbered.
const NO_NUMBER: u32 = u32::MAX;

/// The key requested of a session, and the number of the session if the get named it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionKey<'k> {
    pub(crate) key: &'k str,
    pub(crate) session: Option<u32>,
}

impl SessionKey<'_> {
    /// Puts the value into an array with the number of its session, since servers of OpenPMIx send the key alone.
    fn enclose(self, infos: &mut [Info<'_>]) {
        let Some(info) = infos.iter_mut().find(|info| info.key.is(self.key)) else {
            return;
        };
        let number = Info::new(keys::SESSION_ID, self.session.unwrap_or(NO_NUMBER));
        let value = Info::new(self.key.to_owned(), info.value.clone().into_owned());
        *info = Info::new(keys::SESSION_INFO_ARRAY, vec![number, value]);
    }
}

/// The number of ignored entries of a reply that are logged one by one; the others are counted.
const MAX_WARNINGS: usize = 8;

/// Converts job info from a server to the infos with which a host would register it.
///
/// # Errors
///
/// Returns an error if the process has no memory for them.
fn infos<'a>(form: &PeerForm, kvals: Vec<Kval<'a>>) -> Result<Vec<Info<'a>>, Error> {
    let codec = Codec::new(form.layout);
    let mut good = memory::list(kvals.len())?;
    for info in job_infos(&codec, kvals) {
        match info {
            Ok(info) => {
                memory::reserve(&mut good, 1)?;
                good.push(info);
            }
            // Without this entry the job info would be incomplete from now on.
            Err(error) if error.status() == Status::ERR_NOMEM => return Err(error.into()),
            Err(error) => tracing::warn!("ignoring data of a process from the server: {error}"),
        }
    }
    Ok(good)
}

/// Returns the node of a process if the job info has it.
fn host_of(infos: &[Info<'_>], rank: Rank) -> Option<Vec<u8>> {
    let arrays = infos.iter().filter_map(|info| match &info.value {
        Value::DataArray(DataArray::Info(entries)) => Some(entries),
        _ => None,
    });
    let own = arrays.into_iter().find(|entries| {
        let first = entries.first();
        first.is_some_and(|info| info.key.is(keys::RANK) && info.value == Value::Rank(rank))
    })?;
    let host = own.iter().find(|info| info.key.is(keys::HOSTNAME))?;
    match &host.value {
        Value::String(Some(name)) => Some(name.as_bytes().to_vec()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use data_encoding::HEXLOWER_PERMISSIVE;
    use pmix_proto::Hello;

    /// Returns the payloads of the captured messages whose header begins with these digits.
    fn payloads(file: &str, header: &str) -> Vec<Vec<u8>> {
        let folder = env!("CARGO_MANIFEST_DIR");
        let text = std::fs::read_to_string(format!("{folder}/../../testdata/wire/{file}")).unwrap();
        let raw = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("RAW "));
        let found = raw.filter_map(|line| line.split_once(' '));
        let found = found.filter(|(head, _)| head.starts_with(header));
        found.map(|(_, payload)| unhex(payload)).collect()
    }

    fn unhex(text: &str) -> Vec<u8> {
        HEXLOWER_PERMISSIVE.decode(text.as_bytes()).unwrap()
    }

    /// Returns the cache of the captured client after init.
    fn known(file: &str) -> (JobCache, Proc<'static>) {
        let hello = payloads(file, "ffffffffffffffff").remove(0);
        let hello = Hello::decode(&hello).unwrap();
        let form = hello.form().unwrap();
        let info = payloads(file, "0000000000000065").pop().unwrap();
        let info = JobInfo::decode(&form, None, &info).unwrap();
        let proc = Proc::new("JOB1", hello.proc.unwrap().rank);
        (JobCache::new(form, &proc, None, &info).unwrap(), proc)
    }

    #[test]
    fn job_info_of_real_servers_is_found_in_the_cache() {
        for file in ["client-4.2.2.hex", "client-5.0.11.hex", "client-7.0.hex"] {
            let (known, proc) = known(file);
            let job = Proc::new("JOB1", Rank::WILDCARD);
            let other = Proc::new("JOB1", Rank::new(1));
            for (of, key, expected) in [
                (&job, keys::JOB_SIZE, Value::Uint32(2)),
                (&job, keys::NODE_LIST, Value::from("vm")),
                (&job, keys::JOBID, Value::from("1234")),
                // A value of the job, requested with a rank.
                (&proc, keys::JOB_SIZE, Value::Uint32(2)),
                (&proc, keys::LOCAL_PEERS, Value::from("0,1")),
                (&proc, keys::LOCAL_SIZE, Value::Uint32(2)),
                (&other, keys::LOCAL_RANK, Value::Uint16(1)),
                (&other, keys::HOSTNAME, Value::from("vm")),
            ] {
                let value = known.job_value(of, key, &[]);
                assert_eq!(value, Some(Ok(expected)), "{file}: {key}");
            }
            assert_eq!(known.job_value(&proc, "pmix.not.there", &[]), None);
        }
    }

    #[test]
    fn an_entry_that_cannot_be_understood_is_left_out_alone() {
        let (known, _) = known("client-4.2.2.hex");
        let nspace = Nspace::from("other");
        let strange = Value::DataArray(DataArray::Uint32(vec![1]));
        let registered = known.register(
            &nspace,
            &[
                Info::new(keys::JOB_SIZE, 7_u32),
                Info::new(keys::PROC_DATA, strange),
                Info::new(keys::JOBID, "x"),
            ],
        );
        registered.unwrap();
        let job = Proc::new(nspace, Rank::WILDCARD);
        let value = |key| known.job_value(&job, key, &[])?.ok();
        assert_eq!(value(keys::JOB_SIZE), Some(Value::Uint32(7)));
        assert_eq!(value(keys::JOBID), Some(Value::from("x")));
    }

    #[test]
    fn job_info_of_another_job_is_refused() {
        let info = JobInfo {
            nspace: "other".into(),
            kvals: &[],
        };
        let form = PeerForm::new(bfrops::Layout::new(bfrops::Module::V41), b"5.0.11");
        let proc = Proc::new("job", Rank::new(0));
        let error = JobCache::new(form, &proc, None, &info).err().unwrap();
        assert_eq!(error.status(), Status::ERR_BAD_PARAM);
    }
}
