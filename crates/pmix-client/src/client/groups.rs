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
    /// Joins the construction of a group; all of its members must (`PMIx_Group_construct`).
    ///
    /// # Errors
    ///
    /// What the server answers, or that it does not: `PMIX_ERR_BAD_PARAM` for a bad name or list,
    /// `PMIX_ERR_EXISTS` if this process is in a group of the name, `PMIX_ERR_TIMEOUT`,
    /// `PMIX_ERR_LOST_CONNECTION` if a member is lost.
    pub fn group_construct(
        &mut self,
        name: &str,
        procs: &[Proc<'_>],
        infos: &[Info<'_>],
    ) -> Result<Group, Error> {
        let formed = self.wait(|core, end| core.group_construct(name, procs, infos, end))?;
        group(formed)
    }

    /// Leaves a group; the other members are told (`PMIx_Group_leave`).
    ///
    /// # Errors
    ///
    /// What the server answers, or that it does not: `PMIX_ERR_NOT_FOUND` if this process is in no
    /// such group.
    pub fn group_leave(&mut self, name: &str, infos: &[Info<'_>]) -> Result<(), Error> {
        self.wait(|core, end| core.group_leave(name, infos, end))?;
        Ok(())
    }

    /// Joins the destruction of a group; all of its members must (`PMIx_Group_destruct`).
    ///
    /// # Errors
    ///
    /// What the server answers, or that it does not: `PMIX_ERR_NOT_FOUND` if this process is in no
    /// such group, `PMIX_ERR_TIMEOUT`, `PMIX_ERR_LOST_CONNECTION` if a member is lost.
    pub fn group_destruct(&mut self, name: &str, infos: &[Info<'_>]) -> Result<(), Error> {
        self.wait(|core, end| core.group_destruct(name, infos, end))?;
        Ok(())
    }

    /// Invites processes to a group that this one leads, and waits until all have answered
    /// (`PMIx_Group_invite`). This process is among them; whole jobs are allowed.
    ///
    /// Directives: `pmix.timeout` is how many seconds to wait, [`Settings::time_limit`] at the most;
    /// with `pmix.grp.opt` the group is formed without those who decline or are lost;
    /// `pmix.grp.notterm` has the loss of members told later on; with `pmix.grp.actxid` the group has a context id
    /// that the host assigns, if it assigns any, which it has to if this is required.
    ///
    /// # Errors
    ///
    /// `PMIX_GROUP_INVITE_DECLINED` or `PMIX_GROUP_INVITE_FAILED` if one declines or is lost;
    /// `PMIX_GROUP_CONSTRUCT_ABORT` if one ends it; `PMIX_ERR_TIMEOUT`; `PMIX_ERR_BAD_PARAM` for a bad
    /// name or list; what the server answers, or that it does not.
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

    /// Accepts the invitation of a leader, and waits until the group is formed (`PMIx_Group_join`). It
    /// came as the event `PMIX_GROUP_INVITED`, whose source is the leader; without a leader it is the last that this
    /// process heard of, which it has to be registered for, and has not answered. If that is lost, one of those who
    /// joined may lead in its place, but never this client: its program cannot be asked while it waits.
    ///
    /// Directive: `pmix.timeout` is how many seconds to wait, [`Settings::time_limit`] at the most.
    ///
    /// # Errors
    ///
    /// `PMIX_GROUP_CONSTRUCT_ABORT` if the group is not formed, or without this process;
    /// `PMIX_GROUP_LEADER_FAILED` if the leader is lost and none of those who joined leads in its place;
    /// `PMIX_ERR_TIMEOUT`; `PMIX_ERR_BAD_PARAM` for a bad name or leader; `PMIX_ERR_NOT_FOUND` if none is given and
    /// no invitation was heard of; what the server answers, or that it does not.
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

    /// Declines the invitation of a leader (`PMIx_Group_join`), which is found as by [`group_join`](Self::group_join).
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` for a bad name; `PMIX_ERR_NOT_FOUND` if no invitation was heard of; what the server answers, or that it does not.
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
