// SPDX-License-Identifier: MIT OR Apache-2.0
//! What one call for a construction says.

use pmix_types::{DataArray, Info, IntoOwned as _, Proc, Value, keys};

use crate::host::Group;
use crate::infos::{is_set, value};

/// Who begins a construction.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Leaders {
    /// These, for whom their servers call.
    Listed(Vec<Proc<'static>>),
    /// So many, who call for themselves.
    Counted(u64),
}

/// What one call says.
#[derive(Debug)]
pub(super) struct Part<T> {
    pub(super) token: T,
    /// Who called, if it called for itself.
    pub(super) proc: Option<Proc<'static>>,
    /// The user of the processes that called, if their server says it.
    pub(super) user: Option<u32>,
    /// The leaders in their order, without those that are done without.
    pub(super) listed: Vec<Proc<'static>>,
    /// What its processes share.
    pub(super) shared: Vec<Info<'static>>,
    pub(super) wants_context_id: bool,
    /// Whether members are told of those that are lost.
    pub(super) notifies: bool,
}

impl<T> Part<T> {
    pub(super) fn new(token: T, call: &Group) -> Self {
        let infos = &call.directives;
        let shared = infos.iter().filter(|info| info.key.is(keys::GROUP_INFO));
        let proc = match value(infos, keys::PROCID) {
            Some(Value::Proc(proc)) => Some(proc.clone().into_owned()),
            _ => None,
        };
        let listed = procs_of(infos, keys::GROUP_MEMBERSHIP).unwrap_or(&call.procs);
        let user = value(infos, keys::USERID).and_then(|user| user.to_number().ok());
        Self {
            token,
            proc,
            user,
            listed: Proc::owned_list(listed),
            shared: shared.cloned().collect(),
            wants_context_id: is_set(infos, keys::GROUP_ASSIGN_CONTEXT_ID),
            notifies: is_set(infos, keys::GROUP_NOTIFY_TERMINATION),
        }
    }

    /// Forgets who called and what it shares, as that process has ended and calls again. The call is still answered.
    pub(super) fn is_replaced(&mut self) {
        self.proc = None;
        self.shared.clear();
    }
}

/// The processes that infos list under a key.
pub(super) fn procs_of<'i>(infos: &'i [Info<'_>], key: &str) -> Option<&'i [Proc<'i>]> {
    match value(infos, key)? {
        Value::Proc(proc) => Some(std::slice::from_ref(proc)),
        Value::DataArray(DataArray::Proc(procs)) => Some(procs),
        _ => None,
    }
}
