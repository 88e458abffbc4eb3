// SPDX-License-Identifier: MIT OR Apache-2.0
//! A process that no launcher started: a job of one process, without a server.
//!
//! | request | answer |
//! | --- | --- |
//! | fence, connect, disconnect | done, if this process is the only participant and obeys each required directive |
//! | event | done, if its range has no other process in it: the own process, the own job, a list of these |
//! | registration for events, finalize | done |
//! | get | what is known here, else `PMIX_ERR_NOT_FOUND` |
//! | everything else | `PMIX_ERR_UNREACH` |
//!
//! DEVIATION: OpenPMIx 4.2 and 5.0 answer a fence with processes that do not exist with success, and a connect, a
//! disconnect and an event of the own job with `PMIX_ERR_UNREACH`; `a_singleton_serves_itself_and_nothing_else`.
//!
//! Source: PMIx Standard, chapter "Client Initialization and Finalization", `PMIx_Init`; the answers of OpenPMIx 4.2.2
//! and 5.0.11 to a program that was started by hand.

use pmix_proto::{PeerForm, Request};
use pmix_types::{DataArray, DataRange, Info, Proc, Rank, Value, keys};

use super::operation::{Answer, Waiting};
use super::{Core, Link};
use crate::cache::JobCache;
use crate::get::missing;
use crate::known::Known;
use crate::obeyed::check_alone;
use crate::{Error, Settings, client};

impl Core {
    /// Creates the core of a process that no launcher started ([`Settings::singleton`]). [`INIT`](Self::INIT) has ended
    /// with success.
    #[must_use]
    pub fn singleton(settings: Settings) -> Self {
        let form = PeerForm::new(settings.layout, client::VERSION.as_bytes());
        let known = Known::new(form, &settings);
        let host = settings.host.as_deref().unwrap_or_default();
        known.begin(JobCache::of_singleton(form, &settings.proc, host));
        let job = Proc::new(settings.proc.nspace.clone(), Rank::WILDCARD);
        let ranks = settings.proc.rank.to_string();
        for map in [
            Info::new(keys::NODE_MAP, host),
            Info::new(keys::PROC_MAP, ranks),
        ] {
            // The datastore keeps maps folded and gives no text of them. Only a key of a wrong length is refused.
            let _ = known.store(&job, map);
        }
        let mut core = Self::begun(settings, form, Link::Singleton, known);
        core.operations.begin(Waiting::Welcome, None);
        core.operations.complete(Self::INIT, Ok(Answer::Done));
        core
    }

    /// Returns `true` if no launcher started this process, which then has no server.
    #[must_use]
    pub const fn is_singleton(&self) -> bool {
        matches!(self.link, Link::Singleton)
    }

    /// Answers a request in place of the server that this process does not have.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_UNREACH` if only a server can answer it, and `PMIX_ERR_NOT_SUPPORTED` for a required directive that is
    /// not obeyed. Nothing has begun then.
    pub(super) fn answer_alone(
        &self,
        request: &Request<'_>,
    ) -> Result<Result<Answer, Error>, Error> {
        match request {
            Request::Fence(fence) => check_alone("PMIx_Fence", &fence.infos)?,
            Request::Connect(connect) => check_alone("PMIx_Connect", &connect.infos)?,
            Request::Disconnect(disconnect) => check_alone("PMIx_Disconnect", &disconnect.infos)?,
            // The infos of an event are its data, and no directives.
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
                // A get that asks for fresh data (`PMIX_GET_REFRESH_CACHE`) has not looked here.
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

    /// Returns `true` if processes are named and each of them is this one.
    fn is_alone_among(&self, procs: &[Proc<'_>]) -> bool {
        let own = self.proc();
        let is_own = |proc: &Proc<'_>| {
            proc.nspace == own.nspace && (proc.rank == own.rank || proc.rank == Rank::WILDCARD)
        };
        !procs.is_empty() && procs.iter().all(is_own)
    }

    /// Returns `true` if no other process can be in a range.
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
