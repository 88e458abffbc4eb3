// SPDX-License-Identifier: MIT OR Apache-2.0
//! The description of a fence.
//!
//! Source: PMIx Standard, chapter "Synchronization and Data Access Operations", `PMIx_Fence`.

use pmix_proto::{Request, request};
use pmix_types::{Info, Proc, Value, keys};

/// The participants and directives of a fence.
#[derive(Clone, Debug, Default)]
pub struct Fence<'a> {
    procs: Vec<Proc<'a>>,
    infos: Vec<Info<'a>>,
}

impl<'a> Fence<'a> {
    /// Creates a fence of all processes of the own job that collects no data.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the participants.
    #[must_use]
    pub fn of(mut self, procs: impl IntoIterator<Item = Proc<'a>>) -> Self {
        self.procs = procs.into_iter().collect();
        self
    }

    /// Requests data collection: after the fence, the committed data of each participant are available to all of them.
    #[must_use]
    pub fn collect(self) -> Self {
        self.with(Info::new(keys::COLLECT_DATA, Value::Bool(true)))
    }

    /// Adds a directive, for example `pmix.timeout`.
    #[must_use]
    pub fn with(mut self, info: Info<'a>) -> Self {
        self.infos.push(info);
        self
    }

    /// Returns the request for the server. Without participants the fence is of the whole own job.
    pub(crate) fn request(&self, job: Proc<'a>) -> Request<'a> {
        let mut procs = self.procs.clone();
        if procs.is_empty() {
            procs.push(job);
        }
        let infos = self.infos.clone();
        Request::Fence(request::Fence { procs, infos })
    }
}
