// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fuzzer: one program for all targets, named by the environment variable `FUZZ_TARGET`.
//!
//! To run a reproducer again: `FUZZ_TARGET=<target> <this program> <file>`.
#![no_main]

mod meter;
mod targets;

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

#[global_allocator]
static METER: meter::Meter = meter::Meter;

/// More than any target may hold at once, its own checks included; see `targets::LIMITS`.
const MOST_BYTES: usize = 24 << 20;

fn target() -> targets::Target {
    static TARGET: OnceLock<targets::Target> = OnceLock::new();
    *TARGET.get_or_init(|| {
        let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
        targets::find(&name).unwrap_or_else(|| {
            eprintln!("FUZZ_TARGET={name:?} is no target; there are:");
            for (name, _) in targets::TARGETS {
                eprintln!("  {name}");
            }
            std::process::exit(2)
        })
    })
}

fuzz_target!(|data: &[u8]| {
    let run = target();
    let bytes = meter::peak_of(|| run(data));
    assert!(bytes <= MOST_BYTES, "an input held {bytes} bytes at once");
});
