// SPDX-License-Identifier: MIT OR Apache-2.0
//! A request for data (GETNB, REFRESH_CACHE), read once.

use std::time::Duration;

use pmix_proto::request;
use pmix_types::{Info, IntoOwned, Key, Proc, Rank, Scope, Value, keys};

use crate::infos::{is_set, timeout, value};

/// The form of the reply to a request for data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Byte objects with a process and its data, as GETNB is answered.
    Objects,
    /// The data alone, as REFRESH_CACHE is answered.
    Kvals,
}

/// A request of a client for data of a process, a job, a node, an application or a session.
#[derive(Clone, Debug)]
pub(super) struct GetRequest {
    pub(super) proc: Proc<'static>,
    /// What the client calls the process, if that is its rank in a group: so does the answer.
    pub(super) named: Option<Proc<'static>>,
    /// None asks for everything.
    pub(super) key: Option<Key<'static>>,
    /// What was said with it, with the qualifiers in the form that the datastore takes.
    pub(super) infos: Vec<Info<'static>>,
    /// Who is to see the data, if the client says it.
    pub(super) scope: Option<Scope>,
    /// Whether it is not to wait for anything.
    pub(super) is_immediate: bool,
    /// Whether what is known already is not enough.
    pub(super) wants_fresh: bool,
    /// How long it waits; none is for as long as there is hope.
    pub(super) timeout: Option<Duration>,
    /// How many bytes of further processes the client takes behind those it names, if it says so.
    pub(super) prefetch: Option<u32>,
    pub(super) form: Form,
}

impl GetRequest {
    pub(super) fn of_get(request: &request::Get<'_>) -> Self {
        let mut infos = request.infos.clone().into_owned();
        let prefetch = value(&infos, request::PREFETCH);
        let prefetch = prefetch.map(|bytes| bytes.to_number().unwrap_or(0));
        // It is between this client and this server: no host is told.
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

    /// The key as text; none if there is none or it is none that job information could have.
    pub(super) fn text(&self) -> Option<&str> {
        self.key.as_ref()?.as_text().as_str()
    }

    /// Whether the key is one of PMIx, which no process has to put.
    pub(super) fn is_reserved(&self) -> bool {
        self.key.as_ref().is_some_and(Key::is_reserved)
    }

    /// Whether it is about a single process.
    pub(super) fn is_of_proc(&self) -> bool {
        self.proc.rank.is_valid()
    }
}

/// Makes one name and one number of what a client says of a node: since 5.0 it says the name
/// twice, and the number once more in place of the name.
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

/// The same request about the job instead of no process in particular.
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
    fn a_node_is_named_once_whatever_the_release() {
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
