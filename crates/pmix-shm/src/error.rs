// SPDX-License-Identifier: MIT OR Apache-2.0
//! The errors of tables.

use std::fmt;
use std::io;

use rustix::io::Errno;

/// The reason for which a table cannot be created, opened, read or written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// An operation of the system failed. The fields are the operation and the kind of error.
    System(&'static str, io::ErrorKind),
    /// The text is not an address.
    Address,
    /// The object is not the one to which the address belongs.
    Foreign(&'static str),
    /// The content of the object is inconsistent.
    Damaged(&'static str),
    /// The table has no space for another value.
    Full,
    /// The value is too long. The fields are its length and the reader's limit in bytes.
    TooLong(u64, u64),
    /// This process has no memory for a value of this many bytes.
    NoMemory(usize),
    /// The writer changed the value during each attempt to read it.
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
