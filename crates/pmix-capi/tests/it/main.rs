// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the library from C: its symbols, its headers, and programs that are linked with it.

mod build;
mod configured;
mod headers;
mod launches;
mod log;
mod nulls;
mod programs;
mod pulls;
mod random;
mod required;
mod shortage;
mod symbols;
mod tools;
mod types;
