// SPDX-License-Identifier: MIT OR Apache-2.0
//! The JSON form of the model (feature `serde`), both ways.
//!
//! Every structure implements serde's traits. A list of data of one type is printed through
//! [`List`] and read through [`ListOf`]. `docs/json.md` documents the forms, with an example of
//! each: numbers are exact to 64 bits, floating point numbers are strings with enough digits, text
//! that is not UTF-8 and bytes are `{"hex": …}`, and the members of an object are in alphabetical
//! order. Reading is strict: an unknown member is an error, and errors name the place:
//! `value[2].data: 300 does not fit PMIX_UINT8 (0 to 255)`. Nesting is bounded, and no memory is
//! reserved for a stated length.

mod float;
mod form;
mod node;
mod number;
mod object;
mod path;
mod regex;
mod serde;
mod structures;
mod text;
mod typed;

pub(crate) use form::{As, Form};
pub(crate) use node::Node;
pub(crate) use path::{At, Fault};
pub use serde::{List, ListOf};
pub(crate) use typed::untyped;
