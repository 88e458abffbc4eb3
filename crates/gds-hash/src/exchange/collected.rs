// SPDX-License-Identifier: MIT OR Apache-2.0
//! The job information of several jobs in one buffer, which a host transfers to another node.
//!
//! | part | call | content |
//! | --- | --- | --- |
//! | job | `PMIX_BYTE_OBJECT` each | the following calls |
//! | nspace | `PMIX_STRING` | name of the job |
//! | job information | `PMIX_KVAL` each | as [`Job::kvals`](crate::Job::kvals) packs it |
//!
//! Frozen: append only. OpenPMIx since 6.0 has the same form.
//!
//! Source: OpenPMIx, `PMIx_server_collect_job_info`; `PMIX_GROUP_JOB_INFO` of
//! `PMIx_server_register_resources`.

use bfrops::wire_type;
use pmix_types::{Bytes, Info, IntoOwned as _, Nspace, Release, Text, memory};

use super::reply::job_infos;
use crate::{Codec, Error, Store};

impl Store {
    /// Packs the job information of jobs, each once; unknown jobs are omitted.
    ///
    /// # Errors
    ///
    /// None for the layouts of servers.
    pub fn collect_job_info<'n>(
        &self,
        codec: &Codec<'_>,
        release: Release,
        nspaces: impl IntoIterator<Item = &'n Nspace<'n>>,
    ) -> Result<Vec<u8>, Error> {
        let mut out = Vec::new();
        for nspace in nspaces {
            let Some(known) = self.job(nspace) else {
                continue;
            };
            let name = Some(Text::without_nul(nspace.as_bytes()));
            let mut bytes = codec.pack(|encoder| encoder.one::<wire_type::String>(&name))?;
            memory::append(&mut bytes, &known.job().kvals(codec, release)?)?;
            let object = Bytes::Owned(bytes);
            codec
                .encoder(&mut out)
                .one::<wire_type::ByteObject>(&object)?;
        }
        Ok(out)
    }

    /// Stores the output of [`collect_job_info`](Self::collect_job_info) of another node. Returns
    /// the jobs that it added or updated, each with the errors of the entries that were omitted. A
    /// job for which `has_own` returns `true` is left unchanged.
    ///
    /// # Errors
    ///
    /// The status and the offset of the decoder; the jobs before the offset have been stored.
    pub fn absorb_collected(
        &self,
        codec: &Codec<'_>,
        bytes: &[u8],
        has_own: impl Fn(&Nspace<'_>) -> bool,
    ) -> Result<Vec<Told>, Error> {
        let mut reader = codec.reader(bytes);
        let mut told = Vec::new();
        while !reader.is_empty() {
            let start = reader.offset();
            let mut of_job = reader.object::<wire_type::ByteObject>()?;
            let name = of_job.one::<wire_type::String>()?.unwrap_or_default();
            let nspace = Nspace::new(name).into_owned();
            let mut kvals = Vec::new();
            while !of_job.is_empty() {
                kvals.push(of_job.kval()?.0);
            }
            if has_own(&nspace) {
                continue;
            }
            let mut refused = Vec::new();
            let infos = job_infos(codec, kvals);
            let infos = infos.filter_map(|info| info.map_err(|error| refused.push(error)).ok());
            let infos: Vec<Info<'_>> = infos.collect();
            let others = self.register_understood(&nspace, &infos);
            refused.extend(others.map_err(|error| error.at(start))?);
            told.push((nspace, refused));
        }
        Ok(told)
    }
}

/// A job from another node, and the errors of the entries that were omitted.
pub type Told = (Nspace<'static>, Vec<Error>);
