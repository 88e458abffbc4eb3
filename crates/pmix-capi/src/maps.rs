// SPDX-License-Identifier: MIT OR Apache-2.0
//! Encoded maps (`PMIx_generate_regex` and its likes).

use std::ffi::c_char;

use pmix_types::{Regex2, Status, WireRegex2};

use crate::abi::*;
use crate::convert::{check_required, infos_at};
use crate::encoders::of_all;
use crate::guard::exported;
use crate::memory::{Result, bytes, reserve, string, text};
use crate::model::Model;
use crate::record::there;
use crate::status::{code, make_at};

/// The bytes of memory that it takes at most to encode or read a list, for each of its bytes, and for any list.
const MAP_FACTOR: usize = 16;
const MAP_BYTES: usize = 1 << 20;

/// The list that a caller has encoded.
///
/// # Safety
/// It is NULL, which is an error, or a string.
unsafe fn list_at<'a>(at: *const c_char) -> Result<&'a [u8]> {
    // SAFETY: the caller says so.
    let list = unsafe { text(at) }.ok_or(Status::ERR_BAD_PARAM)?;
    let bytes = list.len().saturating_mul(MAP_FACTOR);
    reserve(bytes.saturating_add(MAP_BYTES))?;
    Ok(list)
}

exported! {
    fn PMIx_generate_regex(input: *const c_char, regex: *mut *mut c_char) -> pmix_status_t {
        code((|| {
            // SAFETY: C says so.
            let nodes = unsafe { list_at(input)? };
            let made = of_all()?.generate_node_text(nodes).map_err(|error| error.status())?;
            // SAFETY: as above.
            unsafe { make_at(regex, || string(&made.bytes)) }
        })())
    }

    fn PMIx_generate_ppn(input: *const c_char, ppn: *mut *mut c_char) -> pmix_status_t {
        code((|| {
            // SAFETY: C says so.
            let ranks = unsafe { list_at(input)? };
            let made = of_all()?.generate_ppn_text(ranks).map_err(|error| error.status())?;
            // SAFETY: as above.
            unsafe { make_at(ppn, || string(&made.bytes)) }
        })())
    }

    fn PMIx_generate_regex2(input: *const c_char, info: *mut pmix_info_t, ninfo: usize, regex: *mut pmix_regex2_t) -> pmix_status_t {
        code((|| {
            // SAFETY: C says so.
            check_required("PMIx_generate_regex2", &unsafe { infos_at(info, ninfo)? })?;
            // SAFETY: C says so.
            let list = unsafe { list_at(input)? };
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

    fn PMIx_parse_regex2(regex: *const pmix_regex2_t, info: *mut pmix_info_t, ninfo: usize, output: *mut *mut c_char) -> pmix_status_t {
        code((|| {
            // SAFETY: C says so.
            check_required("PMIx_parse_regex2", &unsafe { infos_at(info, ninfo)? })?;
            // SAFETY: C says so.
            let given = unsafe { WireRegex2::from_c(there(regex)?)? };
            let view = given.as_view().ok_or(Status::ERR_BAD_PARAM)?;
            let list = of_all()?.parse_regex(view).map_err(|error| error.status())?;
            // SAFETY: as above.
            unsafe { make_at(output, || string(&list)) }
        })())
    }
}
