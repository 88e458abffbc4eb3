// SPDX-License-Identifier: MIT OR Apache-2.0
//! The directives among the infos of an event or a registration: which processes are meant.

use pmix_types::{DataArray, Info, IntoOwned, Proc, Value, keys};

use crate::Error;
use crate::procs::Procs;

/// What the reporter of an event asks for (PMIx Standard, `PMIx_Notify_event`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Directives {
    /// Handlers that are registered for no code in particular do not want it.
    pub(crate) non_default: bool,
    /// It is not kept for those who register later.
    pub(crate) do_not_cache: bool,
    /// The host is not to spread it.
    pub(crate) stays_local: bool,
    /// The only processes that are to get it.
    pub(crate) targets: Option<Procs>,
    /// The processes that it is about.
    pub(crate) affected: Option<Procs>,
    /// A server has relayed it already.
    pub(crate) relayed: bool,
}

/// The mark that a server puts on what it relays, so that an event that comes back goes round no
/// second time. No public header has it; libraries of 4.2.2 and later put and read it.
pub(crate) const RELAYED: &str = "pmix.srvr.internal.notify";

/// The user whose processes alone may hear of an event, as the number of that user. A server puts it on what the host is
/// to spread, and takes it off what the host tells before anybody sees it; what a process says of it is dropped. A host
/// hands it on with the other infos, whatever library it has. No library but this knows it.
pub(crate) const ONLY_USER: &str = "pmixrs.event.user";

/// Takes the users off the infos of an event; none if all may hear of it.
///
/// # Errors
///
/// `PMIX_ERR_BAD_PARAM` if one is no number.
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
    /// Reads the directives among the infos of an event.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` if a list of processes is of another type.
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

/// The processes that a registration is about; none if it is about all.
///
/// Other directives of a registration (names, order, the range of sources) are obeyed where the
/// handlers are, in the process that registers: it tells its server of a code once, for the first of
/// its handlers, so a restriction of that one must not be applied to the others.
///
/// # Errors
///
/// `PMIX_ERR_BAD_PARAM` if a list of processes is of another type.
pub(crate) fn affected(infos: &[Info<'_>]) -> Result<Option<Procs>, Error> {
    Directives::read(infos).map(|directives| directives.affected)
}

/// The processes that an event of the host is about: those that it names, or else its source. What a
/// process reported and a server relayed is about nobody: anyone can say anything.
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

/// One process or an array of them; tools write either.
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
