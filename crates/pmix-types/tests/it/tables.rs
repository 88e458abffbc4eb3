// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every row of the tables under `data/`, looked up both ways through the public interface.

mod attributes;
mod numbers;
mod pretty;
