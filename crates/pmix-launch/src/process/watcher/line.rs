// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lines that a launcher writes to its watcher.
//!
//! | line | meaning |
//! | --- | --- |
//! | `over` | the launcher exits normally |
//! | `rest` | no process of a job runs; the watcher removes the remaining files when the launcher exits |
//! | `session PATH` | the directory of the session |
//! | `terminal MODES PATH` | the modes of the launcher's terminal before the launcher changed them: five hexadecimal numbers |
//! | `kept PATH` | a directory that is never removed |
//! | `PID` | a process was started that leads a process group |
//! | `gone PID` | the process and its group have exited |
//! | `file KEY PATH` | a file to remove |
//! | `dir KEY FLAGS PATH` | a directory to remove |
//! | `left KEY PATH` | a name or path to exclude from removal |
//! | `removed KEY` | the launcher has removed everything under this key |
//!
//! A key is `UID RANK NSPACE`. Names and paths may contain any bytes; a percent sign, a space and a line end are
//! written as `%` and two hexadecimal digits.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use pmix_server::CleanupDirectory;
use pmix_types::{Proc, Text};

use crate::input::SavedModes;

/// The process or job at whose end a user wants paths removed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) uid: u32,
    rank: u32,
    nspace: Vec<u8>,
}

impl Key {
    pub(super) fn of(target: &Proc<'_>, uid: u32) -> Self {
        Self {
            uid,
            rank: target.rank.as_raw(),
            nspace: target.nspace.as_bytes().to_vec(),
        }
    }
}

/// A path to remove, or one to exclude from removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Removal<'a> {
    File(&'a [u8]),
    Directory {
        path: &'a [u8],
        recursive: bool,
        only_empty: bool,
        leave_top: bool,
    },
    Ignored(&'a [u8]),
}

impl<'a> Removal<'a> {
    pub(super) fn directory(directory: &'a CleanupDirectory) -> Self {
        Self::Directory {
            path: directory.path.as_bytes(),
            recursive: directory.recursive,
            only_empty: directory.only_empty,
            leave_top: directory.leave_top,
        }
    }
}

/// A line, as the launcher writes it.
pub(super) enum Line<'a> {
    Over,
    Rest,
    Session(&'a Path),
    Terminal(&'a SavedModes),
    Kept(&'a Path),
    Started(i32),
    Gone(i32),
    Remove(&'a Key, Removal<'a>),
    Removed(&'a Key),
}

impl Line<'_> {
    /// Appends the line to a buffer.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Over => out.extend_from_slice(b"over"),
            Self::Rest => out.extend_from_slice(b"rest"),
            Self::Session(path) => word(out, "session", path.as_os_str().as_bytes()),
            Self::Terminal(SavedModes { path, modes }) => {
                let [input, output, local, min, time] = modes;
                let modes = format!("terminal {input:x} {output:x} {local:x} {min:x} {time:x}");
                word(out, &modes, path.as_os_str().as_bytes());
            }
            Self::Kept(path) => word(out, "kept", path.as_os_str().as_bytes()),
            Self::Started(pid) => out.extend_from_slice(pid.to_string().as_bytes()),
            Self::Gone(pid) => out.extend_from_slice(format!("gone {pid}").as_bytes()),
            Self::Removed(key) => keyed(out, "removed", key, ""),
            Self::Remove(key, removal) => {
                let path = match removal {
                    Removal::File(path) => {
                        keyed(out, "file", key, " ");
                        path
                    }
                    Removal::Ignored(path) => {
                        keyed(out, "left", key, " ");
                        path
                    }
                    Removal::Directory {
                        path,
                        recursive,
                        only_empty,
                        leave_top,
                    } => {
                        keyed(out, "dir", key, " ");
                        let flags = [recursive, only_empty, leave_top];
                        let digits = flags.map(|flag| if *flag { b'1' } else { b'0' });
                        out.extend_from_slice(&digits);
                        out.push(b' ');
                        path
                    }
                };
                escape(out, path);
            }
        }
        out.push(b'\n');
    }
}

fn word(out: &mut Vec<u8>, name: &str, path: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.push(b' ');
    escape(out, path);
}

fn keyed(out: &mut Vec<u8>, name: &str, key: &Key, end: &str) {
    let Key { uid, rank, nspace } = key;
    out.extend_from_slice(format!("{name} {uid} {rank} ").as_bytes());
    escape(out, nspace);
    out.extend_from_slice(end.as_bytes());
}

fn escape(out: &mut Vec<u8>, bytes: &[u8]) {
    for &byte in bytes {
        match byte {
            b'%' | b' ' | b'\n' => out.extend_from_slice(format!("%{byte:02x}").as_bytes()),
            byte => out.push(byte),
        }
    }
}

/// A line, as the watcher reads it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Received {
    Over,
    Rest,
    Session(PathBuf),
    Terminal(SavedModes),
    Kept(PathBuf),
    Started(i32),
    Gone(i32),
    File(Key, Text<'static>),
    Directory(Key, CleanupDirectory),
    Ignored(Key, Text<'static>),
    Removed(Key),
    /// A directory that is the root, or is relative to a directory that the watcher does not know. Such a line is
    /// skipped, so that the processes of other lines are still killed.
    Unusable,
}

impl Received {
    /// Parses a line without its line end. Returns `None` for a line that no launcher writes.
    pub(super) fn read(line: &[u8]) -> Option<Self> {
        let mut words = line.split(|&byte| byte == b' ');
        let first = words.next()?;
        let received = match first {
            b"over" => Self::Over,
            b"session" => path(words.next()?)?.map_or(Self::Unusable, Self::Session),
            b"kept" => path(words.next()?)?.map_or(Self::Unusable, Self::Kept),
            b"rest" => Self::Rest,
            b"terminal" => {
                let mut modes = [0; 5];
                for mode in &mut modes {
                    let digits = std::str::from_utf8(words.next()?).ok()?;
                    *mode = u32::from_str_radix(digits, 16).ok()?;
                }
                let terminal = |path| Self::Terminal(SavedModes { path, modes });
                path(words.next()?)?.map_or(Self::Unusable, terminal)
            }
            b"gone" => Self::Gone(pid(words.next()?)?),
            b"removed" => Self::Removed(key(&mut words)?),
            b"file" => Self::File(key(&mut words)?, text(words.next()?)?),
            b"left" => Self::Ignored(key(&mut words)?, text(words.next()?)?),
            b"dir" => {
                let key = key(&mut words)?;
                let flag = |digit: u8| matches!(digit, b'0' | b'1').then_some(digit == b'1');
                let &[recursive, only_empty, leave_top] = words.next()? else {
                    return None;
                };
                let directory = CleanupDirectory {
                    path: text(words.next()?)?,
                    recursive: flag(recursive)?,
                    only_empty: flag(only_empty)?,
                    leave_top: flag(leave_top)?,
                };
                Self::Directory(key, directory)
            }
            number => Self::Started(pid(number)?),
        };
        words.next().is_none().then_some(received)
    }
}

/// Parses a process id that a launcher can have started: neither the init process nor a negative number (a group).
fn pid(word: &[u8]) -> Option<i32> {
    number(word).filter(|pid| *pid > 1)
}

fn number<T: std::str::FromStr>(word: &[u8]) -> Option<T> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

fn key<'a>(words: &mut impl Iterator<Item = &'a [u8]>) -> Option<Key> {
    Some(Key {
        uid: number(words.next()?)?,
        rank: number(words.next()?)?,
        nspace: unescape(words.next()?)?,
    })
}

/// Parses a path. Returns `Some(None)` if it is not [below the root](is_below_root).
fn path(word: &[u8]) -> Option<Option<PathBuf>> {
    let bytes = unescape(word)?;
    let path = Path::new(OsStr::from_bytes(&bytes));
    Some(is_below_root(path).then(|| path.to_owned()))
}

/// Returns `true` for an absolute path other than the root.
pub(super) fn is_below_root(path: &Path) -> bool {
    path.is_absolute() && path.parent().is_some()
}

fn text(word: &[u8]) -> Option<Text<'static>> {
    Some(Text::new(unescape(word)?))
}

fn unescape(word: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = after;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmix_types::Rank;

    fn read_back(line: &Line<'_>) -> Received {
        let mut written = Vec::new();
        line.write(&mut written);
        let line = written.strip_suffix(b"\n").unwrap();
        assert!(!line.contains(&b'\n'));
        Received::read(line).unwrap()
    }

    #[test]
    fn lines_are_read_as_they_were_written_whatever_bytes_names_have() {
        let target = Proc::new("a b%\n", Rank::WILDCARD);
        let key = Key::of(&target, 1000);
        let every: Vec<u8> = (1..=u8::MAX).collect();
        let path = [b"/".as_slice(), &every].concat();
        let (text, path) = (Text::new(path.clone()), path.as_slice());
        assert_eq!(read_back(&Line::Over), Received::Over);
        assert_eq!(read_back(&Line::Rest), Received::Rest);
        let session = Path::new(OsStr::from_bytes(path));
        assert_eq!(
            read_back(&Line::Session(session)),
            Received::Session(session.to_owned())
        );
        assert_eq!(
            read_back(&Line::Kept(session)),
            Received::Kept(session.to_owned())
        );
        let modes = SavedModes {
            path: session.to_owned(),
            modes: [0x4500, 5, 0x8a3b, 1, 0],
        };
        assert_eq!(
            read_back(&Line::Terminal(&modes)),
            Received::Terminal(modes.clone())
        );
        assert_eq!(read_back(&Line::Started(7)), Received::Started(7));
        assert_eq!(read_back(&Line::Gone(7)), Received::Gone(7));
        assert_eq!(
            read_back(&Line::Removed(&key)),
            Received::Removed(key.clone())
        );
        let file = Line::Remove(&key, Removal::File(path));
        assert_eq!(read_back(&file), Received::File(key.clone(), text.clone()));
        let left = Line::Remove(&key, Removal::Ignored(path));
        assert_eq!(
            read_back(&left),
            Received::Ignored(key.clone(), text.clone())
        );
        for flags in 0..8 {
            let directory = CleanupDirectory {
                path: text.clone(),
                recursive: flags & 1 != 0,
                only_empty: flags & 2 != 0,
                leave_top: flags & 4 != 0,
            };
            let line = Line::Remove(&key, Removal::directory(&directory));
            assert_eq!(
                read_back(&line),
                Received::Directory(key.clone(), directory)
            );
        }
    }

    #[test]
    fn a_directory_that_is_the_root_or_relative_is_skipped() {
        for name in ["session", "kept"] {
            for path in ["/", "//", "relative", ".", ""] {
                let line = format!("{name} {path}");
                assert_eq!(
                    Received::read(line.as_bytes()),
                    Some(Received::Unusable),
                    "{line:?}"
                );
            }
        }
    }

    #[test]
    fn what_no_launcher_writes_is_refused() {
        for line in [
            "",
            "0",
            "1",
            "-1",
            "x",
            "7 ",
            "over now",
            "gone x",
            "gone 1",
            "session",
            "session /a b",
            "session /%4",
            "kept",
            "terminal 1 2 3 4 /dev/pts/0",
            "terminal 1 2 3 4 5",
            "terminal 1 2 3 4 x /dev/pts/0",
            "file 1 2 n",
            "file 1 2 n /a b",
            "file x 2 n /a",
            "file 1 2 n /%4",
            "file 1 2 n /%zz",
            "dir 1 2 n 012 /a",
            "dir 1 2 n 01 /a",
            "removed 1 2",
        ] {
            assert_eq!(Received::read(line.as_bytes()), None, "{line:?}");
        }
    }
}
