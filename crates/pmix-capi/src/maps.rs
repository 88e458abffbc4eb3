// SPDX-License-Identifier: MIT OR Apache-2.0
//! Encoded maps (`PMIx_generate_regex` and its likes).

use std::ffi::c_char;
use std::sync::OnceLock;

use pmix_mca::Source;
use pmix_types::{Regex2, Status, WireRegex2};
use preg_core::{Params, Preg};

use crate::abi::*;
use crate::guard::exported;
use crate::memory::{Result, bytes, string, text};
use crate::model::Model;
use crate::per_process::PerProcess;
use crate::record::there;
use crate::status::{code, make_at};

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

fn of_text() -> Result<&'static Preg> {
    let builder = || Params::builder().set("preg", "^compress", Source::Default);
    let opened = TEXT.get().get_or_init(|| open(builder().build()));
    opened.as_ref().ok_or(Status::ERR_NOT_AVAILABLE)
}

fn of_all() -> Result<&'static Preg> {
    let params = || Params::from_process(None).and_then(pmix_mca::ParamsBuilder::build);
    let opened = ALL.get().get_or_init(|| open(params()));
    opened.as_ref().ok_or(Status::ERR_NOT_AVAILABLE)
}

/// The bytes of an encoded map of the old form.
///
/// # Safety
/// It is NULL, which is an error, or what `PMIx_generate_regex` made.
pub(crate) unsafe fn encoded<'a>(at: *const c_char) -> Result<&'a [u8]> {
    // SAFETY: the caller says so; what is made here holds no NUL.
    unsafe { text(at) }.ok_or(Status::ERR_BAD_PARAM)
}

exported! {
    fn PMIx_generate_regex(input: *const c_char, regex: *mut *mut c_char) -> pmix_status_t {
        code((|| {
            // SAFETY: C says so.
            let nodes = unsafe { text(input) }.ok_or(Status::ERR_BAD_PARAM)?;
            let made = of_text()?.generate_node_regex(nodes).map_err(|error| error.status())?;
            // SAFETY: as above.
            unsafe { make_at(regex, || string(&made.bytes)) }
        })())
    }

    fn PMIx_generate_ppn(input: *const c_char, ppn: *mut *mut c_char) -> pmix_status_t {
        code((|| {
            // SAFETY: C says so.
            let ranks = unsafe { text(input) }.ok_or(Status::ERR_BAD_PARAM)?;
            let made = of_text()?.generate_ppn(ranks).map_err(|error| error.status())?;
            // SAFETY: as above.
            unsafe { make_at(ppn, || string(&made.bytes)) }
        })())
    }

    fn PMIx_generate_regex2(input: *const c_char, _info: *mut pmix_info_t, _ninfo: usize, regex: *mut pmix_regex2_t) -> pmix_status_t {
        code((|| {
            // SAFETY: C says so.
            let list = unsafe { text(input) }.ok_or(Status::ERR_BAD_PARAM)?;
            let made: Regex2 = of_all()?.generate_regex(list).map_err(|error| error.status())?;
            let make = || {
                Ok(pmix_regex2_t {
                    r#type: string(made.kind.as_bytes())?,
                    bytes: bytes(&made.bytes)?.cast(),
                    len: made.bytes.len(),
                })
            };
            // SAFETY: as above.
            unsafe { make_at(regex, make) }
        })())
    }

    fn PMIx_parse_regex2(regex: *const pmix_regex2_t, _info: *mut pmix_info_t, _ninfo: usize, output: *mut *mut c_char) -> pmix_status_t {
        code((|| {
            // SAFETY: C says so.
            let given = unsafe { WireRegex2::from_c(there(regex)?)? };
            let view = given.as_view().ok_or(Status::ERR_BAD_PARAM)?;
            let list = of_all()?.parse_regex(view).map_err(|error| error.status())?;
            // SAFETY: as above.
            unsafe { make_at(output, || string(&list)) }
        })())
    }
}
