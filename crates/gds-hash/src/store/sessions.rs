// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sessions that the host registers apart from jobs.
//!
//! Source: OpenPMIx 7.0, `PMIx_server_register_session`, `PMIx_server_deregister_session`.

use std::sync::{Arc, PoisonError};

use pmix_types::{DataArray, Info, IntoOwned as _, Measure, Nspace, Value, keys, memory};

use super::{Sessions, Store};
use crate::job::{Realm, Session};
use crate::{Error, Job, Request};

/// The number that means no session in OpenPMIx and in packed job info.
const NO_SESSION: u32 = u32::MAX;

/// The name in messages about a session that has no job.
const NAME: &str = "session";

impl Store {
    /// Registers a session (`PMIx_server_register_session`). The session exists until
    /// [`deregister_session`](Self::deregister_session), with or without jobs.
    ///
    /// Jobs that are registered later and name the session by `PMIX_SESSION_ID` get this
    /// description in place of their own. A known session does not change: one that is registered
    /// already, or that a job describes. The latter keeps the description of the job (the first one
    /// by name) after its last job. Jobs that named the session without a description are updated;
    /// the store returns their names.
    ///
    /// DEVIATION: a second registration changes nothing, as the header of 7.0 says, and the session
    /// is found without a job; 7.0.0rc1 replaces the values and finds a session only through its
    /// jobs; `a_registered_session_is_known_before_its_jobs_and_after_them`.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` for the number `u32::MAX`, for infos with another session number, and
    /// as for [`Job::register`].
    pub fn register_session(
        &self,
        id: u32,
        infos: &[Info<'_>],
    ) -> Result<Vec<Nspace<'static>>, Error> {
        if id == NO_SESSION {
            return Err(Error::bad(format!("{id} is not the number of a session")));
        }
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.sessions.load();
        if known.contains_key(&id) {
            return Ok(Vec::new());
        }
        let mut registered = self.session_job(id, infos)?;
        let mut members = self.members(id);
        members.sort_unstable();
        let described = members.iter().find_map(|nspace| {
            let known = self.job(nspace)?;
            let session = &known.job.session;
            session.is_described().then(|| session.clone())
        });
        if let Some(session) = described {
            registered.session = session;
        }
        let mut sessions = Sessions::clone(&known);
        sessions.insert(id, Arc::new(registered));
        self.sessions.store(Arc::new(sessions));
        members.retain(|nspace| {
            let known = self.job(nspace);
            known.is_some_and(|known| !known.job.session.is_described())
        });
        for nspace in &members {
            if let Some(known) = self.job(nspace) {
                let (job, local) = (known.job.clone(), known.num_local_procs);
                let is_described = known.is_described;
                self.publish(nspace.clone(), Some(known), job, local, is_described);
            }
        }
        Ok(members)
    }

    /// Removes a session (`PMIx_server_deregister_session`). Its jobs stay registered and keep the
    /// description that they have.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_NOT_FOUND` if the session is not registered.
    pub fn deregister_session(&self, id: u32) -> Result<(), Error> {
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sessions = Sessions::clone(&self.sessions.load());
        if sessions.remove(&id).is_none() {
            return Err(Error::not_found(format!("no session {id} is registered")));
        }
        self.sessions.store(Arc::new(sessions));
        Ok(())
    }

    /// Returns a value of the registered session that a request names.
    pub(super) fn registered_session(&self, request: &Request<'_>) -> Option<Value<'static>> {
        let id = request.session()?;
        let sessions = self.sessions.load();
        let session = sessions.get(&id)?;
        // The job that holds the session has no values of its own to answer with.
        if session.realm(request) != Realm::Session {
            return None;
        }
        session.session_of(id, request)
    }

    /// Returns a job that has only the session.
    fn session_job(&self, id: u32, infos: &[Info<'_>]) -> Result<Job, Error> {
        let bytes = infos.iter().map(|info| info.measure(Measure::All)).sum();
        memory::check(bytes)?;
        let mut all = vec![Info::new(keys::SESSION_ID, id)];
        all.extend(infos.iter().cloned());
        let array = Value::DataArray(DataArray::Info(all));
        let infos = [Info::new(keys::SESSION_INFO_ARRAY, array)];
        let job = Job::register(&*self.maps, &self.local_node, NAME, &infos)?;
        match job.session.id == Some(id) {
            true => Ok(job),
            false => Err(Error::bad(format!(
                "the infos of session {id} have another {}",
                keys::SESSION_ID
            ))),
        }
    }

    /// Returns the names of the jobs of a session.
    fn members(&self, id: u32) -> Vec<Nspace<'static>> {
        let mut members = Vec::new();
        for part in &self.parts {
            let jobs = part.load();
            let own = jobs
                .iter()
                .filter(|(_, known)| known.job.session.id == Some(id));
            members.extend(own.map(|(name, _)| Nspace::new(name.to_vec())));
        }
        members
    }
}

impl Session {
    /// Returns `true` if the host described the session beyond its number.
    fn is_described(&self) -> bool {
        let mut values = self.values.infos();
        self.nodes.maps.is_some() || values.any(|info| !info.key.is(keys::SESSION_ID))
    }
}
