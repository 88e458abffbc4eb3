// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups: formed by a collective or by invitation, left and taken apart.

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

/// What the function of C says: the name, the processes and the directives.
type Said = (Text<'static>, Vec<Proc<'static>>, Vec<Info<'static>>);

/// # Safety
/// They are NULL or valid, as C says.
unsafe fn said(
    group: *const c_char,
    procs: *const pmix_proc_t,
    nprocs: usize,
    info: *const pmix_info_t,
    ninfo: usize,
) -> Result<Said> {
    // SAFETY: the caller says so.
    unsafe {
        Ok((
            text_at(group)?,
            procs_at(procs, nprocs)?,
            infos_at(info, ninfo)?,
        ))
    }
}

/// Waits for a group and hands out what is known of it. Programs that want to know nothing give no room.
///
/// # Safety
/// The pointers are NULL or lead to room for one each.
unsafe fn wait_group(
    results: *mut *mut pmix_info_t,
    nresults: *mut usize,
    wait: impl FnOnce(&SharedClient) -> Result<Outcome>,
) -> Result<()> {
    // SAFETY: the caller says so.
    unsafe { clear_out(results, nresults) };
    let group = wait(&client()?)?.map_err(|error| fault(&error))?;
    match results.is_null() || nresults.is_null() {
        true => Ok(()),
        // SAFETY: the caller says so.
        false => unsafe { hand_out(&group.into_infos(), results, nresults) },
    }
}

/// What calls back with a group.
fn group(
    cbfunc: pmix_info_cbfunc_t,
    cbdata: *mut c_void,
) -> Result<impl FnOnce(Outcome) + Send + 'static> {
    let then = infos(cbfunc, cbdata)?;
    Ok(move |made: Outcome| then(made.map(|group| (Status::SUCCESS, group.into_infos()))))
}

/// Who leads, if that is said, and whether the invitation is accepted.
///
/// # Safety
/// It is NULL or valid.
unsafe fn answer(
    leader: *const pmix_proc_t,
    opt: pmix_group_opt_t,
) -> Result<(Option<Proc<'static>>, bool)> {
    // SAFETY: the caller says so.
    let leader = unsafe { proc_at(leader) };
    match GroupOption::from_raw(opt) {
        GroupOption::ACCEPT => Ok((leader, true)),
        GroupOption::DECLINE => Ok((leader, false)),
        _ => Err(Status::ERR_BAD_PARAM),
    }
}

/// Who invited to a group: whom the program names, or else whom the library heard of.
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

/// How the construction of a group is to go on, if a handler says so: by its status, by
/// `PMIX_GROUP_ADD_MEMBERS`, `PMIX_GROUP_LEADER` or `PMIX_GROUP_OPTIONAL` among its results.
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
    // Programs name themselves, or say that it is so.
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

/// The program reported that a group is not to be formed: what waits for that group ends.
pub(crate) fn aborted(client: &SharedClient, infos: &[Info<'_>]) {
    let name = infos.iter().find(|info| info.key.is(keys::GROUP_ID));
    if let Some(Value::String(Some(name))) = name.map(|info| &info.value) {
        client.group_abort(name);
    }
}

exported! {
    fn PMIx_Group_construct(grp: *const c_char, procs: *const pmix_proc_t, nprocs: usize, directives: *const pmix_info_t, ndirs: usize, results: *mut *mut pmix_info_t, nresults: *mut usize) -> pmix_status_t {
        // SAFETY: C says so.
        code(unsafe { wait_group(results, nresults, |client| {
            let (name, procs, infos) = said(grp, procs, nprocs, directives, ndirs)?;
            Ok(client.wait(Ask::group_construct(name, procs, infos)))
        }) })
    }

    fn PMIx_Group_construct_nb(grp: *const c_char, procs: *const pmix_proc_t, nprocs: usize, info: *const pmix_info_t, ninfo: usize, cbfunc: pmix_info_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        code((|| {
            let client = client()?;
            // SAFETY: C says so.
            let (name, procs, infos) = unsafe { said(grp, procs, nprocs, info, ninfo)? };
            let ask = Ask::group_construct(name, procs, infos);
            client.start(ask, group(cbfunc, cbdata)?).map_err(|error| fault(&error))
        })())
    }

    fn PMIx_Group_invite(grp: *const c_char, procs: *const pmix_proc_t, nprocs: usize, info: *const pmix_info_t, ninfo: usize, results: *mut *mut pmix_info_t, nresult: *mut usize) -> pmix_status_t {
        // SAFETY: C says so.
        code(unsafe { wait_group(results, nresult, |client| {
            let (name, procs, infos) = said(grp, procs, nprocs, info, ninfo)?;
            Ok(client.group_invite(&name, &procs, &infos))
        }) })
    }

    fn PMIx_Group_invite_nb(grp: *const c_char, procs: *const pmix_proc_t, nprocs: usize, info: *const pmix_info_t, ninfo: usize, cbfunc: pmix_info_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        code((|| {
            let client = client()?;
            // SAFETY: C says so.
            let (name, procs, infos) = unsafe { said(grp, procs, nprocs, info, ninfo)? };
            let then = group(cbfunc, cbdata)?;
            client.start_group_invite(&name, &procs, &infos, then).map_err(|error| fault(&error))
        })())
    }

    fn PMIx_Group_join(grp: *const c_char, leader: *const pmix_proc_t, opt: pmix_group_opt_t, info: *const pmix_info_t, ninfo: usize, results: *mut *mut pmix_info_t, nresult: *mut usize) -> pmix_status_t {
        code((|| {
            // SAFETY: C says so.
            unsafe { clear_out(results, nresult) };
            let client = client()?;
            // SAFETY: as above.
            let (name, (leader, accepts)) = unsafe { (text_at(grp)?, answer(leader, opt)?) };
            // SAFETY: as above.
            let directives = unsafe { infos_at(info, ninfo)? };
            check_required("PMIx_Group_join", &directives)?;
            if !accepts {
                let leader = inviter(&client, &name, leader)?;
                return client.wait(Ask::group_decline(&name, &leader)).map_err(|error| fault(&error));
            }
            // SAFETY: as above.
            unsafe { wait_group(results, nresult, |client| {
                Ok(client.group_join(&name, leader.as_ref(), &directives))
            }) }
        })())
    }

    fn PMIx_Group_join_nb(grp: *const c_char, leader: *const pmix_proc_t, opt: pmix_group_opt_t, info: *const pmix_info_t, ninfo: usize, cbfunc: pmix_info_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        code((|| {
            let client = client()?;
            // SAFETY: C says so.
            let (name, (leader, accepts)) = unsafe { (text_at(grp)?, answer(leader, opt)?) };
            // SAFETY: as above.
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
            // SAFETY: C says so.
            let ask = unsafe { Ask::group_leave(text_at(grp)?, infos_at(info, ninfo)?) };
            client.wait(ask).map_err(|error| fault(&error))
        })())
    }

    fn PMIx_Group_leave_nb(grp: *const c_char, info: *const pmix_info_t, ninfo: usize, cbfunc: pmix_op_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        code((|| {
            let client = client()?;
            // SAFETY: C says so.
            let ask = unsafe { Ask::group_leave(text_at(grp)?, infos_at(info, ninfo)?) };
            client.start(ask, op(cbfunc, cbdata)?).map_err(|error| fault(&error))
        })())
    }

    fn PMIx_Group_destruct(grp: *const c_char, info: *const pmix_info_t, ninfo: usize) -> pmix_status_t {
        code((|| {
            let client = client()?;
            // SAFETY: C says so.
            let ask = unsafe { client.group_destruct(text_at(grp)?, infos_at(info, ninfo)?) };
            client.wait(ask).map_err(|error| fault(&error))
        })())
    }

    fn PMIx_Group_destruct_nb(grp: *const c_char, info: *const pmix_info_t, ninfo: usize, cbfunc: pmix_op_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        code((|| {
            let client = client()?;
            // SAFETY: C says so.
            let ask = unsafe { client.group_destruct(text_at(grp)?, infos_at(info, ninfo)?) };
            client.start(ask, op(cbfunc, cbdata)?).map_err(|error| fault(&error))
        })())
    }
}
