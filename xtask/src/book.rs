// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask book`: the documents as an mdBook site, beside the documentation of the crates.
//!
//! Source: the mdBook manual, "Configuration" and "SUMMARY.md".

mod browser;
mod links;
mod pages;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use xtask::Outcome;
use xtask::install;
use xtask::process::{cargo, output, root, run};

use crate::files::{directory, write};
use pages::Pages;

/// mdBook, in the version that this task supports.
const MDBOOK: (&str, &str) = ("mdbook", "0.5.4");

/// The path of the crate documentation on the site, and of the page that links to it.
const API: &str = "api";
const API_PAGE: &str = "api.md";

/// The parts of the site with their pages in order. A directory means all pages in it; other documents follow the last
/// part.
const PARTS: &[(&str, &[&str])] = &[
    (
        "Using it",
        &[
            "docs/install.md",
            "docs/cli.md",
            "docs/programs.md",
            "docs/nodes.md",
            "docs/tools.md",
            "docs/debuggers.md",
            "docs/groups.md",
            "docs/plugins.md",
            "docs/capi.md",
            "docs/directives.md",
            "docs/json.md",
            "docs/skew.md",
            API_PAGE,
        ],
    ),
    (
        "How it works",
        &[
            "docs/glossary.md",
            "docs/tour.md",
            "docs/architecture.md",
            "docs/protocol.md",
            "docs/benchmarks.md",
            "docs/decisions",
        ],
    ),
    (
        "Working on it",
        &["CONTRIBUTING.md", "docs/style.md", "docs/testing.md"],
    ),
    ("About it", &["CHANGELOG.md", "SECURITY.md"]),
];

/// Builds the site in a directory, checks its links, and loads it in a browser on request.
pub(crate) fn book(folder: &Path, in_browser: bool) -> Outcome {
    let mut outcome = Outcome::default();
    let folder = &std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let mdbook = match install::tool(
        MDBOOK.0,
        MDBOOK.1,
        &["--no-default-features", "--features=search"],
    ) {
        Ok(mdbook) => mdbook,
        Err(why) if install::may_install() => {
            outcome.check("book", Err(why));
            return outcome;
        }
        Err(why) => {
            outcome.skip("book", &why);
            return outcome;
        }
    };
    let made = made(folder, &mdbook);
    let pages = match made {
        Ok(pages) => pages,
        Err(why) => {
            outcome.check("book", Err(why));
            return outcome;
        }
    };
    outcome.check("book", Ok(()));
    outcome.check("links", links::check(folder, API));
    if in_browser {
        browser::check(&mut outcome, folder, &pages);
    }
    outcome
}

/// Builds the site and returns its pages as a browser requests them.
fn made(folder: &Path, mdbook: &Path) -> Result<Vec<String>, String> {
    let source = install::scratch("book")?;
    // The directory is missing in the first run.
    let _ = fs::remove_dir_all(source.join("src"));
    let mut pages = Pages::default();
    let mut summary = String::from("# Summary\n\n");
    // Writing into a String cannot fail.
    let _ = writeln!(summary, "[pmix-rs]({})", pages::place("README.md"));
    pages.add("README.md")?;
    pages.put(API_PAGE, crates()?);
    let mut in_parts = vec!["README.md".to_owned(), API_PAGE.to_owned()];
    for (title, entries) in PARTS {
        let _ = writeln!(summary, "\n# {title}\n");
        for entry in *entries {
            let inside = match root().join(entry).is_dir() {
                true => pages.add_directory(entry)?,
                false => Vec::new(),
            };
            let page = match root().join(entry).is_dir() {
                true => format!("{entry}/index.md"),
                false => (*entry).to_owned(),
            };
            if page != API_PAGE && inside.is_empty() {
                pages.add(&page)?;
            }
            summary.push_str(&line(&pages, &page, ""));
            for one in &inside {
                summary.push_str(&line(&pages, one, "  "));
            }
            in_parts.push(page);
            in_parts.extend(inside);
        }
    }
    for page in others(&in_parts)? {
        pages.add(&page)?;
        summary.push_str(&line(&pages, &page, ""));
        in_parts.push(page);
    }
    pages.follow()?;
    let _ = writeln!(summary, "\n# What pages name\n");
    for page in pages.names().filter(|name| !in_parts.contains(name)) {
        summary.push_str(&line(&pages, &page, ""));
    }
    pages.write(&source.join("src"))?;
    write(&source.join("src/SUMMARY.md"), summary.as_bytes())?;
    write(&source.join("book.toml"), CONFIGURATION.as_bytes())?;
    write(&source.join("width.css"), WIDTH.as_bytes())?;
    let mut build = Command::new(mdbook);
    build
        .arg("build")
        .arg("--dest-dir")
        .arg(folder)
        .arg(&source);
    output(&mut build)?;
    documentation(&folder.join(API))?;
    let html = pages.names().map(|name| pages::html(&name));
    Ok(html.collect())
}

/// The configuration of mdBook. It disables the print page, as one page with the whole site is slow to load.
const CONFIGURATION: &str = "[book]
title = \"pmix-rs\"
language = \"en\"

[build]
create-missing = false

[output.html]
no-section-label = true
smart-punctuation = false
input-404 = \"\"
additional-css = [\"width.css\"]

[output.html.print]
enable = false

[output.html.fold]
enable = true
";

/// The style of lines. mdBook's default exceeds 105 characters per line.
const WIDTH: &str = ":root { --content-max-width: 640px; }\n";

fn line(pages: &Pages, page: &str, indent: &str) -> String {
    format!(
        "{indent}- [{}]({})\n",
        pages.title(page),
        pages::place(page)
    )
}

/// Returns the pages of `docs` that no part of the book lists.
fn others(in_parts: &[String]) -> Result<Vec<String>, String> {
    let folder = root().join("docs");
    let fault = |e: std::io::Error| format!("{}: {e}", folder.display());
    let mut others = Vec::new();
    for entry in fs::read_dir(&folder).map_err(fault)? {
        let name = entry.map_err(fault)?.file_name();
        let page = format!("docs/{}", name.to_string_lossy());
        if page.ends_with(".md") && !in_parts.contains(&page) {
            others.push(page);
        }
    }
    others.sort();
    Ok(others)
}

/// Returns the page of the crates, with a description and a link for each.
fn crates() -> Result<String, String> {
    let metadata = ["metadata", "--locked", "--no-deps", "--format-version", "1"];
    let metadata = output(&mut cargo(metadata))?;
    let metadata: Value = serde_json::from_slice(&metadata).map_err(|e| e.to_string())?;
    let mut page = String::from(
        "# The crates\n\nA program in Rust begins with `pmix`, which has what the others say in one \
         place.\n\n| crate | what it is |\n| --- | --- |\n",
    );
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let kinds = package["targets"].as_array().into_iter().flatten();
        let library = kinds
            .filter(|target| target["kind"][0] == "lib")
            .find_map(|one| one["name"].as_str());
        if let (true, Some(library)) = (package["publish"].is_null(), library) {
            let text = |key: &str| package[key].as_str().unwrap_or_default();
            let library = library.replace('-', "_");
            // Writing into a String cannot fail.
            let _ = writeln!(
                page,
                "| [`{}`]({API}/{library}/index.html) | {} |",
                text("name"),
                text("description")
            );
        }
    }
    Ok(page)
}

/// Builds the documentation of the crates into a directory.
fn documentation(folder: &Path) -> Result<(), String> {
    let mut doc = cargo(["doc", "--workspace", "--no-deps", "--locked", "--quiet"]);
    run(doc.env("RUSTDOCFLAGS", "-D warnings"))?;
    let made: PathBuf = install::target().join("doc");
    let _ = fs::remove_dir_all(folder);
    directory(folder)?;
    let mut copy = Command::new("cp");
    copy.arg("-R").arg(made.join(".")).arg(folder);
    output(&mut copy).map(drop)
}
