// SPDX-License-Identifier: MIT OR Apache-2.0
//! A whole job as the answer to a get: clients ask for it about jobs that are not their own.
//!
//! It says what the answer to REQ says, but processes stand in `pmix.pdata` arrays: clients take
//! `pmix.pblob` only when they connect.

use std::collections::HashMap;
use std::sync::Arc;

use bfrops::Layout;
use gds_hash::Registered;
use pmix_proto::PeerForm;
use pmix_proto::reply::Object;
use pmix_types::{Nspace, Proc, Rank, Release};

use crate::Error;
use crate::cx::Cx;

/// Caches the job information of whole jobs as replies to gets, built for the first client of each
/// wire form that asks.
#[derive(Debug, Default)]
pub(super) struct JobInfoCache(HashMap<Nspace<'static>, Vec<Built>>);

/// What clients differ in.
type Kind = (Layout, Release);

/// An answer, and for whom.
type Built = (Kind, Arc<Vec<u8>>);

impl JobInfoCache {
    /// A job has changed or is gone.
    pub(super) fn forget(&mut self, nspace: &Nspace<'_>) {
        self.0.remove(nspace.as_bytes());
    }

    /// How many jobs there is something packed of.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    fn find(&self, nspace: &Nspace<'_>, kind: Kind) -> Option<Arc<Vec<u8>>> {
        let built = self.0.get(nspace.as_bytes())?;
        let found = built.iter().find(|(known, _)| *known == kind);
        found.map(|(_, object)| Arc::clone(object))
    }
}

impl JobInfoCache {
    /// The object with a whole job for a client.
    pub(super) fn whole_job(
        &mut self,
        cx: &mut Cx,
        nspace: &Nspace<'static>,
        job: &Registered,
        form: &PeerForm,
    ) -> Result<Arc<Vec<u8>>, Error> {
        let kind = (form.layout, form.release);
        if let Some(object) = self.find(nspace, kind) {
            return Ok(object);
        }
        let kvals = &job.job().kvals(&cx.codec(form), form.release)?;
        let of = Proc::new(nspace.clone(), Rank::WILDCARD);
        let object: Arc<Vec<u8>> = Object { of, kvals }.encode(form)?.into();
        let built = self.0.entry(nspace.clone()).or_default();
        built.push((kind, Arc::clone(&object)));
        Ok(object)
    }
}
