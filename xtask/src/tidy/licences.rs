// SPDX-License-Identifier: MIT OR Apache-2.0
//! The licences of everything that is linked in.

use serde_json::Value;

use super::tree::Fault;
use xtask::process::{self, cargo};

/// Licences that a dependency may have.
const ALLOWED: &[&str] = &[
    "MIT",
    "MIT-0",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "NCSA",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Checks every package that cargo would build.
pub(crate) fn check() -> Result<Vec<Fault>, String> {
    let metadata = process::output(&mut cargo(["metadata", "--format-version=1", "--locked"]))?;
    let metadata: Value = serde_json::from_slice(&metadata).map_err(|e| e.to_string())?;
    let packages = metadata["packages"].as_array().ok_or("no packages")?;
    Ok(packages.iter().filter_map(fault_of).collect())
}

fn fault_of(package: &Value) -> Option<Fault> {
    let licence = package["license"].as_str().unwrap_or("none stated");
    (!allowed(licence)).then(|| Fault {
        path: "Cargo.lock".to_owned(),
        line: 0,
        message: format!(
            "{} {} has licence {licence:?}, which is not allowed",
            package["name"].as_str().unwrap_or_default(),
            package["version"].as_str().unwrap_or_default(),
        ),
    })
}

/// Whether an SPDX expression can be satisfied with the allowed licences.
fn allowed(expression: &str) -> bool {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut parser = Parser { words: &words };
    parser.any() == Some(true) && parser.words.is_empty()
}

/// A descent over the words; `None` means that the expression is malformed.
struct Parser<'a> {
    words: &'a [&'a str],
}

impl<'a> Parser<'a> {
    fn any(&mut self) -> Option<bool> {
        let mut ok = self.all()?;
        while self.eat("OR") {
            ok |= self.all()?;
        }
        Some(ok)
    }

    fn all(&mut self) -> Option<bool> {
        let mut ok = self.one()?;
        while self.eat("AND") {
            ok &= self.one()?;
        }
        Some(ok)
    }

    fn one(&mut self) -> Option<bool> {
        if self.eat("(") {
            let ok = self.any()?;
            return self.eat(")").then_some(ok);
        }
        let name = self.next()?;
        if self.eat("WITH") {
            // An exception only adds permissions.
            self.next()?;
        }
        Some(ALLOWED.contains(&name))
    }

    fn next(&mut self) -> Option<&'a str> {
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        Some(first)
    }

    fn eat(&mut self, word: &str) -> bool {
        let found = self.words.first() == Some(&word);
        if found {
            self.words = &self.words[1..];
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_judged_as_a_whole() {
        assert!(allowed("MIT OR Apache-2.0"));
        assert!(allowed("GPL-3.0-only OR MIT"));
        assert!(allowed("(MIT OR GPL-2.0-only) AND Unicode-3.0"));
        assert!(allowed("MIT/Apache-2.0"));
        assert!(allowed("Apache-2.0 WITH LLVM-exception"));
        assert!(!allowed("GPL-3.0-only"));
        assert!(!allowed("MIT AND GPL-3.0-only"));
        assert!(!allowed("none stated"));
        assert!(!allowed("MIT OR"));
        assert!(!allowed(""));
    }

    #[test]
    fn a_package_without_a_licence_is_reported() {
        let package = serde_json::json!({"name": "x", "version": "1.0.0", "license": null});
        let fault = fault_of(&package).expect("a fault");
        assert!(fault.message.contains("x 1.0.0"));
    }
}
