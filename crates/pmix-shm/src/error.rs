// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can be wrong with a table.

use std::fmt;
use std::io;

use rustix::io::Errno;

/// Says why a table cannot be made, opened, read or written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The system refuses something: what, and how.
    System(&'static str, io::ErrorKind),
    /// The text is not an address.
    Address,
    /// It is not the object that the address means.
    Foreign(&'static str),
    /// It is the object, and what it holds contradicts itself.
    Damaged(&'static str),
    /// There is no room for another value.
    Full,
    /// The value has the first number of bytes, more than the second, which the reader takes.
    TooLong(u64, u64),
    /// This process has no memory for so many bytes of a value.
    NoMemory(usize),
    /// A value is being written, again and again: whether it is there cannot be told.
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
