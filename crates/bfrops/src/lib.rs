// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packing and unpacking of PMIx data, byte for byte as every OpenPMIx release does.
//!
//! The framework is called "buffer operations" in the C library. A peer names the [`Module`] it
//! speaks when it connects; modules differ in the types they know and, before the fourth, in how
//! wide an integer is. A [`Layout`] is a module and the choices a process makes on top of it.
//!
//! An [`Encoder`] appends *pack calls* to bytes, a [`Decoder`] takes them off again: a count, then
//! so many data of one [`WireType`]. Text and bytes that come off are borrowed from the message; a
//! caller who keeps them calls [`pmix_types::IntoOwned`].
//!
//! ```
//! use bfrops::{Decoder, Encoder, Layout, Module, wire_type};
//! use pmix_types::{Info, Value};
//!
//! let layout = Layout::new(Module::V41);
//! let mut message = Vec::new();
//! let mut encoder = Encoder::new(layout, &mut message);
//! encoder.one::<wire_type::Size>(&1)?;
//! encoder.one::<wire_type::Info>(&Info::new("pmix.job.size", Value::Uint32(4)))?;
//!
//! let mut decoder = Decoder::new(layout, &message);
//! assert_eq!(decoder.one::<wire_type::Size>()?, 1);
//! let info = decoder.one::<wire_type::Info>()?;
//! assert_eq!(info.key, "pmix.job.size");
//! assert_eq!(info.value, Value::Uint32(4));
//! decoder.finish()?;
//! # Ok::<(), bfrops::Error>(())
//! ```
//!
//! Bytes of a peer are hostile: counts and lengths are checked against the bytes that are left
//! before anything is reserved, nesting and memory are bounded by [`Limits`], and an error names
//! the byte. What a message contains cannot change where the next one starts.
#![forbid(unsafe_code)]

mod decode;
mod encode;
mod error;
mod field_trace;
mod flex;
mod framer;
mod layout;
mod legacy;
mod limits;
mod module;
mod refusal;
mod relay;
mod template;
pub mod wire_type;

pub use decode::{Call, Decoder};
pub use encode::Encoder;
pub use error::Error;
pub use field_trace::{FieldTrace, TracedField};
pub use framer::{RegexExtent, RegexFramer};
pub use layout::{BufferKind, Layout};
pub use limits::Limits;
pub use module::{Integers, Module};
pub use template::{MessageTemplate, Slot};
pub use wire_type::WireType;
