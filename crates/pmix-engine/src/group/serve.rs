// SPDX-License-Identifier: MIT OR Apache-2.0
//! The requests about groups.

use pmix_proto::request;
use pmix_types::{DataArray, Info, IntoOwned, Nspace, Proc, Status, Text, Value, keys};

use super::known::{Groups, KnownGroup};
use super::members::Members;
use super::membership::MAX_LISTED;
use crate::Error;
use crate::collective::{Collective, GroupCall, Participants};
use crate::cx::Cx;
use crate::events::Notification;
use crate::infos::{value, with_user};
use crate::obeyed;
use crate::peers::{Member, Ticket};

/// The infos of a construct that the server sets itself.
const OF_SERVER: [&str; 2] = [keys::GROUP_MEMBERSHIP, keys::PROCID];

/// The directives of a destruct that were decided at the construct.
const DECIDED: [&str; 2] = [keys::GROUP_NOTIFY_TERMINATION, keys::GROUP_OPTIONAL];

/// Checks that the server drops no required directive.
fn check_dropped(function: &str, infos: &[Info<'_>], dropped: &[&str]) -> Result<(), Error> {
    let is_dropped = |info: &&Info<'_>| dropped.iter().any(|key| info.key.is(*key));
    let mut infos = infos.iter().filter(is_dropped);
    infos.try_for_each(|info| obeyed::check(function, std::slice::from_ref(info)))
}

impl Groups {
    /// Handles GROUP_CONSTRUCT. A caller that does not list the other members makes a separate call to the host, which
    /// determines the membership.
    pub(crate) fn construct(
        &self,
        cx: &mut Cx,
        ticket: Ticket,
        request: &request::GroupConstruct<'_>,
    ) -> Option<GroupCall> {
        match self.check_construct(cx, &ticket, request) {
            Ok((name, caller, user)) => {
                let room = self.check_room(cx, &caller.nspace, &name, &request.procs);
                let own = std::slice::from_ref(&caller);
                // A limit does not refuse a call that others wait for, because they would never get a reply.
                let refusal = room.and_then(|()| self.check_memberships(cx, own));
                let mut infos = with_user(&request.infos, user);
                let own = OF_SERVER;
                // A process must not set these keys itself.
                infos.retain(|info| !own.iter().any(|key| info.key.is(key)));
                for info in &mut infos {
                    name_member(info, &caller);
                }
                let role = role(request);
                if role == Role::Added {
                    // Processes under libraries up to 5.0 pass it only because these reject an empty list.
                    infos.retain(|info| !info.key.is(keys::GROUP_BOOTSTRAP));
                } else {
                    let list = Value::DataArray(DataArray::Proc(Proc::owned_list(&request.procs)));
                    infos.push(Info::new(keys::GROUP_MEMBERSHIP, list));
                }
                let procs = match role {
                    Role::Member => Proc::owned_list(&request.procs),
                    Role::Leader | Role::Added => {
                        infos.push(Info::new(keys::PROCID, caller.clone()));
                        vec![caller]
                    }
                };
                Some(GroupCall {
                    ticket,
                    collective: (Collective::GroupConstruct, Some(name)),
                    procs,
                    not_awaited: Vec::new(),
                    has_lost: false,
                    infos,
                    refusal: refusal.err(),
                })
            }
            Err(error) => {
                cx.reply_error(ticket, &error);
                None
            }
        }
    }

    fn check_construct(
        &self,
        cx: &Cx,
        ticket: &Ticket,
        request: &request::GroupConstruct<'_>,
    ) -> Result<(Text<'static>, Proc<'static>, (u32, u32)), Error> {
        let member = client(cx, ticket)?;
        check_dropped("PMIx_Group_construct", &request.infos, &OF_SERVER)?;
        let name = self.check_name(cx, &member.proc, request.group.as_ref())?;
        match role(request) {
            Role::Member => Members::check(&request.procs)?,
            Role::Leader | Role::Added => {
                let is_own = |proc: &Proc<'_>| *proc == member.proc;
                if request.procs.len() > 1 || !request.procs.iter().all(is_own) {
                    return Err(Error::bad(
                        "the leader and added members of a group must pass only themselves as participants",
                    ));
                }
            }
        }
        let is_wrong = |info: &Info<'_>| {
            info.key.is(keys::GROUP_INFO)
                && !matches!(info.value, Value::DataArray(DataArray::Info(_)))
        };
        if request.infos.iter().any(is_wrong) {
            let message = format!("{} must be an array of infos", keys::GROUP_INFO);
            return Err(Error::new(Status::ERR_TYPE_MISMATCH, message));
        }
        for key in [keys::GROUP_ADD_MEMBERS, keys::GROUP_FINAL_MEMBERSHIP_ORDER] {
            let listed = match value(&request.infos, key) {
                None => continue,
                Some(Value::DataArray(DataArray::Proc(procs))) if !procs.is_empty() => procs,
                Some(_) => {
                    let message = format!("{key} must be a non-empty array of processes");
                    return Err(Error::bad(message));
                }
            };
            let size = |nspace: &Nspace<'_>| cx.readable_size(member, nspace);
            let is_here = |nspace: &Nspace<'_>, rank| cx.registry.find(nspace, rank).is_some();
            Participants::of(listed, &member.proc.nspace, size, is_here)?;
        }
        Ok((name.clone().into_owned(), member.proc.clone(), member.user))
    }

    /// Checks that a process may construct a group with this name.
    pub(super) fn check_name<'n, 'a>(
        &self,
        cx: &Cx,
        caller: &Proc<'_>,
        name: Option<&'n Text<'a>>,
    ) -> Result<&'n Text<'a>, Error> {
        let name = name.filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| Error::bad("a group without a name"))?;
        let (len, most) = (name.len(), Nspace::MAX_LEN);
        if len > most {
            return Err(Error::bad(format!(
                "the name of a group has {len} bytes, more than {most}"
            )));
        }
        let nspace = Nspace::new(name.as_bytes());
        if is_job(cx, &nspace) {
            return Err(Error::bad(format!(
                "{name} is the nspace of a job and cannot be the name of a group"
            )));
        }
        match self.of(name.as_bytes(), caller) {
            Some(_) => Err(Error::new(
                Status::ERR_EXISTS,
                format!("the caller is already in a group {name}"),
            )),
            None => Ok(name),
        }
    }

    /// Handles GROUP_DESTRUCT. Clients of 4.2 do not list the members, and the list of 5.0 is not needed.
    pub(crate) fn destruct(
        &self,
        cx: &mut Cx,
        ticket: Ticket,
        request: &request::GroupDestruct<'_>,
    ) -> Option<GroupCall> {
        let checked = check_dropped("PMIx_Group_destruct", &request.infos, &DECIDED);
        let own = checked.and_then(|()| self.own(cx, &ticket, request.group.as_ref()));
        match own {
            Ok((_, group)) => {
                let mut infos = request.infos.clone().into_owned();
                infos.retain(|info| !DECIDED.iter().any(|key| info.key.is(key)));
                if group.notifies {
                    infos.push(Info::new(keys::GROUP_NOTIFY_TERMINATION, true));
                }
                let name = group.name.clone();
                Some(GroupCall {
                    ticket,
                    collective: (Collective::GroupDestruct, Some(name)),
                    procs: group.members.list().to_vec(),
                    not_awaited: group.members.not_awaited(group.notifies),
                    has_lost: !group.notifies && group.members.any_lost_here(cx),
                    infos,
                    refusal: None,
                })
            }
            Err(error) => {
                cx.reply_error(ticket, &error);
                None
            }
        }
    }

    /// Handles GROUP_LEAVE: replies to the caller and notifies the others.
    pub(crate) fn leave(
        &mut self,
        cx: &mut Cx,
        ticket: Ticket,
        request: &request::GroupLeave<'_>,
    ) -> Option<Notification> {
        let (id, caller) = match self.own(cx, &ticket, request.group.as_ref()) {
            Ok((id, _)) => (id, cx.member(&ticket).map(|member| member.proc.clone())),
            Err(error) => {
                cx.reply_error(ticket, &error);
                return None;
            }
        };
        cx.reply_status(ticket, Status::SUCCESS);
        let mut room = MAX_LISTED;
        self.member_leaves(cx, id, &caller.ok()?, Status::GROUP_LEFT, &mut room)
    }

    /// Returns the group with a name that the caller is a member of.
    fn own(
        &self,
        cx: &Cx,
        ticket: &Ticket,
        name: Option<&Text<'_>>,
    ) -> Result<(u64, &KnownGroup), Error> {
        let member = client(cx, ticket)?;
        let name = name.ok_or_else(|| Error::bad("a group without a name"))?;
        let found = self.of(name.as_bytes(), &member.proc);
        found.ok_or_else(|| Error::not_found(format!("the caller is not in a group {name}")))
    }
}

/// Returns `true` if a name is that of a job, which takes precedence over a group with that name.
pub(super) fn is_job(cx: &Cx, name: &Nspace<'_>) -> bool {
    cx.store.job(name).is_some() || cx.registry.job(name).is_some()
}

/// Returns the calling process.
pub(super) fn client<'c>(cx: &'c Cx, ticket: &Ticket) -> Result<&'c Member, Error> {
    let member = cx.member(ticket)?;
    match member.client {
        Some(_) => Ok(member),
        None => Err(Error::denied("tools cannot be members of groups")),
    }
}

/// Puts the name of a member before its shared infos.
fn name_member(info: &mut Info<'static>, member: &Proc<'static>) {
    if let Value::DataArray(DataArray::Info(infos)) = &mut info.value
        && info.key.is(keys::GROUP_INFO)
    {
        // A process must not share infos in the name of another member.
        infos.retain(|info| !info.key.is(keys::PROCID));
        infos.insert(0, Info::new(keys::PROCID, member.clone()));
    }
}

/// The role of a process in a construct.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// A member that all callers list.
    Member,
    /// A bootstrap leader, which does not list the other leaders.
    Leader,
    /// A process that leaders add.
    Added,
}

/// Returns the role that a process requests in a construct.
///
/// DEVIATION: a process that lists itself with `PMIX_GROUP_BOOTSTRAP` 0 waits to be added by leaders, as one with an
/// empty list does in OpenPMIx 6; libraries up to 5.0 refuse an empty list before they send the request;
/// `the_host_gets_the_callers`.
fn role(request: &request::GroupConstruct<'_>) -> Role {
    let count = value(&request.infos, keys::GROUP_BOOTSTRAP);
    match count.map(|count| count.to_number::<u64>()) {
        _ if request.procs.is_empty() => Role::Added,
        Some(Ok(0)) => Role::Added,
        Some(_) => Role::Leader,
        None => Role::Member,
    }
}
