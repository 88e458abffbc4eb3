// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where bytes come from: arguments, files, standard input.

use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal, Read};
use std::os::unix::ffi::OsStrExt;

use preg_core::Status;

use crate::failure::{Exit, Failure};

/// Some input and where it came from.
#[derive(Debug)]
pub(crate) struct Source {
    /// For messages: `argument 2`, `standard input`, a file's path.
    pub(crate) origin: String,
    /// The bytes as they came.
    pub(crate) bytes: Vec<u8>,
    /// Whether `#` begins a comment: in files and on standard input, not in arguments.
    pub(crate) comments: bool,
}

/// Reads what the words name; without words, standard input.
pub(crate) fn read(words: &[OsString]) -> Result<Vec<Source>, Failure> {
    if words.is_empty() {
        if std::io::stdin().is_terminal() {
            let cure = "give names, @FILE, or - to type them here";
            return Err(Failure::usage("there is no input").cure(cure));
        }
        return Ok(vec![stdin()?]);
    }
    if words.iter().filter(|w| *w == "-").count() > 1 {
        return Err(Failure::usage("standard input can be read only once"));
    }
    let mut sources = Vec::with_capacity(words.len());
    for (index, word) in words.iter().enumerate() {
        sources.push(read_word(word, || format!("argument {}", index + 1))?);
    }
    Ok(sources)
}

/// Reads what the word behind an option names.
pub(crate) fn read_option(option: &str, word: &OsStr) -> Result<Vec<Source>, Failure> {
    read_word(word, || option.to_owned()).map(|source| vec![source])
}

/// Reads the file at a path; `-` or no path is standard input.
pub(crate) fn read_path(path: Option<&OsStr>) -> Result<Source, Failure> {
    match path {
        Some(path) if path != "-" => file(path),
        Some(_) => stdin(),
        None if std::io::stdin().is_terminal() => {
            let cure = "give a file, or - to type the input here";
            Err(Failure::usage("there is no input").cure(cure))
        }
        None => stdin(),
    }
}

fn read_word(word: &OsStr, origin: impl FnOnce() -> String) -> Result<Source, Failure> {
    match word.as_bytes() {
        b"-" => stdin(),
        [b'@', path @ ..] if !path.is_empty() => file(OsStr::from_bytes(path)),
        bytes => Ok(Source {
            origin: origin(),
            bytes: bytes.to_vec(),
            comments: false,
        }),
    }
}

fn stdin() -> Result<Source, Failure> {
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .read_to_end(&mut bytes)
        .map_err(|e| unreadable("standard input", &e))?;
    Ok(Source {
        origin: "standard input".to_owned(),
        bytes,
        comments: true,
    })
}

fn file(path: &OsStr) -> Result<Source, Failure> {
    let origin = path.to_string_lossy().into_owned();
    let bytes = std::fs::read(path).map_err(|e| unreadable(&origin, &e))?;
    Ok(Source {
        origin,
        bytes,
        comments: true,
    })
}

fn unreadable(what: &str, error: &std::io::Error) -> Failure {
    let message = format!("{what} cannot be read: {error}");
    Failure::new(Exit::Data, Status::ERR_NOT_FOUND, message)
}
