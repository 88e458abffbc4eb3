// SPDX-License-Identifier: MIT OR Apache-2.0
//! The info of a whole job as the reply to a get, which clients send for jobs other than their own.
//!
//! It has the same values as the reply to REQ, but the processes are in `pmix.pdata` arrays: clients accept
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

/// The packed info of whole jobs as replies to gets, built for the first client of each wire form.
#[derive(Debug, Default)]
pub(super) struct JobInfoCache(HashMap<Nspace<'static>, Vec<Built>>);

/// The properties of a client that the packed form depends on.
type WireForm = (Layout, Release);

/// A packed reply and its form.
type Built = (WireForm, Arc<Vec<u8>>);

impl JobInfoCache {
    /// Drops the packed info of a job that was changed or deregistered.
    pub(super) fn forget(&mut self, nspace: &Nspace<'_>) {
        self.0.remove(nspace.as_bytes());
    }

    /// Returns the number of jobs with packed info.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    fn find(&self, nspace: &Nspace<'_>, wire_form: WireForm) -> Option<Arc<Vec<u8>>> {
        let built = self.0.get(nspace.as_bytes())?;
        let found = built.iter().find(|(known, _)| *known == wire_form);
        found.map(|(_, object)| Arc::clone(object))
    }

    /// Returns the object with the info of a whole job for a client.
    pub(super) fn whole_job(
        &mut self,
        cx: &mut Cx,
        nspace: &Nspace<'static>,
        job: &Registered,
        form: &PeerForm,
    ) -> Result<Arc<Vec<u8>>, Error> {
        let wire_form = (form.layout, form.release);
        if let Some(object) = self.find(nspace, wire_form) {
            return Ok(object);
        }
        let kvals = &job.job().kvals(&cx.codec(form), form.release)?;
        let of = Proc::new(nspace.clone(), Rank::WILDCARD);
        let object: Arc<Vec<u8>> = Object { of, kvals }.encode(form)?.into();
        let built = self.0.entry(nspace.clone()).or_default();
        built.push((wire_form, Arc::clone(&object)));
        Ok(object)
    }
}
