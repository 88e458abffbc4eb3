// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups of the blocking client.

use std::time::Instant;

use pmix_types::{Info, Proc, Status, keys};

use super::Client;
use crate::connection::Deadline;
use crate::core::Answer;
use crate::group::{each, limit};
use crate::{Error, Group};

impl Client {
    /// Constructs a group; each member must call it (`PMIx_Group_construct`).
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` for an invalid name or list, `PMIX_ERR_EXISTS` if this process is in a group of the
    /// name, `PMIX_ERR_TIMEOUT`, and `PMIX_ERR_LOST_CONNECTION` if a member is lost. Returns other statuses of the
    /// server, or an error if no reply arrives.
    pub fn group_construct(
        &mut self,
        name: &str,
        procs: &[Proc<'_>],
        infos: &[Info<'_>],
    ) -> Result<Group, Error> {
        let formed = self.wait(|core, end| core.group_construct(name, procs, infos, end))?;
        group(formed)
    }

    /// Leaves a group; the server notifies the other members (`PMIx_Group_leave`).
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NOT_FOUND` if this process is not in the group, another status of the server, or an error if
    /// no reply arrives.
    pub fn group_leave(&mut self, name: &str, infos: &[Info<'_>]) -> Result<(), Error> {
        self.wait(|core, end| core.group_leave(name, infos, end))?;
        Ok(())
    }

    /// Destructs a group; each member must call it (`PMIx_Group_destruct`).
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NOT_FOUND` if this process is not in the group, `PMIX_ERR_TIMEOUT`, and
    /// `PMIX_ERR_LOST_CONNECTION` if a member is lost. Returns other statuses of the server, or an error if no reply
    /// arrives.
    pub fn group_destruct(&mut self, name: &str, infos: &[Info<'_>]) -> Result<(), Error> {
        self.wait(|core, end| core.group_destruct(name, infos, end))?;
        Ok(())
    }

    /// Invites processes to a group that this process leads, and waits until all have answered (`PMIx_Group_invite`).
    /// The list includes this process and may have whole jobs.
    ///
    /// Directives:
    ///
    /// - `pmix.timeout`: the time limit in seconds, at most [`Settings::time_limit`].
    /// - `pmix.grp.opt`: forms the group without processes that decline or are lost.
    /// - `pmix.grp.notterm`: notifies the members when one of them is lost later.
    /// - `pmix.grp.actxid`: requests a context id from the host. If the host assigns none, the call fails only if the
    ///   directive is required.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_GROUP_INVITE_DECLINED` or `PMIX_GROUP_INVITE_FAILED` if a process declines or is lost,
    /// `PMIX_GROUP_CONSTRUCT_ABORT` if a process aborts, `PMIX_ERR_TIMEOUT`, and `PMIX_ERR_BAD_PARAM` for an invalid
    /// name or list. Returns other statuses of the server, or an error if no reply arrives.
    ///
    /// [`Settings::time_limit`]: crate::Settings::time_limit
    pub fn group_invite(
        &mut self,
        name: &str,
        procs: &[Proc<'_>],
        infos: &[Info<'_>],
    ) -> Result<Group, Error> {
        let end = self.group_end(infos)?;
        let size = |nspace: &Proc<'_>| self.get(nspace, keys::JOB_SIZE, &[]);
        let procs = each(procs, size)?;
        let now = Instant::now();
        let formed = self.wait_until(end, |core, end| {
            core.group_invite(name, procs, infos, end, now)
        })?;
        group(formed)
    }

    /// Accepts the invitation of a leader, and waits until the group is formed (`PMIx_Group_join`). The invitation is
    /// the event `PMIX_GROUP_INVITED`, whose source is the leader. Without `leader`, this is the last unanswered
    /// invitation that the process received; it must be registered for the event.
    ///
    /// If the leader is lost, another process that joined may lead in its place. This client never does, since its
    /// program cannot be asked during the call.
    ///
    /// Directive: `pmix.timeout` is the time limit in seconds, at most [`Settings::time_limit`].
    ///
    /// # Errors
    ///
    /// Returns
    ///
    /// - `PMIX_GROUP_CONSTRUCT_ABORT` if the group is not formed, or is formed without this process;
    /// - `PMIX_GROUP_LEADER_FAILED` if the leader is lost and no other process leads in its place;
    /// - `PMIX_ERR_NOT_FOUND` without a leader and without a received invitation;
    /// - `PMIX_ERR_BAD_PARAM` for an invalid name or leader;
    /// - `PMIX_ERR_TIMEOUT`, another status of the server, or an error if no reply arrives.
    ///
    /// [`Settings::time_limit`]: crate::Settings::time_limit
    pub fn group_join<'l>(
        &mut self,
        name: &str,
        leader: impl Into<Option<&'l Proc<'l>>>,
        infos: &[Info<'_>],
    ) -> Result<Group, Error> {
        let leader = leader.into();
        let end = self.group_end(infos)?;
        let now = Instant::now();
        let formed = self.wait_until(end, |core, end| {
            core.group_join(name, leader, infos, end, now)
        })?;
        group(formed)
    }

    /// Declines the invitation of a leader (`PMIx_Group_join`). Without `leader`, it selects the invitation as
    /// [`group_join`](Self::group_join) does.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` for an invalid name, `PMIX_ERR_NOT_FOUND` if no invitation was received, another
    /// status of the server, or an error if no reply arrives.
    pub fn group_decline<'l>(
        &mut self,
        name: &str,
        leader: impl Into<Option<&'l Proc<'l>>>,
    ) -> Result<(), Error> {
        let leader = leader.into();
        self.wait(|core, end| core.group_decline(name, leader, end))?;
        Ok(())
    }

    fn group_end(&self, infos: &[Info<'_>]) -> Result<Deadline, Error> {
        let limit = limit(infos)?.and_then(|limit| Instant::now().checked_add(limit));
        Ok(self.end().or_before(limit))
    }
}

fn group(formed: Answer) -> Result<Group, Error> {
    match formed {
        Answer::Group(group) => Ok(group),
        _ => Err(Error::new(
            Status::ERR_COMM_FAILURE,
            "a group without a name",
        )),
    }
}
