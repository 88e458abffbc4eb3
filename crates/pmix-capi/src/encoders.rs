// SPDX-License-Identifier: MIT OR Apache-2.0
//! The encoders of maps in this process.

use std::sync::OnceLock;

use pmix_mca::Source;
use pmix_types::Status;
use preg_core::{Params, Preg};

use crate::memory::Result;
use crate::per_process::PerProcess;

/// The encoders of text alone: hosts hand a map of the old form on as a string, which would end at
/// the first NUL of a compressed one.
static TEXT: PerProcess<OnceLock<Option<Preg>>> = PerProcess::new(OnceLock::new());

/// All encoders, as this process is configured.
static ALL: PerProcess<OnceLock<Option<Preg>>> = PerProcess::new(OnceLock::new());

fn open(params: std::result::Result<Params, pmix_mca::Error>) -> Option<Preg> {
    let no_encoder = |error: &dyn std::fmt::Display| tracing::warn!("no encoder: {error}");
    let params = params.inspect_err(|error| no_encoder(error)).ok()?;
    let opened = pmix_builtin::open_preg(&params);
    opened.inspect_err(|error| no_encoder(error)).ok()
}

/// Returns the encoders of text.
pub(crate) fn of_text() -> Result<&'static Preg> {
    let builder = || Params::builder().set("preg", "^compress", Source::Default);
    let opened = TEXT.get().get_or_init(|| open(builder().build()));
    opened.as_ref().ok_or(Status::ERR_NOT_AVAILABLE)
}

/// Returns all encoders, as this process is configured.
pub(crate) fn of_all() -> Result<&'static Preg> {
    let params = || Params::from_process(None).and_then(pmix_mca::ParamsBuilder::build);
    let opened = ALL.get().get_or_init(|| open(params()));
    opened.as_ref().ok_or(Status::ERR_NOT_AVAILABLE)
}
