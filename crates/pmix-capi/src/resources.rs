// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fabrics, resource blocks and sessions: requests that the host of the server handles.

use std::ffi::{c_char, c_void};

use pmix_client::{Answers, Ask, Error};
use pmix_types::{
    DeviceType, ErrorDetail, FabricOperation, Info, Proc, ResourceBlockDirective, ResourceUnit,
    Status, Text, Value, keys,
};

use crate::abi::*;
use crate::answers::{infos, op};
use crate::convert::{Data, fault, hand_out, infos_at, text_at};
use crate::guard::exported;
use crate::later::later;
use crate::memory::{Result, slice};
use crate::record::{empty_list, there};
use crate::server::{CHost, To, own_host};
use crate::state::client;
use crate::status::code;

/// A request about a fabric.
enum Asked {
    /// Registers a fabric that matches directives.
    Register(Vec<Info<'static>>),
    /// Updates the information about the fabric with an index.
    Update(usize),
}

impl Asked {
    fn of_client(self) -> Ask<'static, Answers> {
        match self {
            Self::Register(infos) => Ask::fabric_register(infos),
            Self::Update(index) => Ask::fabric_update(index as u64),
        }
    }

    /// Calls the host of this process, which is a server.
    fn of_host(self, host: &CHost, own: &Proc<'static>, to: To<Vec<Info<'static>>>) {
        match self {
            Self::Register(infos) => host.fabric(own, FabricOperation::REQUEST_INFO, &infos, to),
            Self::Update(index) => {
                let index = Info::new(keys::FABRIC_INDEX, Value::Size(index as u64));
                host.fabric(own, FabricOperation::UPDATE_INFO, &[index], to);
            }
        }
    }
}

/// Stores the reply about a fabric in its structure, in place of its old content.
///
/// # Safety
/// `fabric` is NULL or points to a constructed structure, whose infos came from the C library.
unsafe fn keep(fabric: *mut pmix_fabric_t, (status, made): Answers) -> Result<()> {
    if !matches!(status, Status::SUCCESS | Status::OPERATION_SUCCEEDED) {
        return Err(status);
    }
    // SAFETY: the caller guarantees that `fabric` is NULL or valid.
    let fabric = unsafe { fabric.as_mut() }.ok_or(Status::ERR_BAD_PARAM)?;
    let index = made.iter().find(|info| info.key.is(keys::FABRIC_INDEX));
    let index = index.and_then(|info| info.value.to_number::<u64>().ok());
    if let Some(index) = index.and_then(|index| usize::try_from(index).ok()) {
        fabric.index = index;
    }
    // SAFETY: the caller guarantees that the infos of the structure came from the C library.
    unsafe {
        empty_list(&mut fabric.info, &mut fabric.ninfo);
        hand_out(&made, &raw mut fabric.info, &raw mut fabric.ninfo)
    }
}

/// Sends a request about a fabric, and waits for the reply.
///
/// # Safety
/// The conditions of [`keep`].
unsafe fn wait(fabric: *mut pmix_fabric_t, asked: impl FnOnce() -> Result<Asked>) -> Result<()> {
    crate::state::proc()?;
    // SAFETY: the caller guarantees that `fabric` is NULL or valid.
    unsafe { there(fabric)? };
    let asked = asked()?;
    let answer = match own_host() {
        Some(own) => own.wait(|host, own, to| {
            asked.of_host(host, own, to);
            Ok(())
        })?,
        None => { client()?.wait(asked.of_client()) }.map_err(|error| fault(&error))?,
    };
    // SAFETY: the caller guarantees the conditions of `keep`.
    unsafe { keep(fabric, answer) }
}

/// Returns a function that calls `cbfunc`, which is required: without it the program cannot know when the structure
/// is filled.
fn called_back(
    cbfunc: pmix_op_cbfunc_t,
    cbdata: *mut c_void,
) -> Result<impl FnOnce(std::result::Result<(), Error>) + Send + 'static> {
    crate::state::proc()?;
    match cbfunc {
        Some(_) => op(cbfunc, cbdata),
        None => Err(Status::ERR_BAD_PARAM),
    }
}

/// Sends a request about a fabric. The structure is filled before the callback runs.
///
/// # Safety
/// The conditions of [`keep`], until the callback has run.
unsafe fn start(
    fabric: *mut pmix_fabric_t,
    asked: impl FnOnce() -> Result<Asked>,
    cbfunc: pmix_op_cbfunc_t,
    cbdata: *mut c_void,
) -> Result<()> {
    crate::state::proc()?;
    // SAFETY: the caller guarantees that `fabric` is NULL or valid.
    unsafe { there(fabric)? };
    let asked = asked()?;
    let then = called_back(cbfunc, cbdata)?;
    let fabric = Data(fabric.cast());
    let kept = move |answer: std::result::Result<Answers, Error>| {
        then(answer.and_then(|answer| {
            // SAFETY: the caller guarantees the conditions of `keep` until the callback has run.
            let kept = unsafe { keep(fabric.get().cast(), answer) };
            let nothing = "the host did not return information about the fabric";
            kept.map_err(|status| ErrorDetail::new(status, nothing).into())
        }));
    };
    match own_host() {
        Some(own) => own.start(
            |host: &CHost, own: &Proc<'static>, to: To<Vec<Info<'static>>>| {
                asked.of_host(host, own, to);
                Ok(())
            },
            kept,
        ),
        None => { client()?.start(asked.of_client(), kept) }.map_err(|error| fault(&error)),
    }
}

/// Frees the infos of a fabric.
///
/// # Safety
/// The conditions of [`keep`].
unsafe fn forget(fabric: *mut pmix_fabric_t) -> Result<()> {
    crate::state::proc()?;
    // SAFETY: the caller guarantees the conditions of `keep`.
    unsafe {
        let fabric = fabric.as_mut().ok_or(Status::ERR_BAD_PARAM)?;
        empty_list(&mut fabric.info, &mut fabric.ninfo);
    }
    Ok(())
}

/// A request about a resource block.
struct Block {
    directive: ResourceBlockDirective,
    name: Text<'static>,
    units: Vec<ResourceUnit>,
    infos: Vec<Info<'static>>,
}

impl Block {
    fn of_client(self) -> Ask<'static> {
        Ask::resource_block(self.directive, self.name, self.units, self.infos)
    }

    fn of_host(self, host: &CHost, own: &Proc<'static>, to: To<()>) {
        host.resource_block(
            own,
            self.directive,
            &self.name,
            &self.units,
            &self.infos,
            to,
        );
    }
}

/// Reads a request about a resource block.
///
/// # Errors
/// Returns `PMIX_ERR_BAD_PARAM` for directive 0, which is undefined, for a block without a name, and for a directive
/// about units of a block without units.
///
/// # Safety
/// Each pointer is NULL or valid for as many reads as its count says (header contract).
unsafe fn block_of(
    directive: pmix_resource_block_directive_t,
    block: *const c_char,
    res: *const pmix_resource_unit_t,
    nres: usize,
    info: *const pmix_info_t,
    ninfo: usize,
) -> Result<Block> {
    // SAFETY: the caller guarantees the pointers and their counts.
    let (block, units, infos): (Text<'static>, _, _) =
        unsafe { (text_at(block)?, slice(res, nres)?, infos_at(info, ninfo)?) };
    let directive = ResourceBlockDirective::from_raw(directive);
    let is_about_units = matches!(
        directive,
        ResourceBlockDirective::DEFINE
            | ResourceBlockDirective::EXTEND
            | ResourceBlockDirective::REMOVE
    );
    if directive.as_raw() == 0 || is_about_units && units.is_empty() {
        return Err(Status::ERR_BAD_PARAM);
    }
    let unit = |unit: &pmix_resource_unit_t| ResourceUnit {
        device_type: DeviceType::from_raw(unit.r#type),
        count: unit.count as u64,
    };
    Ok(Block {
        directive,
        name: block,
        units: units.iter().map(unit).collect(),
        infos,
    })
}

exported! {
    fn PMIx_Fabric_register(fabric: *mut pmix_fabric_t, directives: *const pmix_info_t, ndirs: usize) -> pmix_status_t {
        // SAFETY: the header requires each pointer to be NULL or valid, and each array to have as many elements as
        // its count says.
        code(unsafe { wait(fabric, || infos_at(directives, ndirs).map(Asked::Register)) })
    }

    fn PMIx_Fabric_register_nb(fabric: *mut pmix_fabric_t, directives: *const pmix_info_t, ndirs: usize, cbfunc: pmix_op_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        // SAFETY: the header requires each pointer to be NULL or valid, and `fabric` until the callback has run.
        code(unsafe { start(fabric, || infos_at(directives, ndirs).map(Asked::Register), cbfunc, cbdata) })
    }

    fn PMIx_Fabric_update(fabric: *mut pmix_fabric_t) -> pmix_status_t {
        // SAFETY: the header requires each pointer to be NULL or valid for its type.
        code(unsafe { wait(fabric, || there(fabric).map(|fabric| Asked::Update(fabric.index))) })
    }

    fn PMIx_Fabric_update_nb(fabric: *mut pmix_fabric_t, cbfunc: pmix_op_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        // SAFETY: the header requires `fabric` to be NULL or valid until the callback has run.
        code(unsafe { start(fabric, || there(fabric).map(|fabric| Asked::Update(fabric.index)), cbfunc, cbdata) })
    }

    fn PMIx_Fabric_deregister(fabric: *mut pmix_fabric_t) -> pmix_status_t {
        // SAFETY: the header requires each pointer to be NULL or valid for its type.
        code(unsafe { forget(fabric) })
    }

    fn PMIx_Fabric_deregister_nb(fabric: *mut pmix_fabric_t, cbfunc: pmix_op_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        code((|| {
            let then = called_back(cbfunc, cbdata)?;
            // SAFETY: the header requires each pointer to be NULL or valid for its type.
            unsafe { forget(fabric)? };
            later(move || then(Ok(())))
        })())
    }

    fn PMIx_Resource_block(directive: pmix_resource_block_directive_t, block: *mut c_char, res: *const pmix_resource_unit_t, nres: usize, info: *const pmix_info_t, ninfo: usize) -> pmix_status_t {
        code((|| {
            crate::state::proc()?;
            // SAFETY: the header requires each pointer to be NULL or valid, and each array to have as many elements
            // as its count says.
            let block = unsafe { block_of(directive, block, res, nres, info, ninfo)? };
            match own_host() {
                Some(own) => own.wait(|host, own, to| {
                    block.of_host(host, own, to);
                    Ok(())
                }).map(drop),
                None => client()?.wait(block.of_client()).map_err(|error| fault(&error)),
            }
        })())
    }

    fn PMIx_Resource_block_nb(directive: pmix_resource_block_directive_t, block: *mut c_char, res: *const pmix_resource_unit_t, nres: usize, info: *const pmix_info_t, ninfo: usize, cbfunc: pmix_op_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        code((|| {
            crate::state::proc()?;
            // SAFETY: the header requires each pointer to be NULL or valid, and each array to have as many elements
            // as its count says.
            let block = unsafe { block_of(directive, block, res, nres, info, ninfo)? };
            let then = op(cbfunc, cbdata)?;
            match own_host() {
                Some(own) => own.start(
                    |host, own, to| {
                        block.of_host(host, own, to);
                        Ok(())
                    },
                    |answer| then(answer.map(drop)),
                ),
                None => client()?.start(block.of_client(), then).map_err(|error| fault(&error)),
            }
        })())
    }

    fn PMIx_Session_control(session_id: u32, directives: *const pmix_info_t, ndirs: usize, cbfunc: pmix_info_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        code((|| {
            crate::state::proc()?;
            // SAFETY: the header requires each array to be NULL or to have as many valid elements as its count says.
            let directives = unsafe { infos_at(directives, ndirs)? };
            let own = own_host();
            let ask = |host: &CHost, own: &Proc<'static>, to: To<_>| {
                host.session_control(own, session_id, &directives, to);
                Ok(())
            };
            let answer = match (own, cbfunc) {
                (Some(own), Some(_)) => return own.start(ask, infos(cbfunc, cbdata)?),
                (Some(own), None) => own.wait(ask)?,
                (None, Some(_)) => {
                    let ask = Ask::session_control(session_id, directives);
                    return client()?.start(ask, infos(cbfunc, cbdata)?).map_err(|error| fault(&error));
                }
                (None, None) => {
                    let ask = Ask::session_control(session_id, directives);
                    client()?.wait(ask).map_err(|error| fault(&error))?
                }
            };
            match answer {
                (Status::SUCCESS | Status::OPERATION_SUCCEEDED, _) => Ok(()),
                (status, _) => Err(status),
            }
        })())
    }
}
