// SPDX-License-Identifier: MIT OR Apache-2.0
//! What this process is: a client, a server, or nothing yet.

use std::collections::HashMap;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pmix_client::SharedClient;
use pmix_server::Server;
use pmix_types::{Key, Proc, Status, Value};

use crate::memory::Result;

/// What this process is.
#[derive(Default)]
pub(crate) struct State {
    /// The client, and how often it was initialised.
    pub(crate) client: Option<(SharedClient, usize)>,
    /// The server, and how often it was initialised.
    pub(crate) server: Option<(Server, usize)>,
    /// What the server's own process stored or put, by process and key.
    pub(crate) stored: HashMap<(Proc<'static>, Key<'static>), Value<'static>>,
}

/// The state of one process.
struct Holder {
    pid: u32,
    state: Mutex<State>,
}

static HOLDER: AtomicPtr<Holder> = AtomicPtr::new(std::ptr::null_mut());

/// What this process is, to look at or to change. After a fork the child is nothing: the threads
/// stayed with the parent, and so does the connection. It gets a state of its own, as the lock of the
/// parent's may be held by a thread that is not there.
pub(crate) fn state() -> MutexGuard<'static, State> {
    let pid = crate::process::id();
    loop {
        let known = HOLDER.load(Ordering::Acquire);
        // SAFETY: what was once put there stays for ever.
        if let Some(holder) = unsafe { known.as_ref() }
            && holder.pid == pid
        {
            return holder.state.lock().unwrap_or_else(PoisonError::into_inner);
        }
        let fresh = Box::new(Holder {
            pid,
            state: Mutex::default(),
        });
        let fresh = Box::into_raw(fresh);
        let put = HOLDER.compare_exchange(known, fresh, Ordering::AcqRel, Ordering::Acquire);
        if put.is_err() {
            // SAFETY: it was made here and nobody has seen it.
            drop(unsafe { Box::from_raw(fresh) });
        }
    }
}

/// The server, for children of a fork, which may take no lock: a thread that held it is not there.
static SERVER: AtomicPtr<Server> = AtomicPtr::new(std::ptr::null_mut());

/// The process that became the server.
static SERVER_PID: AtomicU32 = AtomicU32::new(0);

/// Makes a server known to children of a fork; none makes the last one unknown.
pub(crate) fn show_to_children(server: Option<&Server>) {
    let at = server.map_or(std::ptr::null_mut(), |server| {
        Box::into_raw(Box::new(server.clone()))
    });
    let last = SERVER.swap(at, Ordering::AcqRel);
    SERVER_PID.store(crate::process::id(), Ordering::Release);
    if !last.is_null() {
        // SAFETY: it was made here, and only children look at it, each at a copy of its own.
        drop(unsafe { Box::from_raw(last) });
    }
}

/// The server of the parent, if this process is the child of a fork.
pub(crate) fn server_of_parent() -> Option<&'static Server> {
    let pid = SERVER_PID.load(Ordering::Acquire);
    if pid == 0 || pid == crate::process::id() {
        return None;
    }
    // SAFETY: this process is a child, in which nobody else changes it.
    unsafe { SERVER.load(Ordering::Acquire).as_ref() }
}

/// The client that this process is.
pub(crate) fn client() -> Result<SharedClient> {
    let state = state();
    let client = state.client.as_ref().map(|(client, _)| client.clone());
    client.ok_or(match state.server {
        // A server is connected to no other.
        Some(_) => Status::ERR_UNREACH,
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
