// SPDX-License-Identifier: MIT OR Apache-2.0
//! The errors of tables.

use std::fmt;
use std::io;

use rustix::io::Errno;

/// The reason that a table cannot be created, opened, read or written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The system rejects an operation; the operation and the kind of error.
    System(&'static str, io::ErrorKind),
    /// The text is not an address.
    Address,
    /// The object is not the one of the address.
    Foreign(&'static str),
    /// The content of the object is inconsistent.
    Damaged(&'static str),
    /// There is no room for another value.
    Full,
    /// The value has the first number of bytes, and the second is the limit of the reader.
    TooLong(u64, u64),
    /// This process has no memory for a value of this length.
    NoMemory(usize),
    /// The value is being written repeatedly, so that it cannot be read.
    Busy,
}

impl Error {
    pub(crate) fn system(what: &'static str) -> impl FnOnce(Errno) -> Self {
        move |error| Self::System(what, io::Error::from(error).kind())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System(what, kind) => write!(f, "{what}: {kind}"),
            Self::Address => f.write_str("not the address of a memory object"),
            Self::Foreign(why) => write!(f, "not the memory object of the address: {why}"),
            Self::Damaged(what) => write!(f, "the memory object is damaged: {what} is wrong"),
            Self::TooLong(len, most) => write!(
                f,
                "a value of the memory object has {len} bytes, more than {most}"
            ),
            Self::NoMemory(len) => {
                write!(f, "this process has no memory for a value of {len} bytes")
            }
            Self::Busy => f.write_str("a value of the memory object is being written"),
            Self::Full => f.write_str("the memory object has no room left"),
        }
    }
}

impl std::error::Error for Error {}
