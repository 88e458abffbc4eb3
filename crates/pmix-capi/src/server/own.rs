// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests of a process that is itself a server: its host handles them, as it handles those of clients.

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

/// The host of this process, and the name of the process.
pub(crate) struct OwnHost {
    host: Arc<CHost>,
    proc: Proc<'static>,
}

/// The host of the server in this process.
static HOST: PerProcess<Mutex<Option<Arc<CHost>>>> = PerProcess::new(Mutex::new(None));

fn host() -> MutexGuard<'static, Option<Arc<CHost>>> {
    HOST.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets or clears the host of this process.
pub(super) fn set_host(new: Option<Arc<CHost>>) {
    *host() = new;
}

/// Passes its functions to the host of this process. Returns `true` if there is a host that had none.
pub(crate) fn give(module: &pmix_server_module_t) -> bool {
    host().as_ref().is_some_and(|host| host.give(module))
}

/// Returns `true` if the host of this process has a function for `PMIx_Spawn`.
pub(crate) fn has_spawn() -> bool {
    let host = host();
    host.as_ref()
        .is_some_and(|host| host.module().spawn.is_some())
}

/// Returns the host if this process is a server without a connection. With a connection to another server, requests
/// go to that server.
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
    /// Sends a request to the host and waits for its reply.
    pub(crate) fn wait<T: Reply + Send + 'static>(
        &self,
        ask: impl FnOnce(&CHost, &Proc<'static>, To<T>) -> Result<()>,
    ) -> Result<(Status, T)> {
        let (sender, receiver) = mpsc::sync_channel(1);
        // The receiver exists until the reply arrives, so sending fails only after an earlier reply.
        let then = move |answer| drop(sender.send(answer));
        ask(&self.host, &self.proc, To::Own(Box::new(then)))?;
        // The sender was dropped: the server ended before the host replied.
        receiver.recv().unwrap_or(Err(Status::ERR_COMM_FAILURE))
    }

    /// Sends a request to the host and calls `then` with the reply. A status without a result is an error for `then`.
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

    /// Sends a request whose reply is a status. Without a callback, waits for the reply.
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
