// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups: processes with a name of their own, formed by a collective or by invitation.
//!
//! Source: PMIx Standard, chapter "Process Sets and Groups".

mod arguments;
mod operations;
mod own;
mod said;
#[cfg(test)]
mod tests;

use pmix_proto::reply;
use pmix_types::{DataArray, Info, IntoOwned as _, Proc, Status, Text, Value, keys};

use crate::Error;

pub(crate) use arguments::{each, hears_all_the_same, limit};
pub use operations::Question;
pub(crate) use operations::{HEARD, OpId, Operations, Step};
pub(crate) use own::OwnGroups;
pub(crate) use said::{check_name, ended_here, invitation};

/// Holds what a process knows of a group that it is a member of.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Group {
    /// Its name, which stands for its members in other calls.
    pub name: Text<'static>,
    /// Its members, each at the place of its rank in the group. A server that speaks as 4.2 does not
    /// say them.
    pub members: Vec<Proc<'static>>,
    /// The number that no other group of the host has, if it was asked for.
    pub context_id: Option<u64>,
    /// What else is known: what its members share of themselves, where the server says it.
    pub infos: Vec<Info<'static>>,
}

impl Group {
    /// Reads the reply to a construct.
    ///
    /// # Errors
    ///
    /// The status that the server answered, unless it was a success.
    pub(crate) fn constructed(
        name: Text<'static>,
        reply: reply::Group<'_>,
        what: impl std::fmt::Display,
    ) -> Result<Self, Error> {
        match reply.status {
            Status::SUCCESS | Status::OPERATION_SUCCEEDED => Ok(Self {
                name,
                members: Proc::owned_list(&reply.members),
                context_id: reply.context_id,
                infos: reply.infos.into_owned(),
            }),
            status => Err(Error::answered(status, what)),
        }
    }

    /// Returns the group as the infos that `PMIx_Group_construct` gives: the context id first, where
    /// programs of 4.2 look for it, then the name and the members.
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

/// Says how the construction of a group goes on when one of those who were invited or who construct it does not
/// take part, or the leader is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// The group is formed without the process.
    GoOnWithout,
    /// The group is formed without the process, and these are invited; who is to take part in a construction
    /// hears `PMIX_GROUP_INVITED` and constructs the group without naming anybody.
    Invite(Vec<Proc<'static>>),
    /// The group is not formed; all who take part are told.
    Abort,
    /// The leader is lost, and this process leads in its place. The first that says so does: all hear of it
    /// as `PMIX_GROUP_LEADER_SELECTED`, and those who had accepted are waited for again, or who construct it.
    Lead,
}
