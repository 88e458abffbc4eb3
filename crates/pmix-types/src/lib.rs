// SPDX-License-Identifier: MIT OR Apache-2.0
//! The PMIx data model as pure data.
//!
//! This crate defines the values that all other crates exchange: [`Status`], [`Proc`], [`Info`],
//! [`Value`] with one variant for each data type, [`DataArray`], and the encoded regular expression
//! [`Regex2`]. A value may borrow from the message that contains it; [`IntoOwned`] copies it. The
//! crate `bfrops` packs and unpacks values. There are no dependencies and no I/O. The feature
//! `serde` adds the module `json`: the documented JSON form of the model. Numbers follow the PMIx
//! Standard (chapter "Constants and structures"). Unknown numbers are kept, so a value from a newer
//! peer can be sent on unchanged.
//!
//! A named number has three texts: `name()` is the constant of the headers without `PMIX_`;
//! `Display` prints it with the prefix and `FromStr` parses that; `pretty()` returns the text of
//! the C function for that type. [`Value`], [`Info`], [`Proc`], [`App`] and [`DataArray`] print as
//! text for people, which is that of `PMIx_Value_string` and similar functions. [`Attribute`] is the
//! dictionary of attributes, and [`keys`] has their keys as constants.
//!
//! ```
//! use pmix_types::Status;
//! assert_eq!(Status::ERR_BAD_PARAM.to_string(), "PMIX_ERR_BAD_PARAM (-27)");
//! assert_eq!(Status::from_raw(-4242).to_string(), "PMIX_STATUS(-4242)");
//! ```
#![forbid(unsafe_code)]

mod attribute;
mod dictionary;
mod display;
mod error;
#[cfg(feature = "serde")]
pub mod json;
mod kinds;
pub mod memory;
mod model;
mod name_error;
mod number;
mod ops;
mod pretty;
mod release;
mod status;
mod table;
mod tables;

pub use attribute::Attribute;
pub use dictionary::Pattern;
pub use error::ErrorDetail;
pub use kinds::{
    AllocDirective, AllocInheritance, BindEnvelope, Command, CoordView, DataRange, DataType,
    DeviceType, FabricOperation, GroupOperation, GroupOption, InfoFlags, IofChannel, JobState,
    LinkState, Locality, Persistence, ProcState, ResourceBlockDirective, Scope, StorageAccessType,
    StorageAccessibility, StorageMedium, StoragePersistence,
};
pub use model::{
    App, Bytes, Coord, Cpuset, DataArray, Device, DeviceDistance, DiskStats, Endpoint, Envar,
    Geometry, Info, IntoOwned, Key, Kval, Measure, NetStats, NodePid, NodeStats, Nspace, Pdata,
    Proc, ProcInfo, ProcStats, Query, Regattr, Regex2, Regex2Ref, RegexBytes, ResourceUnit, Text,
    Timeval, Topology, Value, WireRegex2,
};
pub use name_error::ParseNameError;
pub use ops::{Argv, Datum, InfoList, Numeric, QualifiedValue, Truth, ValueComparison, ValueError};
pub use release::{ABI_VERSION, Release, Releases};
pub use status::{Rank, Status};
pub use table::{Constant, Standing};
pub use tables::keys;

/// The name of the breakpoint (`PMIX_BREAKPOINT`) at which processes wait in `PMIx_Init`
/// (`PMIX_DEBUG_STOP_IN_INIT`).
pub const BREAKPOINT_IN_INIT: &str = "pmix-init";
