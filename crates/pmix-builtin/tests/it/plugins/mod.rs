// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loaded components, valid and faulty, in C and in Rust.

mod build;
mod examples;
mod faults;
mod faulty;
mod layout;
mod warnings;

use std::path::Path;

use pmix_builtin::open_preg;
use preg_core::{Error, Params, Preg};

/// Opens the framework with plugin files and settings.
fn open(files: &[&Path], settings: &[(&str, &str)]) -> Result<Preg, Error> {
    let builder = files
        .iter()
        .fold(Params::builder(), |b, file| b.plugin(file));
    let builder = settings.iter().fold(builder, |b, (name, value)| {
        b.set(name, *value, pmix_mca::Source::Api)
    });
    open_preg(&builder.build()?)
}
