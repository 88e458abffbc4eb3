// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks that the links of a site have targets.
//!
//! Pages of the crate documentation are only checked as targets: rustdoc checks their own links.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Checks that every link of a page outside of `api` leads to a file, and to an anchor in it if the link names one.
pub(super) fn check(folder: &Path, api: &str) -> Result<(), String> {
    let mut pages = Vec::new();
    find(folder, &folder.join(api), &mut pages)?;
    let mut parts = BTreeMap::new();
    let (mut number, mut faults) = (0, Vec::new());
    for page in &pages {
        let text = read(page)?;
        for link in attributes(&text, &["href", "src"]) {
            number += 1;
            if let Err(why) = leads(page, link, folder, &mut parts) {
                let page = page.strip_prefix(folder).unwrap_or(page);
                faults.push(format!("{}: {link:?} {why}", page.display()));
            }
        }
    }
    println!("{} pages, {number} links", pages.len());
    match faults.is_empty() && number > 0 {
        true => Ok(()),
        false => Err(format!("{} links: {}", faults.len(), faults.join("; "))),
    }
}

fn read(page: &Path) -> Result<String, String> {
    fs::read_to_string(page).map_err(|e| format!("{}: {e}", page.display()))
}

/// Collects the pages below a directory, except those below another.
fn find(folder: &Path, but: &Path, pages: &mut Vec<PathBuf>) -> Result<(), String> {
    let fault = |e: std::io::Error| format!("{}: {e}", folder.display());
    for entry in fs::read_dir(folder).map_err(fault)? {
        let path = entry.map_err(fault)?.path();
        if path.is_dir() && path != but {
            find(&path, but, pages)?;
        } else if path.extension().is_some_and(|end| end == "html") {
            pages.push(path);
        }
    }
    Ok(())
}

/// Checks that a link of a page has a target; links to other sites are not followed.
fn leads(
    page: &Path,
    link: &str,
    folder: &Path,
    parts: &mut BTreeMap<PathBuf, BTreeSet<String>>,
) -> Result<(), &'static str> {
    let is_elsewhere = ["http://", "https://", "mailto:", "data:", "javascript:"];
    if is_elsewhere.iter().any(|begin| link.starts_with(begin)) {
        return Ok(());
    }
    let link = link.replace("&amp;", "&");
    let (path, part) = link.split_once('#').unwrap_or((&link, ""));
    let path = path.split('?').next().unwrap_or_default();
    let target = match path {
        "" => page.to_owned(),
        path if path.starts_with('/') => return Err("is from the top of a server"),
        path => page.with_file_name("").join(path),
    };
    let target = target.canonicalize().map_err(|_| "leads nowhere")?;
    let top = folder.canonicalize().map_err(|_| "has no site")?;
    if !target.starts_with(&top) {
        return Err("leads out of the site");
    }
    if target.is_dir() {
        return Err("leads to a directory");
    }
    if part.is_empty() {
        return Ok(());
    }
    if !parts.contains_key(&target) {
        let text = read(&target).map_err(|_| "leads to a part of what is no page")?;
        let ids = attributes(&text, &["id", "name"])
            .map(str::to_owned)
            .collect();
        parts.insert(target.clone(), ids);
    }
    match parts.get(&target).is_some_and(|ids| ids.contains(part)) {
        true => Ok(()),
        false => Err("leads to a part that is not there"),
    }
}

/// Returns the values of attributes with these names in the tags of a page.
fn attributes<'t>(text: &'t str, names: &'t [&str]) -> impl Iterator<Item = &'t str> {
    // The text between tags contains no bare `<`, and scripts contain no tags.
    let tags = text
        .split('<')
        .skip(1)
        .filter_map(|part| part.split('>').next());
    tags.flat_map(move |tag| {
        names.iter().filter_map(move |name| {
            let at = tag.find(&format!(" {name}=\""))?;
            let value = tag.get(at + name.len() + 3..)?;
            value.split('"').next()
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_lead_nowhere_are_faults() {
        let folder = std::env::temp_dir().join(format!("pmix-book-{}", std::process::id()));
        fs::create_dir_all(folder.join("api")).expect("a directory");
        let page = |text: &str| {
            fs::write(folder.join("a.html"), text).expect("a page");
            check(&folder, "api")
        };
        fs::write(folder.join("b.html"), "<h1 id=\"one\">").expect("a page");
        fs::write(folder.join("api/c.html"), "<a href=\"none\">").expect("a page");
        let good = "<p id=\"x\"><a href=\"b.html#one\"><a href=\"#x\"><img src=\"api/c.html\"> \
                    <a href=\"https://pmix.org/\">";
        assert_eq!(page(good), Ok(()));
        for (bad, why) in [
            ("<a href=\"none.html\">", "leads nowhere"),
            (
                "<a class=\"x\" href=\"b.html#two\">",
                "leads to a part that is not there",
            ),
            ("<a href=\"#none\">", "leads to a part"),
            ("<a href=\"api\">", "leads to a directory"),
            ("<a href=\"..\">", "leads out of the site"),
            ("<a href=\"/b.html\">", "from the top of a server"),
            ("no link", "0 links"),
        ] {
            let fault = page(bad).expect_err(bad);
            assert!(fault.contains(why), "{bad}: {fault}");
        }
        fs::remove_dir_all(&folder).expect("the directory is removed");
    }
}
