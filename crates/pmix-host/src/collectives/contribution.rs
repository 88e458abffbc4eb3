// SPDX-License-Identifier: MIT OR Apache-2.0
//! The contribution of a node to a collective, and the combined contribution of several nodes.

use std::collections::HashSet;
use std::time::Instant;

use pmix_engine::infos::{is_set, timeout, value};
use pmix_server::upcall::{Connect, Disconnect, Fence, Group, HostReply, Upcall};
use pmix_types::memory::{self, OutOfMemory};
use pmix_types::{GroupOperation, Info, IntoOwned as _, Measure, Proc, Status, Text, Value, keys};

/// The operation of a collective.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum CollectiveKind {
    /// `PMIx_Fence`.
    Fence,
    /// `PMIx_Connect`.
    Connect,
    /// `PMIx_Disconnect`.
    Disconnect,
    /// `PMIx_Group_destruct` of the group with this name.
    GroupDestruct(Text<'static>),
}

/// The contribution of a node, or of a branch of a tree, to a collective.
///
/// It is made from the upcall of a server, and converts to one for the parent of a tree node.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Contribution {
    /// The operation.
    pub kind: CollectiveKind,
    /// The participants.
    pub procs: Vec<Proc<'static>>,
    /// The infos of the participants.
    pub infos: Vec<Info<'static>>,
    /// The data of a fence.
    pub data: Vec<u8>,
    /// The status of a failure on the node (`failed`, or `PMIX_LOCAL_COLLECTIVE_STATUS` in the infos).
    pub failed: Option<Status>,
}

/// The result of a successful collective.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Gathered {
    /// The directives of the node with the lowest number, and the required ones of the others. A connect also has the
    /// endpoint data and the job info that the nodes share (`PMIX_PROC_INFO_ARRAY`, `PMIX_JOB_INFO_ARRAY`), in the
    /// order of node numbers.
    pub infos: Vec<Info<'static>>,
    /// The data of a fence, concatenated in the order of node numbers.
    pub data: Vec<u8>,
}

impl Contribution {
    /// Creates a contribution without infos and data.
    #[must_use]
    pub const fn new(kind: CollectiveKind, procs: Vec<Proc<'static>>) -> Self {
        Self {
            kind,
            procs,
            infos: Vec::new(),
            data: Vec::new(),
            failed: None,
        }
    }

    /// Converts an upcall, or returns it if it is none of a collective that this module gathers.
    ///
    /// # Errors
    ///
    /// Returns the upcall unchanged, in a box because it is large.
    pub fn from_upcall(upcall: Upcall) -> Result<Self, Box<Upcall>> {
        match upcall {
            Upcall::Fence(call) => Ok(call.into()),
            Upcall::Connect(call) => Ok(call.into()),
            Upcall::Disconnect(call) => Ok(call.into()),
            Upcall::Group(call) if call.operation == GroupOperation::DESTRUCT => {
                let kind = CollectiveKind::GroupDestruct(call.id);
                Ok(Self::of(kind, call.procs, call.directives))
            }
            other => Err(Box::new(other)),
        }
    }

    /// Converts to an upcall, for example to pack it for the parent of a tree node.
    #[must_use]
    pub fn into_upcall(self) -> Upcall {
        let (procs, mut infos) = (self.procs, self.infos);
        let status = self.failed;
        // A fence and a destruct have no field for the failure.
        let with_status = |infos: &mut Vec<Info<'static>>| {
            infos.extend(status.map(|status| Info::new(keys::LOCAL_COLLECTIVE_STATUS, status)));
        };
        match self.kind {
            CollectiveKind::Fence => {
                with_status(&mut infos);
                Fence::new(procs, infos, self.data).into()
            }
            CollectiveKind::Connect => Connect::new(procs, infos, status).into(),
            CollectiveKind::Disconnect => Disconnect::new(procs, infos, status).into(),
            CollectiveKind::GroupDestruct(name) => {
                with_status(&mut infos);
                Group::new(GroupOperation::DESTRUCT, name, procs, infos).into()
            }
        }
    }

    fn of(kind: CollectiveKind, procs: Vec<Proc<'static>>, mut infos: Vec<Info<'static>>) -> Self {
        let failed = match value(&infos, keys::LOCAL_COLLECTIVE_STATUS) {
            Some(Value::Status(status)) if !status.is_success() => Some(*status),
            _ => None,
        };
        infos.retain(|info| !info.key.is(keys::LOCAL_COLLECTIVE_STATUS));
        Self {
            infos,
            failed,
            ..Self::new(kind, procs)
        }
    }

    /// Returns the end of the time limit of the callers.
    pub(super) fn until(&self, now: Instant) -> Option<Instant> {
        timeout(&self.infos).and_then(|time| now.checked_add(time))
    }

    /// Returns `true` if the collective continues without participants that are lost.
    pub(super) fn is_tolerant(&self) -> bool {
        is_set(&self.infos, keys::GROUP_FT_COLLECTIVE)
    }

    /// Returns the memory of the contribution in bytes, an estimate.
    pub(super) fn weight(&self) -> usize {
        let infos = self.infos.iter().map(|info| info.measure(Measure::All));
        let procs = self.procs.len().saturating_mul(size_of::<Proc<'_>>());
        let fixed = procs.saturating_add(self.data.len());
        infos.fold(fixed, usize::saturating_add)
    }
}

impl From<Fence> for Contribution {
    fn from(call: Fence) -> Self {
        let data = call.data;
        let made = Self::of(CollectiveKind::Fence, call.procs, call.infos);
        Self { data, ..made }
    }
}

impl From<Connect> for Contribution {
    fn from(call: Connect) -> Self {
        let made = Self::of(CollectiveKind::Connect, call.procs, call.infos);
        let failed = call.failed.or(made.failed);
        Self { failed, ..made }
    }
}

impl From<Disconnect> for Contribution {
    fn from(call: Disconnect) -> Self {
        let made = Self::of(CollectiveKind::Disconnect, call.procs, call.infos);
        let failed = call.failed.or(made.failed);
        Self { failed, ..made }
    }
}

impl Gathered {
    /// Combines contributions in their order.
    pub(super) fn combine(
        kind: &CollectiveKind,
        parts: impl Iterator<Item = Contribution>,
    ) -> Result<Self, OutOfMemory> {
        let mut all = Self::default();
        let mut shared = Vec::new();
        let mut known = HashSet::new();
        for (place, part) in parts.enumerate() {
            memory::append(&mut all.data, &part.data)?;
            for info in part.infos {
                if info.key.is(keys::TIMEOUT) {
                    continue;
                }
                if *kind == CollectiveKind::Connect && is_shared(&info) {
                    shared.push(info);
                } else if place == 0 {
                    known.insert(info.key.clone());
                    all.infos.push(info);
                } else if info.must_be_obeyed() && known.insert(info.key.clone()) {
                    // The directives of one caller apply to all, but the required ones of each must be known.
                    all.infos.push(info);
                }
            }
        }
        all.infos.append(&mut shared);
        Ok(all)
    }

    /// Returns the reply to a server.
    pub(super) fn reply(&self, kind: &CollectiveKind) -> HostReply {
        match kind {
            CollectiveKind::Fence => HostReply::Data(Ok(self.data.clone())),
            CollectiveKind::Connect | CollectiveKind::Disconnect => {
                HostReply::Done(Status::SUCCESS)
            }
            CollectiveKind::GroupDestruct(_) => HostReply::Infos(Status::SUCCESS, Vec::new()),
        }
    }
}

/// Returns `true` for the data of one process or job, of which a connect has many.
fn is_shared(info: &Info<'_>) -> bool {
    info.key.is(keys::PROC_INFO_ARRAY) || info.key.is(keys::JOB_INFO_ARRAY)
}
