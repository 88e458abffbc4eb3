// SPDX-License-Identifier: MIT OR Apache-2.0
//! The log of the libraries on standard error, one line for each event.

mod queue;

use std::fmt::{self, Write as _};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::printable::printable;
use crate::style::Style;

pub(crate) use queue::{finish, never_wait, say};

/// Shows events up to a level; keeps no spans.
///
/// A subscriber of forty lines instead of a formatting library: the command starts in a
/// millisecond, and a warning is a line that a person reads.
struct Lines {
    level: Level,
    style: Style,
}

/// Installs the subscriber: warnings, and with `-v` what is decided and done in words for users, with `-vv`
/// what the libraries note for those who work on them, with `-vvv` the bytes of messages too.
pub(crate) fn install(verbose: u8, style: Style) {
    let level = match verbose {
        0 => Level::WARN,
        1 => Level::INFO,
        2 => Level::DEBUG,
        _ => Level::TRACE,
    };
    // Fails only when a subscriber is already installed, which is then the one that was wanted.
    let _ = tracing::subscriber::set_global_default(Lines { level, style });
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // Messages of the server about its clients are for developers; users get the messages of the launcher
        // about the job.
        let of_server = ["pmix_server", "pmix_engine"];
        let is_quiet = self.level <= Level::INFO
            && of_server
                .iter()
                .any(|name| metadata.target().starts_with(name));
        let level = match (is_quiet, self.level) {
            (true, Level::WARN) => Level::ERROR,
            (true, _) => Level::WARN,
            (false, level) => level,
        };
        *metadata.level() <= level
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let label = match *event.metadata().level() {
            Level::ERROR => self.style.red("error:"),
            Level::WARN => self.style.yellow("warning:"),
            Level::INFO => self.style.dim("info:"),
            Level::DEBUG => self.style.dim("debug:"),
            Level::TRACE => self.style.dim("trace:"),
        };
        let mut line = Line::default();
        event.record(&mut line);
        let text = format!("{}{}", line.message, line.fields).replace('\n', " ");
        let text = printable(text.trim_end().as_bytes());
        say(format!("{label} {text}\n").into_bytes());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let _ = match field.name() {
            "message" => write!(self.message, "{value}"),
            name => write!(self.fields, " {name}={value}"),
        };
    }
}
