// SPDX-License-Identifier: MIT OR Apache-2.0
//! The roles of this process: client, tool, server, or none yet.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pmix_client::SharedClient;
use pmix_server::Server;
use pmix_tool::Tool;
use pmix_topology::Topology;
use pmix_types::{Info, Key, Nspace, Proc, Rank, Status, Value};

use crate::launchers::Launchers;
use crate::memory::Result;
use crate::per_process::PerProcess;

/// The roles of this process.
#[derive(Default)]
pub(crate) struct State {
    /// The client, and how often it was initialised.
    pub(crate) client: Option<(SharedClient, usize)>,
    /// The tool.
    pub(crate) tool: Option<OwnTool>,
    /// The server, and how often it was initialised.
    pub(crate) server: Option<(Server, usize)>,
    /// The topology of this node, after the first request for it.
    pub(crate) topology: Option<Arc<Topology>>,
    /// The values that the server's own process stored or put, by process and key.
    pub(crate) stored: BTreeMap<(Proc<'static>, Key<'static>), Value<'static>>,
}

/// The tool that this process is.
pub(crate) struct OwnTool {
    pub(crate) tool: Tool,
    /// The number of inits without a finalize.
    pub(crate) count: usize,
    /// The infos of the first init.
    pub(crate) infos: Vec<Info<'static>>,
    /// `true` if the server of this process belongs to the tool and ends with it.
    pub(crate) has_server: bool,
    /// The launchers that it started itself.
    pub(crate) launchers: Launchers,
    /// `true` if this process is a server that attached to other servers: the tool ends with the server.
    pub(crate) is_of_server: bool,
    /// `true` if the process selected itself as its server (`PMIx_tool_set_server`): its own host is asked.
    pub(crate) asks_own_host: bool,
}

impl State {
    const fn new() -> Self {
        Self {
            client: None,
            tool: None,
            server: None,
            topology: None,
            stored: BTreeMap::new(),
        }
    }

    /// The connection to the server that this process asks, if there is one.
    pub(crate) fn connection(&self) -> Option<&SharedClient> {
        match (&self.client, &self.tool) {
            (Some((client, _)), _) => Some(client),
            (None, Some(own)) if own.asks_own_host => None,
            (None, Some(own)) => own.tool.primary().ok(),
            (None, None) => None,
        }
    }

    /// Returns the tool that this process was initialized as; a server that is attached to others is none.
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

/// The name that a tool says is its own: none before it has one.
pub(crate) fn name_of(tool: &Tool) -> Proc<'static> {
    let unnamed = || Proc::new(Nspace::default(), Rank::UNDEF);
    tool.proc().cloned().unwrap_or_else(unnamed)
}

/// The state of one process.
#[derive(Default)]
struct Holder {
    state: Mutex<State>,
    /// Told when the servers of a tool are others than before.
    changed: Condvar,
}

static HOLDER: PerProcess<Holder> = PerProcess::new(Holder {
    state: Mutex::new(State::new()),
    changed: Condvar::new(),
});

/// What this process is, to look at or to change. After a fork the child is nothing: the threads
/// stayed with the parent, and so does the connection. It gets a state of its own, as the lock of the
/// parent's may be held by a thread that is not there.
pub(crate) fn state() -> MutexGuard<'static, State> {
    let state = &HOLDER.get().state;
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells those who wait that the servers of a tool are others than before.
pub(crate) fn changed() {
    HOLDER.get().changed.notify_all();
}

/// Waits until something is so, or until the time is over.
pub(crate) fn wait_for_change(limit: Option<Duration>, is_so: impl Fn(&State) -> bool) {
    let (state, changed) = (state(), &HOLDER.get().changed);
    // What is so afterwards, the caller looks at.
    match limit {
        None => drop(changed.wait_while(state, |state| !is_so(state))),
        Some(limit) => drop(changed.wait_timeout_while(state, limit, |state| !is_so(state))),
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

/// The client that this process is, or the connection of a tool to its primary server.
pub(crate) fn client() -> Result<SharedClient> {
    let state = state();
    let unconnected = match state.is_any() {
        // A server is connected to no other, and a tool may have none.
        true => Status::ERR_UNREACH,
        false => Status::ERR_INIT,
    };
    state.connection().cloned().ok_or(unconnected)
}

/// The server that this process is.
pub(crate) fn server() -> Result<Server> {
    let server = state().server.as_ref().map(|(server, _)| server.clone());
    server.ok_or(Status::ERR_INIT)
}

/// Returns the name of this process.
pub(crate) fn proc() -> Result<Proc<'static>> {
    state().proc().ok_or(Status::ERR_INIT)
}
