// SPDX-License-Identifier: MIT OR Apache-2.0
//! The roles of this process: client, tool, server, or none.

use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pmix_client::Client;
use pmix_server::Server;
use pmix_tool::{Launchers, Tool};
use pmix_topology::Topology;
use pmix_types::{Info, Nspace, Proc, Rank, Status};

use crate::memory::Result;
use crate::per_process::PerProcess;

/// The roles of this process.
#[derive(Default)]
pub(crate) struct State {
    /// The client and its init count.
    pub(crate) client: Option<(Client, usize)>,
    /// The tool.
    pub(crate) tool: Option<OwnTool>,
    /// The server and its init count.
    pub(crate) server: Option<(Server, usize)>,
    /// The topology of this node, after the first request for it.
    pub(crate) topology: Option<Arc<Topology>>,
}

/// The tool role of this process.
pub(crate) struct OwnTool {
    pub(crate) tool: Tool,
    /// The number of inits without a finalize.
    pub(crate) count: usize,
    /// The infos of the first init.
    pub(crate) infos: Vec<Info<'static>>,
    /// `true` if the server of this process belongs to the tool and ends with it.
    pub(crate) has_server: bool,
    /// The launchers that the tool started itself.
    pub(crate) launchers: Launchers,
    /// `true` if this process is a server that connected to other servers; the tool role ends with the server.
    pub(crate) is_of_server: bool,
    /// `true` if the process selected itself as its server (`PMIx_tool_set_server`), so that its own host handles
    /// requests.
    pub(crate) asks_own_host: bool,
}

impl OwnTool {
    /// Returns the role of a tool after its first init.
    pub(crate) const fn new(tool: Tool, infos: Vec<Info<'static>>, launchers: Launchers) -> Self {
        Self {
            tool,
            count: 1,
            infos,
            has_server: false,
            launchers,
            is_of_server: false,
            asks_own_host: false,
        }
    }
}

impl State {
    const fn new() -> Self {
        Self {
            client: None,
            tool: None,
            server: None,
            topology: None,
        }
    }

    /// Returns the connection to the server that handles the requests of this process, if any.
    pub(crate) fn connection(&self) -> Option<&Client> {
        match (&self.client, &self.tool) {
            (Some((client, _)), _) => Some(client),
            (None, Some(own)) if own.asks_own_host => None,
            (None, Some(own)) => own.tool.primary().ok(),
            (None, None) => None,
        }
    }

    /// Returns the tool role if it was initialized by `PMIx_tool_init`, not by a server that connected to others.
    pub(crate) fn initialized_tool(&mut self) -> Option<&mut OwnTool> {
        self.tool.as_mut().filter(|own| !own.is_of_server)
    }

    /// Returns `true` if this process has any role.
    pub(crate) const fn is_any(&self) -> bool {
        self.client.is_some() || self.tool.is_some() || self.server.is_some()
    }

    /// Returns the name of this process.
    fn proc(&self) -> Option<Proc<'static>> {
        let server = self.server.as_ref().map(|(server, _)| server.proc());
        match (&self.client, &self.tool) {
            (Some((client, _)), _) => Some(client.proc().clone()),
            (None, Some(own)) => match (own.tool.proc(), server) {
                (None, Some(server)) => Some(server.clone()),
                _ => Some(name_of(&own.tool)),
            },
            (None, None) => server.cloned(),
        }
    }
}

/// Returns the name of a tool; an empty one before it has a name.
pub(crate) fn name_of(tool: &Tool) -> Proc<'static> {
    let unnamed = || Proc::new(Nspace::default(), Rank::UNDEF);
    tool.proc().cloned().unwrap_or_else(unnamed)
}

/// The state of one process.
#[derive(Default)]
struct Holder {
    state: Mutex<State>,
    /// Notified when the set of servers of a tool changes.
    changed: Condvar,
}

static HOLDER: PerProcess<Holder> = PerProcess::new(Holder {
    state: Mutex::new(State::new()),
    changed: Condvar::new(),
});

/// Returns the state of this process, locked. The child of a fork starts without a role, because the threads and the
/// connection belong to the parent. Its state is separate, because a thread that does not exist in the child may hold
/// the lock of the parent's state.
pub(crate) fn state() -> MutexGuard<'static, State> {
    let state = &HOLDER.get().state;
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notifies waiting threads that the set of servers of a tool has changed.
pub(crate) fn changed() {
    HOLDER.get().changed.notify_all();
}

/// Waits until a condition holds or the time limit expires.
pub(crate) fn wait_for_change(limit: Option<Duration>, is_so: impl Fn(&State) -> bool) {
    let (state, changed) = (state(), &HOLDER.get().changed);
    // The caller checks the condition again, so it does not matter which of both ended the wait.
    match limit {
        None => drop(changed.wait_while(state, |state| !is_so(state))),
        Some(limit) => drop(changed.wait_timeout_while(state, limit, |state| !is_so(state))),
    }
}

/// The server, for forked children. They must not take a lock that a thread of the parent may have held at the fork.
static SERVER: AtomicPtr<Server> = AtomicPtr::new(std::ptr::null_mut());

/// The pid of the process that became the server.
static SERVER_PID: AtomicU32 = AtomicU32::new(0);

/// Publishes a server to forked children; `None` withdraws it.
pub(crate) fn show_to_children(server: Option<&Server>) {
    let at = server.map_or(std::ptr::null_mut(), |server| {
        Box::into_raw(Box::new(server.clone()))
    });
    let last = SERVER.swap(at, Ordering::AcqRel);
    SERVER_PID.store(crate::process::id(), Ordering::Release);
    if !last.is_null() {
        // SAFETY: `last` was made here by `Box::into_raw`, and only forked children read it, each in its own copy of
        // the memory.
        drop(unsafe { Box::from_raw(last) });
    }
}

/// Returns the server of the parent, if this process is the child of a fork.
pub(crate) fn server_of_parent() -> Option<&'static Server> {
    let pid = SERVER_PID.load(Ordering::Acquire);
    if pid == 0 || pid == crate::process::id() {
        return None;
    }
    // SAFETY: this process is a child, where nothing changes or frees the pointer.
    unsafe { SERVER.load(Ordering::Acquire).as_ref() }
}

/// Returns the client of this process, or the connection of a tool to its primary server.
pub(crate) fn client() -> Result<Client> {
    let state = state();
    let unconnected = match state.is_any() {
        // A server need not be connected to another server, and a tool may have none.
        true => Status::ERR_UNREACH,
        false => Status::ERR_INIT,
    };
    state.connection().cloned().ok_or(unconnected)
}

/// Returns the server of this process.
pub(crate) fn server() -> Result<Server> {
    let server = state().server.as_ref().map(|(server, _)| server.clone());
    server.ok_or(Status::ERR_INIT)
}

/// Returns the server of this process if it is not connected to another server.
pub(crate) fn own_server() -> Option<Server> {
    let state = state();
    match state.connection() {
        Some(_) => None,
        None => state.server.as_ref().map(|(server, _)| server.clone()),
    }
}

/// Returns the name of this process.
pub(crate) fn proc() -> Result<Proc<'static>> {
    state().proc().ok_or(Status::ERR_INIT)
}
