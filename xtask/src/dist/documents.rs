// SPDX-License-Identifier: MIT OR Apache-2.0
//! The documents that are installed beside the command and the library.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use xtask::process::root;

use crate::files::copy;
use crate::sbom::FOLDER;

/// Installs the README, what changed, and every document of `docs` that stands there itself.
///
/// # Errors
/// A file cannot be read or written, or there is none.
pub(super) fn install(folder: &Path) -> Result<(), String> {
    let to = folder.join(FOLDER);
    for file in ["README.md", "CHANGELOG.md"] {
        copy(&root().join(file), &to.join(file), 0o644)?;
    }
    let names = names(&root().join("docs"))?;
    for name in &names {
        let from = root().join("docs").join(name);
        copy(&from, &to.join("docs").join(name), 0o644)?;
    }
    match names.is_empty() {
        true => Err("there are no documents".to_owned()),
        false => Ok(()),
    }
}

/// Every document is installed, and what one says of another of them leads there.
///
/// # Errors
/// A document is missing, or a link leads nowhere.
pub(super) fn check(folder: &Path) -> Result<(), String> {
    let docs = folder.join(FOLDER).join("docs");
    let (expected, found) = (names(&root().join("docs"))?, names(&docs)?);
    if let Some(name) = expected.difference(&found).next() {
        return Err(format!("{name} is not installed"));
    }
    for name in &found {
        let text = fs::read_to_string(docs.join(name)).map_err(|e| format!("{name}: {e}"))?;
        let mut links = text.split("](").skip(1);
        let broken = links.find_map(|rest| {
            let (link, _) = rest.split_once([')', '#'])?;
            // Others are in the sources: decisions, tests, crates.
            let is_beside = link.ends_with(".md") && !link.contains(['/', ':']);
            (is_beside && !found.contains(link)).then_some(link)
        });
        if let Some(link) = broken {
            return Err(format!("{name} leads to {link}, which is not installed"));
        }
    }
    println!("{} documents", found.len());
    Ok(())
}

/// The names of the documents of a directory.
fn names(folder: &Path) -> Result<BTreeSet<String>, String> {
    let entries = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let names = entries.flatten().map(|entry| entry.file_name());
    let names = names.filter_map(|name| name.into_string().ok());
    Ok(names.filter(|name| name.ends_with(".md")).collect())
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
        assert!(folder.join(FOLDER).join("README.md").is_file());
        fs::remove_file(docs.join("groups.md")).expect("it goes");
        assert_eq!(check(&folder), Err("groups.md is not installed".to_owned()));
        fs::write(docs.join("groups.md"), "[x](no.md#y)").expect("it is written");
        let fault = check(&folder).expect_err("a fault");
        assert_eq!(fault, "groups.md leads to no.md, which is not installed");
    }
}
