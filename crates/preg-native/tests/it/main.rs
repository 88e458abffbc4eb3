// SPDX-License-Identifier: MIT OR Apache-2.0
//! The native scheme through its public interface.

mod component;
mod forms;
mod hostile;
mod mutated;
mod optimal;
mod vectors;
