// SPDX-License-Identifier: MIT OR Apache-2.0
//! The description of the component, and the conditions under which it cannot work.

use preg_core::{Component, Error, ParamSpec, Params, Registration, Scheme};

use crate::framing::TAG;
use crate::pcompress::Pcompress;
use crate::scheme::{Compress, NAME};

/// The description of the component.
pub static COMPONENT: Component = Component {
    name: NAME,
    priority: 100,
    enabled: true,
    tag: TAG,
    about: "the list text, deflated; pays for long lists",
    params: PARAMS,
    query,
};

preg_core::inventory::submit! { Registration(&COMPONENT) }

const PARAMS: &[ParamSpec] = &[
    ParamSpec {
        name: "pcompress",
        default: "",
        help: "compression back ends to use (zlib, zstd, none), or with a leading ^ those not to use",
    },
    ParamSpec {
        name: "pcompress_base_limit",
        default: "4096",
        help: "compress lists of at least this many bytes; -1 never compresses and still reads",
    },
    ParamSpec {
        name: "pcompress_base_silence_warning",
        default: "false",
        help: "say nothing when there is no compression back end",
    },
    ParamSpec {
        name: "pcompress_zlib_enabled",
        default: "true",
        help: "whether the back end zlib is used, for reading too",
    },
    ParamSpec {
        name: "pcompress_zlib_priority",
        default: "50",
        help: "of the back ends that may write, the one with the highest priority does",
    },
    ParamSpec {
        name: "pcompress_zstd_enabled",
        default: "true",
        help: "whether the back end zstd is used, for reading too",
    },
    ParamSpec {
        name: "pcompress_zstd_priority",
        default: "90",
        help: "of the back ends that may write, the one with the highest priority does",
    },
    ParamSpec {
        name: "pcompress_zlib_level",
        default: "auto",
        help: "auto: chosen for lists; 1 to 9: the level of a general deflate encoder",
    },
    ParamSpec {
        name: "pcompress_zstd_write",
        default: "false",
        help: "write zstd instead of zlib; only peers built with zstd can read it",
    },
];

/// Creates the scheme, or returns `None` if there is no back end.
fn query(params: &Params) -> Result<Option<Box<dyn Scheme>>, Error> {
    let pcompress = Pcompress::select(params)?;
    if let Some(pcompress) = pcompress {
        return Ok(Some(Box::new(Compress::new(pcompress))));
    }
    if !params.flag("pcompress_base_silence_warning", false)? {
        tracing::warn!(
            "no compression back end is active (parameter pcompress, or built without one): \
             long lists are sent uncompressed and compressed values of peers cannot be read; \
             pcompress_base_silence_warning = true silences this"
        );
    }
    Ok(None)
}
