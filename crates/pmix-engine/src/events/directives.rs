// SPDX-License-Identifier: MIT OR Apache-2.0
//! Directives in the infos of an event or a registration.

use pmix_types::{DataArray, Info, IntoOwned, Proc, Value, keys};

use crate::Error;
use crate::procs::Procs;

/// The directives of an event's reporter (PMIx Standard, `PMIx_Notify_event`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Directives {
    /// `true` if default handlers should not receive it.
    pub(crate) non_default: bool,
    /// `true` if it should not be cached for later registrations.
    pub(crate) do_not_cache: bool,
    /// `true` if the host should not distribute it.
    pub(crate) stays_local: bool,
    /// The only processes that should receive it.
    pub(crate) targets: Option<Procs>,
    /// The affected processes.
    pub(crate) affected: Option<Procs>,
    /// `true` if a server has already relayed it.
    pub(crate) relayed: bool,
}

/// The mark of events relayed by a server, which prevents a second relay of an event that returns. It is in no public
/// header; libraries since 4.2.2 set and read it.
pub(crate) const RELAYED: &str = "pmix.srvr.internal.notify";

/// The user id of the only user whose processes may receive an event. A server adds it to events for the host to
/// distribute, and removes it from events of the host before any process sees it; a process cannot set it. A host
/// forwards it like other infos, with any PMIx library. Only this library knows it.
pub(crate) const ONLY_USER: &str = "pmixrs.event.user";

/// Removes the permitted users from the infos of an event; returns `None` if all users may receive it.
///
/// # Errors
///
/// Returns `PMIX_ERR_BAD_PARAM` if a user is not a number.
pub(crate) fn take_only_users(infos: &mut Vec<Info<'static>>) -> Result<Option<Vec<u32>>, Error> {
    let is_said = |info: &Info<'_>| info.key.is(ONLY_USER);
    if !infos.iter().any(is_said) {
        return Ok(None);
    }
    let users = infos.extract_if(.., |info| is_said(info)).map(|info| {
        let number = info.value.to_number();
        number.map_err(|_| {
            Error::bad(format!(
                "{ONLY_USER} is {:?}, expected a user ID",
                info.value
            ))
        })
    });
    users.collect::<Result<Vec<u32>, _>>().map(Some)
}

impl Directives {
    /// Decodes the directives of an event.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` if a list of processes has a wrong type.
    pub(crate) fn read(infos: &[Info<'_>]) -> Result<Self, Error> {
        let mut directives = Self::default();
        for info in infos {
            let Some(key) = info.key.as_text().as_str() else {
                continue;
            };
            match key {
                keys::EVENT_NON_DEFAULT => directives.non_default = info.truth().is_true(),
                keys::EVENT_DO_NOT_CACHE => directives.do_not_cache = info.truth().is_true(),
                keys::EVENT_STAYS_LOCAL => directives.stays_local = info.truth().is_true(),
                keys::EVENT_CUSTOM_RANGE => {
                    let targets = directives.targets.get_or_insert_default();
                    targets.extend(procs(info)?);
                }
                keys::EVENT_AFFECTED_PROC | keys::EVENT_AFFECTED_PROCS => {
                    let affected = directives.affected.get_or_insert_default();
                    affected.extend(procs(info)?);
                }
                RELAYED => directives.relayed = true,
                _ => {}
            }
        }
        Ok(directives)
    }
}

/// Returns the affected processes of a registration; `None` for all.
///
/// Other directives of a registration (names, order, the range of sources) apply in the registering process. That
/// process registers a code with its server once, for the first of its handlers, so the server must not apply the
/// restrictions of that handler to the others.
///
/// # Errors
///
/// Returns `PMIX_ERR_BAD_PARAM` if a list of processes has a wrong type.
pub(crate) fn affected(infos: &[Info<'_>]) -> Result<Option<Procs>, Error> {
    Directives::read(infos).map(|directives| directives.affected)
}

/// Returns the processes that an event of the host affects: those in its infos, or else its source. An event that a
/// process reported and a server relayed affects no process, because a process could report the loss of any other.
pub(super) fn about(infos: &[Info<'_>], source: &Proc<'_>) -> Vec<Proc<'static>> {
    if infos.iter().any(|info| info.key.is(RELAYED)) {
        return Vec::new();
    }
    let named = [keys::EVENT_AFFECTED_PROC, keys::EVENT_AFFECTED_PROCS];
    let named = |info: &&Info<'_>| named.iter().any(|key| info.key.is(key));
    let named = infos.iter().filter(named).flat_map(procs).flatten();
    let named: Vec<_> = named.map(|proc| proc.clone().into_owned()).collect();
    match named.is_empty() {
        true => vec![source.clone().into_owned()],
        false => named,
    }
}

/// Returns one process or an array of them; tools send either.
fn procs<'i, 'a>(info: &'i Info<'a>) -> Result<&'i [Proc<'a>], Error> {
    match &info.value {
        Value::Proc(proc) => Ok(std::slice::from_ref(proc)),
        Value::DataArray(DataArray::Proc(procs)) => Ok(procs),
        other => Err(Error::bad(format!(
            "{} has type {}, expected PMIX_PROC or an array of it",
            info.key,
            other.data_type()
        ))),
    }
}
