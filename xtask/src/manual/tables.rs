// SPDX-License-Identifier: MIT OR Apache-2.0
//! The directives and statuses of functions, which the manual pages take from the documents.
//!
//! A comment `<!-- man: FUNCTION... -->` before a table in a document assigns the table to these functions and their
//! non-blocking forms. The first column contains names of attributes, or of statuses if its heading is `status`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;

use super::{bold, guarded};
use xtask::process::root;

/// The beginning of the comment before a table.
const MARK: &str = "<!-- man: ";

/// A row: names and their meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    names: Vec<String>,
    text: String,
}

/// The rows of one function.
#[derive(Clone, Debug, Default)]
struct Rows {
    directives: Vec<Row>,
    statuses: Vec<Row>,
}

/// The tables of all documents by function.
#[derive(Debug, Default)]
pub(super) struct Tables {
    of: BTreeMap<String, Rows>,
    /// The C types of attributes.
    types: BTreeMap<String, String>,
}

impl Tables {
    /// Reads the documents for these functions.
    ///
    /// # Errors
    /// Returns a message if a file cannot be read, or if a table names an unknown function, attribute or status.
    pub(super) fn read(functions: &BTreeSet<String>) -> Result<Self, String> {
        let mut tables = Self {
            types: columns("data/attributes.tsv", 2)?,
            ..Self::default()
        };
        let statuses = columns("data/status.tsv", 0)?;
        let folder = root().join("docs");
        let entries = fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        files.retain(|file| file.extension().is_some_and(|extension| extension == "md"));
        files.sort();
        for file in files {
            let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
            tables
                .take(&text, functions, &statuses)
                .map_err(|e| format!("{}: {e}", file.display()))?;
        }
        Ok(tables)
    }

    fn take(
        &mut self,
        document: &str,
        functions: &BTreeSet<String>,
        statuses: &BTreeMap<String, String>,
    ) -> Result<(), String> {
        let mut lines = document.lines().map(str::trim);
        while let Some(line) = lines.next() {
            let Some(marked) = line.strip_prefix(MARK) else {
                continue;
            };
            let marked = marked.trim_end_matches("-->").trim();
            let head = lines.next().unwrap_or_default();
            let is_status = head.starts_with("| status ");
            let rows = lines.by_ref().take_while(|line| line.starts_with('|'));
            // The first line separates the header from the rows.
            let read = |line| {
                row(line).ok_or_else(|| {
                    format!("a row of {marked} begins with no name in backquotes: {line}")
                })
            };
            let rows: Vec<_> = rows.skip(1).map(read).collect::<Result<_, _>>()?;
            if rows.is_empty() {
                return Err(format!("no table follows the mark of {marked}"));
            }
            let known = match is_status {
                true => statuses,
                false => &self.types,
            };
            let mut names = rows.iter().flat_map(|row| &row.names);
            if let Some(name) = names.find(|name| !known.contains_key(*name)) {
                return Err(format!("{marked}: the headers do not define {name}"));
            }
            for function in marked.split(' ') {
                if !functions.contains(function) {
                    return Err(format!("there is no function {function}"));
                }
                let of = self.of.entry(function.to_owned()).or_default();
                match is_status {
                    true => of.statuses.extend(rows.clone()),
                    false => of.directives.extend(rows.clone()),
                }
            }
        }
        Ok(())
    }

    /// Returns the section of a function's directives; empty if no document lists any.
    pub(super) fn directives(&self, function: &str, names: &BTreeSet<String>) -> String {
        let rows = self.rows(function).map(|rows| &rows.directives);
        let Some(rows) = rows.filter(|rows| !rows.is_empty()) else {
            return String::new();
        };
        let kind = |name: &str| self.types.get(name).map_or("", String::as_str);
        let named = |name: &String| format!("\\fB{name}\\fR (\\fI{}\\fR)", kind(name));
        let list = list(rows, function, names, named);
        format!(".SH DIRECTIVES\n{list}")
    }

    /// Returns the section of a function's statuses; empty if no document lists any.
    pub(super) fn statuses(&self, function: &str, names: &BTreeSet<String>) -> String {
        let rows = self.rows(function).map_or(&[][..], |rows| &rows.statuses);
        list(rows, function, names, |name| format!("\\fB{name}\\fR"))
    }

    fn rows(&self, function: &str) -> Option<&Rows> {
        let waits = function.strip_suffix("_nb").unwrap_or(function);
        self.of.get(waits)
    }
}

/// Returns the names of a table of the headers, each with another column.
fn columns(file: &str, column: usize) -> Result<BTreeMap<String, String>, String> {
    let text = fs::read_to_string(root().join(file)).map_err(|e| format!("{file}: {e}"))?;
    let lines = text.lines().skip(1);
    let pairs = lines.filter_map(|line| {
        let mut cells = line.split('\t');
        let name = cells.clone().next()?;
        Some((name.to_owned(), cells.nth(column)?.to_owned()))
    });
    Ok(pairs.collect())
}

/// Parses a row of a table, or returns `None` if its first cell has no names.
fn row(line: &str) -> Option<Row> {
    let (first, rest) = line.strip_prefix('|')?.split_once(" | ")?;
    let quoted = first.split('`').skip(1).step_by(2);
    let names: Vec<_> = quoted.map(str::to_owned).collect();
    let text = rest.trim_end_matches('|').trim();
    let row = Row {
        names,
        text: plain(text),
    };
    (!row.names.is_empty()).then_some(row)
}

/// Removes the marks of code and links from a text.
fn plain(text: &str) -> String {
    let text = text.replace('`', "");
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some((before, link)) = rest.split_once('[') {
        out.push_str(before);
        let Some((words, behind)) = link.split_once("](") else {
            out.push('[');
            rest = link;
            continue;
        };
        out.push_str(words);
        rest = behind.split_once(')').map_or("", |(_, behind)| behind);
    }
    out + rest
}

fn list(
    rows: &[Row],
    function: &str,
    names: &BTreeSet<String>,
    named: impl Fn(&String) -> String,
) -> String {
    let mut list = String::new();
    for row in rows {
        let heads: Vec<_> = row.names.iter().map(&named).collect();
        let words = row.text.split_inclusive(' ');
        let text: String = words.map(|word| bold(word, function, names)).collect();
        // Writing into a String cannot fail.
        let _ = writeln!(list, ".TP\n{}\n{}", heads.join(", "), guarded(text));
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(document: &str) -> Result<Tables, String> {
        let functions = ["PMIx_Log", "PMIx_Log_nb"].map(str::to_owned);
        let mut tables = Tables::default();
        let kinds = [("PMIX_A", "bool"), ("PMIX_B", "char*")];
        let owned = |(name, kind): (&str, &str)| (name.to_owned(), kind.to_owned());
        tables.types = kinds.map(owned).into();
        let statuses = [("PMIX_ERR_X", "")].map(owned).into();
        tables.take(document, &functions.into(), &statuses)?;
        Ok(tables)
    }

    #[test]
    fn a_marked_table_has_the_directives_or_the_statuses_of_a_function() {
        let tables = taken(
            "  <!-- man: PMIx_Log -->\n  | attribute | what |\n  | --- | --- |\n  | `PMIX_A`, `PMIX_B` | `a.c` and [b](c.md), or [it] |\n\n\
             <!-- man: PMIx_Log -->\n| status | when |\n| --- | --- |\n| `PMIX_ERR_X` | no PMIx_Log |\n\n| `PMIX_C` | no |\n",
        )
        .expect("tables");
        let names = ["PMIx_Log".to_owned()].into();
        assert_eq!(
            tables.directives("PMIx_Log_nb", &names),
            ".SH DIRECTIVES\n.TP\n\\fBPMIX_A\\fR (\\fIbool\\fR), \\fBPMIX_B\\fR (\\fIchar*\\fR)\na.c and b, or [it]\n"
        );
        assert_eq!(
            tables.statuses("PMIx_Log", &names),
            ".TP\n\\fBPMIX_ERR_X\\fR\nno \\fBPMIx_Log\\fR\n"
        );
        assert_eq!(tables.directives("PMIx_Get", &names), "");
    }

    #[test]
    fn what_there_is_not_is_a_fault() {
        for (document, fault) in [
            ("<!-- man: PMIx_Log -->\ntext\n", "no table follows"),
            (
                "<!-- man: PMIx_Lag -->\n| attribute | |\n| --- | --- |\n| `PMIX_A` | a |\n",
                "no function PMIx_Lag",
            ),
            (
                "<!-- man: PMIx_Log -->\n| status | |\n| --- | --- |\n| `PMIX_A` | a |\n",
                "PMIx_Log: the headers do not define PMIX_A",
            ),
            (
                "<!-- man: PMIx_Log -->\n| attribute | |\n| --- | --- |\n| `PMIX_A` | a |\n| PMIX_B | b |\n",
                "begins with no name in backquotes: | PMIX_B | b |",
            ),
        ] {
            let said = taken(document).expect_err("a fault");
            assert!(said.contains(fault), "{said}");
        }
    }
}
