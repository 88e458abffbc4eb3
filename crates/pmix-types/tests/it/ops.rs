// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of operations: comparison with the results of real libraries (`testdata/ops`), and
//! properties.

mod argv;
mod compare;
mod fixtures;
mod infos;
mod load;
mod number;
mod properties;
