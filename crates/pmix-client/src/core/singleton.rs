// SPDX-License-Identifier: MIT OR Apache-2.0
//! Singletons: processes that no launcher started, each a job of one process without a server.
//!
//! | request | answer |
//! | --- | --- |
//! | fence, connect, disconnect | success, if no other process participates and each required directive is supported |
//! | event | success, if its range has no other process: the own process, the own job, or a list of these |
//! | registration for events, finalize | success |
//! | get | the local data, else `PMIX_ERR_NOT_FOUND` |
//! | all others | `PMIX_ERR_UNREACH` |
//!
//! DEVIATION: OpenPMIx 4.2 and 5.0 complete a fence with nonexistent processes successfully, and a connect, a
//! disconnect and an event of the own job with `PMIX_ERR_UNREACH`; `a_singleton_serves_itself_and_nothing_else`.
//!
//! Source: PMIx Standard, chapter "Client Initialization and Finalization", `PMIx_Init`; the replies of OpenPMIx 4.2.2
//! and 5.0.11 to a program that was started by hand.

use pmix_proto::{PeerForm, RELEASE, Request};
use pmix_types::{DataArray, DataRange, Info, Proc, Rank, Value, keys};

use super::operation::{Answer, Waiting};
use super::{Core, Link};
use crate::cache::JobCache;
use crate::get::missing;
use crate::known::Known;
use crate::obeyed::check_alone;
use crate::{Error, Settings};

impl Core {
    /// Creates the core of a singleton ([`Settings::singleton`]). [`INIT`](Self::INIT) has completed with success.
    #[must_use]
    pub fn singleton(settings: Settings) -> Self {
        let form = PeerForm::new(settings.layout, RELEASE.as_bytes());
        let known = Known::new(form, &settings);
        let host = settings.host.as_deref().unwrap_or_default();
        known.begin(JobCache::of_singleton(form, &settings.proc, host));
        let job = Proc::new(settings.proc.nspace.clone(), Rank::WILDCARD);
        let ranks = settings.proc.rank.to_string();
        for map in [
            Info::new(keys::NODE_MAP, host),
            Info::new(keys::PROC_MAP, ranks),
        ] {
            // The datastore keeps parsed maps and cannot return their text, so the text is stored as well. Only a key
            // of invalid length is rejected.
            let _ = known.store(&job, map);
        }
        let mut core = Self::begun(settings, form, Link::Singleton, known);
        // Drivers wait for `INIT`, with or without a server.
        core.operations.begin(Waiting::Welcome, None);
        core.operations.complete(Self::INIT, Ok(Answer::Done));
        core
    }

    /// Returns `true` if no launcher started this process. It then has no server.
    #[must_use]
    pub const fn is_singleton(&self) -> bool {
        matches!(self.link, Link::Singleton)
    }

    /// Answers a request in place of the server that this process does not have.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_UNREACH` if the request needs a server, and `PMIX_ERR_NOT_SUPPORTED` for a required directive
    /// that is not supported. No operation has begun then.
    pub(super) fn answer_alone(
        &self,
        request: &Request<'_>,
    ) -> Result<Result<Answer, Error>, Error> {
        match request {
            Request::Fence(fence) => check_alone("PMIx_Fence", &fence.infos)?,
            Request::Connect(connect) => check_alone("PMIx_Connect", &connect.infos)?,
            Request::Disconnect(disconnect) => check_alone("PMIx_Disconnect", &disconnect.infos)?,
            // The infos of an event are data and not directives.
            _ => {}
        }
        let is_served = match request {
            Request::Fence(fence) => self.is_alone_among(&fence.procs),
            Request::Connect(connect) => self.is_alone_among(&connect.procs),
            Request::Disconnect(disconnect) => self.is_alone_among(&disconnect.procs),
            Request::Notify(notify) => self.is_alone_in(notify.range, &notify.infos),
            Request::RegisterEvents(_) | Request::Finalize => true,
            Request::Get(get) => {
                let key = get.key.as_ref().map(ToString::to_string);
                let key = key.unwrap_or_default();
                let proc = Proc::new(get.nspace.clone(), get.rank);
                // A get with `PMIX_GET_REFRESH_CACHE` has not searched the local data.
                let found = self.known.find(&proc, &key, &get.infos);
                let found = found.unwrap_or_else(|| Err(missing(&proc, &key)));
                return Ok(found.map(Answer::Value));
            }
            _ => false,
        };
        match is_served {
            true => Ok(Ok(Answer::Done)),
            false => Err(Error::no_server()),
        }
    }

    /// Returns `true` if `procs` is not empty and has no process but this one.
    fn is_alone_among(&self, procs: &[Proc<'_>]) -> bool {
        let own = self.proc();
        let is_own = |proc: &Proc<'_>| {
            proc.nspace == own.nspace && (proc.rank == own.rank || proc.rank == Rank::WILDCARD)
        };
        !procs.is_empty() && procs.iter().all(is_own)
    }

    /// Returns `true` if a range has no process but this one.
    fn is_alone_in(&self, range: DataRange, infos: &[Info<'_>]) -> bool {
        let named = |info: &Info<'_>| match &info.value {
            Value::Proc(proc) => self.is_alone_among(std::slice::from_ref(proc)),
            Value::DataArray(DataArray::Proc(procs)) => self.is_alone_among(procs),
            _ => false,
        };
        match range {
            DataRange::PROC_LOCAL | DataRange::NAMESPACE => true,
            DataRange::CUSTOM => {
                let mut ranges = infos
                    .iter()
                    .filter(|info| info.key.is(keys::EVENT_CUSTOM_RANGE));
                ranges.next().is_some_and(named) && ranges.all(named)
            }
            _ => false,
        }
    }
}
