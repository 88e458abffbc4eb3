// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packing and unpacking: what real libraries packed, damaged bytes, and properties.

#[path = "../../../../fuzz/targets/wire/losses.rs"]
mod losses;

mod golden;
mod hostile;
mod legacy;
mod properties;
mod records;
