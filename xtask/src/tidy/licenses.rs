// SPDX-License-Identifier: MIT OR Apache-2.0
//! The licenses and sources of all dependencies, as `deny.toml` permits them.
//!
//! If `cargo deny` is installed, it checks them. Building it takes longer than all tests, so otherwise this module
//! checks the licenses against the same list, and the source of each package.

use std::process::Command;

use serde_json::Value;
use toml::Table;
use xtask::process::{self, cargo};

use super::tree::Fault;

/// The checks of `cargo deny`; its advisories need the network.
const CHECKS: &[&str] = &["bans", "licenses", "sources"];

/// Checks every package that cargo would build.
///
/// # Errors
/// Returns a message if `cargo deny` found a fault, or if neither it nor `cargo metadata` can run.
pub(crate) fn check() -> Result<Vec<Fault>, String> {
    let mut version = Command::new("cargo-deny");
    if process::output(version.arg("--version")).is_ok() {
        let mut deny = cargo([
            "deny",
            "--offline",
            "--locked",
            "check",
            "--hide-inclusion-graph",
        ]);
        return process::run(deny.args(CHECKS)).map(|()| Vec::new());
    }
    let allowed = allowed_licenses()?;
    let metadata = process::output(&mut cargo(["metadata", "--format-version=1", "--locked"]))?;
    let metadata: Value = serde_json::from_slice(&metadata).map_err(|e| e.to_string())?;
    let packages = metadata["packages"].as_array().ok_or("no packages")?;
    let faults = |package| [fault_of(package, &allowed), foreign(package)];
    Ok(packages.iter().flat_map(faults).flatten().collect())
}

/// Returns the licenses that `deny.toml` permits.
fn allowed_licenses() -> Result<Vec<String>, String> {
    let fault = |e: &dyn std::fmt::Display| format!("deny.toml: {e}");
    let text = std::fs::read_to_string(process::root().join("deny.toml")).map_err(|e| fault(&e))?;
    let table: Table = text.parse().map_err(|e| fault(&e))?;
    let allow = table.get("licenses").and_then(|table| table.get("allow"));
    let allow = allow.and_then(toml::Value::as_array);
    let allow = allow.ok_or_else(|| fault(&"no list of allowed licenses"))?;
    let names = allow.iter().filter_map(toml::Value::as_str);
    Ok(names.map(str::to_owned).collect())
}

fn fault_of(package: &Value, allowed_licenses: &[String]) -> Option<Fault> {
    let license = package["license"].as_str().unwrap_or("none stated");
    (!allowed(license, allowed_licenses)).then(|| Fault {
        path: "Cargo.lock".to_owned(),
        line: 0,
        message: format!(
            "{} {} has license {license:?}, which is not allowed",
            package["name"].as_str().unwrap_or_default(),
            package["version"].as_str().unwrap_or_default(),
        ),
    })
}

/// Returns a fault for a package that comes neither from this repository nor from crates.io.
fn foreign(package: &Value) -> Option<Fault> {
    const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";
    let source = package["source"].as_str()?;
    (source != CRATES_IO).then(|| Fault {
        path: "Cargo.lock".to_owned(),
        line: 0,
        message: format!(
            "{} comes from {source}, not from crates.io",
            package["name"].as_str().unwrap_or_default(),
        ),
    })
}

/// Returns `true` if the permitted licenses satisfy an SPDX expression.
fn allowed(expression: &str, licenses: &[String]) -> bool {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut parser = Parser {
        words: &words,
        licenses,
    };
    parser.any() == Some(true) && parser.words.is_empty()
}

/// A recursive-descent parser of license expressions; `None` means a malformed expression.
struct Parser<'a> {
    words: &'a [&'a str],
    licenses: &'a [String],
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
        Some(self.licenses.iter().any(|known| known == name))
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
        let licenses = allowed_licenses().expect("the committed list");
        let allowed = |expression: &str| allowed(expression, &licenses);
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
    fn a_package_from_elsewhere_is_reported() {
        let from = |source: Value| foreign(&serde_json::json!({"name": "x", "source": source}));
        assert!(from(Value::Null).is_none());
        let registry = "registry+https://github.com/rust-lang/crates.io-index";
        assert!(from(registry.into()).is_none());
        assert!(from("git+https://example.org/x".into()).is_some());
    }

    #[test]
    fn a_package_without_a_license_is_reported() {
        let package = serde_json::json!({"name": "x", "version": "1.0.0", "license": null});
        let fault = fault_of(&package, &[]).expect("a fault");
        assert!(fault.message.contains("x 1.0.0"));
    }
}
