// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading `testdata/ops`.

use std::path::Path;

/// Returns the rows of a table without its header, split at tabs.
pub(crate) fn rows(name: &str) -> Vec<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../testdata/ops")
        .join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let rows: Vec<_> = text
        .lines()
        .skip(1)
        .map(|l| l.split('\t').map(String::from).collect())
        .collect();
    assert!(!rows.is_empty(), "{name} has no rows");
    rows
}

/// Returns the rows of one call, without its name.
pub(crate) fn calls(name: &str, call: &str) -> Vec<Vec<String>> {
    let rows: Vec<_> = rows(name)
        .into_iter()
        .filter(|row| row[0] == call)
        .map(|row| row[1..].to_vec())
        .collect();
    assert!(!rows.is_empty(), "{name} has no {call}");
    rows
}

/// Parses `null`, or text in quotes with `\xNN` for unprintable bytes.
pub(crate) fn text(field: &str) -> Option<Vec<u8>> {
    if field == "null" {
        return None;
    }
    let inner = field
        .strip_prefix('"')
        .and_then(|f| f.strip_suffix('"'))
        .expect(field);
    let mut bytes = Vec::new();
    let mut rest = inner.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if let Some(hex) = rest.strip_prefix(b"\\x") {
            let digits = std::str::from_utf8(&hex[..2]).expect("hex");
            bytes.push(u8::from_str_radix(digits, 16).expect("hex"));
            rest = &hex[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    Some(bytes)
}

/// Parses `null`, or texts in brackets with commas between them.
pub(crate) fn list(field: &str) -> Option<Vec<Vec<u8>>> {
    if field == "null" {
        return None;
    }
    let inner = field
        .strip_prefix('[')
        .and_then(|f| f.strip_suffix(']'))
        .expect(field);
    let mut texts = Vec::new();
    let mut rest = inner;
    while !rest.is_empty() {
        let end = rest[1..].find('"').expect("a closing quote") + 2;
        texts.extend(text(&rest[..end]));
        rest = &rest[end..];
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
    Some(texts)
}

pub(crate) fn number<T: std::str::FromStr>(field: &str) -> T {
    field
        .parse()
        .unwrap_or_else(|_| panic!("{field} is not a number"))
}
