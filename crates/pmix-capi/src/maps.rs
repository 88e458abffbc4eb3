// SPDX-License-Identifier: MIT OR Apache-2.0
//! Encoded node and process maps (`PMIx_generate_regex` and related functions).

use std::ffi::c_char;

use pmix_types::{Regex2, Status, WireRegex2};

use crate::abi::*;
use crate::convert::{check_required, infos_at};
use crate::encoders::of_all;
use crate::guard::exported;
use crate::memory::{Result, bytes, string, text};
use crate::model::Model;
use crate::record::there;
use crate::status::{code, make_at};

/// Returns a list that a caller wants to encode.
///
/// # Safety
/// `at` is NULL, which is an error, or a string.
unsafe fn list_at<'a>(at: *const c_char) -> Result<&'a [u8]> {
    // SAFETY: the caller guarantees NULL or a string.
    unsafe { text(at) }.ok_or(Status::ERR_BAD_PARAM)
}

exported! {
    fn PMIx_generate_regex(input: *const c_char, regex: *mut *mut c_char) -> pmix_status_t {
        code((|| {
            // SAFETY: the header requires `input` to be NULL or a string.
            let nodes = unsafe { list_at(input)? };
            let made = of_all()?.generate_node_text(nodes).map_err(|error| error.status())?;
            // SAFETY: the header requires `regex` to be NULL or valid for writes.
            unsafe { make_at(regex, || string(&made.bytes)) }
        })())
    }

    fn PMIx_generate_ppn(input: *const c_char, ppn: *mut *mut c_char) -> pmix_status_t {
        code((|| {
            // SAFETY: the header requires `input` to be NULL or a string.
            let ranks = unsafe { list_at(input)? };
            let made = of_all()?.generate_ppn_text(ranks).map_err(|error| error.status())?;
            // SAFETY: the header requires `ppn` to be NULL or valid for writes.
            unsafe { make_at(ppn, || string(&made.bytes)) }
        })())
    }

    fn PMIx_generate_regex2(input: *const c_char, info: *mut pmix_info_t, ninfo: usize, regex: *mut pmix_regex2_t) -> pmix_status_t {
        code((|| {
            // SAFETY: the header requires each array to be NULL or to have as many valid elements as its count says.
            check_required("PMIx_generate_regex2", &unsafe { infos_at(info, ninfo)? })?;
            // SAFETY: the header requires `input` to be NULL or a string.
            let list = unsafe { list_at(input)? };
            let made: Regex2 = of_all()?.generate_regex(list).map_err(|error| error.status())?;
            let make = || {
                Ok(pmix_regex2_t {
                    r#type: string(made.kind.as_bytes())?,
                    bytes: bytes(&made.bytes)?.cast(),
                    len: made.bytes.len(),
                })
            };
            // SAFETY: the header requires `regex` to be NULL or valid for writes.
            unsafe { make_at(regex, make) }
        })())
    }

    fn PMIx_parse_regex2(regex: *const pmix_regex2_t, info: *mut pmix_info_t, ninfo: usize, output: *mut *mut c_char) -> pmix_status_t {
        code((|| {
            // SAFETY: the header requires each array to be NULL or to have as many valid elements as its count says.
            check_required("PMIx_parse_regex2", &unsafe { infos_at(info, ninfo)? })?;
            // SAFETY: the header requires `regex` to be NULL or a valid map.
            let given = unsafe { WireRegex2::from_c(there(regex)?)? };
            let view = given.as_view().ok_or(Status::ERR_BAD_PARAM)?;
            let list = of_all()?.parse_regex(view).map_err(|error| error.status())?;
            // SAFETY: the header requires `output` to be NULL or valid for writes.
            unsafe { make_at(output, || string(&list)) }
        })())
    }
}
