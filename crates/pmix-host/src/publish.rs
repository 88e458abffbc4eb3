// SPDX-License-Identifier: MIT OR Apache-2.0
//! The publish and lookup service of a host, which answers the upcalls `publish`, `lookup` and `unpublish`.
//!
//! [`PubSub`] is the table of published data: it decides which data a caller may see and when data are dropped.
//! [`PublishService`] adds the completions of lookups that wait (`PMIX_WAIT`, `PMIX_TIMEOUT`).
//!
//! A host may also use the table alone. It passes it the upcalls and reports the processes, jobs and sessions that end.
//! The table has no clock: time is an argument. A pending lookup ends when matching data are published, when its time
//! has passed ([`PubSub::handle_timeout`]) or when its process ends.
//!
//! Source: PMIx Standard, chapter "Publish/Lookup Operations". Choices that it leaves open: data without permissions
//! can be read by the user who published them, and a lookup finds the oldest data of its key.

mod caller;
mod directives;
mod lookup;
mod pending_lookup;
mod pubsub;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::time::Instant;

use pmix_server::Completion;
use pmix_server::upcall::{Lookup, Publish, Unpublish};
use pmix_types::{Nspace, Pdata, Proc, Status};

pub use caller::Caller;
pub use pending_lookup::LookupResult;
pub use pubsub::{PubSub, PubSubLimits};

type LookupCompletion = Completion<Vec<Pdata<'static>>>;

/// The service for publish, lookup and unpublish of the processes of a host, with the pending lookups.
///
/// A host passes it the upcalls of that name, reports ended processes and jobs, and calls [`tick`](Self::tick) at the
/// [`deadline`](Self::deadline), when the `PMIX_TIMEOUT` of a lookup has passed. If the host's methods run on the
/// progress thread, it keeps the service in a mutex.
#[derive(Debug, Default)]
pub struct PublishService {
    pubsub: PubSub<u64>,
    waiting: HashMap<u64, LookupCompletion>,
    last: u64,
}

impl PublishService {
    /// Creates a service with these limits. [`Default`] uses those of [`PubSubLimits`].
    #[must_use]
    pub fn new(limits: PubSubLimits) -> Self {
        Self {
            pubsub: PubSub::new(limits),
            ..Self::default()
        }
    }

    /// Publishes the data of a call, all or none, and completes the lookups that waited for them.
    ///
    /// The call fails with `PMIX_ERR_DUPLICATE_KEY`, `PMIX_ERR_BAD_PARAM` or `PMIX_ERR_OUT_OF_RESOURCE` as described at
    /// [`PubSub::publish`].
    pub fn publish(&mut self, call: &Publish, done: Completion<()>) {
        let caller = Caller::of_upcall(&call.proc, &call.infos);
        match self.pubsub.publish(&caller, &call.infos) {
            Ok(looked) => {
                done.succeed(());
                looked.into_iter().for_each(|looked| self.complete(looked));
            }
            Err(error) => done.fail(error.status()),
        }
    }

    /// Completes a lookup with the published data, at once or, if the call requests it, when the data are there.
    ///
    /// When the time has passed, a part of the keys is returned with `PMIX_ERR_PARTIAL_SUCCESS`. Without any data the
    /// status is `PMIX_ERR_NOT_FOUND`, or `PMIX_ERR_TIMEOUT` if the lookup waited.
    pub fn lookup(&mut self, call: &Lookup, done: LookupCompletion) {
        let caller = Caller::of_upcall(&call.proc, &call.infos);
        self.last += 1;
        let now = Instant::now();
        match self
            .pubsub
            .lookup(self.last, &caller, &call.keys, &call.infos, now)
        {
            Ok(looked) => {
                // A result may be there already, and is passed to the completion of its token below.
                self.waiting.insert(self.last, done);
                looked.into_iter().for_each(|looked| self.complete(looked));
            }
            Err(error) => done.fail(error.status()),
        }
    }

    /// Unpublishes data of the calling process under these keys.
    pub fn unpublish(&mut self, call: &Unpublish, done: Completion<()>) {
        let caller = Caller::of_upcall(&call.proc, &call.infos);
        match self.pubsub.unpublish(&caller, &call.keys, &call.infos) {
            Ok(()) => done.succeed(()),
            Err(error) => done.fail(error.status()),
        }
    }

    /// Returns the time for the next [`tick`](Self::tick), or `None` if no lookup has a time limit.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.pubsub.poll_timeout()
    }

    /// Completes the lookups whose time has passed.
    pub fn tick(&mut self, now: Instant) {
        let late = self.pubsub.handle_timeout(now);
        late.into_iter().for_each(|looked| self.complete(looked));
    }

    /// Drops the lookups of a process that has terminated, and its data with the persistence `PMIX_PERSIST_PROC`.
    pub fn proc_ended(&mut self, proc: &Proc<'_>) {
        let tokens = self.pubsub.proc_ended(proc);
        self.drop_lookups(tokens);
    }

    /// Drops the lookups of a job that has terminated, and the data of its processes with a persistence up to that of
    /// the job (`PMIX_PERSIST_APP`, the default).
    pub fn job_ended(&mut self, nspace: &Nspace<'_>) {
        let tokens = self.pubsub.job_ended(nspace);
        self.drop_lookups(tokens);
    }

    fn drop_lookups(&mut self, tokens: Vec<u64>) {
        for token in tokens {
            if let Some(done) = self.waiting.remove(&token) {
                // The process has ended; the reply only releases the request in the server.
                done.fail(Status::ERR_LOST_CONNECTION);
            }
        }
    }

    fn complete(&mut self, looked: LookupResult<u64>) {
        if let Some(done) = self.waiting.remove(&looked.token) {
            match looked.status {
                Status::SUCCESS | Status::ERR_PARTIAL_SUCCESS => {
                    done.shared(looked.status, looked.data);
                }
                status => done.fail(status),
            }
        }
    }
}
