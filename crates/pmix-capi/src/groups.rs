// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups: construct, invite, join, leave and destruct.

use pmix_client::{Answers, Client, Decision, Error, Group};
use pmix_types::{DataArray, GroupOption, Info, Proc, Status, Text, Value, keys};

use crate::abi::*;
use crate::args::{self, Callback, Infos, Maybe, OutList, Procs};
use crate::convert::{check_required, fault};
use crate::guard::exported;
use crate::memory::Result;
use crate::replies;
use crate::state::client;

type Outcome = std::result::Result<Group, Error>;

/// Returns the infos of a group for a callback.
fn infos_of(outcome: Outcome) -> Result<Answers> {
    let group = outcome.map_err(|error| fault(&error))?;
    Ok((Status::SUCCESS, group.into_infos()))
}

/// Returns a function that delivers a group to a callback.
fn deliver(
    callback: crate::callback::Callback<pmix_info_cbfunc_t>,
) -> impl FnOnce(Outcome) + Send + 'static {
    move |outcome| callback.complete(infos_of(outcome))
}

/// Returns `true` if the option of a join accepts the invitation.
fn accepts(option: GroupOption) -> Result<bool> {
    match option {
        GroupOption::ACCEPT => Ok(true),
        GroupOption::DECLINE => Ok(false),
        _ => Err(Status::ERR_BAD_PARAM),
    }
}

/// Returns the leader that the program names, or else the one from the invitation that this client received.
fn inviter(
    client: &Client,
    name: &Text<'_>,
    leader: Option<Proc<'static>>,
) -> Result<Proc<'static>> {
    match leader {
        Some(leader) => Ok(leader),
        None => client.invited_by(name).map_err(|error| fault(&error)),
    }
}

/// Returns the decision of an event handler about a group construct, if its results have one. It is the status
/// `PMIX_GROUP_CONSTRUCT_ABORT`, or `PMIX_GROUP_ADD_MEMBERS`, `PMIX_GROUP_LEADER` or `PMIX_GROUP_OPTIONAL`.
pub(crate) fn decision(status: Status, results: &[Info<'static>]) -> Option<Decision> {
    if status == Status::GROUP_CONSTRUCT_ABORT {
        return Some(Decision::Abort);
    }
    let found = |key: &str| results.iter().find(|info| info.key.is(key));
    if let Some(info) = found(keys::GROUP_ADD_MEMBERS)
        && let Value::DataArray(DataArray::Proc(procs)) = &info.value
    {
        return Some(Decision::Invite(procs.clone()));
    }
    // `PMIX_GROUP_LEADER` is a process or a Boolean, depending on the program.
    if let Some(info) = found(keys::GROUP_LEADER)
        && (matches!(info.value, Value::Proc(_)) || info.truth().is_true())
    {
        return Some(Decision::Lead);
    }
    let optional = found(keys::GROUP_OPTIONAL)?;
    Some(match optional.truth().is_true() {
        true => Decision::GoOnWithout,
        false => Decision::Abort,
    })
}

/// Aborts the invitation or join of a group whose construct the program reports as aborted. Returns `true` if there is
/// one; its participants are then notified.
pub(crate) fn abort(client: &Client, infos: &[Info<'_>]) -> bool {
    let name = infos.iter().find(|info| info.key.is(keys::GROUP_ID));
    match name.map(|info| &info.value) {
        Some(Value::String(Some(name))) => client.group_abort(name),
        _ => false,
    }
}

exported! {
    fn PMIx_Group_construct(client = client()?; grp: args::Text, (procs, nprocs): Procs, (directives, ndirs): Infos, (results, nresults): OutList<Info<'static>>) -> pmix_status_t {
        let group = replies::wait(client.group_construct(grp, procs, directives))?;
        results.write(&group.into_infos())
    }

    fn PMIx_Group_construct_nb(client = client()?; grp: args::Text, (procs, nprocs): Procs, (info, ninfo): Infos, (cbfunc, cbdata): Callback<pmix_info_cbfunc_t>) -> pmix_status_t {
        client.group_construct(grp, procs, info).start(deliver(cbfunc)).map_err(|error| fault(&error))
    }

    fn PMIx_Group_invite(client = client()?; grp: args::Text, (procs, nprocs): Procs, (info, ninfo): Infos, (results, nresult): OutList<Info<'static>>) -> pmix_status_t {
        let group = client.group_invite(grp, procs, info).wait().map_err(|error| fault(&error))?;
        results.write(&group.into_infos())
    }

    fn PMIx_Group_invite_nb(client = client()?; grp: args::Text, (procs, nprocs): Procs, (info, ninfo): Infos, (cbfunc, cbdata): Callback<pmix_info_cbfunc_t>) -> pmix_status_t {
        client.group_invite(grp, procs, info).start(deliver(cbfunc)).map_err(|error| fault(&error))
    }

    fn PMIx_Group_join(client = client()?; grp: args::Text, leader: Maybe<args::Proc>, opt: GroupOption, (info, ninfo): Infos, (results, nresult): OutList<Info<'static>>) -> pmix_status_t {
        let accepts = accepts(opt)?;
        check_required("PMIx_Group_join", &info)?;
        if !accepts {
            let leader = inviter(&client, &grp, leader)?;
            return client.group_decline(grp, &leader).wait().map_err(|error| fault(&error));
        }
        let group = client.group_join(grp, leader.as_ref(), info).wait().map_err(|error| fault(&error))?;
        results.write(&group.into_infos())
    }

    fn PMIx_Group_join_nb(client = client()?; grp: args::Text, leader: Maybe<args::Proc>, opt: GroupOption, (info, ninfo): Infos, (cbfunc, cbdata): Callback<pmix_info_cbfunc_t>) -> pmix_status_t {
        let accepts = accepts(opt)?;
        check_required("PMIx_Group_join", &info)?;
        let begun = match accepts {
            true => client.group_join(grp, leader.as_ref(), info).start(deliver(cbfunc)),
            false => {
                let declined = move |sent: std::result::Result<(), Error>| {
                    let sent = sent.map_err(|error| fault(&error));
                    cbfunc.complete(sent.map(|()| (Status::SUCCESS, Vec::new())));
                };
                let leader = inviter(&client, &grp, leader)?;
                client.group_decline(grp, &leader).start(declined)
            }
        };
        begun.map_err(|error| fault(&error))
    }

    fn PMIx_Group_leave(client = client()?; grp: args::Text, (info, ninfo): Infos) -> pmix_status_t {
        replies::wait(client.group_leave(grp, info))
    }

    fn PMIx_Group_leave_nb(client = client()?; grp: args::Text, (info, ninfo): Infos, (cbfunc, cbdata): Callback<pmix_op_cbfunc_t>) -> pmix_status_t {
        replies::call_back(client.group_leave(grp, info), cbfunc)
    }

    fn PMIx_Group_destruct(client = client()?; grp: args::Text, (info, ninfo): Infos) -> pmix_status_t {
        client.group_destruct(grp, info).wait().map_err(|error| fault(&error))
    }

    fn PMIx_Group_destruct_nb(client = client()?; grp: args::Text, (info, ninfo): Infos, (cbfunc, cbdata): Callback<pmix_op_cbfunc_t>) -> pmix_status_t {
        replies::call_back(client.group_destruct(grp, info), cbfunc)
    }
}
