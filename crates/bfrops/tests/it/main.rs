// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of packing and unpacking: bytes that real libraries packed, damaged bytes, and properties.

#[path = "../../../../fuzz/targets/wire/losses.rs"]
mod losses;

mod golden;
mod hostile;
mod legacy;
mod properties;
mod records;
