// SPDX-License-Identifier: MIT OR Apache-2.0
//! Looks up every row of the tables under `data/`, by name and by number, through the public
//! interface.

mod attributes;
mod numbers;
mod pretty;
