// SPDX-License-Identifier: MIT OR Apache-2.0
//! The framework with all components that are built in.

#[path = "../../../bfrops/tests/meter/growth.rs"]
mod growth;
#[path = "../../../../fuzz/targets/mod.rs"]
mod targets;

mod cost;
mod plugins;
#[cfg(all(feature = "compress", feature = "fold"))]
mod properties;
#[cfg(all(feature = "compress", feature = "fold"))]
mod regressions;
#[cfg(feature = "compress")]
mod selection;
#[cfg(all(feature = "compress", feature = "fold"))]
mod threads;
mod vectors;
