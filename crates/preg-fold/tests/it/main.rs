// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fold scheme through its public interface.

mod hostile;
mod lists;
mod properties;
mod vectors;
