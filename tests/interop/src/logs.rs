// SPDX-License-Identifier: MIT OR Apache-2.0
//! The logs of an analysis tool: a file for each process of a run.

use std::path::{Path, PathBuf};

/// The number of lines shown of a fault.
const SHOWN: usize = 40;

/// A tool that analyzes a program while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// valgrind's memcheck: reads of uninitialized memory, and leaks.
    Memcheck,
    /// The compiler's address sanitizer, in the library and in the programs.
    Address,
    /// The compiler's thread sanitizer, in the library, its dependencies and standard library, and the programs.
    Thread,
}

impl Kind {
    /// Returns the name of the check.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Memcheck => "memcheck",
            Self::Address => "address",
            Self::Thread => "thread",
        }
    }
}

/// The folder in which a tool writes its findings of one run.
#[derive(Clone, Debug)]
pub struct Logs {
    folder: PathBuf,
    kind: Kind,
    /// The least number of processes that the tool analyzes.
    processes: usize,
}

/// The number of lines that valgrind writes before the first finding.
const HEAD: usize = 6;

/// Returns `true` for the log of a program of the system that a test killed before valgrind wrote its findings, such as
/// `sleep`.
fn is_of_killed_system_program(text: &str) -> bool {
    let is_of_system = |line: &str| line.contains(" Command: /usr/bin/");
    text.lines().any(is_of_system) && text.lines().count() <= HEAD
}

impl Logs {
    /// Creates an empty folder for a run of `processes` processes.
    ///
    /// # Errors
    /// Returns a message if it cannot be created.
    pub(crate) fn new(folder: PathBuf, kind: Kind, processes: usize) -> Result<Self, String> {
        let fault = |e: std::io::Error| format!("{}: {e}", folder.display());
        if folder.exists() {
            std::fs::remove_dir_all(&folder).map_err(fault)?;
        }
        std::fs::create_dir_all(&folder).map_err(fault)?;
        Ok(Self {
            folder,
            kind,
            processes,
        })
    }

    /// Returns the prefix of the file names.
    pub(crate) fn prefix(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// Fails if the tool found a fault, or if a process is missing where each process has a file.
    ///
    /// # Errors
    /// Returns the findings, or a message if a file cannot be read.
    pub(crate) fn judge(&self) -> Result<(), String> {
        let texts = self.texts()?;
        let clean = |text: &&String| match self.kind {
            Kind::Memcheck => {
                text.contains("ERROR SUMMARY: 0 errors") || is_of_killed_system_program(text)
            }
            Kind::Address | Kind::Thread => text.is_empty(),
        };
        if let Some(text) = texts.iter().find(|text| !clean(text)) {
            let lines: Vec<_> = text.lines().take(SHOWN).collect();
            return Err(lines.join("\n"));
        }
        if self.kind == Kind::Memcheck && texts.len() < self.processes {
            let (seen, all) = (texts.len(), self.processes);
            return Err(format!("it looked at {seen} processes, not at {all}"));
        }
        Ok(())
    }

    /// Returns `true` if the findings contain the phrase.
    ///
    /// # Errors
    /// Returns a message if a file cannot be read.
    pub(crate) fn say(&self, phrase: &str) -> Result<bool, String> {
        Ok(self.texts()?.iter().any(|text| text.contains(phrase)))
    }

    fn texts(&self) -> Result<Vec<String>, String> {
        let fault = |path: &Path, e: std::io::Error| format!("{}: {e}", path.display());
        let entries = std::fs::read_dir(&self.folder).map_err(|e| fault(&self.folder, e))?;
        let mut texts = Vec::new();
        for entry in entries {
            let path = entry.map_err(|e| fault(&self.folder, e))?.path();
            let text = std::fs::read(&path).map_err(|e| fault(&path, e))?;
            texts.push(String::from_utf8_lossy(&text).into_owned());
        }
        Ok(texts)
    }
}
