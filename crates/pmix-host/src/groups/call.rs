// SPDX-License-Identifier: MIT OR Apache-2.0
//! One call of a server for a construct.

use std::time::Instant;

use pmix_engine::infos::{is_set, timeout, value};
use pmix_server::upcall::Group;
use pmix_types::{DataArray, Info, IntoOwned as _, Proc, Value, keys};

/// The leaders of a construct.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Leaders {
    /// The listed processes, for which their servers call.
    Listed(Vec<Proc<'static>>),
    /// This number of processes, which call for themselves.
    Counted(u64),
}

/// The content of one call.
#[derive(Debug)]
pub(super) struct ConstructCall<T> {
    pub(super) token: T,
    /// The process that calls for itself; `None` if a server calls for its processes.
    pub(super) proc: Option<Proc<'static>>,
    /// The user of the calling processes, if their server gives it.
    pub(super) user: Option<u32>,
    /// The leaders in their order, without those that the server leaves out.
    pub(super) listed: Vec<Proc<'static>>,
    /// The infos that the calling processes share.
    pub(super) shared: Vec<Info<'static>>,
    pub(super) wants_context_id: bool,
    /// `true` if members are notified of members that are lost.
    pub(super) notifies: bool,
    /// The end of the caller's `PMIX_TIMEOUT`.
    pub(super) until: Option<Instant>,
}

impl<T> ConstructCall<T> {
    pub(super) fn new(token: T, group: &Group, now: Instant) -> Self {
        let infos = &group.directives;
        let shared = infos.iter().filter(|info| info.key.is(keys::GROUP_INFO));
        let proc = match value(infos, keys::PROCID) {
            Some(Value::Proc(proc)) => Some(proc.clone().into_owned()),
            _ => None,
        };
        // A server that leaves lost processes out lists only the others here.
        let listed = procs_of(infos, keys::GROUP_MEMBERSHIP).unwrap_or(&group.procs);
        let user = value(infos, keys::USERID).and_then(|user| user.to_number().ok());
        Self {
            token,
            proc,
            user,
            listed: Proc::owned_list(listed),
            shared: shared.cloned().collect(),
            wants_context_id: is_set(infos, keys::GROUP_ASSIGN_CONTEXT_ID),
            notifies: is_set(infos, keys::GROUP_NOTIFY_TERMINATION),
            until: timeout(infos).and_then(|time| now.checked_add(time)),
        }
    }

    /// Drops the process and the infos of a call whose process has ended and calls again. The call is still answered.
    pub(super) fn replace(&mut self) {
        self.proc = None;
        self.shared.clear();
    }
}

/// Returns the processes that infos list under a key.
pub(super) fn procs_of<'i>(infos: &'i [Info<'_>], key: &str) -> Option<&'i [Proc<'i>]> {
    match value(infos, key)? {
        Value::Proc(proc) => Some(std::slice::from_ref(proc)),
        Value::DataArray(DataArray::Proc(procs)) => Some(procs),
        _ => None,
    }
}
