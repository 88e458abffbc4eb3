// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results of real libraries and of this project, and their comparison.

use std::fmt;

use super::ask;
use super::record::{Library, Record};

/// A result, of a library or of this project.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The library crashed.
    Crash,
    /// A status other than success; -1366 declines.
    Status(i32),
    /// A generated value.
    Value { form: String, bytes: Vec<u8> },
    /// The length of a generated value whose bytes are not recorded.
    Length(u64),
    /// The elements of a decoded list.
    List(Vec<Vec<u8>>),
    /// The size and the ends of a long decoded list.
    Summary {
        count: u64,
        first: Vec<u8>,
        last: Vec<u8>,
    },
    /// The text of a regex2.
    Text(Vec<u8>),
}

impl Answer {
    /// Creates the result for a generated value.
    pub(crate) fn value(form: impl Into<String>, bytes: Vec<u8>) -> Self {
        Self::Value {
            form: form.into(),
            bytes,
        }
    }

    /// Returns `true` if this project's result agrees with the library's.
    ///
    /// Compressed values agree if they have the same form and decode to the same list: two
    /// compressors may write different bytes.
    pub(crate) fn agrees(theirs: &Self, ours: &Self, record: &Record) -> bool {
        match (theirs, ours) {
            (
                Self::Value { form, bytes },
                Self::Value {
                    form: our_form,
                    bytes: our_bytes,
                },
            ) if form == our_form && matches!(form.as_str(), "blob" | "compress") => {
                let list = |bytes| ask::decode(record, Library::Five, form, bytes);
                list(bytes).is_ok() && list(bytes) == list(our_bytes)
            }
            (Self::Length(len), Self::Value { bytes, .. }) => *len == bytes.len() as u64,
            (Self::Summary { count, first, last }, Self::List(list)) => {
                *count == list.len() as u64
                    && same_end(first, list.first())
                    && same_end(last, list.last())
            }
            _ => theirs == ours,
        }
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crash => f.write_str("crash"),
            Self::Status(status) => write!(f, "status {status}"),
            Self::Value { form, bytes } => write!(f, "{form} {}", shown(bytes)),
            Self::Length(len) => write!(f, "{len} bytes"),
            Self::List(list) => {
                let elements: Vec<_> = list.iter().take(12).map(|e| shown(e)).collect();
                write!(f, "list of {} [{}]", list.len(), elements.join(", "))
            }
            Self::Summary { count, first, last } => {
                write!(f, "list of {count} {}..{}", shown(first), shown(last))
            }
            Self::Text(text) => write!(f, "text {}", shown(text)),
        }
    }
}

/// Returns `true` if an element is the recorded one; of long elements only the beginning is
/// recorded.
fn same_end(recorded: &[u8], element: Option<&Vec<u8>>) -> bool {
    const KEPT: usize = 60;
    element.is_some_and(|element| element[..element.len().min(KEPT)] == *recorded)
}

/// Returns bytes as shortened text.
fn shown(bytes: &[u8]) -> String {
    let head = &bytes[..bytes.len().min(100)];
    let rest = if head.len() < bytes.len() {
        format!("... ({} bytes)", bytes.len())
    } else {
        String::new()
    };
    format!("\"{}\"{rest}", head.escape_ascii())
}
