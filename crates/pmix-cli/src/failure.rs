// SPDX-License-Identifier: MIT OR Apache-2.0
//! The failure of a command: a message, a position (with a caret), and advice.

use std::fmt::Write as _;
use std::io;

use preg_core::Status;

use crate::excerpt::Excerpt;
use crate::style::{Style, printable_lines};

/// The exit code of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command succeeded.
    Ok,
    /// The result is negative: errors were found, or an object was not found.
    Negative,
    /// The command line or the configuration is invalid.
    Usage,
    /// The data is malformed, too large, or cannot be read.
    Data,
    /// The exit code of a job, or of a job that could not be started.
    Job(u8),
}

impl Exit {
    /// Returns the exit code of the process.
    pub(crate) fn code(self) -> i32 {
        match self {
            Self::Ok => 0,
            Self::Negative => 1,
            Self::Usage => 2,
            Self::Data => 3,
            Self::Job(code) => code.into(),
        }
    }
}

/// The failure of a command, ready to be printed.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    status: Status,
    message: String,
    place: Option<Box<Excerpt>>,
    cure: Option<String>,
    quiet: bool,
    answered: bool,
}

impl Failure {
    pub(crate) fn new(exit: Exit, status: Status, message: impl Into<String>) -> Self {
        Self {
            exit,
            status,
            message: message.into(),
            place: None,
            cure: None,
            quiet: false,
            answered: false,
        }
    }

    /// Creates a negative result that is already printed on standard output.
    pub(crate) fn answer(status: Status, message: impl Into<String>) -> Self {
        let mut failure = Self::new(Exit::Negative, status, message);
        failure.answered = true;
        failure
    }

    /// Creates an error about malformed data.
    pub(crate) fn data(message: impl Into<String>) -> Self {
        Self::new(Exit::Data, Status::ERR_BAD_PARAM, message)
    }

    /// Creates a usage error.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, Status::ERR_BAD_PARAM, message)
    }

    /// Converts an error in the configuration.
    pub(crate) fn settings(error: &preg_core::Error) -> Self {
        Self::new(Exit::Usage, error.status(), error.to_string())
            .cure("`pmix info` shows every parameter and the source of its value")
    }

    /// Converts an error of a scheme or the framework about a value or list.
    pub(crate) fn of(error: &preg_core::Error, origin: &str, bytes: &[u8]) -> Self {
        let scheme = error.scheme().map(|s| format!("{s}: ")).unwrap_or_default();
        let mut failure = Self::new(
            Exit::Data,
            error.status(),
            format!("{scheme}{}", error.message()),
        );
        if error.status() == Status::ERR_OUT_OF_RESOURCE {
            failure = failure.cure("the limits are parameters: see `pmix info --param preg`");
        }
        if error.scheme().is_some() {
            failure = failure.or_cure("`pmix map explain VALUE` shows the value byte by byte");
        }
        match error.offset() {
            Some(offset) => failure.at(Excerpt::new(origin, bytes, offset)),
            None => failure,
        }
    }

    /// Adds the position of the failure.
    pub(crate) fn at(mut self, place: Excerpt) -> Self {
        self.place = Some(Box::new(place));
        self
    }

    /// Adds the position of the failure, unless it already has one.
    pub(crate) fn at_unless_placed(self, place: impl FnOnce() -> Excerpt) -> Self {
        match self.place {
            Some(_) => self,
            None => self.at(place()),
        }
    }

    /// Adds advice.
    pub(crate) fn cure(mut self, cure: impl Into<String>) -> Self {
        self.cure = Some(cure.into());
        self
    }

    /// Adds advice unless the failure already has more specific advice.
    pub(crate) fn or_cure(mut self, cure: &str) -> Self {
        self.cure.get_or_insert_with(|| cure.to_owned());
        self
    }

    /// Replaces the message, unless the failure is an exceeded limit.
    pub(crate) fn saying(mut self, message: &str) -> Self {
        if self.status != Status::ERR_OUT_OF_RESOURCE {
            self.message = message.to_owned();
        }
        self
    }

    /// Returns the failure as a usage error of the command line.
    pub(crate) fn misuse(mut self, cure: &str) -> Self {
        self.exit = Exit::Usage;
        match self.status {
            Status::ERR_OUT_OF_RESOURCE => self,
            _ => self.cure(cure),
        }
    }

    /// Puts the message of another failure, which was found first, before this one.
    pub(crate) fn after(mut self, first: &Self) -> Self {
        self.message = format!("{}, and {}", first.message, self.message);
        self
    }

    /// Returns the failure as a usage error with its own advice.
    pub(crate) fn into_usage(mut self) -> Self {
        self.exit = Exit::Usage;
        self
    }

    /// Marks the failure as already reported in JSON.
    pub(crate) fn answered(mut self) -> Self {
        self.answered = true;
        self
    }

    /// Marks the failure as quiet, because the reader of the output has closed the stream.
    pub(crate) fn unread(mut self) -> Self {
        self.quiet = true;
        self.answered()
    }

    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// Returns `true` if no message is printed, because the reader of the output has closed the
    /// stream.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Returns `true` if the result is already printed in JSON.
    pub(crate) fn is_answered(&self) -> bool {
        self.answered
    }

    /// Returns the status.
    pub(crate) fn status(&self) -> Status {
        self.status
    }

    /// Returns the message without the help.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Returns the failure as text.
    pub(crate) fn render(&self, style: Style) -> String {
        let message = printable_lines(&self.message);
        let label = crate::trace::speaker().unwrap_or("error:");
        let mut text = format!("{} {message}\n", style.red(label));
        if let Some(place) = &self.place {
            place.render(style, &mut text);
        }
        if let Some(cure) = &self.cure {
            let _ = writeln!(text, "  {} {cure}", style.green("help:"));
        }
        text
    }

    /// Returns the failure as JSON.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "status": self.status.as_raw(),
            "error": self.message,
            "origin": self.place.as_ref().map(|p| p.origin()),
            "offset": self.place.as_ref().map(|p| p.offset()),
            "help": self.cure,
        })
    }
}

impl From<io::Error> for Failure {
    /// Converts a failed write to standard output.
    fn from(error: io::Error) -> Self {
        let mut failure = Self::new(
            Exit::Data,
            Status::ERROR,
            format!("cannot write the output: {error}"),
        );
        if error.kind() == io::ErrorKind::BrokenPipe {
            failure.quiet = true;
            failure.exit = Exit::Ok;
        }
        failure
    }
}
