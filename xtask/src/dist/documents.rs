// SPDX-License-Identifier: MIT OR Apache-2.0
//! The documents that are installed with the command and the library, and the recipes of docs/install.md.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use xtask::process::{output, root};
use xtask::{Outcome, install};

use super::{PROGRAM, four_say};
use crate::files::{copy, write};
use crate::sbom::FOLDER;

/// The top-level documents.
const TOP: [&str; 4] = [
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
];

/// The directories of documents.
const FOLDERS: [&str; 2] = ["docs", "docs/decisions"];

/// Link targets that are not installed, because they are part of the sources.
const SOURCES: [&str; 8] = [
    "crates",
    "data",
    "examples",
    "fuzz",
    "include",
    "testdata",
    "tests",
    "plugins.toml",
];

/// Installs the top-level documents and those of `docs`, decisions included.
///
/// # Errors
/// Returns a message if a file cannot be read or written, or if there is none.
pub(super) fn install(folder: &Path) -> Result<(), String> {
    for file in all()? {
        copy(&root().join(&file), &folder.join(FOLDER).join(&file), 0o644)?;
    }
    Ok(())
}

/// Checks that every document is installed, and that links between documents have targets.
///
/// # Errors
/// Returns a message if a document or a link's target is missing.
pub(super) fn check(folder: &Path) -> Result<(), String> {
    let docs = folder.join(FOLDER);
    let all = all()?;
    if let Some(file) = all.iter().find(|file| !docs.join(file).is_file()) {
        return Err(format!("{file} is not installed"));
    }
    for file in &all {
        let path = docs.join(file);
        let text = fs::read_to_string(&path).map_err(|e| format!("{file}: {e}"))?;
        let beside = path.parent().unwrap_or(&docs);
        let mut links = text.split("](").skip(1);
        let broken = links.find_map(|rest| {
            let (link, _) = rest.split_once([')', '#'])?;
            let from_top = link.trim_start_matches("../");
            let is_source = SOURCES.iter().any(|start| from_top.starts_with(start));
            let is_here = link.is_empty() || link.contains(':') || beside.join(link).exists();
            let is_document = link.ends_with(".md") || link.ends_with('/');
            (is_document && !is_source && !is_here).then_some(link)
        });
        if let Some(link) = broken {
            return Err(format!("{file} leads to {link}, which is not installed"));
        }
    }
    println!("{} documents", all.len());
    Ok(())
}

/// Returns the paths of all documents in the sources.
fn all() -> Result<Vec<String>, String> {
    let mut all: Vec<_> = TOP.map(str::to_owned).into();
    for folder in FOLDERS {
        let names = names(&root().join(folder))?;
        if names.is_empty() {
            return Err(format!("there are no documents in {folder}"));
        }
        all.extend(names.iter().map(|name| format!("{folder}/{name}")));
    }
    Ok(all)
}

/// Returns the names of the documents in a directory.
fn names(folder: &Path) -> Result<BTreeSet<String>, String> {
    let entries = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let names = entries.flatten().map(|entry| entry.file_name());
    let names = names.filter_map(|name| name.into_string().ok());
    Ok(names.filter(|name| name.ends_with(".md")).collect())
}

/// The page with the recipes, and the heading above them.
const PAGE: (&str, &str) = ("docs/install.md", "## In an image\n");

/// The system file over which the second recipe mounts the library.
const LIBRARY: &str = "LIBRARY=/usr/lib/x86_64-linux-gnu/libpmix.so.2";

/// Runs each recipe with the system as the image.
pub(super) fn check_recipes(outcome: &mut Outcome, folder: &Path) {
    install::packages(&["bubblewrap", "libpmix2"]);
    // Inside a container, namespaces may not be allowed.
    let allowed = output(Command::new("bwrap").args(["--ro-bind", "/", "/", "true"]));
    match allowed {
        Ok(_) => outcome.check("image", recipes(folder)),
        Err(why) => outcome.skip("image", &format!("no image can be run: {why}")),
    }
}

fn recipes(folder: &Path) -> Result<(), String> {
    let scratch = install::scratch("dist")?;
    let (source, program) = (scratch.join("in_image.c"), scratch.join("in_image"));
    write(&source, PROGRAM.as_bytes())?;
    let mut compiler = Command::new("cc");
    compiler.arg("-o").arg(&program).arg(&source);
    compiler.arg("-I").arg(folder.join("include"));
    output(compiler.arg(folder.join("lib/libpmix.so.2")))?;
    let path = root().join(PAGE.0);
    let page = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let recipes = blocks(&page);
    if recipes.len() != 2 {
        return Err(format!("{} has {} recipes", path.display(), recipes.len()));
    }
    for recipe in recipes {
        let is_there = Path::new(LIBRARY.trim_start_matches("LIBRARY=")).exists();
        if recipe.contains("$LIBRARY") && !(recipe.contains(LIBRARY) && is_there) {
            return Err(format!(
                "{LIBRARY} is not what the recipe and this system have"
            ));
        }
        let (_, commands) = recipe.split_once('\n').unwrap_or_default();
        let mut shell = Command::new("sh");
        shell.args(["-ec", commands]);
        shell.env("DIST", folder).env("IMAGE", "/");
        // Without the recipe, the program would load the library of the system.
        four_say(shell.env("PROGRAM", &program), "pmix-rs")?;
    }
    Ok(())
}

/// Returns the shell blocks below the heading.
fn blocks(page: &str) -> Vec<&str> {
    let (_, section) = page.split_once(PAGE.1).unwrap_or_default();
    let blocks = section.split("```sh\n").skip(1);
    let blocks = blocks.filter_map(|block| block.split("```").next());
    blocks.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_installed_with_what_they_lead_to() {
        let folder = xtask::install::scratch("documents").expect("a directory");
        install(&folder).expect("installed");
        check(&folder).expect("whole");
        let docs = folder.join(FOLDER).join("docs");
        assert!(docs.join("cli.md").is_file() && docs.join("directives.md").is_file());
        assert!(folder.join(FOLDER).join("SECURITY.md").is_file());
        assert!(docs.join("decisions/0001-lists-are-bytes.md").is_file());
        let groups = docs.join("groups.md");
        fs::remove_file(&groups).expect("it goes");
        let fault = check(&folder).expect_err("a fault");
        assert_eq!(fault, "docs/groups.md is not installed");
        for wrong in ["no.md", "decisions/no.md", "../no.md"] {
            let text = format!("[x](cli.md#y) [x](../tests/README.md) [x]({wrong}#y)");
            fs::write(&groups, text).expect("it is written");
            let fault = check(&folder).expect_err("a fault");
            let expected = format!("docs/groups.md leads to {wrong}, which is not installed");
            assert_eq!(fault, expected);
        }
    }

    #[test]
    fn the_recipes_are_those_of_the_section() {
        let page = "```sh\nother\n```\n## In an image\n```sh\na\nb\n```\ntext\n```sh\nc\n```\n";
        assert_eq!(blocks(page), ["a\nb\n", "c\n"]);
        assert!(blocks("no such section").is_empty());
    }
}
