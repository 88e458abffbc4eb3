// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decoded requests for data (GETNB, REFRESH_CACHE).

use std::time::Duration;

use pmix_proto::request;
use pmix_types::{Info, IntoOwned, Key, Proc, Rank, Scope, Value, keys};

use crate::infos::{is_set, timeout, value};

/// The form of the reply to a request for data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Byte objects of a process and its data, for GETNB.
    Objects,
    /// The data only, for REFRESH_CACHE.
    Kvals,
}

/// A request of a client for data of a process, a job, a node, an application or a session.
#[derive(Clone, Debug)]
pub(super) struct GetRequest {
    pub(super) proc: Proc<'static>,
    /// The name of the process in the request and the reply, if that is its group rank.
    pub(super) named: Option<Proc<'static>>,
    /// The requested key; `None` for all data.
    pub(super) key: Option<Key<'static>>,
    /// The infos of the request, with the qualifiers in the form of the datastore.
    pub(super) infos: Vec<Info<'static>>,
    /// The scope in the request, if there is one.
    pub(super) scope: Option<Scope>,
    /// `true` if the request must not wait.
    pub(super) is_immediate: bool,
    /// `true` if stored data of another node must be requested again.
    pub(super) wants_fresh: bool,
    /// The time limit of the request.
    pub(super) timeout: Option<Duration>,
    /// The bytes of data of further processes that the client accepts, if it requests them.
    pub(super) prefetch: Option<u32>,
    pub(super) form: Form,
}

impl GetRequest {
    pub(super) fn of_get(request: &request::Get<'_>) -> Self {
        let mut infos = request.infos.clone().into_owned();
        let prefetch = value(&infos, request::PREFETCH);
        let prefetch = prefetch.map(|bytes| bytes.to_number().unwrap_or(0));
        // The attribute is an agreement of this client and this server, so the host does not receive it.
        infos.retain(|info| !info.key.is(request::PREFETCH));
        let key = request.key.clone().filter(|key| !key.is_empty());
        Self {
            proc: Proc::new(request.nspace.clone().into_owned(), request.rank),
            named: None,
            key: key.map(IntoOwned::into_owned),
            scope: value(&infos, keys::DATA_SCOPE).and_then(|value| match value {
                Value::Scope(scope) => Some(*scope),
                _ => None,
            }),
            is_immediate: is_set(&infos, keys::IMMEDIATE) || is_set(&infos, keys::OPTIONAL),
            wants_fresh: is_set(&infos, keys::GET_REFRESH_CACHE),
            timeout: timeout(&infos),
            prefetch,
            infos: qualified(infos),
            form: Form::Objects,
        }
    }

    pub(super) fn of_refresh(request: &request::RefreshCache<'_>) -> Self {
        Self {
            proc: Proc::new(request.nspace.clone().into_owned(), request.rank),
            named: None,
            key: None,
            infos: Vec::new(),
            scope: None,
            is_immediate: false,
            wants_fresh: true,
            timeout: None,
            prefetch: None,
            form: Form::Kvals,
        }
    }

    /// Returns the key as text; `None` without a key, or if it cannot be a key of job info.
    pub(super) fn text(&self) -> Option<&str> {
        self.key.as_ref()?.as_text().as_str()
    }

    /// Returns `true` if the key is a reserved key of PMIx, which processes do not put.
    pub(super) fn is_reserved(&self) -> bool {
        self.key.as_ref().is_some_and(Key::is_reserved)
    }

    /// Returns `true` if the request names a single process.
    pub(super) fn is_of_proc(&self) -> bool {
        self.proc.rank.is_valid()
    }
}

/// Reduces the description of a node to one name and one number. Clients since 5.0 send the name twice, and the number
/// also in place of the name.
fn qualified(mut infos: Vec<Info<'static>>) -> Vec<Info<'static>> {
    let has_number = infos.iter().any(|info| info.key.is(keys::NODEID));
    let mut is_named = false;
    infos.retain_mut(|info| {
        if !info.key.is(keys::HOSTNAME) {
            return true;
        }
        match info.value {
            Value::String(_) => !std::mem::replace(&mut is_named, true),
            _ if has_number => false,
            _ => {
                info.key = keys::NODEID.into();
                true
            }
        }
    });
    infos
}

/// Returns the rank for a lookup in the job: the wildcard for an undefined rank.
pub(super) fn of_job(rank: Rank) -> Rank {
    match rank {
        Rank::UNDEF => Rank::WILDCARD,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(infos: Vec<Info<'static>>) -> GetRequest {
        GetRequest::of_get(&request::Get {
            nspace: "job".into(),
            rank: Rank::WILDCARD,
            infos,
            key: Some("pmix.lpeers".into()),
        })
    }

    #[test]
    fn a_node_is_named_once_for_every_release() {
        let named = || Info::new(keys::HOSTNAME, "n01");
        let asked = get(vec![
            Info::new(keys::NODE_INFO, true),
            named(),
            Info::new(keys::IMMEDIATE, true),
            named(),
        ]);
        assert!(asked.is_immediate);
        let names = asked.infos.iter().filter(|i| i.key.is(keys::HOSTNAME));
        assert_eq!(names.count(), 1);
        let number = |key: &'static str| Info::new(key, 3_u32);
        for infos in [
            vec![number(keys::NODEID), number(keys::HOSTNAME)],
            vec![number(keys::HOSTNAME)],
        ] {
            assert_eq!(get(infos).infos, [number(keys::NODEID)]);
        }
    }
}
