// SPDX-License-Identifier: MIT OR Apache-2.0
//! The structures of the data model, both packed in messages and stored.
//!
//! Every structure may borrow its text and bytes from its message. Fields have the names of the
//! Standard (chapter "Data structures and types"), except where a C name is a Rust keyword.

mod array;
mod fabric;
mod info;
mod name;
mod owned;
mod proc;
mod regex2;
mod stats;
mod text;
mod value;

pub use array::DataArray;
pub use fabric::{Coord, Cpuset, Device, DeviceDistance, Geometry, ResourceUnit, Topology};
pub use info::{App, Info, Kval, Query, Regattr};
pub use name::{Key, Nspace};
pub use owned::{IntoOwned, Measure};
pub use proc::{Endpoint, Envar, NodePid, Pdata, Proc, ProcInfo};
pub use regex2::{Regex2, Regex2Ref, RegexBytes, WireRegex2};
pub use stats::{DiskStats, NetStats, NodeStats, ProcStats, Timeval};
pub use text::{Bytes, Text};
pub use value::Value;
