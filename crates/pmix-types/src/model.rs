// SPDX-License-Identifier: MIT OR Apache-2.0
//! The structures of the data model, both packed in messages and stored.
//!
//! Every structure may borrow its text and bytes from its message. Fields have the names of the
//! Standard (chapter "Data structures and types"), except where a C name is a Rust keyword.

mod array;
mod owned;
mod regex2;
mod structures;
mod text;
mod value;

pub use array::DataArray;
pub use owned::{IntoOwned, Measure};
pub use regex2::{Regex2, Regex2Ref, RegexBytes, WireRegex2};
pub use structures::{
    App, Coord, Cpuset, Device, DeviceDistance, DiskStats, Endpoint, Envar, Geometry, Info, Kval,
    NetStats, NodePid, NodeStats, Pdata, Proc, ProcInfo, ProcStats, Query, Regattr, ResourceUnit,
    Timeval, Topology,
};
pub use text::{Bytes, Key, Nspace, Text};
pub use value::Value;
