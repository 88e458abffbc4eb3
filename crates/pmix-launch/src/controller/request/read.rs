// SPDX-License-Identifier: MIT OR Apache-2.0
//! The conversion of the values of directives.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration;

use pmix_topology::{Cpuset, Level};
use pmix_types::{Attribute, DataArray, Info, Proc, Rank, Status, Text, Value, keys};

use crate::environment::is_foreign;
use crate::{Error, Export};

/// The longest path that the system accepts (`PATH_MAX` without its NUL).
const LONGEST_PATH: usize = 4095;

/// The reason why a job is not started, with the status for the requester.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: Status,
    pub(crate) why: String,
}

impl Refusal {
    pub(crate) fn new(status: Status, why: impl Into<String>) -> Self {
        let why = why.into();
        Self { status, why }
    }

    pub(crate) fn of(error: &Error) -> Self {
        Self::new(error.status(), error.to_string())
    }

    /// Returns the refusal for required forwarding while output and input do not pass through the launcher.
    pub(crate) fn unforwarded() -> Self {
        let why = "its output and input do not pass through the launcher (--forward-io)";
        Self::new(Status::ERR_NOT_SUPPORTED, why)
    }

    pub(crate) fn unsupported(what: impl fmt::Display) -> Self {
        let why = format!("pmix run does not support {what}");
        Self::new(Status::ERR_NOT_SUPPORTED, why)
    }

    pub(crate) fn bad(why: impl Into<String>) -> Self {
        Self::new(Status::ERR_BAD_PARAM, why)
    }
}

/// Ignores a directive that the launcher does not know, or refuses it if it is required.
pub(super) fn unknown(info: &Info<'_>) -> Result<(), Refusal> {
    if info.is_required() {
        return Err(Refusal::unsupported(&info.key));
    }
    tracing::debug!("{} is ignored", info.key);
    Ok(())
}

/// Shortens a time limit. 0 seconds mean no limit.
pub(super) fn shorten(limit: &mut Option<Duration>, seconds: usize) {
    let new = u64::try_from(seconds).map_or(Duration::MAX, Duration::from_secs);
    if !new.is_zero() {
        *limit = Some(limit.map_or(new, |old| old.min(new)));
    }
}

pub(super) fn own(text: &Text<'_>) -> OsString {
    OsStr::from_bytes(text.as_bytes()).to_owned()
}

/// Returns the directory that a text names. It is copied for each application, so a path that is too long for the
/// system is refused here.
pub(super) fn directory(text: &Text<'_>) -> Result<PathBuf, Refusal> {
    match text.as_bytes().len() {
        ..=LONGEST_PATH => Ok(own(text).into()),
        len => {
            let why =
                format!("a working directory of {len} bytes exceeds the limit of {LONGEST_PATH}");
            Err(Refusal::new(Status::ERR_JOB_WDIR_NOT_FOUND, why))
        }
    }
}

pub(super) fn text_of<'a>(info: &'a Info<'static>) -> Result<&'a Text<'static>, Refusal> {
    match &info.value {
        Value::String(Some(text)) => Ok(text),
        _ => Err(Refusal::bad(format!("{} without text", info.key))),
    }
}

/// Returns the infos in a value.
pub(super) fn infos(info: &Info<'static>) -> Result<Vec<Info<'static>>, Refusal> {
    match &info.value {
        Value::DataArray(DataArray::Info(infos)) => Ok(infos.clone()),
        _ => Err(Refusal::bad(format!("{} without infos", info.key))),
    }
}

pub(super) fn number(info: &Info<'static>) -> Result<usize, Refusal> {
    let number: Option<u32> = info.value.to_number().ok();
    let number = number.and_then(|number| usize::try_from(number).ok());
    number.ok_or_else(|| Refusal::bad(format!("{} without a number", info.key)))
}

pub(super) fn level(name: &str) -> Option<Level> {
    Some(match name {
        "node" => Level::Node,
        "package" | "socket" => Level::Package,
        "numa" => Level::Numa,
        "l3cache" => Level::L3Cache,
        "l2cache" => Level::L2Cache,
        "l1cache" => Level::L1Cache,
        "core" => Level::Core,
        "hwthread" => Level::HwThread,
        _ => return None,
    })
}

pub(super) fn bind(text: &Text<'_>) -> Result<Option<Level>, Refusal> {
    let text = text.to_str_lossy().to_ascii_lowercase();
    // Modifiers such as `overload-allowed` are ignored: processes are also bound if there are too few processors.
    let word = text.split(':').next().unwrap_or_default();
    match word {
        "none" => Ok(None),
        word => match level(word) {
            Some(level) => Ok(Some(level)),
            None => Err(Refusal::unsupported(format_args!("PMIX_BINDTO {word:?}"))),
        },
    }
}

/// Accepts the rankings that are equivalent to the order of placement, which the launcher uses.
pub(super) fn rank(text: &Text<'_>) -> Result<(), Refusal> {
    let text = text.to_str_lossy().to_ascii_lowercase();
    match text.as_str() {
        "slot" | "byslot" | "fill" => Ok(()),
        word => Err(Refusal::unsupported(format_args!("PMIX_RANKBY {word:?}"))),
    }
}

pub(super) fn cpus(text: &Text<'_>) -> Result<Cpuset, Refusal> {
    let cpus = Cpuset::parse(&text.to_str_lossy()).ok();
    let cpus = cpus.filter(|cpus| !cpus.is_empty());
    cpus.ok_or_else(|| Refusal::bad("PMIX_CPU_LIST is not a list of processors"))
}

/// Refuses a directive that names nodes, each optionally followed by a number of slots, if this node is not among
/// them.
pub(super) fn here(info: &Info<'static>, host: &[u8]) -> Result<(), Refusal> {
    let mut words = text_of(info)?.as_bytes().split(|byte| *byte == b',');
    let is_here = |word: &[u8]| {
        let name = word.split(|byte| *byte == b':').next().unwrap_or_default();
        name == host || name == b"localhost"
    };
    match words.any(is_here) {
        true => Ok(()),
        false => {
            let key = info.key.to_string();
            let why = format!(
                "{} names other nodes; pmix run starts processes on this node only",
                Attribute::name_of(&key)
            );
            Err(Refusal::new(Status::ERR_JOB_FAILED_TO_MAP, why))
        }
    }
}

/// Parses an entry `NAME=VALUE` of the environment of an application. Returns `None` if the entry is malformed, or if an
/// MPI library identifies the requester by the variable.
pub(super) fn variable(text: &Text<'_>) -> Option<Export> {
    let at = memchr::memchr(b'=', text.as_bytes())?;
    let (name, value) = text.as_bytes().split_at(at);
    let (name, value) = (OsStr::from_bytes(name), OsStr::from_bytes(&value[1..]));
    // The variables of PMIx are set for each process in any case, so these need not be skipped.
    let is_own = is_foreign(name)
        && !name.as_bytes().starts_with(b"PMIX_")
        && name != "OMPI_MCA_orte_precondition_transports";
    (!name.is_empty() && !is_own).then(|| Export::set(name, value))
}

/// Returns the change to the environment that a directive requests, or `None` if it is not about variables.
pub(super) fn envar(info: &Info<'static>) -> Result<Option<Export>, Refusal> {
    let is = |key: &str| info.key.is(key);
    if is(keys::UNSET_ENVAR) {
        return Ok(Some(Export::Unset(own(text_of(info)?))));
    }
    if is(keys::LAUNCHER_RENDEZVOUS_FILE) {
        // The started tool writes its address to the file that the variable with the name of the key names.
        let name = "PMIX_LAUNCHER_RENDEZVOUS_FILE";
        return Ok(Some(Export::set(name, own(text_of(info)?))));
    }
    let all = [
        keys::SET_ENVAR,
        keys::ADD_ENVAR,
        keys::PREPEND_ENVAR,
        keys::APPEND_ENVAR,
        keys::FIRST_ENVAR,
    ];
    if !all.into_iter().any(is) {
        return Ok(None);
    }
    let Value::Envar(envar) = &info.value else {
        return Err(Refusal::bad(format!("{} without a variable", info.key)));
    };
    let name = envar.envar.as_ref().map(own).unwrap_or_default();
    let value = envar.value.as_ref().map(own).unwrap_or_default();
    if name.is_empty() || name.as_bytes().contains(&b'=') {
        return Err(Refusal::bad(format!("{} without a name", info.key)));
    }
    let separator = envar.separator;
    let (name, value) = (name.into(), value.into());
    Ok(Some(match () {
        () if is(keys::SET_ENVAR) => Export::Set(name, value),
        () if is(keys::ADD_ENVAR) => Export::Default(name, value),
        () if is(keys::APPEND_ENVAR) => Export::Append(name, value, separator),
        // "First" means in front of the current value.
        () => Export::Prepend(name, value, separator),
    }))
}

/// Returns the processes in an array, or a single process.
pub(super) fn procs(info: &Info<'static>) -> Result<Vec<Proc<'static>>, Refusal> {
    match &info.value {
        Value::DataArray(DataArray::Proc(procs)) if !procs.is_empty() => Ok(procs.clone()),
        Value::Proc(proc) => Ok(vec![proc.clone()]),
        _ => Err(Refusal::bad(format!("{} without processes", info.key))),
    }
}

/// Returns the words of a command line, separated by blanks.
pub(super) fn command(info: &Info<'static>) -> Result<Vec<OsString>, Refusal> {
    let words = text_of(info)?.as_bytes().split(u8::is_ascii_whitespace);
    let words = words.filter(|word| !word.is_empty());
    let words: Vec<_> = words
        .map(|word| OsStr::from_bytes(word).to_owned())
        .collect();
    match words.is_empty() {
        true => Err(Refusal::bad(format!("{} without a command", info.key))),
        false => Ok(words),
    }
}

/// Returns the rank that reads input: rank 0 for `true`, none for `false` or without a valid rank.
pub(super) fn reader(info: &Info<'static>) -> Result<Option<Rank>, Refusal> {
    let rank = match &info.value {
        Value::Bool(true) => Rank::new(0),
        Value::Bool(false) => return Ok(None),
        Value::Proc(proc) => proc.rank,
        Value::Rank(rank) => *rank,
        Value::Uint32(rank) => Rank::new(*rank),
        _ => return Err(Refusal::bad(format!("{} without a rank", info.key))),
    };
    Ok(Some(rank).filter(|rank| rank.is_valid() || *rank == Rank::WILDCARD))
}
