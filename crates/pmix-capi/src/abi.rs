// SPDX-License-Identifier: MIT OR Apache-2.0
//! The types of the C interface. The modules are generated and not formatted.
#![allow(non_camel_case_types, non_snake_case, dead_code, unused_imports)]
#![allow(clippy::let_unit_value, clippy::type_complexity)]

#[rustfmt::skip]
mod callbacks;
#[rustfmt::skip]
pub(crate) mod signatures;
#[rustfmt::skip]
mod types;

pub(crate) use callbacks::*;
pub(crate) use types::*;
