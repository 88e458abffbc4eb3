// SPDX-License-Identifier: MIT OR Apache-2.0
//! Colour, where it is wanted.

use std::ffi::OsString;
use std::io::IsTerminal;

use clap::{ColorChoice, ValueEnum as _};

use crate::args::When;

/// Returns the color setting of a command line that is not parsed yet.
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

/// The permission to write escape sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    color: bool,
}

impl Style {
    /// Decides for one stream: `--color`, then `NO_COLOR` (<https://no-color.org>), then whether
    /// a terminal reads it.
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
