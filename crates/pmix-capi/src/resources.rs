// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fabrics, resource blocks and sessions: requests that the host of the server handles.

use pmix_client::{Answers, Call, Client};
use pmix_server::upcall::{Fabric as FabricCall, ResourceBlock, SessionControl};
use pmix_types::{
    FabricOperation, Info, Proc, ResourceBlockDirective, ResourceUnit, Status, Value, keys,
};

use crate::abi::*;
use crate::args::{self, Callback, Held, Infos, List, Mut, Required};
use crate::guard::exported;
use crate::later::later;
use crate::memory::Result;
use crate::owned::{self, CArray};
use crate::requester::{Request, Requester};
use crate::server::{CHost, ReplyTo};
use crate::state::proc;

/// A request about a fabric.
struct FabricRequest {
    proc: Proc<'static>,
    kind: FabricKind,
}

enum FabricKind {
    /// Registers a fabric that matches directives.
    Register(Vec<Info<'static>>),
    /// Updates the information about the fabric with an index.
    Update(usize),
}

impl Request for FabricRequest {
    type Reply = Vec<Info<'static>>;
    type Answer = Answers;

    fn of_client(self, client: &Client) -> Call<'_, Answers> {
        match self.kind {
            FabricKind::Register(infos) => client.fabric_register(infos),
            FabricKind::Update(index) => client.fabric_update(index as u64),
        }
    }

    fn call(self, host: &CHost, done: ReplyTo<Vec<Info<'static>>>) {
        let (operation, infos) = match self.kind {
            FabricKind::Register(infos) => (FabricOperation::REQUEST_INFO, infos),
            FabricKind::Update(index) => {
                let index = Info::new(keys::FABRIC_INDEX, Value::Size(index as u64));
                (FabricOperation::UPDATE_INFO, vec![index])
            }
        };
        host.fabric(FabricCall::new(self.proc, operation, infos), done);
    }

    fn answer(status: Status, infos: Vec<Info<'static>>) -> Answers {
        (status, infos)
    }
}

/// Returns the status of a reply as the result of a function.
fn check(status: Status) -> Result<()> {
    match status {
        Status::SUCCESS | Status::OPERATION_SUCCEEDED => Ok(()),
        other => Err(other),
    }
}

/// Stores the reply about a fabric in its structure, in place of its old content.
fn store(fabric: &mut owned::Held<'_, pmix_fabric_t>, (status, infos): Answers) -> Result<()> {
    check(status)?;
    let found = infos.iter().find(|info| info.key.is(keys::FABRIC_INDEX));
    let found = found.and_then(|info| info.value.to_number::<u64>().ok());
    let index = found.and_then(|index| usize::try_from(index).ok());
    let (info, ninfo) = CArray::of(&infos)?.into_raw();
    let old = fabric.members();
    fabric.set(pmix_fabric_t {
        index: index.unwrap_or(old.index),
        info,
        ninfo,
        ..old
    });
    // SAFETY: the infos came from the C library, and the structure has others now.
    drop(unsafe { CArray::new(old.info, old.ninfo) });
    Ok(())
}

fn wait(fabric: &mut owned::Held<'_, pmix_fabric_t>, kind: FabricKind) -> Result<()> {
    let requester = Requester::current()?;
    let proc = requester.proc();
    store(fabric, requester.wait(FabricRequest { proc, kind })?)
}

/// Sends a request about a fabric. The structure is filled before the callback runs.
fn start(
    mut fabric: owned::Held<'static, pmix_fabric_t>,
    kind: FabricKind,
    callback: crate::callback::Callback<pmix_op_cbfunc_t>,
) -> Result<()> {
    let requester = Requester::current()?;
    let proc = requester.proc();
    let then = move |answer: Result<Answers>| {
        callback.complete(answer.and_then(|answer| store(&mut fabric, answer)));
    };
    requester.start(FabricRequest { proc, kind }, then)
}

/// Frees the infos of a fabric.
fn forget(mut fabric: owned::Held<'_, pmix_fabric_t>) {
    let old = fabric.members();
    let (info, ninfo) = CArray::empty().into_raw();
    fabric.set(pmix_fabric_t { info, ninfo, ..old });
    // SAFETY: the infos came from the C library, and the structure has none now.
    drop(unsafe { CArray::<pmix_info_t>::new(old.info, old.ninfo) });
}

/// Checks a request about a resource block.
///
/// # Errors
/// Returns `PMIX_ERR_BAD_PARAM` for directive 0, which is undefined, and for a directive about units without units.
fn check_block(directive: ResourceBlockDirective, units: &[ResourceUnit]) -> Result<()> {
    let is_about_units = matches!(
        directive,
        ResourceBlockDirective::DEFINE
            | ResourceBlockDirective::EXTEND
            | ResourceBlockDirective::REMOVE
    );
    match directive.as_raw() == 0 || is_about_units && units.is_empty() {
        true => Err(Status::ERR_BAD_PARAM),
        false => Ok(()),
    }
}

// The nonblocking functions require a callback: without it the program cannot know when the structure is filled.
exported! {
    fn PMIx_Fabric_register(_own = proc()?; fabric: Held<pmix_fabric_t>, (directives, ndirs): Infos) -> pmix_status_t {
        wait(&mut fabric, FabricKind::Register(directives))
    }

    fn PMIx_Fabric_register_nb(_own = proc()?; fabric: args::HeldUntilCallback<pmix_fabric_t>, (directives, ndirs): Infos, (cbfunc, cbdata): Required<pmix_op_cbfunc_t>) -> pmix_status_t {
        start(fabric, FabricKind::Register(directives), cbfunc)
    }

    fn PMIx_Fabric_update(_own = proc()?; fabric: Held<pmix_fabric_t>) -> pmix_status_t {
        let index = fabric.members().index;
        wait(&mut fabric, FabricKind::Update(index))
    }

    fn PMIx_Fabric_update_nb(_own = proc()?; fabric: args::HeldUntilCallback<pmix_fabric_t>, (cbfunc, cbdata): Required<pmix_op_cbfunc_t>) -> pmix_status_t {
        let index = fabric.members().index;
        start(fabric, FabricKind::Update(index), cbfunc)
    }

    fn PMIx_Fabric_deregister(_own = proc()?; fabric: Held<pmix_fabric_t>) -> pmix_status_t {
        forget(fabric);
        Ok(())
    }

    fn PMIx_Fabric_deregister_nb(_own = proc()?; fabric: Held<pmix_fabric_t>, (cbfunc, cbdata): Required<pmix_op_cbfunc_t>) -> pmix_status_t {
        forget(fabric);
        later(move || cbfunc.complete(Ok(())))
    }

    fn PMIx_Resource_block(own = proc()?; directive: ResourceBlockDirective, block: args::Text<Mut>, (res, nres): List<ResourceUnit>, (info, ninfo): Infos) -> pmix_status_t {
        check_block(directive, &res)?;
        Requester::current()?.wait(ResourceBlock::new(own, directive, block, res, info))
    }

    fn PMIx_Resource_block_nb(own = proc()?; directive: ResourceBlockDirective, block: args::Text<Mut>, (res, nres): List<ResourceUnit>, (info, ninfo): Infos, (cbfunc, cbdata): Callback<pmix_op_cbfunc_t>) -> pmix_status_t {
        check_block(directive, &res)?;
        Requester::current()?.call_back(ResourceBlock::new(own, directive, block, res, info), cbfunc)
    }

    fn PMIx_Session_control(own = proc()?; session_id: u32, (directives, ndirs): Infos, (cbfunc, cbdata): Callback<pmix_info_cbfunc_t>) -> pmix_status_t {
        let (requester, call) = (Requester::current()?, SessionControl::new(own, session_id, directives));
        match cbfunc.is_null() {
            true => check(requester.wait(call)?.0),
            false => requester.call_back(call, cbfunc),
        }
    }
}
