// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files that the rules check.

use std::fmt;
use std::process::Command;

use super::source::Source;
use xtask::process;

/// A text file of the repository.
pub(crate) struct File {
    /// The path from the top, with forward slashes.
    pub(crate) path: String,
    pub(crate) text: String,
    /// The parsed file, if it is Rust.
    pub(crate) source: Option<Source>,
}

/// Every text file that is or would be committed.
#[derive(Default)]
pub(crate) struct Tree {
    pub(crate) files: Vec<File>,
}

/// A violation of a rule, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) path: String,
    /// The line counted from one; zero for the whole file.
    pub(crate) line: usize,
    pub(crate) message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": {}", self.message)
    }
}

impl File {
    fn new(path: &str, text: &str) -> Result<Self, String> {
        let source = match path.ends_with(".rs") {
            true => Some(Source::parse(text).map_err(|why| format!("{path}: {why}"))?),
            false => None,
        };
        Ok(Self {
            path: path.to_owned(),
            text: text.to_owned(),
            source,
        })
    }

    /// Returns the crate of a file under `crates/`, or the first folder of other paths.
    pub(crate) fn package(&self) -> &str {
        let inner = self.path.strip_prefix("crates/").unwrap_or(&self.path);
        inner.split('/').next().unwrap_or(inner)
    }

    /// Returns `true` if the whole file is test, bench or example code.
    pub(crate) fn is_test(&self) -> bool {
        let mut folders: Vec<_> = self.path.split('/').collect();
        let name = folders.pop().unwrap_or_default();
        name == "tests.rs"
            || name == "build.rs"
            || folders
                .iter()
                .any(|f| matches!(*f, "tests" | "benches" | "examples" | "fuzz"))
    }

    /// Creates a fault in this file.
    pub(crate) fn fault(&self, line: usize, message: impl Into<String>) -> Fault {
        Fault {
            path: self.path.clone(),
            line,
            message: message.into(),
        }
    }
}

impl Tree {
    /// Reads the files that git tracks or would add. Files that are not text are omitted.
    pub(crate) fn read() -> Result<Self, String> {
        let root = process::root();
        let mut git = Command::new("git");
        git.args(["ls-files", "-z", "--cached", "--others"])
            .arg("--exclude-standard")
            .current_dir(&root);
        let listed = process::output(&mut git)?;
        let mut tree = Self::default();
        for path in listed.split(|b| *b == 0).filter(|p| !p.is_empty()) {
            let path = String::from_utf8_lossy(path);
            let Ok(bytes) = std::fs::read(root.join(&*path)) else {
                continue; // deleted, but still in the index
            };
            if let Ok(text) = String::from_utf8(bytes) {
                tree.files.push(File::new(&path, &text)?);
            }
        }
        Ok(tree)
    }

    /// Creates a tree of the given files, for tests of the rules.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| File::new(path, text).expect("tokens");
        Self {
            files: files.iter().map(file).collect(),
        }
    }

    /// Returns the Rust files with their parsed form.
    pub(crate) fn rust(&self) -> impl Iterator<Item = (&File, &Source)> {
        self.files
            .iter()
            .filter_map(|file| Some((file, file.source.as_ref()?)))
    }
}
