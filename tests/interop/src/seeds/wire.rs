// SPDX-License-Identifier: MIT OR Apache-2.0
//! Seeds of the packed-data targets: two bytes that select the layout and the type, as in `fuzz/targets/wire`, and the
//! bytes of a record.

use std::io;

use serde_json::Value;

use super::{encoded, records};

/// The modules, oldest first.
const MODULES: [&str; 8] = ["v12", "v20", "v21", "v3", "v4", "v41", "v51", "v61"];

/// The types that contain others, in the order of the target of nested data.
const NESTED: [u64; 8] = [21, 24, 39, 28, 25, 41, 23, 64];

/// Returns the seeds of a target.
pub(super) fn of(target: &str) -> io::Result<Vec<Vec<u8>>> {
    match target {
        "bfrops_model" | "bfrops_peer" => Ok((0..76).map(made).collect()),
        "bfrops_nested" => records("bfrops", nested),
        _ => records("bfrops", |record| {
            let (family, choice) = layout(record)?;
            let number = u8::try_from(record["type_id"].as_u64()?).ok()?;
            (target == family).then(|| seed(choice, number, record))?
        }),
    }
}

/// Returns the target of a record's layout, and the byte that selects the layout there.
fn layout(record: &Value) -> Option<(&'static str, u8)> {
    let variant = record["variant"].as_str().unwrap_or_default();
    let module = match variant.strip_prefix("bfrops=") {
        Some(name) => MODULES.iter().position(|module| *module == name)?,
        None if record["producer"] == "seed" => MODULES.len() - 1,
        None => 5,
    };
    let described = u8::from(record["buffer"] == "described");
    let choice = u8::try_from(module % 4 * 2).ok()? | described;
    let family = match (module, variant) {
        (0..4, _) => "bfrops_legacy",
        (_, "psquash=native") => "bfrops_native",
        _ => "bfrops_flex",
    };
    Some((family, choice))
}

fn nested(record: &Value) -> Option<Vec<u8>> {
    let (family, choice) = layout(record)?;
    let family = match family {
        "bfrops_legacy" => 0,
        "bfrops_flex" => 1,
        _ => 2,
    };
    let data_type = record["type_id"].as_u64()?;
    let number = NESTED.iter().position(|nested| *nested == data_type)?;
    seed(family << 3 | choice, u8::try_from(number).ok()?, record)
}

fn seed(choice: u8, number: u8, record: &Value) -> Option<Vec<u8>> {
    Some([&[choice, number], &encoded(record)?[..]].concat())
}

/// Returns bytes from which a target generates data of a type.
fn made(number: u8) -> Vec<u8> {
    let noise = (0..160_u8).map(|at| at.wrapping_mul(number | 1) ^ (at >> 3));
    [number].into_iter().chain(noise).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_seeds_of_its_layouts() {
        for (target, least) in [
            ("bfrops_flex", 400),
            ("bfrops_native", 200),
            ("bfrops_legacy", 500),
            ("bfrops_nested", 100),
            ("bfrops_model", 76),
        ] {
            let seeds = of(target).expect("the vectors are there");
            assert!(seeds.len() >= least, "{target}: {}", seeds.len());
        }
        // A single uint32 of 1 as v20 packs it.
        let seed = [2, 14, 0, 0, 0, 1, 0, 0, 0, 1];
        let seeds = of("bfrops_legacy").expect("the vectors are there");
        assert!(seeds.contains(&seed.to_vec()));
    }
}
