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

/// The cost limits of an input, checks included: a constant, and an amount for each byte.
struct Bounds {
    held: (usize, usize),
    asked: (usize, usize),
    microseconds: (u128, u128),
}

impl Bounds {
    /// Returns the limits of a target.
    fn of(name: &str) -> Self {
        const PLAIN: &[&str] = &["bfrops_", "config_", "proto_"];
        let is_plain = PLAIN.iter().any(|family| name.starts_with(family));
        // The size of a decoded value is limited by `targets::LIMITS`, however short its encoding is.
        let (held, asked) = if is_plain { (1, 16) } else { (4, 64) };
        Self {
            held: (held << 20, 256),
            asked: (asked << 20, 1 << 10),
            // Twenty times the maximum of any input on a busy machine.
            microseconds: (500_000, 50),
        }
    }

    fn check(&self, len: usize, cost: meter::Cost) {
        let most = |(base, each): (usize, usize)| base.saturating_add(len.saturating_mul(each));
        let (held, asked) = (most(self.held), most(self.asked));
        assert!(
            cost.held <= held,
            "{len} bytes held {}, more than {held}",
            cost.held
        );
        assert!(
            cost.asked <= asked,
            "{len} bytes asked for {}, more than {asked}",
            cost.asked
        );
        let (base, each) = self.microseconds;
        let (took, most) = (cost.time.as_micros(), base + len as u128 * each);
        assert!(
            took <= most,
            "{len} bytes took {took} microseconds, more than {most}"
        );
    }
}

fn target() -> &'static (targets::Target, Bounds) {
    static TARGET: OnceLock<(targets::Target, Bounds)> = OnceLock::new();
    TARGET.get_or_init(|| {
        let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
        let run = targets::find(&name).unwrap_or_else(|| {
            eprintln!("FUZZ_TARGET={name:?} is no target; there are:");
            for (name, _) in targets::TARGETS {
                eprintln!("  {name}");
            }
            std::process::exit(2)
        });
        (run, Bounds::of(&name))
    })
}

fuzz_target!(|data: &[u8]| {
    let (run, bounds) = target();
    bounds.check(data.len(), meter::cost_of(|| run(data)));
});
