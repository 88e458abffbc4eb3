// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups of the blocking client.

use std::time::{Duration, Instant};

use pmix_proto::{Event, Request, reply, request};
use pmix_types::{Info, IntoOwned as _, Proc, Rank, Status, Text, Value, keys};

use super::said::{bad, check_name, invitation, value};
use super::{Group, HEARD, OpId, Step};
use crate::connection::Deadline;
use crate::{Client, Error};

/// The most processes that one call may name, whole jobs written out.
const MAX_PROCS: usize = 1 << 20;

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
        let request = Request::GroupConstruct(request::GroupConstruct {
            group: Some(name.into()),
            procs: procs.to_vec(),
            infos: infos.to_vec(),
        });
        let payload = self.request(&request)?;
        let made = reply::Group::decode(self.form(), None, &payload)?;
        let group = Group::constructed(Text::from(name).into_owned(), made, request.command())?;
        self.groups.learn(&group);
        Ok(group)
    }

    /// Leaves a group; the other members are told (`PMIx_Group_leave`).
    ///
    /// # Errors
    ///
    /// What the server answers, or that it does not: `PMIX_ERR_NOT_FOUND` if this process is in no
    /// such group.
    pub fn group_leave(&mut self, name: &str, infos: &[Info<'_>]) -> Result<(), Error> {
        self.groups.forget(&name.into());
        self.done(&Request::GroupLeave(request::GroupLeave {
            group: Some(name.into()),
            infos: infos.to_vec(),
        }))
    }

    /// Joins the destruction of a group; all of its members must (`PMIx_Group_destruct`).
    ///
    /// # Errors
    ///
    /// What the server answers, or that it does not: `PMIX_ERR_NOT_FOUND` if this process is in no
    /// such group, `PMIX_ERR_TIMEOUT`, `PMIX_ERR_LOST_CONNECTION` if a member is lost.
    pub fn group_destruct(&mut self, name: &str, infos: &[Info<'_>]) -> Result<(), Error> {
        let procs = self.groups.forget(&name.into());
        self.done(&Request::GroupDestruct(request::GroupDestruct {
            group: Some(name.into()),
            procs,
            infos: infos.to_vec(),
        }))
    }

    /// Invites processes to a group that this one leads, and waits until all have answered
    /// (`PMIx_Group_invite`). This process is among them; whole jobs are allowed.
    ///
    /// Directives: `pmix.timeout` is how many seconds to wait, [`Settings::time_limit`] at the most;
    /// with `pmix.grp.opt` the group is formed without those who decline or are lost;
    /// `pmix.grp.notterm` has the loss of members told later on.
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
        let name = Text::from(name).into_owned();
        let op = self.groups.invite(&name, procs, infos, end.at())?;
        self.drive(op, end)
    }

    /// Accepts the invitation of a leader, and waits until the group is formed (`PMIx_Group_join`). It
    /// came as the event `PMIX_GROUP_INVITED`, whose source is the leader.
    ///
    /// Directive: `pmix.timeout` is how many seconds to wait, [`Settings::time_limit`] at the most.
    ///
    /// # Errors
    ///
    /// `PMIX_GROUP_CONSTRUCT_ABORT` if the group is not formed, or without this process;
    /// `PMIX_GROUP_LEADER_FAILED` if the leader is lost; `PMIX_ERR_TIMEOUT`; `PMIX_ERR_BAD_PARAM` for a
    /// bad name or leader; what the server answers, or that it does not.
    ///
    /// [`Settings::time_limit`]: crate::Settings::time_limit
    pub fn group_join(
        &mut self,
        name: &str,
        leader: &Proc<'_>,
        infos: &[Info<'_>],
    ) -> Result<Group, Error> {
        let end = self.group_end(infos)?;
        let (name, leader) = (Text::from(name).into_owned(), leader.clone().into_owned());
        let op = self.groups.join(&name, &leader, end.at())?;
        self.drive(op, end)
    }

    /// Declines the invitation of a leader (`PMIx_Group_join`).
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` for a bad name; what the server answers, or that it does not.
    pub fn group_decline(&mut self, name: &str, leader: &Proc<'_>) -> Result<(), Error> {
        let (name, leader) = (Text::from(name).into_owned(), leader.clone().into_owned());
        check_name(&name)?;
        let declined = invitation(Status::GROUP_INVITE_DECLINED, &name, &leader);
        self.done(&Request::Notify(declined))
    }

    fn group_end(&self, infos: &[Info<'_>]) -> Result<Deadline, Error> {
        let limit = limit(infos)?.and_then(|limit| Instant::now().checked_add(limit));
        Ok(self.end().or_before(limit))
    }

    /// Goes on with an operation until it has ended.
    fn drive(&mut self, op: OpId, end: Deadline) -> Result<Group, Error> {
        if !self.hears_groups {
            match self.register_events(&HEARD, &[]) {
                Err(error) if !hears_all_the_same(&error) => self.groups.lose(&error),
                _ => self.hears_groups = true,
            }
        }
        loop {
            while let Some(step) = self.groups.poll() {
                match step {
                    Step::Notify(of, event) => {
                        let sent = self.done(&Request::Notify(event));
                        if let Some(of) = of {
                            self.groups.sent(of, sent);
                        }
                    }
                    Step::Leave(name) => self.leave_late(name),
                    // Nobody can be asked while this call waits.
                    Step::Ask(question, _) => self.groups.decide(&question, None),
                    Step::Tell(event) => self.connection.keep(event),
                    Step::End(ended, outcome) if ended == op => return outcome,
                    Step::End(..) => {}
                }
            }
            let groups = &self.groups;
            let heard = self.connection.event_of(end, |event| groups.wants(event));
            match heard {
                Ok(Some(event)) => _ = self.groups.hear(&event),
                Ok(None) => self.groups.tick(Instant::now()),
                Err(error) => self.groups.lose(&error),
            }
        }
    }
}

impl Client {
    /// Leaves a group that was formed after this process had given it up.
    fn leave_late(&mut self, name: Text<'static>) {
        let leave = Request::GroupLeave(request::GroupLeave {
            group: Some(name),
            infos: Vec::new(),
        });
        // Who is out of the group already need not leave it.
        if let Err(error) = self.done(&leave) {
            tracing::debug!("a group that was given up is not left: {error}");
        }
    }

    /// Takes in an event that comes while no invitation is waited for.
    pub(crate) fn hear_late(&mut self, event: &Event<'static>) {
        if self.groups.wants(event) {
            self.groups.hear(event);
        }
        while let Some(step) = self.groups.poll() {
            if let Step::Leave(name) = step {
                self.leave_late(name);
            }
        }
    }
}

/// Whether a refused registration is as good as another: a host that does not report events leaves
/// those of the processes.
pub(crate) fn hears_all_the_same(error: &Error) -> bool {
    error.status() == Status::ERR_NOT_SUPPORTED
}

/// How long a call may wait, if it says so.
///
/// # Errors
///
/// `PMIX_ERR_BAD_PARAM` for a time that is no number of seconds.
pub(crate) fn limit(infos: &[Info<'_>]) -> Result<Option<Duration>, Error> {
    let Some(said) = value(infos, keys::TIMEOUT) else {
        return Ok(None);
    };
    let seconds = said.to_number::<u32>();
    let seconds = seconds.map_err(|_| bad("PMIX_TIMEOUT is no number of seconds"))?;
    Ok((seconds > 0).then(|| Duration::from_secs(seconds.into())))
}

/// Writes whole jobs out, whose sizes `size` tells.
///
/// # Errors
///
/// What `size` answers; `PMIX_ERR_BAD_PARAM` for a rank that no process has;
/// `PMIX_ERR_OUT_OF_RESOURCE` for more than 1,048,576 processes.
pub(crate) fn each(
    procs: &[Proc<'_>],
    mut size: impl FnMut(&Proc<'_>) -> Result<Value<'static>, Error>,
) -> Result<Vec<Proc<'static>>, Error> {
    let mut each = Vec::with_capacity(procs.len());
    for proc in procs {
        let (first, count) = match proc.rank {
            Rank::WILDCARD => {
                let size = size(proc)?.to_number::<u32>();
                (0, size.map_err(|_| bad("the size of a job is no number"))?)
            }
            rank if rank.is_valid() => (rank.as_raw(), 1),
            rank => return Err(bad(format!("rank {rank} is no process to invite"))),
        };
        let len = usize::try_from(count).unwrap_or(usize::MAX);
        if len > MAX_PROCS.saturating_sub(each.len()) {
            let message = format!("more than {MAX_PROCS} processes are invited");
            return Err(Error::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        let nspace = proc.nspace.to_shared();
        let ranks = first..first.saturating_add(count);
        each.extend(ranks.map(|rank| Proc::new(nspace.clone(), Rank::new(rank))));
    }
    Ok(each)
}
