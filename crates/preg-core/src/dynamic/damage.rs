// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reasons for which a plugin's decoder returns no text.

use super::fault::Fault;
use super::module::Answer;
use crate::Error;

/// The reason for which a decoder returned no text.
#[derive(Debug)]
pub(super) enum Damage {
    /// The value is damaged.
    Value(Error),
    /// The component violated the interface.
    Broken(Fault),
}

impl Damage {
    pub(super) fn of<T>(answer: Answer<T>) -> Result<Option<T>, Self> {
        match answer {
            Answer::Done(done) => Ok(Some(done)),
            Answer::Declined => Ok(None),
            Answer::Broken(fault) => Err(Self::Broken(fault)),
            Answer::Failed(status, text, offset) => {
                let text = if text.is_empty() {
                    status.text().to_owned()
                } else {
                    text
                };
                let error = Error::new(status, text);
                Err(Self::Value(match offset {
                    Some(offset) => error.at(offset),
                    None => error,
                }))
            }
        }
    }

    /// Converts the failure to decode a value into a fault of the component that encoded the value.
    pub(super) fn into_fault(self, wrap: impl Fn(String) -> Fault) -> Fault {
        match self {
            Self::Value(error) => wrap(error.to_string()),
            Self::Broken(Fault::TooMuch(_)) => wrap("it is longer than the list".to_owned()),
            Self::Broken(fault) => fault,
        }
    }
}
