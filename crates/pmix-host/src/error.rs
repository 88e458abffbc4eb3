// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one error type of this crate.

pmix_types::error_type! {
    /// Says what a part of a host could not do: what, where, and what caused it.
    pub struct Error;
}
