// SPDX-License-Identifier: MIT OR Apache-2.0
//! The inputs of the measured vectors in `testdata/preg`, without duplicates.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use super::checks::Case;
use xtask::process::root;

/// Returns every input of the generator vectors.
///
/// # Errors
/// Returns a message if the vectors are missing or are not JSON lines.
pub(crate) fn cases() -> Result<Vec<Case>, String> {
    let dir = root().join("testdata/preg");
    let mut by_id = BTreeMap::new();
    for row in rows(&dir.join("inputs.jsonl"))? {
        if let (Some(id), Some(input)) = (row["id"].as_str(), row["input"].as_str()) {
            by_id.insert(id.to_owned(), input.to_owned());
        }
    }
    let mut seen = BTreeSet::new();
    let mut cases = Vec::new();
    for (file, procs) in [
        ("generate_regex.jsonl", false),
        ("generate_ppn.jsonl", true),
    ] {
        for row in rows(&dir.join(file))? {
            let name = row["case"].as_str().unwrap_or("?").to_owned();
            let text = row["input"].as_str().map(str::to_owned);
            let by_id = || by_id.get(row["input_id"].as_str()?).cloned();
            let text = text
                .or_else(by_id)
                .ok_or_else(|| format!("{file}: case {name} has no input"))?;
            if seen.insert((procs, text.clone())) {
                cases.push(Case { name, procs, text });
            }
        }
    }
    Ok(cases)
}

fn rows(path: &Path) -> Result<Vec<Value>, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    text.lines()
        .map(|line| serde_json::from_str(line).map_err(|e| format!("{}: {e}", path.display())))
        .collect()
}
