// SPDX-License-Identifier: MIT OR Apache-2.0
//! The compress scheme.
#![forbid(unsafe_code)]

use preg_core::{Component, Error, Params, Registration, Scheme};

/// The component's description.
pub static COMPONENT: Component = Component {
    name: "compress",
    priority: 100,
    enabled: true,
    tag: b"blob:",
    about: "not written yet",
    params: &[],
    query,
};

preg_core::inventory::submit! { Registration(&COMPONENT) }

fn query(_: &Params) -> Result<Option<Box<dyn Scheme>>, Error> {
    Ok(None)
}
