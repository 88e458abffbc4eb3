// SPDX-License-Identifier: MIT OR Apache-2.0
//! Patterns for the names of output files.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

use pmix_types::Rank;
use serde::{Deserialize, Serialize};

use crate::Error;

/// A pattern for the names of output files below a directory.
///
/// `%r` is the rank, padded to the digits of the largest rank of the job, `%n` the nspace, `%h` the name of the node
/// and `%%` a percent sign. `%n` and `%r` are those of `PMIX_IOF_FILE_PATTERN` (PMIx Standard, chapter "Process
/// Management").
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilePattern {
    parts: Vec<Part>,
    is_extended: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Part {
    Text(Vec<u8>),
    Rank,
    Nspace,
    Host,
}

/// The parts of the file names that are the same for all processes of a job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names<'a> {
    nspace: &'a str,
    host: &'a [u8],
    /// The number of digits of a rank, so that names sort in the order of ranks.
    width: usize,
}

impl<'a> Names<'a> {
    pub(super) fn new(nspace: &'a str, host: &'a [u8], num_procs: u64) -> Self {
        Self {
            nspace,
            host,
            width: num_procs.saturating_sub(1).to_string().len(),
        }
    }
}

impl Default for FilePattern {
    /// Returns `rank.%r`, extended by `.stdout` or `.stderr`.
    fn default() -> Self {
        Self {
            parts: vec![Part::Text(b"rank.".to_vec()), Part::Rank],
            is_extended: true,
        }
    }
}

impl FilePattern {
    /// Parses a pattern whose names are extended by `.stdout` or `.stderr`.
    ///
    /// # Errors
    /// Returns [`Error`] if the pattern has no `%r` (all processes would write to one file), has another letter after
    /// a `%`, or leads outside the output directory.
    pub fn parse(pattern: &OsStr) -> Result<Self, Error> {
        let wrong = |why: &str| {
            let pattern = pattern.display();
            Err(Error::request(format!(
                "the pattern {pattern} for file names {why}"
            )))
        };
        let mut parts = Vec::new();
        let mut text = Vec::new();
        let mut bytes = pattern.as_bytes().iter();
        while let Some(&byte) = bytes.next() {
            let part = match byte {
                b'%' => match bytes.next() {
                    Some(b'r') => Part::Rank,
                    Some(b'n') => Part::Nspace,
                    Some(b'h') => Part::Host,
                    Some(b'%') => {
                        text.push(b'%');
                        continue;
                    }
                    _ => return wrong("has a % that is not followed by r, n, h or %"),
                },
                _ => {
                    text.push(byte);
                    continue;
                }
            };
            if !text.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut text)));
            }
            parts.push(part);
        }
        if !text.is_empty() {
            parts.push(Part::Text(text));
        }
        if !parts.contains(&Part::Rank) {
            return wrong("has no %r for the rank, so all processes would write to the same file");
        }
        let mut components = Path::new(pattern).components();
        if components.any(|component| !matches!(component, Component::Normal(_))) {
            return wrong("leads outside the output directory");
        }
        Ok(Self {
            parts,
            is_extended: true,
        })
    }

    /// Returns the pattern for files that both streams of a process go to, named `<name>.<nspace>.<rank>`.
    pub(crate) fn of_one_file(name: &OsStr) -> Self {
        let dot = || Part::Text(b".".to_vec());
        Self {
            parts: vec![
                Part::Text(name.as_bytes().to_vec()),
                dot(),
                Part::Nspace,
                dot(),
                Part::Rank,
            ],
            is_extended: false,
        }
    }

    /// Returns `true` if each stream has its own file.
    pub(super) fn is_extended(&self) -> bool {
        self.is_extended
    }

    /// Returns the file name for a stream of a process. Slashes and a leading dot in the nspace or the name of the
    /// node are replaced by underscores, so that the name stays inside the output directory.
    pub(super) fn name(&self, names: Names<'_>, rank: Rank, stream: &str) -> PathBuf {
        let Names {
            nspace,
            host,
            width,
        } = names;
        let mut name = Vec::new();
        let plain = |text: &[u8]| -> Vec<u8> {
            let plain = |(place, byte): (usize, &u8)| match byte {
                b'/' => b'_',
                b'.' if place == 0 => b'_',
                byte => *byte,
            };
            text.iter().enumerate().map(plain).collect()
        };
        for part in &self.parts {
            match part {
                Part::Text(text) => name.extend_from_slice(text),
                Part::Rank => {
                    name.extend_from_slice(format!("{:0width$}", rank.as_raw()).as_bytes());
                }
                Part::Nspace => name.extend(plain(nspace.as_bytes())),
                Part::Host => name.extend(plain(host)),
            }
        }
        if self.is_extended {
            name.push(b'.');
            name.extend_from_slice(stream.as_bytes());
        }
        OsString::from_vec(name).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: Names<'_> = Names {
        nspace: "a/b@1",
        host: b"n1",
        width: 3,
    };

    #[test]
    fn a_pattern_names_the_rank_the_job_and_the_node() {
        let pattern = FilePattern::parse(OsStr::new("%h/100%%-%n.%r.out")).unwrap();
        let name = pattern.name(NAMES, Rank::new(7), "stderr");
        assert_eq!(name, Path::new("n1/100%-a_b@1.007.out.stderr"));
        let outside = Names {
            nspace: "..",
            host: b".",
            ..NAMES
        };
        let pattern = FilePattern::parse(OsStr::new("%n/.%h/%r")).unwrap();
        let name = pattern.name(outside, Rank::new(7), "stdout");
        assert_eq!(name, Path::new("_./._/007.stdout"));
        let name = FilePattern::default().name(NAMES, Rank::new(7), "stdout");
        assert_eq!(name, Path::new("rank.007.stdout"));
        let one = FilePattern::of_one_file(OsStr::new("50%r"));
        let name = one.name(NAMES, Rank::new(7), "stdout");
        assert_eq!(name, Path::new("50%r.a_b@1.007"));
    }

    #[test]
    fn patterns_that_mean_no_file_of_a_process_are_refused() {
        for (pattern, why) in [
            ("out", "no %r"),
            ("100%", "not followed by r"),
            ("%t", "not followed by r"),
            ("../%r", "leads outside"),
            ("/tmp/%r", "leads outside"),
            ("a/../../%r", "leads outside"),
            ("./%r", "leads outside"),
        ] {
            let error = FilePattern::parse(OsStr::new(pattern)).unwrap_err();
            assert!(error.to_string().contains(why), "{pattern}: {error}");
        }
    }
}
