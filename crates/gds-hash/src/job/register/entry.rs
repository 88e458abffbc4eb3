// SPDX-License-Identifier: MIT OR Apache-2.0
//! The entries of a registration: their subjects and their values.

use pmix_types::{Attribute, DataArray, Info, Key, Nspace, Status, Value, keys};

use crate::Error;

/// The maximum depth of nested arrays.
const MAX_DEPTH: usize = 32;

/// The subject of the entries of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    Session,
    Job,
    App(u32),
    /// A node of the job, the session or an application, depending on the enclosing array.
    Node,
    Proc(u32),
}

/// Returns the infos of an array.
pub(super) fn array<'i, 'a>(info: &'i Info<'a>) -> Result<&'i [Info<'a>], Error> {
    match &info.value {
        Value::DataArray(DataArray::Info(infos)) => Ok(infos),
        Value::DataArray(array) if array.is_empty() => Ok(&[]),
        other => {
            let found = other.data_type();
            Err(wrong_type(format!(
                "expected an array of infos, found {found}"
            )))
        }
    }
}

pub(super) fn wrong_type(message: String) -> Error {
    Error::new(Status::ERR_TYPE_MISMATCH, message)
}

/// Returns the value of the entry with this key in an array.
pub(super) fn entry<'i, 'a>(infos: &'i [Info<'a>], key: &str) -> Option<&'i Value<'a>> {
    infos
        .iter()
        .find(|info| info.key.is(key))
        .map(|info| &info.value)
}

/// Returns the subject of the array with a key.
pub(super) fn target(info: &Info<'_>, infos: &[Info<'_>]) -> Result<Target, Error> {
    let key = info.key.as_bytes();
    if key == keys::SESSION_INFO_ARRAY.as_bytes() {
        if entry(infos, keys::SESSION_ID).is_none() {
            return Err(Error::bad("a session array without pmix.session.id"));
        }
        return Ok(Target::Session);
    }
    if key == keys::JOB_INFO_ARRAY.as_bytes() {
        return Ok(Target::Job);
    }
    if key == keys::NODE_INFO_ARRAY.as_bytes() {
        return Ok(Target::Node);
    }
    if key == keys::APP_INFO_ARRAY.as_bytes() {
        let number = entry(infos, keys::APPNUM).map(number).transpose()?;
        let number =
            number.ok_or_else(|| Error::bad("an application array without pmix.appnum"))?;
        return Ok(Target::App(number));
    }
    match (entry(infos, keys::RANK), entry(infos, keys::PROCID)) {
        (Some(rank), _) => number(rank).map(Target::Proc),
        (None, Some(Value::Proc(proc))) => Ok(Target::Proc(proc.rank.as_raw())),
        _ => Err(Error::bad(
            "a process array without pmix.rank or pmix.procid",
        )),
    }
}

/// Returns the job that an array names.
fn named<'v>(infos: &'v [Info<'_>]) -> Result<Option<&'v [u8]>, Error> {
    match entry(infos, keys::NSPACE) {
        None => Ok(None),
        Some(Value::Nspace(nspace)) => Ok(Some(nspace.as_bytes())),
        Some(other) => text(other).map(Some),
    }
}

/// Returns the arrays of a registration that describe other jobs of the session.
pub(crate) fn other_jobs<'i, 'a>(
    nspace: &Nspace<'_>,
    infos: &'i [Info<'a>],
) -> Result<Vec<OtherJob<'i, 'a>>, Error> {
    let mut others = Vec::new();
    for session in infos {
        if !session.key.is(keys::SESSION_INFO_ARRAY) {
            continue;
        }
        let session = array(session)?;
        for job in session {
            if !job.key.is(keys::JOB_INFO_ARRAY) {
                continue;
            }
            let infos = array(job)?;
            if let Some(named) = named(infos)?.filter(|named| *named != nspace.as_bytes()) {
                others.push(OtherJob {
                    nspace: Nspace::new(named.to_vec()),
                    session: entry(session, keys::SESSION_ID),
                    infos,
                });
            }
        }
    }
    Ok(others)
}

/// An array about another job of the session.
pub(crate) struct OtherJob<'i, 'a> {
    pub(crate) nspace: Nspace<'static>,
    /// The number of the session, from the enclosing session array.
    session: Option<&'i Value<'a>>,
    infos: &'i [Info<'a>],
}

impl<'a> OtherJob<'_, 'a> {
    /// Returns the infos with which a host would register the job by itself: those of its array,
    /// and the session.
    pub(crate) fn infos(&self) -> Vec<Info<'a>> {
        let id = |id: &Value<'a>| {
            let id = vec![Info::new(keys::SESSION_ID, id.clone())];
            let id = Value::DataArray(DataArray::Info(id));
            Info::new(keys::SESSION_INFO_ARRAY, id)
        };
        let session = self.session.map(id);
        session.into_iter().chain(self.infos.to_vec()).collect()
    }
}

/// Returns `true` if an array describes another job of the session. Such arrays are skipped;
/// [`other_jobs`] handles them.
///
/// # Errors
///
/// An array that describes another job is outside of a session array.
pub(super) fn of_other_job(
    nspace: &Nspace<'_>,
    about: Target,
    inner: Target,
    infos: &[Info<'_>],
) -> Result<bool, Error> {
    let Some(named) = named(infos)? else {
        return Ok(false);
    };
    if named == nspace.as_bytes() {
        return Ok(false);
    }
    if about == Target::Session && inner == Target::Job {
        return Ok(true);
    }
    let named = String::from_utf8_lossy(named);
    let message = format!("it is about {named}, and {nspace} is registered");
    Err(Error::bad(message))
}

/// Rejects an unknown array whose reserved key looks like that of a description.
pub(super) fn no_unknown_container(info: &Info<'_>) -> Result<(), Error> {
    let key = info.key.as_bytes();
    let is_array = matches!(info.value, Value::DataArray(DataArray::Info(_)));
    let known = || std::str::from_utf8(key).is_ok_and(|key| Attribute::by_key(key).is_some());
    if is_array && key.starts_with(b"pmix.") && key.ends_with(b".arr") && !known() {
        return Err(Error::bad(
            "an array of infos under a key that is not known",
        ));
    }
    Ok(())
}

/// Returns `true` if the array of a key describes a different subject than its enclosing array.
pub(super) fn is_container(key: &Key<'_>) -> bool {
    [
        keys::SESSION_INFO_ARRAY,
        keys::JOB_INFO_ARRAY,
        keys::APP_INFO_ARRAY,
        keys::NODE_INFO_ARRAY,
        keys::PROC_INFO_ARRAY,
    ]
    .iter()
    .any(|container| key.is(container))
}

/// Returns a number that identifies an application, node, session or process.
pub(super) fn number(value: &Value<'_>) -> Result<u32, Error> {
    let number = match value {
        Value::Rank(rank) => Some(rank.as_raw()),
        Value::Uint32(n) | Value::Uint(n) => Some(*n),
        Value::Uint16(n) => Some(u32::from(*n)),
        Value::Uint64(n) | Value::Size(n) => u32::try_from(*n).ok(),
        Value::Int(n) | Value::Int32(n) => u32::try_from(*n).ok(),
        Value::Int64(n) => u32::try_from(*n).ok(),
        _ => None,
    };
    number.ok_or_else(|| {
        let found = value.data_type();
        wrong_type(format!("expected a number of 32 bits, found {found}"))
    })
}

pub(super) fn text<'v>(value: &'v Value<'_>) -> Result<&'v [u8], Error> {
    match value {
        Value::String(Some(text)) => Ok(text.as_bytes()),
        other => Err(wrong_type(format!(
            "expected a string, found {}",
            other.data_type()
        ))),
    }
}

/// Checks the depth of an array, and prefixes errors inside it with its entry.
pub(super) fn within<T>(
    depth: usize,
    place: usize,
    info: &Info<'_>,
    read: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Error> {
    if depth >= MAX_DEPTH {
        let message = format!("arrays are nested more than {MAX_DEPTH} deep");
        return Err(Error::bad(message).inside(place, &info.key));
    }
    read().map_err(|error| error.inside(place, &info.key))
}
