// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files on a machine that has other users.
//!
//! A file that decides what a program does, such as a configuration file or a library to load, is
//! trusted ([`Trust::open`]) if nobody but root and the user could have written it: it is a regular
//! file of bounded size that belongs to one of them and that nobody else may write to, and so is
//! every directory on its path. In a directory that others may write to, nothing is trusted, but for
//! one with the sticky bit, such as `/tmp`, where an entry of root or the user cannot be moved by
//! others. Symbolic links are resolved here, one at a time and under the same rules. Every check
//! is made on an open descriptor, so that nothing can be exchanged between check and use.
//!
//! A file that a user names as input is read by [`read_regular`].
//!
//! A file that a program writes where others can write too is made by [`create`]. Whether the process
//! that wrote one is still there says [`was_there`].
//!
//! ```
//! use pmix_files::{Fault, Trust};
//! let trust = Trust::of_process();
//! let missing = trust.read("/etc/pmix/not-there.toml".as_ref(), 1 << 20);
//! assert!(matches!(missing, Err(Fault::Missing)));
//! assert!(matches!(trust.read("/dev/zero".as_ref(), 1 << 20), Err(Fault::NotRegular { .. })));
//! ```
#![forbid(unsafe_code)]

mod create;
mod fault;
mod process;
mod trust;
mod walk;

pub use create::{append, create};
pub use fault::Fault;
pub use process::was_there;
pub use trust::{Trust, Trusted, read_regular};
