// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the processes of the job publish.

use std::collections::HashMap;
use std::time::Instant;

use pmix_engine::publish::{Caller, LookupResult, PubSub};
use pmix_server::Completion;
use pmix_server::upcall::{Lookup, Publish, Unpublish};
use pmix_types::{Pdata, Proc, Status};

type Found = Completion<Vec<Pdata<'static>>>;

/// Serves publish, lookup and unpublish for the processes of a job, and holds the lookups that wait.
#[derive(Default)]
pub(crate) struct PublishService {
    pubsub: PubSub<u64>,
    waiting: HashMap<u64, Found>,
    last: u64,
}

impl PublishService {
    pub(crate) fn publish(&mut self, call: &Publish, done: Completion<()>) {
        let caller = Caller::of_upcall(&call.proc, &call.infos);
        match self.pubsub.publish(&caller, &call.infos) {
            Ok(looked) => {
                done.succeed(());
                looked.into_iter().for_each(|looked| self.tell(looked));
            }
            Err(error) => done.fail(error.status()),
        }
    }

    pub(crate) fn lookup(&mut self, call: &Lookup, done: Found) {
        let caller = Caller::of_upcall(&call.proc, &call.infos);
        self.last += 1;
        let now = Instant::now();
        match self
            .pubsub
            .lookup(self.last, &caller, &call.keys, &call.infos, now)
        {
            Ok(looked) => {
                self.waiting.insert(self.last, done);
                looked.into_iter().for_each(|looked| self.tell(looked));
            }
            Err(error) => done.fail(error.status()),
        }
    }

    pub(crate) fn unpublish(&mut self, call: &Unpublish, done: Completion<()>) {
        let caller = Caller::of_upcall(&call.proc, &call.infos);
        match self.pubsub.unpublish(&caller, &call.keys, &call.infos) {
            Ok(()) => done.succeed(()),
            Err(error) => done.fail(error.status()),
        }
    }

    /// When [`PublishService::tick`] is to be called.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.pubsub.poll_timeout()
    }

    /// Tells those who waited long enough.
    pub(crate) fn tick(&mut self, now: Instant) {
        let late = self.pubsub.handle_timeout(now);
        late.into_iter().for_each(|looked| self.tell(looked));
    }

    /// A process ended: it waits for nothing any more, and takes along what was to go with it.
    pub(crate) fn ended(&mut self, proc: &Proc<'_>) {
        for token in self.pubsub.proc_ended(proc) {
            if let Some(done) = self.waiting.remove(&token) {
                done.fail(Status::ERR_LOST_CONNECTION);
            }
        }
    }

    fn tell(&mut self, looked: LookupResult<u64>) {
        if let Some(done) = self.waiting.remove(&looked.token) {
            match looked.status {
                Status::SUCCESS => done.succeed(looked.data),
                Status::ERR_PARTIAL_SUCCESS => done.partly(looked.status, looked.data),
                status => done.fail(status),
            }
        }
    }
}
