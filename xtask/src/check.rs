// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask check`: the checks of one change, which are quicker than the complete `cargo xtask test`.
//!
//! A change is the difference between the working tree, including new files, and the merge base with `origin/main`.
//! Without that branch it is the difference to the last commit.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use xtask::Outcome;
use xtask::process::{self, cargo, root};

use crate::test::{lints, tests};
use crate::tidy;

/// Packages with slow integration tests, which start jobs or run compilers; their tests are skipped.
const SLOW: &[&str] = &["pmix-builtin", "pmix-capi", "pmix-cli", "pmix-launch"];

/// Top-level files that affect every crate.
const EVERYWHERE: &[&str] = &["Cargo.toml", "Cargo.lock", "rust-toolchain.toml"];

/// Checks the format, the crates that changed, the crates that depend on them, and tidy.
pub(crate) fn run() -> Outcome {
    let mut outcome = Outcome::default();
    let format = process::run(&mut cargo(["fmt", "--all", "--check"]));
    outcome.check("format", format);
    match changed_files().and_then(|files| Ok((files, Workspace::read()?))) {
        Ok((files, workspace)) => crates(&workspace, &files, &mut outcome),
        Err(why) => outcome.check("changed files", Err(why)),
    }
    outcome += tidy::run(false);
    outcome
}

/// Lints and tests the crates that own these files, and lints the crates that depend on them.
fn crates(workspace: &Workspace, files: &[PathBuf], outcome: &mut Outcome) {
    for name in EVERYWHERE {
        if files.iter().any(|file| file == Path::new(name)) {
            println!("{name} concerns every crate: `cargo xtask test` checks them");
        }
    }
    let changed = workspace.owners(files);
    if changed.is_empty() {
        println!("no crate has changed");
        return;
    }
    let dependents = workspace.dependents(&changed);
    println!("changed: {}", names(&changed));
    println!("dependents: {}", names(&dependents));
    let of_changed = [&*packages(&changed), &["--all-targets"]].concat();
    outcome.check("lints of what changed", lints(&of_changed));
    if !dependents.is_empty() {
        outcome.check("lints of dependents", lints(&packages(&dependents)));
    }
    let run = |arguments: &[&str]| {
        let mut command = cargo(["test", "--locked", "--no-fail-fast"]);
        tests(command.args(arguments)).0
    };
    // Use one call for all packages. Another selection of packages enables other features, and
    // cargo would compile the dependencies again.
    let mut arguments = packages(&changed);
    if changed.iter().any(|package| package.has_library) {
        arguments.push("--lib");
    }
    arguments.push("--bins");
    *outcome += run(&arguments);
    let is_quick = |package: &&Package| package.has_it && !SLOW.contains(&&*package.name);
    let quick: Vec<_> = changed.into_iter().filter(is_quick).collect();
    if !quick.is_empty() {
        *outcome += run(&[&*packages(&quick), &["--test", "it"]].concat());
    }
}

fn names(packages: &[&Package]) -> String {
    let names: Vec<_> = packages.iter().map(|package| &*package.name).collect();
    names.join(" ")
}

/// Returns the arguments of cargo that select these packages.
fn packages<'a>(packages: &[&'a Package]) -> Vec<&'a str> {
    let arguments = packages.iter().map(|package| ["--package", &package.name]);
    arguments.flatten().collect()
}

/// Returns the changed and the new files, relative to the top.
fn changed_files() -> Result<Vec<PathBuf>, String> {
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        let said = process::output(command.args(arguments).current_dir(root()))?;
        String::from_utf8(said).map_err(|e| e.to_string())
    };
    let base = git(&["merge-base", "HEAD", "origin/main"]);
    let base = base.as_deref().map_or("HEAD", str::trim);
    let changed = git(&["diff", "--name-only", "-z", "--no-renames", base])?;
    let new = git(&["ls-files", "--others", "--exclude-standard", "-z"])?;
    let files = changed.split('\0').chain(new.split('\0'));
    let files = files.filter(|file| !file.is_empty());
    Ok(files.map(PathBuf::from).collect())
}

/// A package of the workspace.
#[derive(Debug, Default)]
struct Package {
    name: String,
    /// Its directory, relative to the top.
    folder: PathBuf,
    /// The packages on which it depends in builds and tests.
    needs: BTreeSet<String>,
    has_library: bool,
    /// `true` if it has the test program `it`.
    has_it: bool,
}

/// The packages of the workspace.
struct Workspace {
    packages: Vec<Package>,
}

impl Workspace {
    fn read() -> Result<Self, String> {
        let metadata = ["metadata", "--format-version=1", "--no-deps", "--locked"];
        let metadata = process::output(&mut cargo(metadata))?;
        let metadata: Value = serde_json::from_slice(&metadata).map_err(|e| e.to_string())?;
        let packages = metadata["packages"].as_array();
        let packages = packages.into_iter().flatten().map(package);
        Ok(Self {
            packages: packages.collect(),
        })
    }

    /// Returns the packages that own these files. A file belongs to the innermost directory of a
    /// package.
    fn owners(&self, files: &[PathBuf]) -> Vec<&Package> {
        let owner = |file: &PathBuf| {
            let holds = |package: &&Package| file.starts_with(&package.folder);
            let depth = |package: &&Package| package.folder.components().count();
            let owner = self.packages.iter().filter(holds).max_by_key(depth);
            owner.map(|package| &*package.name)
        };
        let owners: BTreeSet<&str> = files.iter().filter_map(owner).collect();
        self.named(|name| owners.contains(name))
    }

    /// Returns the other packages that need one of these, directly or through others.
    fn dependents(&self, changed: &[&Package]) -> Vec<&Package> {
        let given: BTreeSet<&str> = changed.iter().map(|package| &*package.name).collect();
        let mut reached = given.clone();
        loop {
            let needs_one =
                |package: &&Package| package.needs.iter().any(|name| reached.contains(&**name));
            let found = self.packages.iter().filter(needs_one);
            let found: Vec<_> = found.map(|package| &*package.name).collect();
            let before = reached.len();
            reached.extend(found);
            if reached.len() == before {
                break;
            }
        }
        self.named(|name| reached.contains(name) && !given.contains(name))
    }

    fn named(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<&Package> {
        let packages = self.packages.iter();
        packages
            .filter(|package| is_wanted(&package.name))
            .collect()
    }
}

/// Reads one package of `cargo metadata`.
fn package(facts: &Value) -> Package {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let manifest = PathBuf::from(text(&facts["manifest_path"]));
    let folder = manifest.parent().unwrap_or(&manifest);
    let targets = facts["targets"].as_array();
    let has = |is_wanted: &dyn Fn(&str, &str) -> bool| {
        targets.into_iter().flatten().any(|target| {
            let kinds = target["kind"].as_array().into_iter().flatten();
            let name = target["name"].as_str().unwrap_or_default();
            kinds
                .filter_map(Value::as_str)
                .any(|kind| is_wanted(kind, name))
        })
    };
    let needs = facts["dependencies"].as_array().into_iter().flatten();
    Package {
        name: text(&facts["name"]),
        folder: folder.strip_prefix(root()).unwrap_or(folder).to_owned(),
        needs: needs.map(|need| text(&need["name"])).collect(),
        has_library: has(&|kind, _| kind.ends_with("lib")),
        has_it: has(&|kind, name| kind == "test" && name == "it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace() -> Workspace {
        let package = |name: &str, folder: &str, needs: &[&str]| Package {
            name: name.to_owned(),
            folder: folder.into(),
            needs: needs.iter().map(|&name| name.to_owned()).collect(),
            ..Package::default()
        };
        let packages = vec![
            package("types", "crates/types", &["serde"]),
            package("engine", "crates/engine", &["types"]),
            package("engine-table", "crates/engine/table", &[]),
            package("cli", "crates/cli", &["engine"]),
        ];
        Workspace { packages }
    }

    #[test]
    fn a_file_belongs_to_the_innermost_package() {
        let workspace = workspace();
        let files = [
            "crates/engine/table/src/lib.rs",
            "crates/types/README.md",
            "crates/types-old/src/lib.rs",
            "docs/tour.md",
        ];
        let owners = workspace.owners(&files.map(PathBuf::from));
        assert_eq!(names(&owners), "types engine-table");
    }

    #[test]
    fn dependents_are_found_through_other_packages() {
        let workspace = workspace();
        let changed = workspace.owners(&["crates/types/src/lib.rs".into()]);
        assert_eq!(names(&workspace.dependents(&changed)), "engine cli");
        let changed = workspace.owners(&["crates/cli/src/main.rs".into()]);
        assert_eq!(names(&workspace.dependents(&changed)), "");
    }

    #[test]
    fn slow_packages_exist_and_have_the_test_program() {
        let workspace = Workspace::read().expect("the metadata of the workspace");
        for name in SLOW {
            let found = workspace.packages.iter().find(|one| one.name == *name);
            assert!(found.is_some_and(|one| one.has_it), "{name}");
        }
        let engine = workspace.owners(&["crates/pmix-engine/src/lib.rs".into()]);
        let dependents = names(&workspace.dependents(&engine));
        assert!(dependents.contains("pmix-server"), "{dependents}");
    }
}
