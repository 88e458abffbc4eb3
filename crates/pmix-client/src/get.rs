// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gets: the request to the server and the handling of its reply.
//!
//! Source: PMIx Standard, chapter "Data Access and Sharing", `PMIx_Get`.

use pmix_proto::reply::Objects;
use pmix_proto::request;
use pmix_types::{Info, InfoFlags, IntoOwned as _, Key, Proc, Rank, Value, keys};

use crate::Error;
use crate::cache::{JobCache, SessionKey};
use crate::obeyed::is_true;
use crate::prefetch::{Portion, Prefetch};

/// The get that a reply belongs to.
#[derive(Debug)]
pub(crate) struct PendingGet {
    pub(crate) proc: Proc<'static>,
    pub(crate) key: String,
    pub(crate) infos: Vec<Info<'static>>,
    pub(crate) portion: Option<Portion>,
}

impl PendingGet {
    /// Returns `true` if the get requests data that may be newer than those of this process.
    pub(crate) fn refreshes(&self) -> bool {
        is_true(&self.infos, keys::GET_REFRESH_CACHE)
    }

    /// Returns the requested key of a session, if the get is about a session.
    pub(crate) fn session(&self) -> Option<SessionKey<'_>> {
        let number = self.infos.iter().find(|info| info.key.is(keys::SESSION_ID));
        is_true(&self.infos, keys::SESSION_INFO).then(|| SessionKey {
            key: &self.key,
            session: number.and_then(|info| info.value.to_number().ok()),
        })
    }
}

/// Adds the number of bytes that the server may send in advance to a get of a key that a process of the own job put.
pub(crate) fn offer_prefetch(
    get: &mut request::Get<'_>,
    prefetch: &Prefetch,
    own: &Proc<'_>,
) -> Option<Portion> {
    let is_reserved = get.key.as_ref().is_none_or(Key::is_reserved);
    let is_elsewhere = get.nspace != own.nspace || !get.rank.is_valid();
    if is_reserved || is_elsewhere || !prefetch.is_possible() {
        return None;
    }
    let is_plain = get.infos.iter().all(|info| info.key.is(keys::TIMEOUT));
    let portion = is_plain.then(|| prefetch.portion()).flatten();
    // A get without the directive counts as that of an unmodified client, to which the server sends data in advance by
    // its own rules. So 0 is sent as well.
    let bytes = portion.map_or(0, |portion| portion.bytes);
    get.infos.push(Info::new(request::PREFETCH, bytes));
    portion
}

/// Stores the data of the requested process in the cache, and those of other processes in `prefetch`.
pub(crate) fn absorb(
    cache: &JobCache,
    prefetch: &Prefetch,
    pending: &PendingGet,
    objects: &Objects<'_>,
) -> Result<(), Error> {
    let (proc, portion) = (&pending.proc, pending.portion);
    let mut more = Vec::new();
    cache.absorb(objects, pending.session(), |of, kvals| {
        let is_other = of.nspace == proc.nspace && of.rank != proc.rank;
        if is_other && portion.is_some() {
            more.push((of.rank, kvals));
        }
        // A process may put a key again without notice to this client, so unrequested data do not enter the cache.
        is_other && (portion.is_some() || of.rank.is_valid() && proc.rank.is_valid())
    })?;
    if let Some(portion) = portion {
        prefetch.keep(portion, more);
    }
    Ok(())
}

/// Moves the data of a process from `prefetch` to the cache, if there are any.
pub(crate) fn take_prefetched(
    cache: &JobCache,
    prefetch: &Prefetch,
    own: &Proc<'_>,
    proc: &Proc<'_>,
) -> Option<()> {
    let is_of_job = own.nspace == proc.nspace;
    let kvals = is_of_job.then(|| prefetch.take(proc.rank)).flatten()?;
    // If the data cannot be unpacked, the client requests them, and the get returns the error of that reply.
    cache.absorb_put(proc, &kvals).ok()
}

/// Returns the request for a key that is not in the cache.
pub(crate) fn request_of(proc: &Proc<'_>, key: &str, infos: &[Info<'_>]) -> request::Get<'static> {
    let mut infos = infos.to_vec().into_owned();
    let reserved = Key::from(key).is_reserved();
    if reserved && !is_true(&infos, keys::IMMEDIATE) {
        // Processes do not put reserved keys, so the server would wait in vain for a commit.
        infos.push(Info::new(keys::IMMEDIATE, Value::Bool(true)));
    }
    let names_node = infos
        .iter()
        .any(|info| info.key.is(keys::HOSTNAME) || info.key.is(keys::NODEID));
    request::Get {
        nspace: proc.nspace.clone().into_owned(),
        // A key of a node does not belong to a process.
        rank: match reserved && names_node {
            true => Rank::WILDCARD,
            false => proc.rank,
        },
        infos,
        key: Some(Key::from(key).into_owned()),
    }
}

/// Returns `true` if an info controls the search and does not select or qualify the value.
pub(crate) fn is_directive(info: &Info<'_>) -> bool {
    let directives = [
        keys::OPTIONAL,
        keys::IMMEDIATE,
        keys::TIMEOUT,
        keys::GET_REFRESH_CACHE,
        keys::DATA_SCOPE,
        keys::GET_STATIC_VALUES,
        keys::GET_POINTER_VALUES,
    ];
    let named = directives.iter().any(|key| info.key.is(key));
    named && !info.flags.contains(InfoFlags::QUALIFIER)
}

/// Returns `true` if an info is a qualifier by its key but not marked as one (`PMIX_INFO_QUALIFIER`). This is the
/// context id of the group in which a key was put, which cannot be a directive.
pub(crate) fn is_unmarked_qualifier(info: &Info<'_>) -> bool {
    info.key.is(keys::GROUP_CONTEXT_ID) && !info.is_qualifier()
}

pub(crate) fn missing(proc: &Proc<'_>, key: &str) -> Error {
    Error::not_found(format!("{key} of {} rank {}", proc.nspace, proc.rank))
}
