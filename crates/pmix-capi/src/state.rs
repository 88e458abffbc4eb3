// SPDX-License-Identifier: MIT OR Apache-2.0
//! What this process is: a client, a server, or nothing yet.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pmix_client::SharedClient;
use pmix_server::Server;
use pmix_types::{Proc, Status};

use crate::memory::Result;

/// What this process is.
pub(crate) struct State {
    /// The process that this holds for; another one after a fork.
    pid: u32,
    /// The client, and how often it was initialised.
    pub(crate) client: Option<(SharedClient, usize)>,
    /// The server, and how often it was initialised.
    pub(crate) server: Option<(Server, usize)>,
}

static STATE: Mutex<State> = Mutex::new(State {
    pid: 0,
    client: None,
    server: None,
});

/// What this process is, to look at or to change. After a fork the child is nothing: the threads
/// stayed with the parent, and so does the connection.
pub(crate) fn state() -> MutexGuard<'static, State> {
    let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    let pid = std::process::id();
    if state.pid != pid {
        // Nothing of the parent's is touched: dropped here, it would end there.
        std::mem::forget(state.client.take());
        std::mem::forget(state.server.take());
        state.pid = pid;
    }
    state
}

/// The client that this process is.
pub(crate) fn client() -> Result<SharedClient> {
    let state = state();
    let client = state.client.as_ref().map(|(client, _)| client.clone());
    client.ok_or(match state.server {
        // A server has nobody to ask.
        Some(_) => Status::ERR_NOT_SUPPORTED,
        None => Status::ERR_INIT,
    })
}

/// The server that this process is.
pub(crate) fn server() -> Result<Server> {
    let server = state().server.as_ref().map(|(server, _)| server.clone());
    server.ok_or(Status::ERR_INIT)
}

/// Who this process is.
pub(crate) fn proc() -> Result<Proc<'static>> {
    let state = state();
    match (&state.client, &state.server) {
        (Some((client, _)), _) => Ok(client.proc().clone()),
        (None, Some((server, _))) => Ok(server.proc().clone()),
        (None, None) => Err(Status::ERR_INIT),
    }
}
