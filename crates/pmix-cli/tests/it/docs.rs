// SPDX-License-Identifier: MIT OR Apache-2.0
//! The examples of the documents and of the README: each `console` block is run, and must print the output that the
//! page shows.
//!
//! `PMIX_DOCS=write cargo test -p pmix-cli --test it docs` writes the current output into the pages.

use crate::console;
use std::path::{Path, PathBuf};

/// Returns a directory with exactly the files that the page shows by `$ cat FILE`: an example may only read files that
/// a reader has seen.
fn files(page: &str, name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("docs-{name}"));
    // The directory may not exist yet.
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("a directory");
    let mut shown: Option<(&str, String)> = None;
    for line in page.lines() {
        if let Some((file, text)) = &mut shown {
            if !line.starts_with("$ ") && !line.starts_with("```") {
                text.push_str(line);
                text.push('\n');
                continue;
            }
            std::fs::write(dir.join(&**file), text).expect("the file");
        }
        let file = line.strip_prefix("$ cat ");
        shown = file.map(|file| (file, String::new()));
    }
    dir
}

/// Returns the README and every document with a `console` block.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = std::fs::read_dir(root.join("docs")).expect("the documents");
    let mut pages: Vec<_> = docs
        .map(|entry| entry.expect("a document").path())
        .collect();
    pages.push(root.join("README.md"));
    pages.retain(|page| {
        page.extension().is_some_and(|extension| extension == "md")
            && std::fs::read_to_string(page).is_ok_and(|text| text.contains("```console"))
    });
    pages.sort();
    pages
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the page is written when asked")]
fn every_example_prints_what_the_page_shows() {
    let pages = pages();
    let all = pages
        .iter()
        .map(|page| std::fs::read_to_string(page).expect("the page"));
    let all: String = all.collect();
    // A block changed to plain text would silently not be run.
    let (blocks, commands) = (
        all.matches("```console").count(),
        all.matches("\n$ ").count(),
    );
    assert!(
        pages.len() >= 3 && blocks >= 47 && commands >= 145,
        "{blocks} blocks, {commands} commands"
    );
    for page in pages {
        let name = page.file_name().and_then(|name| name.to_str());
        let name = name.expect("a name");
        let shown = std::fs::read_to_string(&page).expect("the page");
        let dir = files(&shown, name);
        let made = console::rerun(&shown, &dir);
        if std::env::var_os("PMIX_DOCS").is_some_and(|v| v == "write") {
            std::fs::write(&page, made).expect("the page is written");
            continue;
        }
        for (line, (shown, made)) in shown.lines().zip(made.lines()).enumerate() {
            assert_eq!(shown, made, "{name} line {}", line + 1);
        }
        assert_eq!(shown.len(), made.len(), "{name} ends too early or too late");
    }
}
