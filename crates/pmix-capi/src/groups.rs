// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups: construct, invite, join, leave and destruct.

use std::ffi::{c_char, c_void};

use pmix_client::{Ask, Decision, Error, Group, SharedClient};
use pmix_types::{DataArray, GroupOption, Info, Proc, Status, Text, Value, keys};

use crate::abi::*;
use crate::answers::{infos, op};
use crate::convert::{check_required, clear_out, fault, hand_out, infos_at, procs_at, text_at};
use crate::guard::exported;
use crate::memory::Result;
use crate::names::proc_at;
use crate::state::client;
use crate::status::code;

type Outcome = std::result::Result<Group, Error>;

/// The arguments of a group function: the name, the processes and the directives.
type Said = (Text<'static>, Vec<Proc<'static>>, Vec<Info<'static>>);

/// Reads the arguments of a group function.
///
/// # Safety
/// `group` is NULL or a string, and each array is NULL or has as many valid elements as its count says.
unsafe fn said(
    group: *const c_char,
    procs: *const pmix_proc_t,
    nprocs: usize,
    info: *const pmix_info_t,
    ninfo: usize,
) -> Result<Said> {
    // SAFETY: the caller guarantees that the string and the arrays are NULL or valid.
    unsafe {
        Ok((
            text_at(group)?,
            procs_at(procs, nprocs)?,
            infos_at(info, ninfo)?,
        ))
    }
}

/// Waits for a group and writes its infos to the caller's pointers. A NULL pointer means that the caller does not
/// want them.
///
/// # Safety
/// Each pointer is NULL or valid for writes.
unsafe fn wait_group(
    results: *mut *mut pmix_info_t,
    nresults: *mut usize,
    wait: impl FnOnce(&SharedClient) -> Result<Outcome>,
) -> Result<()> {
    // SAFETY: the caller guarantees that each pointer is NULL or valid for writes.
    unsafe { clear_out(results, nresults) };
    let group = wait(&client()?)?.map_err(|error| fault(&error))?;
    match results.is_null() || nresults.is_null() {
        true => Ok(()),
        // SAFETY: the caller guarantees that both pointers, which are not NULL here, are valid for writes.
        false => unsafe { hand_out(&group.into_infos(), results, nresults) },
    }
}

/// Returns a function that calls `cbfunc` with the infos of a group.
fn group(
    cbfunc: pmix_info_cbfunc_t,
    cbdata: *mut c_void,
) -> Result<impl FnOnce(Outcome) + Send + 'static> {
    let then = infos(cbfunc, cbdata)?;
    Ok(move |made: Outcome| then(made.map(|group| (Status::SUCCESS, group.into_infos()))))
}

/// Reads the answer to an invitation: the leader, if named, and `true` for an acceptance.
///
/// # Safety
/// `leader` is NULL or points to a valid process.
unsafe fn answer(
    leader: *const pmix_proc_t,
    opt: pmix_group_opt_t,
) -> Result<(Option<Proc<'static>>, bool)> {
    // SAFETY: the caller guarantees that `leader` is NULL or valid.
    let leader = unsafe { proc_at(leader) };
    match GroupOption::from_raw(opt) {
        GroupOption::ACCEPT => Ok((leader, true)),
        GroupOption::DECLINE => Ok((leader, false)),
        _ => Err(Status::ERR_BAD_PARAM),
    }
}

/// Returns the leader that the program names, or else the one from the invitation that this client received.
fn inviter(
    client: &SharedClient,
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
pub(crate) fn decision(status: Status, said: &[Info<'static>]) -> Option<Decision> {
    if status == Status::GROUP_CONSTRUCT_ABORT {
        return Some(Decision::Abort);
    }
    let found = |key: &str| said.iter().find(|info| info.key.is(key));
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

/// Cancels the operations that wait for a group, after the program reported that its construct is aborted.
pub(crate) fn aborted(client: &SharedClient, infos: &[Info<'_>]) {
    let name = infos.iter().find(|info| info.key.is(keys::GROUP_ID));
    if let Some(Value::String(Some(name))) = name.map(|info| &info.value) {
        client.group_abort(name);
    }
}

exported! {
    fn PMIx_Group_construct(grp: *const c_char, procs: *const pmix_proc_t, nprocs: usize, directives: *const pmix_info_t, ndirs: usize, results: *mut *mut pmix_info_t, nresults: *mut usize) -> pmix_status_t {
        // SAFETY: the header requires each pointer to be NULL or valid, and each array to have as many elements as
        // its count says.
        code(unsafe { wait_group(results, nresults, |client| {
            let (name, procs, infos) = said(grp, procs, nprocs, directives, ndirs)?;
            Ok(client.wait(Ask::group_construct(name, procs, infos)))
        }) })
    }

    fn PMIx_Group_construct_nb(grp: *const c_char, procs: *const pmix_proc_t, nprocs: usize, info: *const pmix_info_t, ninfo: usize, cbfunc: pmix_info_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        code((|| {
            let client = client()?;
            // SAFETY: the header requires each pointer to be NULL or valid, and each array to have as many elements
            // as its count says.
            let (name, procs, infos) = unsafe { said(grp, procs, nprocs, info, ninfo)? };
            let ask = Ask::group_construct(name, procs, infos);
            client.start(ask, group(cbfunc, cbdata)?).map_err(|error| fault(&error))
        })())
    }

    fn PMIx_Group_invite(grp: *const c_char, procs: *const pmix_proc_t, nprocs: usize, info: *const pmix_info_t, ninfo: usize, results: *mut *mut pmix_info_t, nresult: *mut usize) -> pmix_status_t {
        // SAFETY: the header requires each pointer to be NULL or valid, and each array to have as many elements as
        // its count says.
        code(unsafe { wait_group(results, nresult, |client| {
            let (name, procs, infos) = said(grp, procs, nprocs, info, ninfo)?;
            Ok(client.group_invite(&name, &procs, &infos))
        }) })
    }

    fn PMIx_Group_invite_nb(grp: *const c_char, procs: *const pmix_proc_t, nprocs: usize, info: *const pmix_info_t, ninfo: usize, cbfunc: pmix_info_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        code((|| {
            let client = client()?;
            // SAFETY: the header requires each pointer to be NULL or valid, and each array to have as many elements
            // as its count says.
            let (name, procs, infos) = unsafe { said(grp, procs, nprocs, info, ninfo)? };
            let then = group(cbfunc, cbdata)?;
            client.start_group_invite(&name, &procs, &infos, then).map_err(|error| fault(&error))
        })())
    }

    fn PMIx_Group_join(grp: *const c_char, leader: *const pmix_proc_t, opt: pmix_group_opt_t, info: *const pmix_info_t, ninfo: usize, results: *mut *mut pmix_info_t, nresult: *mut usize) -> pmix_status_t {
        code((|| {
            // SAFETY: the header requires `results` and `nresult` to be NULL or valid for writes.
            unsafe { clear_out(results, nresult) };
            let client = client()?;
            // SAFETY: the header requires `grp` and `leader` to be NULL or valid for reads.
            let (name, (leader, accepts)) = unsafe { (text_at(grp)?, answer(leader, opt)?) };
            // SAFETY: the header requires each array to be NULL or to have as many valid elements as its count says.
            let directives = unsafe { infos_at(info, ninfo)? };
            check_required("PMIx_Group_join", &directives)?;
            if !accepts {
                let leader = inviter(&client, &name, leader)?;
                return client.wait(Ask::group_decline(&name, &leader)).map_err(|error| fault(&error));
            }
            // SAFETY: the header requires `results` and `nresult` to be NULL or valid for writes.
            unsafe { wait_group(results, nresult, |client| {
                Ok(client.group_join(&name, leader.as_ref(), &directives))
            }) }
        })())
    }

    fn PMIx_Group_join_nb(grp: *const c_char, leader: *const pmix_proc_t, opt: pmix_group_opt_t, info: *const pmix_info_t, ninfo: usize, cbfunc: pmix_info_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        code((|| {
            let client = client()?;
            // SAFETY: the header requires `grp` and `leader` to be NULL or valid for reads.
            let (name, (leader, accepts)) = unsafe { (text_at(grp)?, answer(leader, opt)?) };
            // SAFETY: the header requires each array to be NULL or to have as many valid elements as its count says.
            let directives = unsafe { infos_at(info, ninfo)? };
            check_required("PMIx_Group_join", &directives)?;
            let begun = match accepts {
                true => client.start_group_join(&name, leader.as_ref(), &directives, group(cbfunc, cbdata)?),
                false => {
                    let then = infos(cbfunc, cbdata)?;
                    let declined = move |sent: std::result::Result<(), Error>| {
                        then(sent.map(|()| (Status::SUCCESS, Vec::new())));
                    };
                    let leader = inviter(&client, &name, leader)?;
                    client.start(Ask::group_decline(&name, &leader), declined)
                }
            };
            begun.map_err(|error| fault(&error))
        })())
    }

    fn PMIx_Group_leave(grp: *const c_char, info: *const pmix_info_t, ninfo: usize) -> pmix_status_t {
        code((|| {
            let client = client()?;
            // SAFETY: the header requires each pointer to be NULL or valid, and each array to have as many elements
            // as its count says.
            let ask = unsafe { Ask::group_leave(text_at(grp)?, infos_at(info, ninfo)?) };
            client.wait(ask).map_err(|error| fault(&error))
        })())
    }

    fn PMIx_Group_leave_nb(grp: *const c_char, info: *const pmix_info_t, ninfo: usize, cbfunc: pmix_op_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        code((|| {
            let client = client()?;
            // SAFETY: the header requires each pointer to be NULL or valid, and each array to have as many elements
            // as its count says.
            let ask = unsafe { Ask::group_leave(text_at(grp)?, infos_at(info, ninfo)?) };
            client.start(ask, op(cbfunc, cbdata)?).map_err(|error| fault(&error))
        })())
    }

    fn PMIx_Group_destruct(grp: *const c_char, info: *const pmix_info_t, ninfo: usize) -> pmix_status_t {
        code((|| {
            let client = client()?;
            // SAFETY: the header requires each pointer to be NULL or valid, and each array to have as many elements
            // as its count says.
            let ask = unsafe { client.group_destruct(text_at(grp)?, infos_at(info, ninfo)?) };
            client.wait(ask).map_err(|error| fault(&error))
        })())
    }

    fn PMIx_Group_destruct_nb(grp: *const c_char, info: *const pmix_info_t, ninfo: usize, cbfunc: pmix_op_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        code((|| {
            let client = client()?;
            // SAFETY: the header requires each pointer to be NULL or valid, and each array to have as many elements
            // as its count says.
            let ask = unsafe { client.group_destruct(text_at(grp)?, infos_at(info, ninfo)?) };
            client.start(ask, op(cbfunc, cbdata)?).map_err(|error| fault(&error))
        })())
    }
}
