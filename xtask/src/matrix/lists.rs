// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lists of the vectors and their meaning, parsed without the code under test.

use std::collections::BTreeSet;
use std::fs;

use data_encoding::HEXLOWER_PERMISSIVE;
use serde_json::Value;

use xtask::process::root;

/// A list and its decoded form.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct List {
    pub(crate) procs: bool,
    pub(crate) text: String,
    /// The names, or each node's ranks; `None` for a process map with an invalid rank.
    pub(crate) meaning: Option<Vec<String>>,
}

impl List {
    pub(crate) fn new(procs: bool, text: &str) -> Self {
        let parts = |separator| match text {
            "" => Vec::new(),
            text => text.split(separator).map(str::to_owned).collect::<Vec<_>>(),
        };
        let meaning = if procs {
            parts(';').iter().map(|node| ranks(node)).collect()
        } else {
            Some(parts(','))
        };
        Self {
            procs,
            text: text.to_owned(),
            meaning,
        }
    }

    /// Returns `true` if the list itself looks like an encoded value, so that a reader may decode
    /// it.
    pub(crate) fn looks_encoded(&self) -> bool {
        let tags = ["pmix[", "raw:", "blob:", "fold:", "rle:"];
        tags.iter().any(|tag| self.text.starts_with(tag))
    }
}

/// Expands the ranks of a node. Returns `None` if one is invalid.
fn ranks(node: &str) -> Option<String> {
    /// The first of the rank values that PMIx reserves.
    const SPECIAL: u32 = u32::MAX - 50;
    let number = |text: &str| {
        let digits = text.bytes().all(|b| b.is_ascii_digit());
        let number: u32 = text.trim().parse().ok().filter(|_| digits)?;
        (number < SPECIAL).then_some(number)
    };
    let mut found = Vec::new();
    for entry in node.split(',').map(str::trim).filter(|e| !e.is_empty()) {
        let (first, last) = entry.split_once('-').unwrap_or((entry, entry));
        let (first, last) = (number(first.trim())?, number(last.trim())?);
        if first > last {
            return None;
        }
        found.extend((first..=last).map(|rank| rank.to_string()));
    }
    Some(found.join(","))
}

/// Returns every distinct list of the vectors.
pub(crate) fn read() -> Result<Vec<List>, String> {
    let folder = root().join("testdata/preg");
    let mut lists = BTreeSet::new();
    for entry in fs::read_dir(&folder).map_err(|e| e.to_string())? {
        let path = entry.map_err(|e| e.to_string())?.path();
        if path.extension().is_none_or(|ext| ext != "jsonl") {
            continue;
        }
        let text = fs::read_to_string(&path).map_err(|e| e.to_string())?;
        for line in text.lines() {
            let record: Value = serde_json::from_str(line).map_err(|e| e.to_string())?;
            lists.extend(list_of(&record));
        }
    }
    // Names repeated once for every slot, which no vector contains.
    let slots: Vec<_> = (1..=64)
        .flat_map(|n| vec![format!("gpu{n:03}"); 8])
        .collect();
    lists.insert(List::new(false, &slots.join(",")));
    Ok(lists.into_iter().collect())
}

/// Returns the list of a record. Names that are no UTF-8 are omitted.
fn list_of(record: &Value) -> Option<List> {
    let case = record["case"].as_str().or_else(|| record["id"].as_str())?;
    if let Some(text) = record["input"].as_str() {
        return Some(List::new(case.starts_with("proc/"), text));
    }
    let generated = case.starts_with("gn/") || case.starts_with("gp/");
    let hex = record["input_hex"].as_str().filter(|_| generated)?;
    let bytes = HEXLOWER_PERMISSIVE.decode(hex.as_bytes()).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    Some(List::new(case.starts_with("gp/"), &text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_expanded_and_words_are_none() {
        let meaning = |text| List::new(true, text).meaning;
        let nodes = |nodes: &[&str]| Some(nodes.iter().map(|n| (*n).to_owned()).collect());
        assert_eq!(meaning("0-3;;5, 6"), nodes(&["0,1,2,3", "", "5,6"]));
        assert_eq!(meaning(""), nodes(&[]));
        for wrong in ["a", "3-1", "-1", "+1", "1-2-3", "4294967295", "1.5", "0-"] {
            assert_eq!(meaning(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_vectors_hold_many_lists_of_both_kinds() {
        let lists = read().expect("the vectors are there");
        let procs = lists.iter().filter(|list| list.procs).count();
        assert!(procs > 40, "{procs}");
        assert!(lists.len() - procs > 150, "{}", lists.len());
    }
}
