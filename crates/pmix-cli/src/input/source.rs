// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sources of input: arguments, files and standard input, and lines of requests on standard input.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt as _;

use pmix_mca::Environment;
use preg_core::{Limits, Status};

use super::groups::Groups;
use crate::excerpt::Excerpt;
use crate::failure::{Exit, Failure};
use crate::output::Out;

/// The maximum size of a file or of standard input, in bytes.
const MOST: u64 = 1 << 30;

/// An input, and its origin.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// For messages: `argument 2`, `standard input`, a file's path.
    pub(crate) origin: String,
    /// The bytes as they came.
    pub(crate) bytes: Vec<u8>,
    /// `true` if `#` begins a comment: in files and on standard input, not in arguments.
    pub(crate) comments: bool,
    /// The form of the bytes, if the argument names it.
    pub(crate) form: Form,
}

/// Forms of the bytes of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A map in any form that its own bytes tell.
    Map,
    /// Nodes with slots, a line each.
    Hostfile,
    /// Nodes with slots, as the value of --host.
    Hosts,
    /// A node list as Slurm writes it, and the tasks on each node.
    Slurm(Option<Vec<u8>>),
    /// Names and slots in turns, as LSF has them.
    McpuHosts,
    /// A resource set of Flux.
    FluxResources,
}

/// Reads the sources that the words name. Without words, reads standard input.
pub(crate) fn read(words: &[OsString]) -> Result<Vec<Source>, Failure> {
    if words.is_empty() {
        if std::io::stdin().is_terminal() {
            let cure = "give names, @FILE, or - to read standard input";
            return Err(Failure::usage("missing input").cure(cure));
        }
        return Ok(vec![stdin()?]);
    }
    if words.iter().filter(|w| *w == "-").count() > 1 {
        return Err(twice());
    }
    let mut sources = Vec::with_capacity(words.len());
    for (index, word) in words.iter().enumerate() {
        sources.push(read_word(word, || format!("argument {}", index + 1))?);
    }
    Ok(sources)
}

/// Returns the failure for two arguments that are standard input.
pub(crate) fn twice() -> Failure {
    Failure::usage("standard input can be read only once")
        .cure("write one input to a file, and use @FILE")
}

/// Reads the sources that the argument of an option names.
pub(crate) fn read_option(option: &str, word: &OsStr) -> Result<Vec<Source>, Failure> {
    read_word(word, || option.to_owned()).map(|source| vec![source])
}

/// Reads the file at a path. `-` or `None` means standard input.
pub(crate) fn read_path(path: Option<&OsStr>) -> Result<Source, Failure> {
    match path {
        Some(path) if path != "-" => file(path),
        Some(_) => stdin(),
        None if std::io::stdin().is_terminal() => {
            let cure = "give a file, or - to read standard input";
            Err(Failure::usage("missing input").cure(cure))
        }
        None => stdin(),
    }
}

fn read_word(word: &OsStr, origin: impl FnOnce() -> String) -> Result<Source, Failure> {
    match word.as_bytes() {
        b"slurm:" => {
            let bytes = variable("SLURM_JOB_NODELIST")?;
            let tasks = variable("SLURM_TASKS_PER_NODE").ok();
            let form = Form::Slurm(tasks.map(OsString::into_vec));
            Ok(of_variable("SLURM_JOB_NODELIST", bytes, form))
        }
        b"lsf:" => {
            let bytes = variable("LSB_MCPU_HOSTS")?;
            Ok(of_variable("LSB_MCPU_HOSTS", bytes, Form::McpuHosts))
        }
        b"pbs:" => hostfile(&variable("PBS_NODEFILE")?),
        b"-" => stdin(),
        [b'@', path @ ..] if !path.is_empty() => file_or_group(word, path, origin),
        b"flux:" => {
            let message = "the resources of a Flux job are not in the environment";
            let cure = "flux job info $FLUX_JOB_ID R | pmix ... flux:-";
            Err(Failure::usage(message).cure(cure))
        }
        bytes => {
            let behind = |scheme: &str| {
                bytes
                    .strip_prefix(scheme.as_bytes())
                    .filter(|b| !b.is_empty())
            };
            if let Some(path) = behind("hostfile:") {
                return hostfile(OsStr::from_bytes(path));
            }
            if let Some(path) = behind("flux:") {
                let form = Form::FluxResources;
                let source = read_path(Some(OsStr::from_bytes(path)))?;
                return Ok(Source { form, ..source });
            }
            let (list, form) = match behind("slurm:") {
                Some(list) => (list, Form::Slurm(None)),
                None => (bytes, Form::Map),
            };
            Ok(Source {
                origin: origin(),
                bytes: list.to_vec(),
                comments: false,
                form,
            })
        }
    }
}

/// Reads `@FILE`, or returns `@GROUP` and an expression that begins with a group as a list.
fn file_or_group(
    word: &OsStr,
    name: &[u8],
    origin: impl FnOnce() -> String,
) -> Result<Source, Failure> {
    let path = OsStr::from_bytes(name);
    let group = || {
        std::str::from_utf8(name)
            .ok()
            .filter(|name| !name.contains('/'))
    };
    let error = match std::fs::metadata(path) {
        // In a directory of all users, another user may have made the file.
        Ok(about) if is_file_of_user(&about) || !is_group(group()) => {
            warn_of_group(group());
            return file(path);
        }
        Ok(_) => std::io::ErrorKind::NotFound.into(),
        Err(_) if name.contains(&b'/') => return file(path),
        Err(error) => error,
    };
    let is_expression = memchr::memchr3(b',', b'!', b'[', name).is_some()
        || memchr::memchr3(b'&', b'^', b' ', name).is_some()
        || memchr::memchr3(b'*', b'?', b':', name).is_some();
    if !is_expression {
        let known = match (Groups::read(&Environment::of_process()), group()) {
            (Ok(groups), Some(name)) => groups.group(None, name).map(|_| ()),
            (Ok(_), None) => Err(Failure::data("the name of a group is UTF-8")),
            (Err(failure), _) => Err(failure),
        };
        known.map_err(|failure| {
            let file = unreadable(&path.to_string_lossy(), &error);
            failure.after(&file)
        })?;
    }
    Ok(Source {
        origin: origin(),
        bytes: word.as_bytes().to_vec(),
        comments: false,
        form: Form::Map,
    })
}

/// Warns if the name of a file is also that of a group.
fn warn_of_group(name: Option<&str>) {
    if let Some(name) = name
        && is_group(Some(name))
    {
        let groups = Groups::read(&Environment::of_process()).unwrap_or_default();
        let source = groups.default_name().unwrap_or_default();
        tracing::warn!(
            "@{name} is a file and a group; the file is read. @{source}:{name} is the group"
        );
    }
}

/// Returns `true` if a name is that of a group.
fn is_group(name: Option<&str>) -> bool {
    let groups = || Groups::read(&Environment::of_process()).unwrap_or_default();
    name.is_some_and(|name| groups().group(None, name).is_ok())
}

/// Returns `true` for a regular file of this user or of root, which is read in place of a group of its name.
fn is_file_of_user(about: &std::fs::Metadata) -> bool {
    let own = rustix::process::geteuid().as_raw();
    about.is_file() && [0, own].contains(&about.uid())
}

fn hostfile(path: &OsStr) -> Result<Source, Failure> {
    let form = Form::Hostfile;
    let source = read_path(Some(path))?;
    Ok(Source { form, ..source })
}

/// Returns a variable that a resource manager sets.
fn variable(name: &str) -> Result<OsString, Failure> {
    let vars = Environment::of_process().vars;
    let found = vars.into_iter().find(|(known, _)| known == name);
    let found = found.map(|(_, value)| value).filter(|v| !v.is_empty());
    found.ok_or_else(|| {
        let message = format!("the variable {name} is not set");
        Failure::usage(message).cure("a resource manager sets it within a job")
    })
}

fn of_variable(name: &str, bytes: OsString, form: Form) -> Source {
    Source {
        origin: format!("${name}"),
        bytes: bytes.into_vec(),
        comments: false,
        form,
    }
}

fn stdin() -> Result<Source, Failure> {
    let origin = "standard input".to_owned();
    let bytes = read_within(std::io::stdin().lock(), &origin, MOST)?;
    Ok(Source {
        origin,
        bytes,
        comments: true,
        form: Form::Map,
    })
}

fn file(path: &OsStr) -> Result<Source, Failure> {
    let origin = path.to_string_lossy().into_owned();
    let opened = std::fs::File::open(path).map_err(|e| unreadable(&origin, &e))?;
    let about = opened.metadata().map_err(|e| unreadable(&origin, &e))?;
    // The length of a pipe is unknown, so the size is also checked during reading.
    if about.len() > MOST {
        return Err(too_long(&origin, MOST));
    }
    let bytes = read_within(opened, &origin, MOST)?;
    Ok(Source {
        origin,
        bytes,
        comments: true,
        form: Form::Map,
    })
}

/// Reads to the end, but at most `most` bytes.
fn read_within(from: impl Read, origin: &str, most: u64) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = from.take(most.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|e| unreadable(origin, &e))?;
    match u64::try_from(bytes.len()).is_ok_and(|len| len <= most) {
        true => Ok(bytes),
        false => Err(too_long(origin, most)),
    }
}

fn too_long(what: &str, most: u64) -> Failure {
    let message = format!("{what} exceeds the limit of {most} bytes");
    Failure::new(Exit::Data, Status::ERR_OUT_OF_RESOURCE, message)
}

fn unreadable(what: &str, error: &std::io::Error) -> Failure {
    let message = format!("cannot read {what}: {error}");
    let failure = Failure::new(Exit::Data, Status::ERR_NOT_FOUND, message);
    match error.kind() {
        io::ErrorKind::NotFound => {
            failure.cure("check the path, which begins at the current directory")
        }
        io::ErrorKind::IsADirectory => failure.cure("name a file in the directory"),
        io::ErrorKind::PermissionDenied => {
            failure.cure("this user may not read it: check its mode and those of its directories")
        }
        _ => failure,
    }
}

/// Converts an error in a list, with its position in the source.
pub(super) fn of_list(error: &pmix_hostlist::Error, source: &Source) -> Failure {
    let (origin, bytes) = (&source.origin, &source.bytes);
    let cause = error.cause().and_then(|cause| cause.downcast_ref());
    if let Some(cause) = cause
        .cloned()
        .map(<preg_core::Error as From<pmix_map::Error>>::from)
    {
        return Failure::of(&cause, origin, bytes);
    }
    match (error.offset(), error.hint()) {
        (Some(offset), Some(hint)) => Failure::data(error.message())
            .at(Excerpt::new(origin, bytes, offset))
            .cure(hint),
        _ => Failure::data(error.to_string()),
    }
}

/// Converts an error about the limits of lists.
pub(super) fn of_limits(error: pmix_map::Error) -> Failure {
    Failure::of(&preg_core::Error::from(error), "the list", b"")
}

/// Returns the maximum length of a line: two digits for each byte of the largest list, plus the
/// other members.
pub(crate) fn longest_line(limits: &Limits) -> u64 {
    limits.max_text.saturating_mul(2).saturating_add(1 << 16)
}

/// Calls `answer` with each line, or with `None` for a line longer than `longest`.
pub(crate) fn answer_lines(
    out: &mut Out,
    longest: u64,
    mut answer: impl FnMut(Option<&[u8]>, &mut Out) -> io::Result<()>,
) -> io::Result<()> {
    let mut input = BufReader::with_capacity(1 << 17, io::stdin().lock());
    let mut line = Vec::new();
    while next_line(&mut input, &mut line, longest)? {
        let fits = line.len() as u64 <= longest;
        answer(fits.then_some(line.as_slice()), out)?;
        // Flushes the output before the next read may block, because the other program may be
        // waiting for this reply.
        if memchr::memchr(b'\n', input.buffer()).is_none() {
            out.flush()?;
        }
    }
    Ok(())
}

/// Reads a line without its newline. Bytes beyond `longest` are skipped.
fn next_line(input: &mut impl BufRead, line: &mut Vec<u8>, longest: u64) -> io::Result<bool> {
    line.clear();
    let limit = longest.saturating_add(1);
    let mut read = input.by_ref().take(limit).read_until(b'\n', line)?;
    if line.last() == Some(&b'\n') {
        line.pop();
        return Ok(true);
    }
    let any = read > 0;
    let mut rest = Vec::new();
    while read > 0 && line.len() as u64 == limit && rest.last() != Some(&b'\n') {
        rest.clear();
        read = input.by_ref().take(1 << 16).read_until(b'\n', &mut rest)?;
    }
    Ok(any)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endless_input_is_read_to_a_limit() {
        let error = read_within(std::io::repeat(b'n'), "a pipe", 1000).unwrap_err();
        let message = format!("{error:?}");
        assert!(
            message.contains("a pipe exceeds the limit of 1000 bytes"),
            "{message}"
        );
        assert_eq!(read_within(&b"n1,n2"[..], "a pipe", 5).unwrap(), b"n1,n2");
    }
}
