// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups of processes, formed by a collective or by invitation.
//!
//! Source: PMIx Standard, chapter "Process Sets and Groups".

mod arguments;
mod events;
mod operations;
mod own;
#[cfg(test)]
mod tests;

use pmix_proto::reply;
use pmix_types::{DataArray, Info, IntoOwned as _, Proc, Status, Text, Value, keys, memory};

use crate::Error;

pub(crate) use arguments::{each, is_without_host_events, limit};
pub(crate) use events::{check_name, ended_here, endpoint_data, invitation};
pub use operations::Question;
pub(crate) use operations::{EVENT_CODES, EXIT_CODES, OpId, Operations, Step};
pub(crate) use own::OwnGroups;

/// A group as one of its members sees it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Group {
    /// The name, which other calls accept in place of an nspace.
    pub name: Text<'static>,
    /// The members, indexed by their rank in the group. Empty if the server replies in the form of 4.2, which has no
    /// members.
    pub members: Vec<Proc<'static>>,
    /// The context id, unique among the groups of the host, if it was requested.
    pub context_id: Option<u64>,
    /// Further infos of the reply, such as the `PMIX_GROUP_INFO` of the members.
    pub infos: Vec<Info<'static>>,
}

impl Group {
    /// Decodes the reply to a construct.
    ///
    /// # Errors
    ///
    /// Returns the status of the reply unless it is a success, and `PMIX_ERR_NOMEM` if the process has no memory for its
    /// content.
    pub(crate) fn constructed(
        name: Text<'static>,
        reply: reply::Group<'_>,
        what: impl std::fmt::Display,
    ) -> Result<Self, Error> {
        match reply.status {
            Status::SUCCESS | Status::OPERATION_SUCCEEDED => Ok(Self {
                name,
                members: {
                    memory::check(size_of_val(reply.members.as_slice()))?;
                    Proc::owned_list(&reply.members)
                },
                context_id: reply.context_id,
                infos: reply.infos.try_into_owned()?,
            }),
            status => Err(Error::answered(status, what)),
        }
    }

    /// Converts the group to the results of `PMIx_Group_construct`. The context id is the first, where programs written
    /// for 4.2 expect it; the name and the members follow.
    #[must_use]
    pub fn into_infos(self) -> Vec<Info<'static>> {
        let mut infos = Vec::with_capacity(self.infos.len() + 3);
        let context_id = self.context_id.map(Value::Size);
        infos.extend(context_id.map(|id| Info::new(keys::GROUP_CONTEXT_ID, id)));
        infos.push(Info::new(keys::GROUP_ID, Value::String(Some(self.name))));
        if !self.members.is_empty() {
            let members = Value::DataArray(DataArray::Proc(self.members));
            infos.push(Info::new(keys::GROUP_MEMBERSHIP, members));
        }
        infos.extend(self.infos);
        infos
    }
}

/// The reaction of a process when the leader of a group or one of its participants declines or is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// The group is formed without the process.
    GoOnWithout,
    /// The group is formed without the process, and these processes are invited. In a construct they receive
    /// `PMIX_GROUP_INVITED` and call `PMIx_Group_construct` with an empty list.
    Invite(Vec<Proc<'static>>),
    /// The construct is aborted, and all participants are notified.
    Abort,
    /// The leader is lost, and this process leads in its place. The first process with this decision becomes the
    /// leader. All are notified with `PMIX_GROUP_LEADER_SELECTED`, and the new leader waits for the remaining
    /// participants again.
    Lead,
}
