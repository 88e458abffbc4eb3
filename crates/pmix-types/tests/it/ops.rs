// SPDX-License-Identifier: MIT OR Apache-2.0
//! The operations, compared with the results of real libraries (`testdata/ops`), and their
//! properties.

mod argv;
mod compare;
mod fixtures;
mod infos;
mod load;
mod number;
mod properties;
