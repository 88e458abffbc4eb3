// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares our library with the real libraries: packed bytes, statuses and results of each data type, in each C
//! function that takes data of any type. If a release differs from ours, `testdata/capi/cells.tsv` states the
//! difference and the reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::capi;
use crate::peers::{Library, Peer};
use crate::tally::Tally;
use xtask::{install, process};

/// A type and an operation.
type Cell = (String, String);

/// A difference of a release from ours.
struct Entry {
    libraries: Vec<String>,
    operations: Vec<String>,
    types: Vec<String>,
    seen: String,
}

impl Entry {
    fn is_of(&self, version: &str) -> bool {
        self.libraries
            .iter()
            .any(|library| version.starts_with(library.as_str()))
    }

    fn explains(&self, (data_type, operation): &Cell, seen: &str) -> bool {
        let has = |all: &[String], one: &str| all.iter().any(|other| other == "*" || other == one);
        let is_seen = match self.seen.strip_prefix('!') {
            _ if self.seen == "*" => true,
            Some(end) => seen.ends_with(end),
            None => seen == self.seen,
        };
        is_seen && has(&self.types, data_type) && has(&self.operations, operation)
    }
}

/// Runs the checks.
///
/// # Errors
/// Returns a message if a program does not build or run, or if a table cannot be read.
pub(crate) fn run(peers: &[Peer], tally: &mut Tally) -> Result<(), String> {
    let folder = install::scratch("interop/types")?;
    write_sources(&folder)?;
    let entries = entries()?;
    let ours = cells(&capi::library("dev")?, &folder, "ours")?;
    for peer in peers {
        let what = format!("types: every function, {}", peer.version);
        let about: Vec<_> = entries
            .iter()
            .filter(|entry| entry.is_of(&peer.version))
            .collect();
        let theirs = cells(&peer.library, &folder, &peer.version)?;
        let mut used = BTreeSet::new();
        for (cell, mine) in &ours {
            let seen = theirs.get(cell).map_or("missing", String::as_str);
            let entry = about.iter().position(|entry| entry.explains(cell, seen));
            match entry {
                _ if seen == mine => tally.pass(&what),
                Some(entry) => {
                    used.insert(entry);
                    tally.pass(&what);
                }
                None => {
                    let (data_type, operation) = cell;
                    let why = format!("{data_type}, {operation}: ours {mine:?}, theirs {seen:?}");
                    tally.fail(&what, &why);
                }
            }
        }
        for (place, entry) in about.iter().enumerate() {
            if !used.contains(&place) {
                let (operations, types) = (entry.operations.join(" "), entry.types.join(" "));
                let why = format!("no cell needs the row of {operations} for {types}");
                tally.fail(&what, &why);
            }
        }
    }
    Ok(())
}

/// Returns the result of each cell with a library. Each cell runs in a process of its own, as the releases crash in
/// some.
fn cells(library: &Library, folder: &Path, name: &str) -> Result<BTreeMap<Cell, String>, String> {
    // Our headers serve all releases: a test compares the types and functions that they declare.
    let library = Library::new(
        process::root().join("include"),
        library.file().to_path_buf(),
    );
    let program = folder.join(format!("types-{name}"));
    library.compile_with(&program, folder, &[folder.join("asked.c")])?;
    let mut command = Command::new(&program);
    command.arg("apart").env("PMIX_MCA_gds", "hash");
    let said = process::output(&mut command)?;
    let said = String::from_utf8_lossy(&said);
    let cells = said.lines().filter_map(|line| {
        let (data_type, rest) = line.split_once('\t')?;
        let (operation, seen) = rest.split_once('\t')?;
        Some((
            (data_type.to_owned(), operation.to_owned()),
            seen.trim().to_owned(),
        ))
    });
    Ok(cells.collect())
}

/// Writes the program, without calls of functions that a release lacks, and its rows.
fn write_sources(folder: &Path) -> Result<(), String> {
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))
    };
    let source = process::root().join("tests/capi/types.c");
    write(
        "asked.c",
        &format!("#define MAY_LACK\n#include \"{}\"\n", source.display()),
    )?;
    let mut rows = String::new();
    for row in table("data/data_types.tsv")? {
        let [name, _, c_type, size, member, ..] = row.as_slice() else {
            return Err(format!("data/data_types.tsv: {row:?} has too few columns"));
        };
        if size == "-" {
            continue;
        }
        // The table has the type that a value contains. The C functions take a map as a `char *`,
        // and an attribute through a pointer.
        let c_type = if name == "PMIX_REGEX" {
            "char *"
        } else {
            c_type
        };
        let behind = member.ends_with('*') || name == "PMIX_REGATTR";
        let _ = writeln!(rows, "ROW({name}, {c_type}, {behind})");
    }
    write("types.h", &rows)
}

/// Reads the rows about releases.
fn entries() -> Result<Vec<Entry>, String> {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect();
    let mut entries = Vec::new();
    for row in table("testdata/capi/cells.tsv")? {
        let [libraries, operations, types, seen, reason] = row.as_slice() else {
            return Err(format!(
                "testdata/capi/cells.tsv: {row:?} has not five columns"
            ));
        };
        if reason.is_empty() {
            return Err(format!("testdata/capi/cells.tsv: {row:?} has no reason"));
        }
        entries.push(Entry {
            libraries: words(libraries),
            operations: words(operations),
            types: words(types),
            seen: seen.clone(),
        });
    }
    Ok(entries)
}

/// Reads the rows of a table without its header.
fn table(name: &str) -> Result<Vec<Vec<String>>, String> {
    let path: PathBuf = process::root().join(name);
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let row = |line: &str| line.split('\t').map(str::to_owned).collect();
    Ok(text.lines().skip(1).map(row).collect())
}
