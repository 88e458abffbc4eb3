// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packed data exchanged with real libraries in both directions, compared byte for byte.
//!
//! Every type passes in both directions through every module that a release has and both buffer
//! types. The receiving side unpacks the data, which are then compared as JSON. It also packs them
//! again, and the bytes must be the same. Our side is the crate, as our own programs use it; the
//! libraries run in the program in `tests/interop/bfrops`.

mod abilities;
mod checks;
mod peer;
mod vectors;

use std::collections::BTreeMap;

use bfrops::{BufferKind, Integers, Layout, Module};

use super::peers::Peer;
use super::tally::Tally;
use checks::{Family, Side};
use peer::{Config, LeftOut, Speaker};

/// The modules that both releases have.
const MODULES: [Module; 6] = [
    Module::V12,
    Module::V20,
    Module::V21,
    Module::V3,
    Module::V4,
    Module::V41,
];

/// The default number of data of each family over all checks.
pub(super) const DATA: usize = 110_000;

/// Runs the checks against every peer.
///
/// # Errors
/// Returns a message if a peer program does not start or does not list its types.
pub(super) fn run(peers: &[Peer], seed: u64, data: usize, tally: &mut Tally) -> Result<(), String> {
    vectors::run(peers, tally)?;
    let mut configs = Vec::new();
    for peer in peers {
        for module in MODULES {
            for buffer in [BufferKind::NonDescribed, BufferKind::Described] {
                let layout = Layout::new(module).with_buffer(buffer);
                configs.push(Speaker::start(peer, layout)?.configure()?);
                let fixed = layout.with_integers(Integers::Fixed);
                if module == Module::V41 {
                    configs.push(Speaker::start(peer, fixed)?.configure()?);
                }
            }
        }
    }
    let quota = quotas(&configs, data);
    let mut left_out = LeftOut::default();
    for config in &configs {
        left_out.note(config);
    }
    // The peer and this process work in turn on each configuration, so two configurations at a time use two cores.
    let halves = configs.chunks(configs.len().div_ceil(2).max(1));
    let sides = halves.map(|half| Side::new(half, seed, &quota));
    let done: Vec<Tally> = std::thread::scope(|scope| {
        let running: Vec<_> = sides.map(|side| scope.spawn(move || side.run())).collect();
        running.into_iter().filter_map(|r| r.join().ok()).collect()
    });
    if done.len() != configs.chunks(configs.len().div_ceil(2).max(1)).len() {
        return Err("a thread of the checks panicked".to_owned());
    }
    for part in done {
        tally.merge(part);
    }
    left_out.print(tally);
    Ok(())
}

/// Returns how many data of a family each of its types gets in each direction of each configuration.
fn quotas(configs: &[Config], data: usize) -> BTreeMap<Family, usize> {
    let mut cells: BTreeMap<Family, usize> = BTreeMap::new();
    for ability in configs.iter().flat_map(|c| &c.abilities) {
        let directions =
            usize::from(ability.top.pack.is_success()) + usize::from(ability.top.is_whole());
        *cells.entry(Family::of(ability.data_type)).or_default() += directions;
    }
    let each = |(family, cells): (Family, usize)| (family, data.div_ceil(cells.max(1)));
    cells.into_iter().map(each).collect()
}
