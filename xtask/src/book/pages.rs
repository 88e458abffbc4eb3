// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pages of the site: documents of the repository, and files to which they link.
//!
//! A page has the same path as its file in the repository, so links between documents stay valid. A link to another
//! file leads to a page that shows the file, and a link to a directory to a list of its documents.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use pulldown_cmark::{Event, Options, Parser, Tag};
use xtask::process::root;

use crate::files::write;

/// The pages with their text, by the paths of their files.
#[derive(Debug, Default)]
pub(super) struct Pages {
    pages: BTreeMap<String, String>,
    /// Linked pages that are not read yet.
    due: Vec<String>,
}

impl Pages {
    /// Adds a document of the repository.
    ///
    /// # Errors
    /// Returns a message if it cannot be read, or has a link without a target.
    pub(super) fn add(&mut self, path: &str) -> Result<(), String> {
        if self.pages.contains_key(path) {
            return Ok(());
        }
        let text = match path
            .strip_suffix(".md")
            .filter(|file| root().join(file).is_file())
        {
            // A linked file that is not a document becomes a page that shows it.
            Some(file) => shown(file, &read(file)?),
            None => self.linked(path, &read(path)?)?,
        };
        self.pages.insert(path.to_owned(), text);
        Ok(())
    }

    /// Adds a page without a file.
    pub(super) fn put(&mut self, path: &str, text: String) {
        self.pages.insert(path.to_owned(), text);
    }

    /// Adds all documents of a directory and a page that lists them, and returns these documents.
    ///
    /// # Errors
    /// See [`Pages::add`].
    pub(super) fn add_directory(&mut self, folder: &str) -> Result<Vec<String>, String> {
        let path = root().join(folder);
        let fault = |e: std::io::Error| format!("{}: {e}", path.display());
        let mut documents = Vec::new();
        for entry in fs::read_dir(&path).map_err(fault)? {
            let name = entry.map_err(fault)?.file_name();
            let name = name.to_string_lossy();
            if name.ends_with(".md") {
                documents.push(format!("{folder}/{name}"));
            }
        }
        documents.sort();
        let name = folder.rsplit('/').next().unwrap_or(folder);
        let mut letters = name.chars();
        let capital = letters.next().map(|letter| letter.to_ascii_uppercase());
        let title: String = capital.into_iter().chain(letters).collect();
        let mut list = format!("# {title}\n\n");
        for document in &documents {
            self.add(document)?;
            let name = document.rsplit('/').next().unwrap_or(document);
            // Writing into a String cannot fail.
            let _ = writeln!(list, "- [{}]({name})", self.title(document));
        }
        self.put(&format!("{folder}/index.md"), list);
        Ok(documents)
    }

    /// Adds the targets of all links, until every linked page is read.
    ///
    /// # Errors
    /// See [`Pages::add`].
    pub(super) fn follow(&mut self) -> Result<(), String> {
        while let Some(path) = self.due.pop() {
            match path
                .strip_suffix("/index.md")
                .filter(|folder| root().join(folder).is_dir())
            {
                Some(folder) if !self.pages.contains_key(&path) => {
                    self.add_directory(folder)?;
                }
                Some(_) => {}
                None => self.add(&path)?,
            }
        }
        Ok(())
    }

    /// Returns the file names of the pages in order.
    pub(super) fn names(&self) -> impl Iterator<Item = String> {
        self.pages.keys().cloned()
    }

    /// Returns the title of a page: its first heading.
    pub(super) fn title(&self, path: &str) -> String {
        let text = self.pages.get(path).map_or("", String::as_str);
        let heading = text.lines().find_map(|line| line.strip_prefix("# "));
        heading.unwrap_or(path).replace(['[', ']'], "")
    }

    /// Writes all pages below a directory.
    ///
    /// # Errors
    /// Returns a message if a file cannot be written.
    pub(super) fn write(&self, folder: &Path) -> Result<(), String> {
        let mut pages = self.pages.iter();
        pages.try_for_each(|(path, text)| write(&folder.join(place(path)), text.as_bytes()))
    }

    /// Returns a document with its links changed to lead to pages.
    fn linked(&mut self, path: &str, text: &str) -> Result<String, String> {
        let mut made = String::with_capacity(text.len());
        let mut at = 0;
        for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            let Event::Start(Tag::Link { dest_url, .. }) = event else {
                continue;
            };
            let Some(target) = self.target(path, &dest_url)? else {
                continue;
            };
            let link = text.get(range.clone()).unwrap_or_default();
            let link = link.replace(&format!("]({dest_url})"), &format!("]({target})"));
            made.push_str(text.get(at..range.start).unwrap_or_default());
            made.push_str(&link);
            at = range.end;
        }
        made.push_str(text.get(at..).unwrap_or_default());
        Ok(made)
    }

    /// Adds the target of a link, and returns the new link if it must differ.
    fn target(&mut self, page: &str, link: &str) -> Result<Option<String>, String> {
        if link.is_empty() || link.starts_with('#') || link.contains("://") {
            return Ok(None);
        }
        let (target, part) = link.split_once('#').unwrap_or((link, ""));
        let path = resolved(page, target);
        let file = root().join(&path);
        let (path, target) = if file.is_dir() {
            let target = target.trim_end_matches('/');
            let name = match file.join("README.md").is_file() {
                true => "README.md",
                false => "index.md",
            };
            (format!("{path}/{name}"), format!("{target}/index.md"))
        } else if !file.is_file() {
            return Err(format!("{page} links to {link}, which is not there"));
        } else if target.ends_with(".md") {
            let to = place(target);
            if to == target {
                self.due.push(path);
                return Ok(None);
            }
            (path, to)
        } else {
            (format!("{path}.md"), format!("{target}.md"))
        };
        self.due.push(path);
        Ok(Some(match part.is_empty() {
            true => target,
            false => format!("{target}#{part}"),
        }))
    }
}

/// Returns the path of a file's page: a README is the first page of its directory.
pub(super) fn place(path: &str) -> String {
    match path.strip_suffix("README.md") {
        Some(folder) => format!("{folder}index.md"),
        None => path.to_owned(),
    }
}

/// Returns the path of the HTML page of a file.
pub(super) fn html(path: &str) -> String {
    let place = place(path);
    format!("{}.html", place.strip_suffix(".md").unwrap_or(&place))
}

fn read(path: &str) -> Result<String, String> {
    fs::read_to_string(root().join(path)).map_err(|e| format!("{path}: {e}"))
}

/// Returns a page that shows a file that is no document.
fn shown(path: &str, text: &str) -> String {
    let language = match path.rsplit('.').next() {
        Some("rs") => "rust,ignore",
        Some("toml") => "toml",
        Some("c" | "h") => "c",
        _ => "text",
    };
    // No file contains a longer fence.
    let fence = "`".repeat(8);
    format!("# {path}\n\n{fence}{language}\n{text}\n{fence}\n")
}

/// Resolves the path of a link relative to its page.
fn resolved(page: &str, link: &str) -> String {
    let mut parts: Vec<_> = page.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_pages() {
        let mut pages = Pages::default();
        let text = "[a](../README.md#x) [b](../deny.toml) [c](decisions/) `[d](none)` [e](#here)\n\
                    \n    [f](none)\n";
        let made = pages.linked("docs/cli.md", text).expect("links");
        assert_eq!(
            made,
            "[a](../index.md#x) [b](../deny.toml.md) [c](decisions/index.md) `[d](none)` \
             [e](#here)\n\n    [f](none)\n"
        );
        pages.due.sort();
        assert_eq!(
            pages.due,
            ["README.md", "deny.toml.md", "docs/decisions/index.md"]
        );
        let fault = pages
            .linked("docs/cli.md", "[a](none.md)")
            .expect_err("no such file");
        assert!(fault.contains("docs/cli.md links to none.md"), "{fault}");
    }

    #[test]
    fn a_page_is_where_its_file_is() {
        assert_eq!(resolved("docs/a/b.md", "../../crates/x.rs"), "crates/x.rs");
        assert_eq!(resolved("README.md", "docs/./a.md"), "docs/a.md");
        assert_eq!(html("docs/cli.md"), "docs/cli.html");
        assert_eq!(html("README.md"), "index.html");
        assert_eq!(html("data/README.md"), "data/index.html");
        let page = shown("deny.toml", "a = 1");
        assert!(
            page.starts_with("# deny.toml\n\n````````toml\na = 1\n"),
            "{page}"
        );
    }
}
