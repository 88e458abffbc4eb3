// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parameters, their files, and selection of components.

mod catalog;
mod layers;
mod selection;
