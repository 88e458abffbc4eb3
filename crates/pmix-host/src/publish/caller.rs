// SPDX-License-Identifier: MIT OR Apache-2.0
//! The caller of a publish or lookup, the ranges around it, and the published data that it may see.
//!
//! Source: PMIx Standard, chapter "Publish/Lookup Operations", ranges and
//! `PMIX_ACCESS_PERMISSIONS`.

use std::sync::Arc;

use pmix_engine::Procs;
use pmix_types::{DataRange, Info, Key, Pdata, Persistence, Proc, Rank, keys};

use super::directives::Access;

/// The process that publishes or looks up, as ranges and permissions need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The process.
    pub proc: Proc<'static>,
    /// The user id of the process.
    pub uid: u32,
    /// The group id of the process.
    pub gid: u32,
    /// The node that it runs on, in any numbering. Callers without one count as on the same node.
    pub node: Option<u32>,
    /// The number of the session of its job (`PMIX_SESSION_ID`). Callers without one count as in the same session.
    pub session: Option<u32>,
    /// `true` for the host itself, which is not a process of a job.
    pub is_host: bool,
}

impl Caller {
    /// Creates a caller of a user, on the only node of the only session.
    #[must_use]
    pub const fn new(proc: Proc<'static>, uid: u32, gid: u32) -> Self {
        Self {
            proc,
            uid,
            gid,
            node: None,
            session: None,
            is_host: false,
        }
    }

    /// Creates a caller from an upcall, with the user from the infos that the engine has added.
    #[must_use]
    pub fn of_upcall(proc: &Proc<'static>, infos: &[Info<'_>]) -> Self {
        // The largest ID is reserved for "no user", so it never matches a real user.
        let id = |key| {
            let info = infos.iter().find(|info| info.key.is(key));
            info.and_then(|info| info.value.to_number().ok())
                .unwrap_or(u32::MAX)
        };
        Self::new(proc.clone(), id(keys::USERID), id(keys::GRPID))
    }
}

/// The processes in a `pmix_data_range_t` around a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Range {
    /// The host only.
    Host,
    Proc(Proc<'static>),
    Node(Option<u32>),
    Nspace(Proc<'static>),
    Session(Option<u32>),
    All,
    /// The processes of a list, with a hash for fast comparison of lists.
    Listed(u64, Arc<Procs>),
}

impl Range {
    /// Returns the range relative to a caller, or `None` for an unknown range or a missing list of processes.
    pub(super) fn new(range: DataRange, caller: &Caller, listed: Option<Procs>) -> Option<Self> {
        Some(match range {
            DataRange::RM => Self::Host,
            DataRange::LOCAL => Self::Node(caller.node),
            DataRange::NAMESPACE => Self::Nspace(Proc::new(
                caller.proc.nspace.as_text().clone(),
                Rank::WILDCARD,
            )),
            // The session is the default range of the Standard.
            DataRange::UNDEF | DataRange::SESSION => Self::Session(caller.session),
            DataRange::GLOBAL => Self::All,
            DataRange::CUSTOM => {
                let listed = listed?;
                Self::Listed(listed.fingerprint(), Arc::new(listed))
            }
            DataRange::PROC_LOCAL => Self::Proc(caller.proc.clone()),
            _ => return None,
        })
    }

    /// Returns the number of names in the list.
    pub(super) fn num_names(&self) -> usize {
        match self {
            Self::Listed(_, procs) => procs.len(),
            _ => 1,
        }
    }

    /// Returns `true` if a caller is in the range.
    pub(super) fn has(&self, other: &Caller) -> bool {
        match self {
            Self::Host => other.is_host,
            Self::Proc(proc) => *proc == other.proc,
            Self::Node(node) => same(*node, other.node),
            Self::Nspace(proc) => proc.nspace == other.proc.nspace,
            Self::Session(session) => same(*session, other.session),
            Self::All => true,
            Self::Listed(_, procs) => procs.has(&other.proc),
        }
    }
}

/// Returns `true` for equal values; an unknown value equals any other.
fn same(a: Option<u32>, b: Option<u32>) -> bool {
    a.zip(b).is_none_or(|(a, b)| a == b)
}

/// A published datum.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PublishedItem {
    pub(super) publisher: Caller,
    /// The data, shared by all its readers without a copy.
    pub(super) data: Arc<Pdata<'static>>,
    /// The range of its readers.
    pub(super) range: Range,
    pub(super) persistence: Persistence,
    pub(super) access: Option<Arc<Access>>,
    pub(super) weight: usize,
}

/// The visibility of an item for the caller of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Visibility {
    /// The item is outside the range for the caller, or the caller searches another range.
    Hidden,
    /// The item exists, but the caller may not read it.
    Denied,
    Open,
}

impl PublishedItem {
    /// Returns the visibility for a caller that looks among the publishers in a range (PMIx Standard,
    /// "Retrieval rules for published data").
    pub(super) fn seen_by(&self, caller: &Caller, among: &Range) -> Visibility {
        if !among.has(&self.publisher) || !self.range.has(caller) {
            return Visibility::Hidden;
        }
        let allowed = match &self.access {
            Some(access) => access.lets(caller.uid, caller.gid),
            None => caller.uid == self.publisher.uid,
        };
        // A publisher reads its own data, whichever readers it permits.
        let own = caller.proc == self.publisher.proc && caller.uid == self.publisher.uid;
        match allowed || own || caller.is_host {
            true => Visibility::Open,
            false => Visibility::Denied,
        }
    }

    pub(super) fn key(&self) -> &Key<'static> {
        &self.data.key
    }
}
