// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file of genders: nodes with attributes. Each attribute is a group, and so is each attribute with its value.
//!
//! Source: libgenders(3) and nodeattr(1) of genders 1.28; pdsh(1), "genders module options".

use std::path::PathBuf;

use pmix_mca::Environment;

use super::{GENDERS, Groups, malformed, read_text};
use crate::failure::Failure;

/// The default file.
const USUAL: &str = "/etc/genders";

/// Adds the groups of the file that `GENDERS` or pdsh's variables name, or of `/etc/genders`.
pub(super) fn read(environment: &Environment, groups: &mut Groups) -> Result<(), Failure> {
    let named = environment
        .first_of(&["GENDERS", "PDSH_GENDERS_FILE"])
        .map(PathBuf::from);
    // pdsh names the file of its directory alone.
    let dir = environment
        .first_of(&["PDSH_GENDERS_DIR"])
        .map(PathBuf::from);
    let usual = || PathBuf::from(USUAL);
    let path = match (named, dir) {
        (Some(file), Some(dir)) => dir.join(file),
        (Some(file), None) if file.is_absolute() || file.exists() => file,
        (Some(file), None) => PathBuf::from("/etc").join(file),
        (None, Some(dir)) => dir.join("genders"),
        (None, None) => usual(),
    };
    let Some(text) = read_text(&path)? else {
        return match path == usual() {
            true => Ok(()),
            false => Err(malformed(&path, "no such file")),
        };
    };
    let source = groups.add_source(GENDERS, &path);
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let mut words = line.splitn(2, char::is_whitespace);
        let nodes = words.next().unwrap_or_default();
        if nodes.is_empty() {
            continue;
        }
        if nodes.contains('@') {
            let why = format!("line {}: `{nodes}` is not a list of nodes", index + 1);
            return Err(malformed(&path, why));
        }
        for attribute in words.next().unwrap_or_default().split(',') {
            let attribute = attribute.trim();
            let name = attribute.split('=').next().unwrap_or_default();
            if name.is_empty() {
                continue;
            }
            groups.add(source, name, nodes)?;
            // `%n` in a value is the name of the node, so such a value is no group.
            if attribute.len() > name.len() && !attribute.contains('%') {
                groups.add(source, attribute, nodes)?;
            }
        }
    }
    Ok(())
}
