// SPDX-License-Identifier: MIT OR Apache-2.0
//! The encoders of node and process maps (the preg framework), configured by the environment and files of this
//! process.

use std::sync::OnceLock;

use pmix_types::Status;
use preg_core::{Params, Preg};

use crate::log;
use crate::memory::Result;
use crate::per_process::PerProcess;

static ENCODERS: PerProcess<OnceLock<Result<Preg>>> = PerProcess::new(OnceLock::new());

/// Opens the encoders. Logs the error, because a status does not tell which setting is wrong.
fn open() -> Result<Preg> {
    let refused = |why: &dyn std::fmt::Display, status: Status| {
        log::report_setting(why);
        status
    };
    let params = Params::from_process(None).and_then(pmix_mca::ParamsBuilder::build);
    let params = params.map_err(|error| refused(&error, error.status()))?;
    pmix_builtin::open_preg(&params).map_err(|error| refused(&error, error.status()))
}

/// Returns the encoders, which are opened by the first call.
///
/// # Errors
/// Returns the status of the invalid setting, or `PMIX_ERR_SILENT` if no encoder is left.
pub(crate) fn of_all() -> Result<&'static Preg> {
    let opened = ENCODERS.get().get_or_init(open);
    opened.as_ref().map_err(|status| *status)
}
