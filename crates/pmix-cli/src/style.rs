// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text for users: color, escaped bytes, numbers with nouns, and progress.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use clap::{ColorChoice, ValueEnum as _};

use crate::args::When;

/// Returns the color setting of a command line before it is parsed.
pub(crate) fn asked_for(words: &[OsString]) -> ColorChoice {
    let mut words = words.iter().filter_map(|word| word.to_str());
    let mut asked = ColorChoice::Auto;
    while let Some(word) = words.next() {
        let value = match word {
            "--" => break,
            "--color" => words.next(),
            word => word.strip_prefix("--color="),
        };
        match value.and_then(|value| When::from_str(value, true).ok()) {
            Some(When::Auto) => asked = ColorChoice::Auto,
            Some(When::Never) => asked = ColorChoice::Never,
            Some(When::Always) => asked = ColorChoice::Always,
            None => {}
        }
    }
    asked
}

/// The style of a stream: with or without escape sequences for color.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    color: bool,
}

impl Style {
    /// Returns the style of a stream by `--color`, then by `NO_COLOR` (<https://no-color.org>),
    /// then by whether the stream is a terminal.
    pub(crate) fn new(when: When, stream: &impl IsTerminal) -> Self {
        let color = match when {
            When::Always => true,
            When::Never => false,
            When::Auto => !anstyle_query::no_color() && stream.is_terminal(),
        };
        Self { color }
    }

    /// Returns this style if `holds`, otherwise the plain style.
    pub(crate) fn only_if(self, holds: bool) -> Self {
        Self {
            color: self.color && holds,
        }
    }

    pub(crate) fn blue(self, text: &str) -> String {
        self.paint("34", text)
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.paint("1;31", text)
    }

    pub(crate) fn green(self, text: &str) -> String {
        self.paint("32", text)
    }

    pub(crate) fn yellow(self, text: &str) -> String {
        self.paint("33", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.color {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

#[cfg(test)]
impl Style {
    /// Returns the style without color.
    pub(crate) const fn plain() -> Self {
        Self { color: false }
    }
}

/// Returns bytes as text on one line, with unprintable bytes escaped.
pub(crate) fn printable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\0' => text.push_str("\\0"),
                c if is_hidden(c) => text.extend(c.escape_default()),
                c => text.push(c),
            }
        }
        for byte in chunk.invalid() {
            // Writing into a String cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// Returns text of several lines with unprintable characters escaped.
pub(crate) fn printable_lines(text: &str) -> String {
    let lines = text.split('\n').map(|line| printable(line.as_bytes()));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns `true` if a terminal prints these bytes unchanged.
pub(crate) fn is_printable(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| !text.chars().any(is_hidden))
}

/// Returns `true` for control characters, and for characters that change the direction of the text.
pub(crate) fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Returns the columns that printable text takes on a terminal.
pub(crate) fn columns(text: &str) -> usize {
    text.chars().map(width).sum()
}

/// Returns the columns of a character: 2 for wide scripts and pictures, 0 for combining marks.
fn width(c: char) -> usize {
    match c {
        '\u{300}'..='\u{36f}' | '\u{fe00}'..='\u{fe0f}' => 0,
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{ffe0}'..='\u{ffe6}'
        | '\u{1f300}'..='\u{1f64f}'
        | '\u{1f900}'..='\u{1f9ff}'
        | '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
}

/// Returns a number with its noun: `1 node`, `2 nodes`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ => format!("{number} {noun}s"),
    }
}

/// Returns the size of a map: `2 nodes, 8 ranks`.
pub(crate) fn size(nodes: usize, ranks: u64) -> String {
    format!(
        "{}, {}",
        counted(nodes as u64, "node"),
        counted(ranks, "rank")
    )
}

/// The time before progress is printed.
const PATIENCE: Duration = Duration::from_millis(500);

const TICK: Duration = Duration::from_millis(125);

/// A message on a terminal about a slow operation, until this is dropped.
pub(crate) struct Progress {
    running: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Starts the timer. Nothing is printed unless standard error is a terminal.
    pub(crate) fn start(what: &'static str) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self { running: None };
        }
        let (stop, stopped) = mpsc::channel();
        let show = move || {
            let start = Instant::now();
            let mut wait = PATIENCE;
            let mut shown = false;
            while stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                let seconds = start.elapsed().as_secs_f64();
                let _ = write!(std::io::stderr(), "\r\x1b[K{what} … {seconds:.1} s");
                (wait, shown) = (TICK, true);
            }
            if shown {
                let _ = write!(std::io::stderr(), "\r\x1b[K");
            }
        };
        let thread = std::thread::Builder::new().spawn(show);
        Self {
            running: thread.ok().map(|thread| (stop, thread)),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.running.take() {
            drop(stop);
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(printable(b"a\x1b[2J\x07"), "a\\u{1b}[2J\\u{7}");
        assert_eq!(
            printable("\u{9b}2J \u{202e}x".as_bytes()),
            "\\u{9b}2J \\u{202e}x"
        );
        assert_eq!(printable(b"\x9b\0"), "\\x9b\\0");
        assert_eq!(printable("nœud日本".as_bytes()), "nœud日本");
        assert_eq!(printable_lines("a\nb\r"), "a\nb\\r");
        assert!(
            is_printable("nœud".as_bytes()) && !is_printable(b"a\tb") && !is_printable(b"\xff")
        );
    }

    #[test]
    fn wide_characters_count_twice() {
        assert_eq!(columns("n1"), 2);
        assert_eq!(columns("日本n"), 5);
        assert_eq!(columns("e\u{301}"), 1);
    }
}
