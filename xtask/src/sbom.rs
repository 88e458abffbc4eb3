// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bills of materials of the command and the library, in CycloneDX form, and the licenses of all crates with their
//! texts.
//!
//! Source: CycloneDX 1.5, "Component"; cargo-cyclonedx, which queries cargo.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use xtask::install;
use xtask::process::{cargo, output, root};

use crate::files::{copy, directory, write};

/// The tool, in the version that this task supports.
const TOOL: (&str, &str) = ("cargo-cyclonedx", "0.5.9");

/// The directory of bills and licenses in an installation.
pub(crate) const FOLDER: &str = "share/doc/pmix-rs";

/// The file with the licenses.
pub(crate) const LICENSES: &str = "LICENSES.txt";

/// The beginnings of names of license files.
const TERMS: &[&str] = &[
    "LICENSE",
    "LICENCE",
    "COPYING",
    "COPYRIGHT",
    "NOTICE",
    "UNLICENSE",
];

/// The license of musl, which is part of a static command.
const MUSL: &str = "musl, the C library of static commands, is licensed under the MIT license:\n\
                    Copyright \u{a9} 2005-2020 Rich Felker, et al.\n\n";

/// A product: its crate and the file name of its bill.
pub(crate) type Product = (&'static str, &'static str);

/// The command, and the library for C.
pub(crate) const COMMAND: Product = ("pmix-cli", "pmix.cdx.json");
pub(crate) const LIBRARY: Product = ("pmix-capi", "libpmix.cdx.json");

/// A crate that is part of a product.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Component {
    name: String,
    version: String,
    license: String,
}

/// Returns the tool, which is installed if that is allowed.
///
/// # Errors
/// Returns a message if it is missing and cannot be installed.
pub(crate) fn tool() -> Result<PathBuf, String> {
    install::tool(TOOL.0, TOOL.1, &[])
}

/// Writes the bills of products for a target, and the licenses of all, below their installation directory.
///
/// # Errors
/// Returns a message if a file cannot be written, if a bill differs from the build of cargo, or if a crate has no
/// license.
pub(crate) fn bills(
    tool: &Path,
    folder: &Path,
    products: &[Product],
    target: &str,
) -> Result<(), String> {
    let doc = folder.join(FOLDER);
    let tree = tree()?;
    let mut all = BTreeSet::new();
    for (package, file) in products {
        let built = built(package, target)?;
        let bill = narrowed(bill(tool, &tree, package, target)?, &built);
        let found = components(&bill)?;
        compare(package, &found, &built)?;
        println!("{file}: {} crates", found.len());
        let text = serde_json::to_string_pretty(&bill).map_err(|e| e.to_string())?;
        write(&doc.join(file), text.as_bytes())?;
        all.extend(found);
    }
    let mut text = licenses(&all, &folders(target)?)?;
    if target.ends_with("-musl") {
        let terms = root().join("LICENSE-MIT");
        let terms = fs::read_to_string(&terms).map_err(|e| format!("{}: {e}", terms.display()))?;
        let body = terms
            .split_once("Permission is")
            .map_or("", |(_, body)| body);
        let _ = write!(text, "\n{}\n\n{MUSL}Permission is{body}", "-".repeat(80));
    }
    write(&doc.join(LICENSES), text.as_bytes())?;
    // The licenses of the standard library are part of the toolchain.
    let sysroot = output(
        Command::new("rustc")
            .args(["--print", "sysroot"])
            .current_dir(root()),
    )?;
    let sysroot = PathBuf::from(String::from_utf8_lossy(&sysroot).trim());
    let of_std = sysroot.join("share/doc/rust/COPYRIGHT-library.html");
    match of_std.is_file() {
        true => copy(&of_std, &doc.join("COPYRIGHT-rust-library.html"), 0o644),
        false => Ok(()),
    }
}

/// Returns a copy of the workspace made of manifests and links, as the tool writes files beside every manifest.
fn tree() -> Result<PathBuf, String> {
    let tree = install::scratch("sbom")?.join("tree");
    // The directory is missing in the first run.
    let _ = fs::remove_dir_all(&tree);
    let metadata = ["metadata", "--locked", "--no-deps", "--format-version", "1"];
    let metadata = parsed(&output(&mut cargo(metadata))?)?;
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
        let from = manifest.parent().unwrap_or(manifest);
        let inside = from
            .strip_prefix(root())
            .map_err(|e| format!("{}: {e}", from.display()))?;
        let to = tree.join(inside);
        directory(&to)?;
        let fault = |e: std::io::Error| format!("{}: {e}", to.display());
        for entry in fs::read_dir(from).map_err(fault)? {
            let entry = entry.map_err(fault)?;
            // The tool must not write into the repository, so the manifest is a copy and the rest are links.
            match entry.file_name() == "Cargo.toml" {
                true => copy(&entry.path(), &to.join("Cargo.toml"), 0o644)?,
                false => symlink(entry.path(), to.join(entry.file_name())).map_err(fault)?,
            }
        }
    }
    for file in ["Cargo.toml", "Cargo.lock"] {
        copy(&root().join(file), &tree.join(file), 0o644)?;
    }
    Ok(tree)
}

/// Returns the bill of a crate without paths of this machine.
fn bill(tool: &Path, tree: &Path, package: &str, target: &str) -> Result<Value, String> {
    let folder = tree.join("crates").join(package);
    let mut command = Command::new(tool);
    command.args([
        "cyclonedx",
        "--quiet",
        "--format",
        "json",
        "--spec-version",
        "1.5",
    ]);
    command.args([
        "--no-build-deps",
        "--override-filename",
        "bill",
        "--target",
        target,
    ]);
    command
        .arg("--manifest-path")
        .arg(folder.join("Cargo.toml"));
    output(command.current_dir(root()))?;
    let file = folder.join("bill.json");
    let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    let text = text.replace(&format!("file://{}/", tree.display()), "file:///");
    parsed(text.as_bytes())
}

/// Removes crates from a bill that only other crates of the workspace use, through their features: the tool resolves
/// features for the whole workspace at once.
fn narrowed(mut bill: Value, built: &BTreeSet<(String, String)>) -> Value {
    let text = |one: &Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
    let is_built = |one: &Value| built.contains(&(text(one, "name"), text(one, "version")));
    let mut gone = BTreeSet::new();
    if let Some(Value::Array(components)) = bill.get_mut("components") {
        let others = components.iter().filter(|one| !is_built(one));
        gone.extend(others.map(|one| text(one, "bom-ref")));
        components.retain(is_built);
    }
    if let Some(Value::Array(dependencies)) = bill.get_mut("dependencies") {
        dependencies.retain(|one| !gone.contains(&text(one, "ref")));
        for one in dependencies {
            if let Some(Value::Array(on)) = one.get_mut("dependsOn") {
                on.retain(|name| !gone.contains(name.as_str().unwrap_or_default()));
            }
        }
    }
    bill
}

fn parsed(text: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(text).map_err(|e| e.to_string())
}

/// Returns the crates in a bill.
fn components(bill: &Value) -> Result<BTreeSet<Component>, String> {
    let components = bill["components"].as_array();
    let components = components.ok_or("the bill has no components")?;
    let component = |one: &Value| {
        let text = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
        let licenses = one["licenses"].as_array().into_iter().flatten();
        let words = licenses.filter_map(|license| {
            let expression = license["expression"].as_str();
            let named = expression.or_else(|| license["license"]["id"].as_str());
            named.or_else(|| license["license"]["name"].as_str())
        });
        let component = Component {
            name: text("name"),
            version: text("version"),
            license: words.collect::<Vec<_>>().join(" AND "),
        };
        match component.license.is_empty() {
            true => Err(format!("{} does not say its license", component.name)),
            false => Ok(component),
        }
    };
    components.iter().map(component).collect()
}

/// Returns names and versions of the crates that cargo builds into a crate.
fn built(package: &str, target: &str) -> Result<BTreeSet<(String, String)>, String> {
    let mut tree = cargo(["tree", "--locked", "--edges", "normal"]);
    tree.args(["--prefix", "none", "--package", package, "--target", target]);
    let said = output(&mut tree)?;
    let said = String::from_utf8_lossy(&said);
    let crates = said.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (name, version) = (words.next()?, words.next()?);
        Some((name.to_owned(), version.trim_start_matches('v').to_owned()))
    });
    Ok(crates.filter(|(name, _)| name != package).collect())
}

/// Checks that the bill of a crate contains everything that cargo builds.
fn compare(
    package: &str,
    found: &BTreeSet<Component>,
    built: &BTreeSet<(String, String)>,
) -> Result<(), String> {
    let found = found
        .iter()
        .map(|one| (one.name.clone(), one.version.clone()));
    let found: BTreeSet<_> = found.collect();
    let missing: Vec<_> = built.difference(&found).collect();
    match missing.is_empty() && !built.is_empty() {
        true => Ok(()),
        false => Err(format!("the bill of {package} lacks {missing:?}")),
    }
}

/// Returns the source directory of each crate by name and version.
fn folders(target: &str) -> Result<BTreeMap<(String, String), PathBuf>, String> {
    let arguments = ["metadata", "--locked", "--format-version", "1"];
    let mut metadata = cargo(arguments);
    metadata.args(["--filter-platform", target]);
    let metadata = parsed(&output(&mut metadata)?)?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let folder = |package: &Value| {
        let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
        let folder = Path::new(&text("manifest_path")).parent()?.to_owned();
        Some(((text("name"), text("version")), folder))
    };
    Ok(packages.filter_map(folder).collect())
}

/// Returns a line with the license of each crate, and then each text once with the crates that it covers.
fn licenses(
    components: &BTreeSet<Component>,
    folders: &BTreeMap<(String, String), PathBuf>,
) -> Result<String, String> {
    let mut list = String::from("What is in pmix-rs, and under which license:\n\n");
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for one in components {
        let named = format!("{} {}", one.name, one.version);
        // Writing into a String cannot fail.
        let _ = writeln!(list, "{named}: {}", one.license);
        let folder = folders.get(&(one.name.clone(), one.version.clone()));
        let folder = folder.ok_or_else(|| format!("cargo does not know {named}"))?;
        for text in terms(folder)? {
            texts.entry(text).or_default().push(named.clone());
        }
    }
    list.push_str(
        "\nThe standard library of Rust: MIT OR Apache-2.0; COPYRIGHT-rust-library.html\n",
    );
    let mut texts: Vec<_> = texts.into_iter().collect();
    // Sort the texts by their number of crates, the largest first.
    texts.sort_by_key(|(_, names)| std::cmp::Reverse(names.len()));
    for (text, names) in texts {
        let _ = write!(
            list,
            "\n{}\n\n{}:\n\n{text}\n",
            "-".repeat(80),
            names.join(", ")
        );
    }
    Ok(list)
}

/// Returns the texts of the license files of a crate.
fn terms(folder: &Path) -> Result<BTreeSet<String>, String> {
    let fault = |e: std::io::Error| format!("{}: {e}", folder.display());
    let mut texts = BTreeSet::new();
    for entry in fs::read_dir(folder).map_err(fault)? {
        let path = entry.map_err(fault)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.to_ascii_uppercase();
        if TERMS.iter().any(|begin| name.starts_with(begin)) && path.is_file() {
            let text = fs::read(&path).map_err(fault)?;
            let text = String::from_utf8_lossy(&text).into_owned();
            let lines = text.trim().lines().map(str::trim_end);
            texts.insert(lines.collect::<Vec<_>>().join("\n"));
        }
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BILL: &str = r#"{"components":[
        {"bom-ref":"1","name":"a","version":"1.0.0","licenses":[{"expression":"MIT OR Apache-2.0"}]},
        {"bom-ref":"2","name":"b","version":"2.1.0","licenses":[{"license":{"id":"Zlib"}}]}],
        "dependencies":[{"ref":"0","dependsOn":["1","2"]},{"ref":"1","dependsOn":["2"]},{"ref":"2"}]}"#;

    fn bill() -> Value {
        parsed(BILL.as_bytes()).expect("a bill")
    }

    fn built(names: &[(&str, &str)]) -> BTreeSet<(String, String)> {
        let names = names.iter();
        names
            .map(|(name, version)| ((*name).to_owned(), (*version).to_owned()))
            .collect()
    }

    #[test]
    fn a_bill_is_of_what_is_built() {
        let built = |names: &[(&str, &str)]| built(names);
        let both = built(&[("a", "1.0.0"), ("b", "2.1.0")]);
        assert_eq!(narrowed(bill(), &both), bill());
        assert_eq!(
            compare("p", &components(&bill()).expect("two crates"), &both),
            Ok(())
        );
        let one = built(&[("b", "2.1.0")]);
        let left = narrowed(bill(), &one);
        assert_eq!(components(&left).expect("a crate").len(), 1);
        let expected = br#"[{"ref":"0","dependsOn":["2"]},{"ref":"2"}]"#;
        assert_eq!(Ok(&left["dependencies"]), parsed(expected).as_ref());
        let fault = compare("p", &components(&left).expect("a crate"), &both);
        assert!(fault.is_err_and(|why| why.contains(r#"lacks [("a", "1.0.0")]"#)));
        assert!(compare("p", &BTreeSet::new(), &BTreeSet::new()).is_err());
    }

    #[test]
    fn a_crate_without_a_license_is_a_fault() {
        let bill = parsed(BILL.replace("Zlib", "").as_bytes()).expect("a bill");
        assert!(components(&bill).is_err_and(|why| why.contains("b does not say")));
        assert!(components(&Value::Null).is_err());
    }

    #[test]
    fn every_license_is_named_and_each_text_is_there_once() {
        let found = components(&bill()).expect("two crates");
        let ours = root().join("crates/pmix-types");
        let folders = found
            .iter()
            .map(|one| ((one.name.clone(), one.version.clone()), ours.clone()));
        let text = licenses(&found, &folders.collect()).expect("a list");
        assert!(
            text.contains("\na 1.0.0: MIT OR Apache-2.0\nb 2.1.0: Zlib\n"),
            "{text}"
        );
        assert_eq!(text.matches("Permission is hereby granted").count(), 1);
        assert!(text.contains("a 1.0.0, b 2.1.0:"), "{text}");
        let nowhere = licenses(&found, &BTreeMap::new());
        assert!(nowhere.is_err_and(|why| why.contains("does not know a 1.0.0")));
    }
}
