// SPDX-License-Identifier: MIT OR Apache-2.0
//! Encoded node and process maps (`PMIx_generate_regex` and related functions).

use std::ffi::c_char;

use pmix_types::{Regex2, Status, WireRegex2};

use crate::abi::*;
use crate::args::{Infos, Mut, One, Out, Str};
use crate::convert::check_required;
use crate::guard::exported;
use crate::memory::{Result, bytes, string};
use crate::regex::encoders;

/// Returns a map in its C form.
fn regex2(map: &Regex2) -> Result<pmix_regex2_t> {
    Ok(pmix_regex2_t {
        r#type: string(map.kind.as_bytes())?,
        bytes: bytes(&map.bytes)?.cast(),
        len: map.bytes.len(),
    })
}

exported! {
    fn PMIx_generate_regex(input: Str, regex: Out<*mut c_char>) -> pmix_status_t {
        let made = encoders()?.generate_node_text(input).map_err(|error| error.status())?;
        regex.fill(|| string(&made.bytes))
    }

    fn PMIx_generate_ppn(input: Str, ppn: Out<*mut c_char>) -> pmix_status_t {
        let made = encoders()?.generate_ppn_text(input).map_err(|error| error.status())?;
        ppn.fill(|| string(&made.bytes))
    }

    fn PMIx_generate_regex2(input: Str, (info, ninfo): Infos<Mut>, regex: Out<pmix_regex2_t>) -> pmix_status_t {
        check_required("PMIx_generate_regex2", &info)?;
        let made = encoders()?.generate_regex(input).map_err(|error| error.status())?;
        regex.fill(|| regex2(&made))
    }

    fn PMIx_parse_regex2(regex: One<WireRegex2<'static>>, (info, ninfo): Infos<Mut>, output: Out<*mut c_char>) -> pmix_status_t {
        check_required("PMIx_parse_regex2", &info)?;
        let view = regex.as_view().ok_or(Status::ERR_BAD_PARAM)?;
        let list = encoders()?.parse_regex(view).map_err(|error| error.status())?;
        output.fill(|| string(&list))
    }
}
