// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pmix command.
#![forbid(unsafe_code)]

fn main() {}
