// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fuzz targets without a fuzzer, on earlier findings and on the hostile vectors.

use std::fs;
use std::path::{Path, PathBuf};

use crate::targets;
use data_encoding::HEXLOWER_PERMISSIVE;

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn handles_earlier_findings_of_fuzzers() {
    let folders = fs::read_dir(top().join("fuzz/regressions")).expect("the folder is there");
    let mut replayed = 0;
    for folder in folders.map(|entry| entry.expect("a folder").path()) {
        let name = folder.file_name().expect("a name").to_string_lossy();
        let run = targets::find(&name).unwrap_or_else(|| panic!("no fuzz target {name}"));
        for file in fs::read_dir(&folder).expect("a folder") {
            let path = file.expect("a file").path();
            println!("{}", path.display());
            run(&fs::read(&path).expect("a readable file"));
            replayed += 1;
        }
    }
    assert!(replayed > 0, "nothing was replayed");
}

#[test]
fn every_target_survives_the_hostile_vectors() {
    let path = top().join("testdata/preg/nasty.jsonl");
    let text = fs::read_to_string(path).expect("the vectors are there");
    let mut inputs: Vec<Vec<u8>> = text
        .lines()
        .filter_map(|line| {
            let record: serde_json::Value = serde_json::from_str(line).expect("JSON");
            let hex = record["input_hex"].as_str()?;
            let bytes = HEXLOWER_PERMISSIVE.decode(hex.as_bytes());
            Some(bytes.expect("hexadecimal"))
        })
        .collect();
    inputs.sort_unstable();
    inputs.dedup();
    assert!(inputs.len() > 100, "{}", inputs.len());
    for (name, run) in targets::TARGETS {
        for input in &inputs {
            println!("{name}: {}", input.escape_ascii());
            run(input);
            // Also without the tag, because most targets add it to their input.
            for tag in [&b"pmix["[..], b"raw:", b"blob:"] {
                if let Some(rest) = input.strip_prefix(tag) {
                    run(rest);
                }
            }
        }
    }
}
