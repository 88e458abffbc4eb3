// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files on a machine with several users.
//!
//! A file that determines the behavior of a program, such as a configuration file or a library, is
//! trusted ([`Trust::open`]) if only root and the user could have written it. It must be a regular
//! file of bounded size that belongs to one of them and that no other user may write to. The same
//! is required of every directory on its path. A directory that others may write to is only allowed
//! if it has the sticky bit, such as `/tmp`. In such a directory, others cannot move entries of
//! root or the user. Symbolic links are resolved one at a time under the same rules. Every check is
//! made on an open descriptor, so that nothing can be exchanged between check and use.
//!
//! [`read_regular`] reads a file that a user names as input.
//!
//! [`create`] creates a file in a directory that others may write to. [`was_there`] checks whether
//! the process that wrote a file still exists, and [`process_user`] returns the user of a process.
//!
//! ```
//! use pmix_files::{Fault, Trust};
//! let trust = Trust::of_process();
//! let missing = trust.read("/etc/pmix/not-there.toml".as_ref(), 1 << 20);
//! assert!(matches!(missing, Err(Fault::Missing)));
//! assert!(matches!(trust.read("/dev/zero".as_ref(), 1 << 20), Err(Fault::NotRegular { .. })));
//! ```
#![forbid(unsafe_code)]

mod fault;
mod trust;
mod walk;

pub use fault::Fault;
pub use trust::{Trust, Trusted, append, create, process_user, read_regular, was_there};
