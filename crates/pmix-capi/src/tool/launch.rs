// SPDX-License-Identifier: MIT OR Apache-2.0
//! Launchers that a tool without a server starts as its children, and that connect to the tool's own server.
//!
//! The server of the tool registers such a launcher as a job of one process. After the launcher has received its job
//! info, its connection passes to the tool. The tool sends requests over it once it has selected the launcher as its
//! server (`PMIx_tool_set_server`).
//!
//! Source: PMIx Standard, chapter "Tools and Debuggers", "Indirect launch"; OpenPMIx, `pfexec`, for the pipe by which
//! a launcher detects that its tool has exited.

use std::ffi::{OsStr, OsString};
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Child;
use std::thread;

use pmix_client::{Settings, Uri};
use pmix_proto::{Event, PeerForm, Role};
use pmix_server::{Credentials, HostObject, Server};
use pmix_tool::Attachment;
use pmix_types::{App, Info, Nspace, Proc, Rank, Status, Text, Value, keys};
use rustix::io::{Errno, FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getegid, geteuid, waitid, waitpid,
};

use super::command_line::CommandLine;
use crate::binding::thread_start;
use crate::events;
use crate::later::later;
use crate::launchers::Process;
use crate::memory::Result;
use crate::requester::has_spawn;
use crate::state::{changed, state};

/// The variable with the descriptor of the write end of a pipe, which the launcher polls: when the read end is
/// closed, its tool has exited.
const KEEPALIVE: &str = "PMIX_KEEPALIVE_PIPE";

/// Returns `true` if `PMIx_Spawn` of this process starts a launcher as a child. The condition is a tool
/// that is not connected to a server, and whose own server has a host without a spawn function.
pub(crate) fn starts_itself() -> bool {
    let state = state();
    let has_server = state.tool.as_ref().is_some_and(|own| own.has_server);
    has_server && state.connection().is_none() && !has_spawn()
}

/// Starts a launcher, and returns the namespace of its job.
pub(crate) fn start(infos: &[Info<'static>], apps: &[App<'static>]) -> Result<Nspace<'static>> {
    let line = CommandLine::of(infos, apps)?;
    let (server, number) = {
        let mut state = state();
        let server = state.server.as_ref().map(|(server, _)| server.clone());
        let own = state.tool.as_mut().ok_or(Status::ERR_INIT)?;
        (server.ok_or(Status::ERR_INIT)?, own.launchers.next())
    };
    let launcher = name_of(server.proc(), number);
    let started = register(&server, &launcher, &line.job_info)
        .and_then(|environment| run(&server, &launcher, line, environment));
    if started.is_err() {
        // An error means that the namespace was not registered.
        let _ = server.deregister_nspace(&launcher.nspace);
    }
    started.map(|()| launcher.nspace)
}

/// Returns the name of a launcher: the namespace of the server with a number, and rank 0.
fn name_of(server: &Proc<'_>, number: u64) -> Proc<'static> {
    let suffix = format!("@{number}");
    let name = server.nspace.as_bytes();
    let room = Nspace::MAX_LEN.saturating_sub(suffix.len());
    let name = name.get(..room).unwrap_or(name);
    Proc::new([name, suffix.as_bytes()].concat(), Rank::new(0))
}

/// Registers the job of a launcher, and returns the variables that the launcher needs.
fn register(
    server: &Server,
    launcher: &Proc<'static>,
    job_info: &[Info<'static>],
) -> Result<Vec<(OsString, OsString)>> {
    let refused = |error: pmix_server::Error| {
        tracing::warn!("cannot start a launcher: {error}");
        error.status()
    };
    let environment = server.setup_fork(launcher).map_err(refused)?;
    let host = var(&environment, "PMIX_HOSTNAME").unwrap_or_default();
    let text = |bytes: &[u8]| Value::String(Some(Text::new(bytes.to_vec())));
    let mut infos = vec![
        Info::new(keys::NODE_MAP, text(host.as_bytes())),
        Info::new(keys::PROC_MAP, "0"),
        Info::new(keys::JOBID, text(launcher.nspace.as_bytes())),
        Info::new(keys::SPAWNED, true),
        Info::new(keys::PARENT_ID, server.proc().clone()),
    ];
    infos.extend_from_slice(job_info);
    let nspace = &launcher.nspace;
    server.register_nspace(nspace, 1, &infos).map_err(refused)?;
    let user = Credentials::new(geteuid().as_raw(), getegid().as_raw());
    let registered = server.register_client(launcher, user, HostObject::default());
    registered.map_err(refused)?;
    Ok(environment)
}

fn var(environment: &[(OsString, OsString)], wanted: &str) -> Option<String> {
    let mut found = environment.iter().filter(|(name, _)| name == wanted);
    found
        .next()
        .map(|(_, value)| value.to_string_lossy().into_owned())
}

/// Starts the process of a launcher, and arranges for its connection to pass to the tool.
fn run(
    server: &Server,
    launcher: &Proc<'static>,
    line: CommandLine,
    environment: Vec<(OsString, OsString)>,
) -> Result<()> {
    let no_pipe = |error: Errno| {
        tracing::warn!("cannot create a pipe for a launcher: {error}");
        of_system(Some(error))
    };
    let (is_there, told) = pipe_with(PipeFlags::CLOEXEC).map_err(no_pipe)?;
    // If the program has closed its standard streams, the pipe may have got their descriptors, which the child
    // overwrites.
    let behind = |fd: OwnedFd| fcntl_dupfd_cloexec(&fd, 3).map_err(no_pipe);
    let (is_there, told) = (behind(is_there)?, behind(told)?);
    // Another child started at the same time may inherit the write end. That is harmless, because only the tool has
    // the read end.
    fcntl_setfd(&told, FdFlags::empty()).map_err(no_pipe)?;
    let (own, of) = (server.proc().clone(), launcher.clone());
    let release = var(&environment, "PMIX_VERSION");
    let mut more = environment;
    // Launchers of PRRTE take their own name, and that of their servers, from these variables.
    let nspace = OsStr::from_bytes(launcher.nspace.as_bytes()).to_owned();
    more.push(("PMIX_SERVER_NSPACE".into(), nspace));
    more.push(("PMIX_SERVER_RANK".into(), launcher.rank.to_string().into()));
    more.push((KEEPALIVE.into(), told.as_raw_fd().to_string().into()));
    let connects = line.connects_with(server.uri());
    let mut command = line.command(more)?;
    // A launcher without the URI of the tool in its environment stays an ordinary client of the server.
    if connects {
        server.take_connection(launcher, move |stream, form| {
            match attached(own, of, release, stream, form) {
                Ok(made) => add(made),
                Err(why) => tracing::warn!("lost the connection to a launcher: {why}"),
            }
        });
    }
    // The server knows what to do with the connection before the launcher can make it.
    let child = command.spawn().map_err(|error| {
        let program = command.get_program().to_string_lossy();
        tracing::warn!("cannot start {program}: {error}");
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Status::ERR_JOB_EXE_NOT_FOUND,
            io::ErrorKind::PermissionDenied => Status::ERR_JOB_APP_NOT_EXECUTABLE,
            _ => of_system(Errno::from_io_error(&error)),
        }
    })?;
    watch(server, launcher, child, is_there)
}

/// Returns the status for an error of the system: a lack of resources, or a failed launch.
fn of_system(error: Option<Errno>) -> Status {
    match error {
        Some(Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE) => {
            Status::ERR_JOB_INSUFFICIENT_RESOURCES
        }
        _ => Status::ERR_JOB_FAILED_TO_LAUNCH,
    }
}

/// Starts a thread that waits for a launcher to exit.
fn watch(
    server: &Server,
    launcher: &Proc<'static>,
    mut child: Child,
    is_there: OwnedFd,
) -> Result<()> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or(Status::ERR_JOB_FAILED_TO_LAUNCH)?;
    let process = Process::new(pid);
    if let Some(own) = &mut state().tool {
        let (proc, process) = (launcher.clone(), process.clone());
        own.launchers.started(proc, process, is_there);
    }
    let unwatched = process.clone();
    let (server, launcher, of) = (server.clone(), launcher.clone(), launcher.clone());
    let named = thread::Builder::new().name("pmix-launcher".to_owned());
    let begun = named.stack_size(128 << 10).spawn(move || {
        // If the program reaps all its children itself, `waitid` fails and the exit status is unknown.
        let ends = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while let Err(Errno::INTR) = waitid(WaitId::Pid(pid), ends) {}
        let code = process.reap(|| child.wait()).ok();
        let code = code.and_then(|it| it.code().or_else(|| Some(128 + it.signal()?)));
        ended(&server, &launcher, code);
    });
    let watcher = begun.map_err(|error| {
        tracing::warn!("terminating a launcher that cannot be watched: {error}");
        unwatched.signal(Signal::KILL);
        if let Err(error) = unwatched.reap(|| waitpid(Some(pid), WaitOptions::empty())) {
            tracing::debug!("cannot wait for the end of a launcher: {error}");
        }
        if let Some(own) = &mut state().tool {
            own.launchers.forget(&of);
        }
        Status::ERR_OUT_OF_RESOURCE
    })?;
    if let Some(own) = &mut state().tool {
        own.launchers.watched(&of, watcher);
    }
    Ok(())
}

/// Handles the exit of a launcher: deregisters its job and notifies the event handlers.
fn ended(server: &Server, launcher: &Proc<'static>, code: Option<i32>) {
    // The server may have ended before the launcher, and its namespaces with it.
    let _ = server.deregister_nspace(&launcher.nspace);
    let (is_known, unused) = match &mut state().tool {
        Some(own) => (own.launchers.ended(launcher), own.launchers.take(launcher)),
        None => (false, None),
    };
    // The launcher may belong to a previous tool role of this process, which has been finalized.
    if !is_known {
        return;
    }
    changed();
    let status = match code {
        Some(0) => Status::SUCCESS,
        _ => Status::ERR_JOB_NON_ZERO_TERM,
    };
    let mut infos = vec![
        Info::new(keys::EVENT_NON_DEFAULT, true),
        Info::new(keys::JOB_TERM_STATUS, Value::Status(status)),
        Info::new(keys::EVENT_AFFECTED_PROC, launcher.clone()),
    ];
    infos.extend(code.map(|code| Info::new(keys::EXIT_CODE, code)));
    let event = Event {
        status: Status::EVENT_JOB_END,
        source: launcher.clone(),
        infos,
        range: None,
    };
    // If the tool is being finalized, no thread can deliver the event.
    let _ = later(move || events::deliver(event));
    if let Some(unused) = unused {
        unused.close();
    }
}

/// Makes the connection of the tool to its launcher from the accepted socket.
fn attached(
    own: Proc<'static>,
    launcher: Proc<'static>,
    release: Option<String>,
    stream: TcpStream,
    form: PeerForm,
) -> std::result::Result<Attachment, String> {
    let address = stream.peer_addr().map_err(|error| error.to_string())?;
    let server = launcher.clone();
    let mut settings = Settings::new(own, Uri { server, address });
    settings.role = Role::TOOL_WITH_ID;
    settings.layout = form.layout;
    settings.server_version = release;
    settings.thread_start = thread_start();
    let made = Attachment::of_launcher(settings, stream, super::listener(launcher));
    made.map_err(|error| error.to_string())
}

/// Adds the connection of a launcher, which the tool can then select as its server.
fn add(made: Attachment) {
    let unused = match &mut state().tool {
        Some(own) if !own.launchers.has_ended(made.server()) => {
            own.launchers.connected(made);
            None
        }
        _ => Some(made),
    };
    changed();
    if let Some(unused) = unused {
        // This runs on the thread of the server, which must not wait for a reply.
        unused.close();
    }
}
