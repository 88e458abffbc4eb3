// SPDX-License-Identifier: MIT OR Apache-2.0
//! The faults of a loaded component. Each kind is reported once.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use pmix_types::Status;

/// A violation of the plugin interface, detected during a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The component caught its own panic or exception.
    Panicked(String),
    /// The component returned a number that is not a status.
    UnknownStatus(i32),
    /// An encoder failed instead of declining.
    EncoderFailed(Status, String),
    /// The component passed NULL as output, or a length beyond the address space.
    BadWrite(&'static str),
    /// The component wrote more bytes than the result for its input can have.
    TooMuch(u64),
    /// The value does not begin with the component's tag.
    WrongTag,
    /// The extent that the component reports for its value differs from the value's length.
    WrongExtent {
        /// The reported length in bytes.
        says: usize,
        /// The actual length in bytes.
        has: usize,
    },
    /// The component's decoder rejects its own value.
    Undecodable(String),
    /// The component's value decodes to another list.
    OtherList(String),
    /// The component reported an error at an offset beyond the value.
    BadOffset,
    /// The component sent text that is not UTF-8.
    NotText,
}

impl Fault {
    /// Returns `true` if the component encoded a wrong value.
    pub(crate) fn is_of_a_value(&self) -> bool {
        matches!(
            self,
            Self::WrongTag
                | Self::WrongExtent { .. }
                | Self::Undecodable(_)
                | Self::OtherList(_)
                | Self::TooMuch(_)
        )
    }

    /// Returns the bit of this kind of fault, so that each kind is reported once.
    fn bit(&self) -> u32 {
        1 << match self {
            Self::Panicked(_) => 0,
            Self::UnknownStatus(_) => 1,
            Self::EncoderFailed(..) => 2,
            Self::BadWrite(_) => 3,
            Self::TooMuch(_) => 4,
            Self::WrongTag => 5,
            Self::WrongExtent { .. } => 6,
            Self::Undecodable(_) => 7,
            Self::OtherList(_) => 8,
            Self::BadOffset => 9,
            Self::NotText => 10,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panicked(text) => write!(f, "it panicked: {text}"),
            Self::UnknownStatus(status) => write!(f, "it returned the unknown status {status}"),
            Self::EncoderFailed(status, text) if text.is_empty() => {
                write!(f, "it failed with {status}")
            }
            Self::EncoderFailed(status, text) => write!(f, "it failed with {status}: {text}"),
            Self::BadWrite(what) => write!(f, "it wrote {what}"),
            Self::TooMuch(limit) => write!(f, "it wrote more than {limit} bytes"),
            Self::WrongTag => f.write_str("its value does not begin with its tag"),
            Self::WrongExtent { says, has } => {
                write!(
                    f,
                    "it states a length of {says} bytes for a value of {has} bytes"
                )
            }
            Self::Undecodable(why) => write!(f, "its value does not decode: {why}"),
            Self::OtherList(why) => write!(f, "its value decodes to another list: {why}"),
            Self::BadOffset => f.write_str("it named a byte beyond the value"),
            Self::NotText => f.write_str("it sent a message that is not valid UTF-8"),
        }
    }
}

/// A reporter that logs each kind of fault of one plugin once.
#[derive(Debug)]
pub(crate) struct Reporter {
    path: PathBuf,
    told: AtomicU32,
}

impl Reporter {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            told: AtomicU32::new(0),
        }
    }

    /// Logs a warning, unless this kind of fault was reported before.
    pub(crate) fn tell(&self, operation: &str, fault: &Fault) {
        let bit = fault.bit();
        if self.told.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
            let then = if operation.starts_with("generate") {
                "the next component is used"
            } else {
                "the value is rejected"
            };
            tracing::warn!(
                "plugin {}: {operation}: {fault}; {then} \
                 (further faults of this kind are not reported)",
                self.path.display()
            );
        }
    }
}
