// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of parameters, their files, and the selection of components.

mod catalog;
mod layers;
mod selection;
