// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a process that is a server asks for itself: its host serves it, as it serves clients.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use pmix_client::Error;
use pmix_server::Reply;
use pmix_types::{ErrorDetail, Proc, Status};

use crate::abi::{pmix_op_cbfunc_t, pmix_server_module_t};
use crate::answers::op;
use crate::later::later;
use crate::memory::Result;
use crate::per_process::PerProcess;
use crate::state::state;

use super::host::CHost;
use super::pending::To;

/// The host of this process, and the name that the process has.
pub(crate) struct OwnHost {
    host: Arc<CHost>,
    proc: Proc<'static>,
}

/// The host of the server that this process is.
static HOST: PerProcess<Mutex<Option<Arc<CHost>>>> = PerProcess::new(Mutex::new(None));

fn host() -> MutexGuard<'static, Option<Arc<CHost>>> {
    HOST.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says who the host is, or that there is none any longer.
pub(super) fn set_host(new: Option<Arc<CHost>>) {
    *host() = new;
}

/// Gives the host of this process its functions. Returns whether there is one that had none.
pub(crate) fn give(module: &pmix_server_module_t) -> bool {
    host().as_ref().is_some_and(|host| host.give(module))
}

/// Whether the host of the server that this process is has a function for `PMIx_Spawn`.
pub(crate) fn has_spawn() -> bool {
    let host = host();
    host.as_ref()
        .is_some_and(|host| host.module().spawn.is_some())
}

/// The host, if this process is a server. One that is connected to another server, too, asks
/// that one.
pub(crate) fn own_host() -> Option<OwnHost> {
    let proc = {
        let state = state();
        if state.connection().is_some() {
            return None;
        }
        let (server, _) = state.server.as_ref()?;
        server.proc().clone()
    };
    let host = Arc::clone(host().as_ref()?);
    Some(OwnHost { host, proc })
}

impl OwnHost {
    /// Asks and waits for the answer.
    pub(crate) fn wait<T: Reply + Send + 'static>(
        &self,
        ask: impl FnOnce(&CHost, &Proc<'static>, To<T>) -> Result<()>,
    ) -> Result<(Status, T)> {
        let (sender, receiver) = mpsc::sync_channel(1);
        // Who asked is there until the answer is.
        let then = move |answer| drop(sender.send(answer));
        ask(&self.host, &self.proc, To::Own(Box::new(then)))?;
        // A host that has not answered when its server ends never will.
        receiver.recv().unwrap_or(Err(Status::ERR_COMM_FAILURE))
    }

    /// Asks and has the answer called back; a status that brings nothing is an error there.
    pub(crate) fn start<T: Reply + Send + 'static>(
        &self,
        ask: impl FnOnce(&CHost, &Proc<'static>, To<T>) -> Result<()>,
        then: impl FnOnce(std::result::Result<(Status, T), Error>) + Send + 'static,
    ) -> Result<()> {
        let called_back = move |answer: Result<(Status, T)>| {
            let answer = answer.map_err(|status| ErrorDetail::new(status, "the host").into());
            if later(move || then(answer)).is_err() {
                tracing::warn!(
                    "a reply of the host is lost: cannot start a thread that processes it"
                );
            }
        };
        ask(&self.host, &self.proc, To::Own(Box::new(called_back)))
    }

    /// Asks for what is answered with a status alone: waits for the answer if there is nothing to
    /// call back.
    pub(crate) fn op(
        &self,
        cbfunc: pmix_op_cbfunc_t,
        cbdata: *mut c_void,
        ask: impl FnOnce(&CHost, &Proc<'static>, To<()>) -> Result<()>,
    ) -> Result<()> {
        if cbfunc.is_none() {
            return self.wait(ask).map(drop);
        }
        let then = op(cbfunc, cbdata)?;
        self.start(ask, |answer| then(answer.map(drop)))
    }
}
