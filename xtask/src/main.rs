// SPDX-License-Identifier: MIT OR Apache-2.0
//! The project's tasks.

fn main() {}
