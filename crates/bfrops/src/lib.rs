// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packing and unpacking of PMIx data, byte by byte as every OpenPMIx release does.
//!
//! The C library calls the framework "buffer operations". A peer names its [`Module`] in the
//! handshake. Modules differ in their types and, before v4, in the width of integers. A [`Layout`]
//! is a module with the options of the peer: the kind of buffer and the form of integers.
//!
//! An [`Encoder`] appends *pack calls* to bytes, and a [`Decoder`] unpacks them: each is a count
//! and that number of data of one [`WireType`]. Unpacked text and bytes borrow from the message. A
//! caller that keeps them calls [`pmix_types::IntoOwned`].
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
//! Messages may be hostile. Counts and lengths are compared with the remaining bytes before memory
//! is reserved. [`Limits`] bound nesting and memory.
#![forbid(unsafe_code)]

mod decode;
mod encode;
mod error;
mod field_trace;
mod flex;
mod legacy;
mod module;
mod refusal;
mod relay;
mod template;
pub mod wire_type;

pub use decode::{Call, Decoder};
pub use encode::Encoder;
pub use error::{Error, Limits};
pub use field_trace::{FieldTrace, RegexExtent, RegexFramer, TracedField};
pub use module::{BufferKind, Integers, Layout, Module, UntypedArrays};
pub use template::{MessageTemplate, Slot};
pub use wire_type::WireType;
