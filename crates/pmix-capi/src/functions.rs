// SPDX-License-Identifier: MIT OR Apache-2.0
//! All exported functions by their names, for `abi::signatures`.

#![allow(unused_imports)]

pub(crate) use crate::argv::*;
pub(crate) use crate::client::*;
pub(crate) use crate::events::*;
pub(crate) use crate::families::*;
pub(crate) use crate::gets::*;
pub(crate) use crate::groups::*;
pub(crate) use crate::iof::*;
pub(crate) use crate::lists::*;
pub(crate) use crate::maps::*;
pub(crate) use crate::monitors::*;
pub(crate) use crate::names::*;
pub(crate) use crate::packed::*;
pub(crate) use crate::requests::*;
pub(crate) use crate::resolve::*;
pub(crate) use crate::resources::*;
pub(crate) use crate::server::*;
pub(crate) use crate::strings::*;
pub(crate) use crate::tool::*;
pub(crate) use crate::topology::*;
pub(crate) use crate::values::*;
