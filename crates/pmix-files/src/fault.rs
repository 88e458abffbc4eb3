// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reasons for which files are rejected.

use std::fmt;
use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

/// The reason for which a file is rejected. Its text has the owner, the mode and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The file does not exist.
    Missing,
    /// This process may not search a directory on the path.
    Unsearchable(PathBuf),
    /// A system call failed.
    Io(io::ErrorKind, String),
    /// The object is not a regular file.
    NotRegular {
        /// The kind of the object.
        kind: &'static str,
        /// The user id of the owner.
        owner: u32,
        /// The permission bits of the object.
        mode: u32,
    },
    /// Another user could have written the file.
    Untrusted {
        /// The file, or the link or directory on its path, that another user can change.
        path: PathBuf,
        /// The user id of the owner of `path`.
        owner: u32,
        /// The permission bits of `path`.
        mode: u32,
        /// The id of the user who runs the program.
        user: u32,
    },
    /// The file is longer than the limit.
    TooLarge {
        /// The limit in bytes.
        most: u64,
    },
    /// The path has too many symbolic links.
    Links,
}

impl Fault {
    /// Returns `true` if the file does not exist as far as this process can see.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Missing | Self::Unsearchable(_))
    }

    pub(crate) fn of(error: Errno) -> Self {
        match error {
            Errno::NOENT | Errno::NOTDIR => Self::Missing,
            Errno::LOOP => Self::Links,
            error => {
                let error = io::Error::from(error);
                Self::Io(error.kind(), error.to_string())
            }
        }
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error.kind(), error.to_string())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("No such file or directory"),
            Self::Unsearchable(path) => {
                write!(
                    f,
                    "the directory {} may not be searched: Permission denied",
                    path.display()
                )
            }
            Self::Io(_, why) => f.write_str(why),
            Self::NotRegular { kind, owner, mode } => write!(
                f,
                "it is {kind} of user {owner}, mode {mode:04o}, not a regular file"
            ),
            Self::Untrusted {
                path,
                owner,
                mode,
                user,
            } => untrusted(f, path, *owner, *mode, *user),
            Self::TooLarge { most } => write!(f, "the file has more than {most} bytes"),
            Self::Links => f.write_str("too many symbolic links on the path"),
        }
    }
}

fn untrusted(
    f: &mut fmt::Formatter<'_>,
    path: &std::path::Path,
    owner: u32,
    mode: u32,
    user: u32,
) -> fmt::Result {
    let path = path.display();
    write!(f, "{path} belongs to user {owner}, mode {mode:04o}: ")?;
    if owner != 0 && owner != user {
        let trusted = match user {
            0 => "root".to_owned(),
            user => format!("root or user {user}"),
        };
        write!(
            f,
            "only what belongs to {trusted} is trusted; copy it or change its owner"
        )
    } else {
        write!(
            f,
            "others may write to it; `chmod go-w {path}` if it is yours alone"
        )
    }
}

impl std::error::Error for Fault {}

impl From<Fault> for io::Error {
    fn from(fault: Fault) -> Self {
        let kind = match &fault {
            Fault::Missing => io::ErrorKind::NotFound,
            Fault::Io(kind, _) => *kind,
            Fault::TooLarge { .. } => io::ErrorKind::FileTooLarge,
            Fault::NotRegular { .. } => io::ErrorKind::InvalidInput,
            Fault::Unsearchable(_) | Fault::Untrusted { .. } | Fault::Links => {
                io::ErrorKind::PermissionDenied
            }
        };
        Self::new(kind, fault.to_string())
    }
}
