// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ways in which the programs print, read and end, and what a launcher must show of them.

use super::place::{Place, Seen};

/// The language of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    C,
    Fortran,
    Python,
}

impl Language {
    /// Returns the name in reports and in the list of deviations.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::C => "C",
            Self::Fortran => "Fortran",
            Self::Python => "Python",
        }
    }
}

/// The output of both processes.
enum Written {
    /// These lines of rank 0 and of rank 1, after `rank N `. Lines of different processes have no order.
    Lines(&'static [&'static str], &'static [&'static str]),
    /// A line of 100,000 letters of rank 0.
    LongLine,
    /// Every byte of rank 0.
    Bytes,
}

/// A way in which both processes of a program behave.
pub(super) struct Kind {
    /// The argument of the program.
    pub(super) name: &'static str,
    pub(super) languages: &'static [Language],
    /// Options of the launcher.
    pub(super) options: &'static [&'static str],
    pub(super) input: &'static str,
    written: Written,
    /// The exit code of the launcher.
    pub(super) code: i32,
    /// The end of our launcher's message about rank 1 or the job; no message without it.
    says: Option<&'static str>,
    /// `true` if the second release runs it, too.
    pub(super) is_short: bool,
}

use Language::{C, Fortran, Python};

const ALL: &[Language] = &[C, Fortran, Python];

/// The line before the end of a job, of both processes.
const BEFORE: Written = Written::Lines(&["before"], &["before"]);

/// A way of printing after which both processes end well.
const fn prints(name: &'static str, languages: &'static [Language], written: Written) -> Kind {
    Kind {
        name,
        languages,
        options: &[],
        input: "",
        written,
        code: 0,
        says: None,
        is_short: false,
    }
}

/// A way of ending after both processes have printed a line.
const fn ends(
    name: &'static str,
    languages: &'static [Language],
    code: i32,
    says: &'static str,
) -> Kind {
    Kind {
        code,
        says: Some(says),
        ..prints(name, languages, BEFORE)
    }
}

/// The options of jobs that do not end by themselves.
const LIMITED: &[&str] = &["--timeout", "1"];

/// Every way.
pub(super) const KINDS: &[Kind] = &[
    Kind {
        is_short: true,
        ..prints(
            "lines",
            ALL,
            Written::Lines(
                &["line 0", "line 1", "line 2"],
                &["line 0", "line 1", "line 2"],
            ),
        )
    },
    prints(
        "flushed",
        ALL,
        Written::Lines(&["at", "at", "at"], &["at", "at", "at"]),
    ),
    prints(
        "partial",
        &[C, Fortran],
        Written::Lines(&["half at rest"], &[]),
    ),
    prints("unended", &[C], Written::Lines(&["has no end"], &[])),
    prints("long", &[C], Written::LongLine),
    prints("bytes", &[C, Python], Written::Bytes),
    Kind {
        is_short: true,
        ..prints(
            "both",
            ALL,
            Written::Lines(
                &["error", "output", "error 2"],
                &["error", "output", "error 2"],
            ),
        )
    },
    Kind {
        is_short: true,
        input: "one\ntwo\n",
        ..prints(
            "input",
            ALL,
            Written::Lines(&["read one", "read two", "lines 2"], &["lines 0"]),
        )
    },
    Kind {
        is_short: true,
        ..ends("finalized", ALL, 3, ") ended with exit code 3")
    },
    ends("exit", ALL, 3, ") ended with exit code 3"),
    Kind {
        is_short: true,
        ..ends("abort", ALL, 7, ") aborted the job with status 7")
    },
    ends("term", &[C], 128 + 15, ") was killed by SIGTERM"),
    ends("kill", &[C], 128 + 9, ") was killed by SIGKILL"),
    ends("crash", ALL, 128 + 11, ") was killed by SIGSEGV"),
    Kind {
        options: LIMITED,
        ..ends("hang", ALL, 124, " was still running after 1s")
    },
    Kind {
        options: LIMITED,
        ..ends("silent", ALL, 124, " was still running after 1s")
    },
];

impl Kind {
    /// Returns `true` if everything that the processes wrote is there, on the right stream, whole and in the order of
    /// each process.
    pub(super) fn is_printed_in(&self, seen: &Seen, place: Place) -> bool {
        let output = seen.output();
        match self.written {
            Written::Lines(first, second) => {
                let lines = [first, second];
                (0..2).all(|rank| {
                    let wanted =
                        |line: &&&str| place == Place::Terminal || !line.starts_with("error");
                    let wanted: Vec<_> = lines[rank].iter().filter(wanted).copied().collect();
                    let errors = lines[rank].iter().filter(|line| line.starts_with("error"));
                    let errors: Vec<_> = errors.copied().collect();
                    let is_apart = place != Place::Terminal;
                    lines_of(rank, &output) == wanted
                        && (!is_apart || lines_of(rank, &seen.errors()) == errors)
                })
            }
            Written::LongLine => {
                let line: Vec<u8> = (b'a'..=b'z').cycle().take(100_000).collect();
                contains(&output, &line)
            }
            Written::Bytes => {
                let bytes: Vec<u8> = (0..=u8::MAX).collect();
                let shown = match place {
                    // The terminal turns the end of a line into two bytes.
                    Place::Terminal => [&bytes[..10], b"\r", &bytes[10..]].concat(),
                    Place::File | Place::Pipe => bytes,
                };
                contains(&output, &shown)
            }
        }
    }

    /// Returns `true` if the launcher says why the job failed, and nothing about a job that did not.
    pub(super) fn is_explained_by(&self, text: &str) -> bool {
        let mut messages = text
            .lines()
            .filter_map(|line| line.strip_prefix("pmix run: "));
        match self.says {
            None => messages.next().is_none(),
            Some(says) => messages.any(|message| message.ends_with(says)),
        }
    }
}

/// Returns the lines of a process without their beginning and their times.
fn lines_of(rank: usize, output: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(output);
    let begin = format!("rank {rank} ");
    let lines = text
        .lines()
        .filter_map(|line| line.trim_end().strip_prefix(&begin));
    let is_time = |word: &&str| word.contains('.') && word.parse::<f64>().is_ok();
    let words = lines.map(|line| {
        line.split(' ')
            .filter(|word| !is_time(word))
            .collect::<Vec<_>>()
    });
    words.map(|words| words.join(" ")).collect()
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_process_are_compared_without_times() {
        let output =
            b"rank 0 at 1700000000.1234\r\nrank 1 line 0\nrank 0 half at 1.5 rest\nrank 0 no";
        assert_eq!(lines_of(0, output), ["at", "half at rest", "no"]);
        assert_eq!(lines_of(1, output), ["line 0"]);
    }

    #[test]
    fn a_failure_needs_a_message_and_success_none() {
        let find = |name: &str| KINDS.iter().find(|kind| kind.name == name).expect("a kind");
        assert!(find("lines").is_explained_by("rank 0 line 0\n"));
        assert!(!find("lines").is_explained_by("pmix run: anything\n"));
        let message = "pmix run: rank 1 (talk, pid 4711 on n1) ended with exit code 3\n";
        assert!(find("exit").is_explained_by(message));
        assert!(!find("abort").is_explained_by(message));
    }
}
