// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a command could not answer: what, where (with a caret), and what to do about it.

use std::fmt::Write as _;
use std::io;

use preg_core::Status;

use crate::excerpt::Excerpt;
use crate::printable::printable_lines;
use crate::style::Style;

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The question was answered.
    Ok,
    /// The answer is no: faults were found, or what was looked for is not there.
    Negative,
    /// The command line or the configuration cannot be obeyed.
    Usage,
    /// The data is malformed, too large, or cannot be read.
    Data,
    /// A job ended so, or could not be started.
    Job(u8),
}

impl Exit {
    /// The exit code of the process.
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

/// A failed command, ready to be shown.
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

    /// A negative answer that was already given on standard output in its own form.
    pub(crate) fn answer(status: Status, message: impl Into<String>) -> Self {
        let mut failure = Self::new(Exit::Negative, status, message);
        failure.answered = true;
        failure
    }

    /// Malformed data.
    pub(crate) fn data(message: impl Into<String>) -> Self {
        Self::new(Exit::Data, Status::ERR_BAD_PARAM, message)
    }

    /// A command line that cannot be obeyed.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, Status::ERR_BAD_PARAM, message)
    }

    /// A configuration that cannot be obeyed.
    pub(crate) fn settings(error: &preg_core::Error) -> Self {
        Self::new(Exit::Usage, error.status(), error.to_string())
            .cure("`pmix info` shows every parameter and where its value comes from")
    }

    /// What a scheme or the framework says of a value or list.
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
        match error.offset() {
            Some(offset) => failure.at(Excerpt::new(origin, bytes, offset)),
            None => failure,
        }
    }

    /// The same failure with the place it was found at.
    pub(crate) fn at(mut self, place: Excerpt) -> Self {
        self.place = Some(Box::new(place));
        self
    }

    /// The same failure with advice.
    pub(crate) fn cure(mut self, cure: impl Into<String>) -> Self {
        self.cure = Some(cure.into());
        self
    }

    /// The same failure with advice where it has none that is nearer.
    pub(crate) fn or_cure(mut self, cure: &str) -> Self {
        self.cure.get_or_insert_with(|| cure.to_owned());
        self
    }

    /// The same failure in other words, unless it is one of a limit.
    pub(crate) fn saying(mut self, message: &str) -> Self {
        if self.status != Status::ERR_OUT_OF_RESOURCE {
            self.message = message.to_owned();
        }
        self
    }

    /// The same failure of something that stood on the command line itself.
    pub(crate) fn misuse(mut self, cure: &str) -> Self {
        self.exit = Exit::Usage;
        match self.status {
            Status::ERR_OUT_OF_RESOURCE => self,
            _ => self.cure(cure),
        }
    }

    /// The same failure where programs have their answer already.
    pub(crate) fn answered(mut self) -> Self {
        self.answered = true;
        self
    }

    /// The same failure where nobody reads any more what is said.
    pub(crate) fn unread(mut self) -> Self {
        self.quiet = true;
        self.answered()
    }

    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// Whether there is nothing to say: the reader of the output went away.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Whether programs already have their answer.
    pub(crate) fn is_answered(&self) -> bool {
        self.answered
    }

    /// What is wrong, without advice.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// The form for people.
    pub(crate) fn render(&self, style: Style) -> String {
        let message = printable_lines(&self.message);
        let mut text = format!("{} {message}\n", style.red("error:"));
        if let Some(place) = &self.place {
            place.render(style, &mut text);
        }
        if let Some(cure) = &self.cure {
            let _ = writeln!(text, "  {} {cure}", style.green("help:"));
        }
        text
    }

    /// The form for programs.
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
    /// A failed write to standard output.
    fn from(error: io::Error) -> Self {
        let mut failure = Self::new(
            Exit::Data,
            Status::ERROR,
            format!("the output cannot be written: {error}"),
        );
        if error.kind() == io::ErrorKind::BrokenPipe {
            failure.quiet = true;
            failure.exit = Exit::Ok;
        }
        failure
    }
}
