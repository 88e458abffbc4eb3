// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fold scheme.
#![forbid(unsafe_code)]

use preg_core::{Component, Error, Params, Registration, Scheme};

/// The component's description.
pub static COMPONENT: Component = Component {
    name: "fold",
    priority: 110,
    enabled: false,
    tag: b"fold:",
    about: "not written yet",
    params: &[],
    query,
};

preg_core::inventory::submit! { Registration(&COMPONENT) }

fn query(_: &Params) -> Result<Option<Box<dyn Scheme>>, Error> {
    Ok(None)
}
