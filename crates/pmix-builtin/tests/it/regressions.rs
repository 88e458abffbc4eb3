// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fuzz targets without a fuzzer, on earlier findings and on the hostile vectors.

use std::fs;
use std::path::{Path, PathBuf};

use crate::targets;
use data_encoding::HEXLOWER_PERMISSIVE;
use pmix_random::Source as _;

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

/// Repeats what the fuzzer does with captured requests, with fixed random bytes: appends them, raises the command and the
/// release of the client.
#[test]
fn a_server_serves_a_newer_client_whatever_it_appends() {
    let run = targets::find("engine_newer").expect("the target exists");
    let folder = fs::read_dir(top().join("testdata/wire")).expect("the captures are there");
    let mut random = pmix_random::Seeded::new(7);
    let mut take = |most: u64| u8::try_from(random.take(8) % most).expect("less than 256");
    let mut num_requests = 0;
    for file in folder.map(|entry| entry.expect("a file").path()) {
        if file.extension().is_none_or(|end| end != "hex") {
            continue;
        }
        let text = fs::read_to_string(&file).expect("text");
        let mut from_client = false;
        for line in text.lines() {
            if let Some(title) = line.strip_prefix("== ") {
                from_client = title.starts_with("CLIENT");
            }
            let Some(raw) = line.trim().strip_prefix("RAW ").filter(|_| from_client) else {
                continue;
            };
            let digits: Vec<u8> = raw.bytes().filter(u8::is_ascii_hexdigit).collect();
            let bytes = HEXLOWER_PERMISSIVE.decode(&digits).expect("hexadecimal");
            // The header has 16 bytes; that of a hello begins with index -1.
            let Some((head, payload)) = bytes.split_at_checked(16).filter(|_| raw.len() > 32)
            else {
                continue;
            };
            if head.starts_with(&[0xff; 4]) || payload.is_empty() {
                continue;
            }
            num_requests += 1;
            for round in 0..6 {
                let more = if round < 3 { 0 } else { take(256) };
                let tail: Vec<u8> = (0..take(40)).map(|_| take(256)).collect();
                let start = [take(3), take(256), take(256), more];
                run(&[&start[..], payload, &tail].concat());
            }
        }
    }
    assert!(num_requests > 100, "{num_requests}");
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
