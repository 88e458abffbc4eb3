// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tools: processes that find servers, connect to them and change between them (`PMIx_tool_...`).
//!
//! Source: PMIx Standard, chapter "Tools and Debuggers"; for the server that is tried first, Extension of Tool
//! Interaction Support.

mod attributes;

use std::time::{Duration, Instant};

use pmix_client::Client;
use pmix_proto::Event;
use pmix_tool::{Attachment, ClientEvent, Identity, LauncherEvent, Launchers, Tool};
use pmix_types::{App, Info, Nspace, Proc, Status};

use crate::abi::*;
use crate::args::{self, Infos, Maybe, Mut, Out, OutArray, Place};
use crate::binding::{Binding, thread_start};
use crate::events;
use crate::guard::exported;
use crate::later::{self, Ending};
use crate::log;
use crate::memory::Result;
use crate::model::Model;
use crate::requester;
use crate::server::{self, module_at, module_size};
use crate::state::{OwnTool, State, changed, name_of, state, wait_for_change};

use attributes::ToolAttributes;

fn refused(error: &pmix_tool::Error) -> Status {
    tracing::warn!("{error}");
    error.status()
}

/// Finds the requested server and connects to it. The caller must hold no lock, because this takes time.
fn connect(identity: &Identity, attributes: &ToolAttributes) -> Result<Attachment> {
    let found = attributes.search.find().map_err(|error| refused(&error))?;
    let mut identity = identity.clone();
    if let Some(limit) = attributes.limit {
        identity = identity.time_limit(limit);
    }
    let is_known = {
        let state = state();
        let tool = state.tool.as_ref();
        tool.is_some_and(|own| own.tool.is_attached_to(&found.uri.server))
    };
    if is_known {
        return Err(Status::ERR_EXISTS);
    }
    let made = identity.attach(&found, listener(found.uri.server.clone()));
    made.map_err(|error| refused(&error))
}

/// Returns a handler for messages that a server sends without a request. The loss of the connection is an event whose
/// source is the server.
fn listener(server: Proc<'static>) -> impl FnMut(ClientEvent) + Send + 'static {
    move |event| match event {
        ClientEvent::Lost => {
            changed();
            events::deliver_loss(server.clone());
        }
        other => events::client_event(other),
    }
}

/// Returns the launchers of a tool, without any.
fn launchers() -> Launchers {
    let listener = |launcher: &Proc<'static>| -> pmix_tool::LauncherListener {
        Box::new(listener(launcher.clone()))
    };
    Launchers::new(handle_launcher_event, listener, thread_start())
}

/// Wakes the threads that wait for a launcher, and delivers its exit as an event.
fn handle_launcher_event(event: LauncherEvent) {
    // The launchers changed without the lock of the state. A thread that has checked them under this lock waits once
    // the lock can be taken here, so it is not missed.
    drop(state());
    changed();
    if let LauncherEvent::Ended(source, infos) = event {
        let event = Event {
            status: Status::EVENT_JOB_END,
            source,
            infos,
            range: None,
        };
        // If the tool is being finalized, no thread can deliver the event.
        let _ = later::later(move || events::deliver(event));
    }
}

/// Returns `true` if `PMIx_Spawn` of this process starts a launcher as a child. The condition is a tool that is not
/// connected to a server, and whose own server has a host without a spawn function.
pub(crate) fn starts_itself() -> bool {
    let state = state();
    let has_server = state.tool.as_ref().is_some_and(|own| own.has_server);
    has_server && state.connection().is_none() && !requester::has_spawn()
}

/// Starts a launcher, and returns the namespace of its job.
pub(crate) fn start(infos: &[Info<'static>], apps: &[App<'static>]) -> Result<Nspace<'static>> {
    let (server, launchers) = {
        let state = state();
        let own = state.tool.as_ref().ok_or(Status::ERR_INIT)?;
        let (server, _) = state.server.as_ref().ok_or(Status::ERR_INIT)?;
        (server.clone(), own.launchers.clone())
    };
    let started = launchers.start(&server, infos, apps);
    started.map_err(|error| refused(&error))
}

/// Changes the servers of the tool. A new primary server receives the event registrations of this process.
fn change<T>(with: impl FnOnce(&mut OwnTool) -> Result<T>) -> Result<T> {
    let (done, primary) = {
        let mut state = state();
        let own = state.tool.as_mut().ok_or(Status::ERR_INIT)?;
        let before = primary_of(&own.tool).map(|(name, _)| name);
        let done = with(own)?;
        let after = primary_of(&own.tool).filter(|(name, _)| before.as_ref() != Some(name));
        (done, after)
    };
    changed();
    if let Some((_, client)) = primary {
        events::register_with(&client);
    }
    Ok(done)
}

fn primary_of(tool: &Tool) -> Option<(Proc<'static>, Client)> {
    let client = tool.primary().ok()?.clone();
    Some((client.server()?.clone(), client))
}

/// Adds a server to the tool, unless the tool has ended or another thread has added that server.
fn add_server(made: Attachment, is_primary: bool) -> Result<()> {
    let name = made.server().clone();
    let mut made = Some(made);
    let taken = change(|own| {
        let tool = &mut own.tool;
        if let Some(new) = made.take()
            && let Err(again) = tool.add(new)
        {
            made = Some(again);
            return Err(Status::ERR_EXISTS);
        }
        if is_primary {
            tool.set_server(&name).map_err(|error| refused(&error))?;
            own.asks_own_host = false;
        }
        Ok(())
    });
    if let Some(unused) = made {
        // A connection that the tool did not take is closed at once.
        let _ = unused.finalize();
    }
    taken
}

/// Increments the init count of an existing role. Returns its name, and `true` if a tool must search for a server.
fn count_init(state: &mut State, attributes: &ToolAttributes) -> Option<(Proc<'static>, bool)> {
    if let Some(own) = state.initialized_tool() {
        own.count += 1;
        let is_looking = attributes.connects && !own.tool.is_connected();
        return Some((name_of(&own.tool), is_looking));
    }
    if let Some((client, count)) = &mut state.client {
        *count += 1;
        return Some((client.proc().clone(), false));
    }
    let (server, count) = state.server.as_mut()?;
    *count += 1;
    Some((server.proc().clone(), false))
}

/// Initializes this process as a tool, or increments the init count. Returns the name of this process.
fn init(infos: Vec<Info<'static>>) -> Result<Proc<'static>> {
    log::begin();
    let attributes = ToolAttributes::of("PMIx_tool_init", &infos)?;
    let binding = Binding::of("PMIx_tool_init", &infos)?;
    let known = {
        let mut state = state();
        if state.is_any() {
            binding.check_again()?;
        } else {
            binding.set();
        }
        count_init(&mut state, &attributes)
    };
    match known {
        Some((_, true)) => connect_again(&attributes)?,
        Some((name, false)) => return Ok(name),
        None => init_first(infos, &attributes)?,
    }
    crate::state::proc()
}

/// Searches for a server in a later init of a tool that is not connected.
fn connect_again(attributes: &ToolAttributes) -> Result<()> {
    let identity = state().tool.as_ref().map(|own| own.tool.identity());
    let identity = identity.ok_or(Status::ERR_INIT)?.begun();
    let connected = connect(&identity, attributes).and_then(|made| add_server(made, false));
    match connected {
        Err(status) if !attributes.is_optional => {
            // A failed call does not count: the tool is in the same state as before.
            end_one(|_| true);
            Err(status)
        }
        _ => Ok(()),
    }
}

/// Makes this process a tool, with the connection and the server that its first init requests.
fn init_first(infos: Vec<Info<'static>>, attributes: &ToolAttributes) -> Result<()> {
    let mut tool = new_tool(attributes.name.clone()).launcher(attributes.is_launcher);
    let made = match attributes.connects {
        false => None,
        true => match connect(&tool.identity(), attributes) {
            Err(_) if attributes.is_optional => None,
            made => Some(made?),
        },
    };
    if let Some(made) = made
        && let Err(unused) = tool.add(made)
    {
        let _ = unused.finalize();
    }
    let unused = {
        let mut state = state();
        // Another thread may have initialized this process in the meantime.
        match count_init(&mut state, attributes) {
            Some(_) => Some(tool),
            None => {
                state.tool = Some(OwnTool::new(tool, infos, launchers()));
                None
            }
        }
    };
    match unused {
        Some(tool) => drop(tool.finalize()),
        // A launcher without a server serves the processes that it starts.
        None if attributes.is_launcher && crate::state::client().is_err() => {
            if let Err(status) = serve(None) {
                let _ = finalize();
                return Err(status);
            }
        }
        None => {}
    }
    Ok(())
}

/// Returns a tool without servers, whose threads have the binding of this process.
fn new_tool(name: Option<Proc<'static>>) -> Tool {
    let mut tool = Tool::new();
    if let Some(name) = name {
        tool = tool.name(name);
    }
    match thread_start() {
        Some(start) => tool.on_thread_start(start),
        None => tool,
    }
}

/// Decrements the init count. Returns the tool if that was the last init and the tool may end.
fn end_one(is_kept: impl FnOnce(&OwnTool) -> bool) -> Option<(OwnTool, Option<Ending>)> {
    let mut state = state();
    let own = state.tool.as_mut()?;
    own.count -= 1;
    match own.count == 0 && !is_kept(own) {
        true => {
            // A server still runs callbacks, so the thread for them must not end.
            let ending = (!own.has_server).then(Ending::of_client);
            state.topology = None;
            state.tool.take().map(|tool| (tool, ending))
        }
        false => {
            own.count = own.count.max(1);
            None
        }
    }
}

/// Decrements the init count; the last call disconnects the tool. Returns `None` if this process is not a tool.
pub(crate) fn finalize() -> Option<Result<()>> {
    state().initialized_tool()?;
    let Some((mut own, ending)) = end_one(|_| false) else {
        return Some(Ok(()));
    };
    changed();
    // First the launchers, some of which are servers of the tool: this removes them from it.
    own.launchers.end(&mut own.tool);
    let left = own.tool.finalize().map_err(|error| refused(&error));
    let ended = match own.has_server && state().server.is_some() {
        true => server::finalize(),
        false => {
            later::end();
            events::forget_all();
            Ok(())
        }
    };
    drop(ending);
    Some(left.and(ended))
}

/// Gives a server the tool role under its own name, so that it can connect to other servers. Its host handles its
/// requests until the process selects another server.
fn let_server_attach(state: &mut State) {
    if state.tool.is_some() || state.client.is_some() {
        return;
    }
    let Some((server, _)) = &state.server else {
        return;
    };
    let tool = new_tool(Some(server.proc().clone()));
    state.tool = Some(OwnTool {
        is_of_server: true,
        asks_own_host: true,
        ..OwnTool::new(tool, Vec::new(), launchers())
    });
}

/// Connects to another server. Returns the names of the tool and of the server.
fn attach(infos: &[Info<'_>], replaces: bool) -> Result<(Proc<'static>, Proc<'static>)> {
    let mut attributes = ToolAttributes::of("PMIx_tool_attach_to_server", infos)?;
    attributes.is_primary |= replaces;
    let (identity, before) = {
        let mut state = state();
        let_server_attach(&mut state);
        let own = state.tool.as_ref().ok_or(Status::ERR_INIT)?;
        (own.tool.identity().begun(), primary_of(&own.tool))
    };
    let made = connect(&identity, &attributes)?;
    let server = made.server().clone();
    add_server(made, attributes.is_primary)?;
    // The old server is disconnected last, so that the tool keeps it if the new connection fails.
    if replaces && let Some((old, _)) = before {
        disconnect(&old)?;
    }
    Ok((crate::state::proc()?, server))
}

fn disconnect(server: &Proc<'_>) -> Result<()> {
    let left = change(|own| own.tool.remove(server).map_err(|error| error.status()))?;
    left.finalize().map_err(|error| refused(&error))
}

/// Makes a connected server, or a launcher that has connected to the tool, the primary server.
fn select(own: &mut OwnTool, server: &Proc<'_>) -> Result<()> {
    if let Some(launcher) = own.launchers.take(server)
        && let Err(again) = own.tool.add(launcher)
    {
        // The tool connected to the launcher by itself before.
        drop(again);
    }
    let selected = own.tool.set_server(server).map_err(|error| error.status());
    if selected.is_ok() {
        own.asks_own_host = false;
    }
    match own.launchers.has_ended(server) {
        true => selected.map_err(|_| Status::ERR_UNREACH),
        false => selected,
    }
}

/// Makes a server the primary server, and waits for its connection if the caller requests that. If a process names
/// itself, its own host handles its requests from then on.
fn set_server(server: &Proc<'_>, attributes: &ToolAttributes) -> Result<()> {
    if crate::state::proc()? == *server {
        if let Some(own) = &mut state().tool {
            own.asks_own_host = true;
        }
        changed();
        return Ok(());
    }
    let end = attributes
        .limit
        .and_then(|limit| Instant::now().checked_add(limit));
    loop {
        match change(|own| select(own, server)) {
            Err(Status::ERR_NOT_FOUND) if attributes.waits => {}
            other => return other,
        }
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return Err(Status::ERR_TIMEOUT);
        }
        // Wakes up for each event that decides the next attempt: the connection of the server, or its exit.
        let is_there = |state: &State| {
            let own = state.tool.as_ref();
            own.is_none_or(|own| {
                let launchers = &own.launchers;
                own.tool.is_attached_to(server)
                    || launchers.has_connected(server)
                    || launchers.has_ended(server)
            })
        };
        wait_for_change(left, is_there);
    }
}

/// Starts a server in the process of a tool, with the functions of its host if given. If a server exists, passes it
/// the functions of its host.
///
/// DEVIATION: a tool with `PMIX_LAUNCHER` that is connected to a server listens from here on, not from its init as in
/// OpenPMIx, so that no request arrives before there is a host to handle it;
/// a_tool_that_launches_listens_with_its_module
fn serve(module: Option<&pmix_server_module_t>) -> Result<()> {
    let (name, infos) = {
        let state = state();
        let own = state.tool.as_ref().ok_or(Status::ERR_INIT)?;
        if state.server.is_some() {
            let is_given = module.is_some_and(|module| own.has_server && requester::give(module));
            return is_given.then_some(()).ok_or(Status::ERR_EXISTS);
        }
        (own.tool.proc().cloned(), own.infos.clone())
    };
    let infos = attributes::for_server(infos, name.as_ref());
    server::init(module, &infos)?;
    if let Some(own) = &mut state().tool {
        own.has_server = true;
        return Ok(());
    }
    // The tool was finalized in the meantime, so its server must end as well.
    server::finalize()?;
    Err(Status::ERR_INIT)
}

exported! {
    fn PMIx_tool_init(proc: Maybe<Out<pmix_proc_t>>, (info, ninfo): Infos<Mut>) -> pmix_status_t {
        write_name(proc, &init(info)?)
    }

    fn PMIx_tool_attach_to_server(myproc: Maybe<Out<pmix_proc_t>>, server: Maybe<Out<pmix_proc_t>>, (info, ninfo): Infos<Mut>) -> pmix_status_t {
        let (own, new) = attach(&info, false)?;
        write_name(myproc, &own)?;
        write_name(server, &new)
    }

    fn PMIx_tool_connect_to_server(proc: Maybe<Out<pmix_proc_t>>, (info, ninfo): Infos<Mut>) -> pmix_status_t {
        let (own, _) = attach(&info, true)?;
        write_name(proc, &own)
    }

    fn PMIx_tool_disconnect(_tool = is_tool()?; server: args::Proc) -> pmix_status_t {
        disconnect(&server)
    }

    fn PMIx_tool_get_servers((servers, nservers): OutArray<Proc<'static>>) -> pmix_status_t {
        let state = state();
        let names = state.tool.as_ref().ok_or(Status::ERR_INIT)?.tool.servers();
        servers.write(&names)?;
        match names.is_empty() {
            true => Err(Status::ERR_UNREACH),
            false => Ok(()),
        }
    }

    fn PMIx_tool_set_server(_tool = can_select()?; server: args::Proc, (info, ninfo): Infos<Mut>) -> pmix_status_t {
        set_server(&server, &ToolAttributes::of("PMIx_tool_set_server", &info)?)
    }

    fn PMIx_tool_set_server_module(_tool = is_tool()?; module: *mut pmix_server_module_t) -> pmix_status_t {
        let size = match &state().tool {
            Some(own) => module_size(&own.infos)?,
            None => return Err(Status::ERR_INIT),
        };
        // SAFETY: the module has the size that the tool passed to its init, or else at least the members of every
        // release.
        let module = unsafe { module_at(module, size) };
        serve(Some(&module.ok_or(Status::ERR_BAD_PARAM)?))
    }

    fn PMIx_tool_is_connected() -> bool {
        Ok(crate::state::client().is_ok())
    }
}

/// Returns an error if this process is not a tool.
pub(crate) fn is_tool() -> Result<()> {
    state().tool.as_ref().map(drop).ok_or(Status::ERR_INIT)
}

/// Returns an error if this process can select no server: it is neither a tool nor a server.
fn can_select() -> Result<()> {
    let_server_attach(&mut state());
    is_tool()
}

/// Writes a name to the place of a caller, if there is one.
fn write_name(place: Option<Place<'_, pmix_proc_t>>, name: &Proc<'_>) -> Result<()> {
    match place {
        None => Ok(()),
        Some(place) => place.fill(|| name.to_c()),
    }
}
