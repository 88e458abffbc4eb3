// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a file is not taken.

use std::fmt;
use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

/// Why a file is not taken; the text names owner and mode, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// There is no such file.
    Missing,
    /// A directory on the path may not be searched by this process.
    Unsearchable(PathBuf),
    /// The system refuses.
    Io(io::ErrorKind, String),
    /// It is something else than a regular file.
    NotRegular {
        /// What it is.
        kind: &'static str,
        /// To whom it belongs.
        owner: u32,
        /// Its permission bits.
        mode: u32,
    },
    /// Somebody else could have put it there.
    Untrusted {
        /// The file, or the link or directory on its path, that is at fault.
        path: PathBuf,
        /// To whom that belongs.
        owner: u32,
        /// Its permission bits.
        mode: u32,
        /// Who runs the program.
        user: u32,
    },
    /// The file has more bytes than are read.
    TooLarge {
        /// How many may be read.
        most: u64,
    },
    /// More symbolic links than are followed.
    Links,
}

impl Fault {
    /// Whether there is no file as far as this process can see.
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
                "it is {kind} of user {owner}, mode {mode:04o}, and no regular file"
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
