// SPDX-License-Identifier: MIT OR Apache-2.0
//! The JSON form of the model (feature `serde`), both ways.
//!
//! Every structure implements serde's traits; a list of data of one type prints through [`List`]
//! and reads through [`ListOf`]. The forms are documented, with an example of each, in
//! `docs/json.md`: numbers are numbers and exact to 64 bits, floating point numbers are strings
//! with enough digits, text that is not UTF-8 and bytes are `{"hex": …}`, and the members of an
//! object stand in alphabetical order. Reading is strict: a member that is not known is an error,
//! and errors say where: `value[2].data: 300 does not fit PMIX_UINT8 (0 to 255)`. Nesting is
//! bounded, and no length is believed.

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
