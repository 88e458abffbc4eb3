// SPDX-License-Identifier: MIT OR Apache-2.0
//! The start of a launcher: its job, its process, its connection and its exit.

use std::ffi::{OsStr, OsString};
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Child;
use std::thread;

use pmix_client::{Settings, Uri};
use pmix_proto::{PeerForm, Role};
use pmix_server::{Credentials, HostObject, Server};
use pmix_types::{App, Info, Nspace, Proc, Rank, Status, Text, Value, keys};
use rustix::io::{Errno, FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getegid, geteuid, waitid, waitpid,
};

use super::command_line::CommandLine;
use super::process::Process;
use super::{LauncherEvent, Launchers, STACK_BYTES};
use crate::{Attachment, Error};

/// The variable with the descriptor of the write end of a pipe, which the launcher polls: when the read end is
/// closed, its tool has exited.
const KEEPALIVE: &str = "PMIX_KEEPALIVE_PIPE";

impl Launchers {
    /// Starts a launcher that connects to the tool's own server (`PMIx_Spawn` of a tool without a connection), and
    /// returns the namespace of its job.
    ///
    /// # Errors
    /// Returns the statuses of `PMIx_Spawn` for a launcher that cannot be started, and `PMIX_ERR_NOT_SUPPORTED` for a
    /// required attribute that is not supported here, or for several applications or processes.
    pub fn start(
        &self,
        server: &Server,
        infos: &[Info<'static>],
        apps: &[App<'static>],
    ) -> Result<Nspace<'static>, Error> {
        let line = CommandLine::of(infos, apps)?;
        let launcher = name_of(server.proc(), self.next_number());
        let started = register(server, &launcher, &line.job_info)
            .and_then(|environment| self.run(server, &launcher, line, environment));
        if started.is_err() {
            // An error means that the namespace was not registered.
            let _ = server.deregister_nspace(&launcher.nspace);
        }
        started.map(|()| launcher.nspace)
    }

    /// Starts the process of a launcher, and arranges for its connection to pass to the tool.
    fn run(
        &self,
        server: &Server,
        launcher: &Proc<'static>,
        line: CommandLine,
        environment: Vec<(OsString, OsString)>,
    ) -> Result<(), Error> {
        let no_pipe = |error: Errno| {
            let why = format!("cannot create a pipe for a launcher: {error}");
            Error::new(of_system(Some(error)), why)
        };
        let (keepalive, inherited) = pipe_with(PipeFlags::CLOEXEC).map_err(no_pipe)?;
        // If the program has closed its standard streams, the pipe may have got their descriptors, which the child
        // overwrites.
        let moved = |fd: OwnedFd| fcntl_dupfd_cloexec(&fd, 3).map_err(no_pipe);
        let (keepalive, inherited) = (moved(keepalive)?, moved(inherited)?);
        // Another child started at the same time may inherit the write end. That is harmless, because only the tool has
        // the read end.
        fcntl_setfd(&inherited, FdFlags::empty()).map_err(no_pipe)?;
        let (own, of) = (server.proc().clone(), launcher.clone());
        let release = var(&environment, "PMIX_VERSION");
        let mut more = environment;
        // Launchers of PRRTE take their own name, and that of their servers, from these variables.
        let nspace = OsStr::from_bytes(launcher.nspace.as_bytes()).to_owned();
        more.push(("PMIX_SERVER_NSPACE".into(), nspace));
        more.push(("PMIX_SERVER_RANK".into(), launcher.rank.to_string().into()));
        more.push((KEEPALIVE.into(), inherited.as_raw_fd().to_string().into()));
        let connects = line.connects_with(server.uri());
        let mut command = line.command(more)?;
        // A launcher without the URI of the tool in its environment stays an ordinary client of the server.
        if connects {
            let launchers = self.clone();
            server.take_connection(launcher, move |stream, form| {
                match launchers.attach(own, &of, release, stream, form) {
                    Ok(made) => launchers.accept(made),
                    Err(why) => tracing::warn!("lost the connection to a launcher: {why}"),
                }
            });
        }
        // The server knows what to do with the connection before the launcher can make it.
        let child = command.spawn().map_err(|error| {
            let program = command.get_program().to_string_lossy();
            let why = format!("cannot start {program}: {error}");
            let status = match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                    Status::ERR_JOB_EXE_NOT_FOUND
                }
                io::ErrorKind::PermissionDenied => Status::ERR_JOB_APP_NOT_EXECUTABLE,
                _ => of_system(Errno::from_io_error(&error)),
            };
            Error::new(status, why)
        })?;
        self.watch(server, launcher, child, keepalive)
    }

    /// Starts a thread that waits for a launcher to exit.
    fn watch(
        &self,
        server: &Server,
        launcher: &Proc<'static>,
        mut child: Child,
        keepalive: OwnedFd,
    ) -> Result<(), Error> {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| {
            Error::new(Status::ERR_JOB_FAILED_TO_LAUNCH, "a launcher without a pid")
        })?;
        let process = Process::new(pid);
        self.add_started(launcher.clone(), process.clone(), keepalive);
        let unwatched = process.clone();
        let (launchers, server, of) = (self.clone(), server.clone(), launcher.clone());
        let named = thread::Builder::new().name("pmix-launcher".to_owned());
        let begun = named.stack_size(STACK_BYTES).spawn(move || {
            // If the program reaps all its children itself, `waitid` fails and the exit status is unknown.
            let ends = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while let Err(Errno::INTR) = waitid(WaitId::Pid(pid), ends) {}
            let code = process.reap(|| child.wait()).ok();
            let code = code.and_then(|it| it.code().or_else(|| Some(128 + it.signal()?)));
            launchers.handle_exit(&server, &of, code);
        });
        let watcher = begun.map_err(|error| {
            unwatched.signal(Signal::KILL);
            if let Err(error) = unwatched.reap(|| waitpid(Some(pid), WaitOptions::empty())) {
                tracing::debug!("cannot wait for the end of a launcher: {error}");
            }
            self.forget(launcher);
            let why = format!("terminated a launcher that cannot be watched: {error}");
            Error::new(Status::ERR_OUT_OF_RESOURCE, why)
        })?;
        self.set_watcher(launcher, watcher);
        Ok(())
    }

    /// Handles the exit of a launcher: deregisters its job and reports the event.
    fn handle_exit(&self, server: &Server, launcher: &Proc<'static>, code: Option<i32>) {
        // The server may have ended before the launcher, and its namespaces with it.
        let _ = server.deregister_nspace(&launcher.nspace);
        let (is_known, unused) = self.set_ended(launcher);
        // The tool may end, and with it its launchers.
        if !is_known {
            return;
        }
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
        (self.0.notify)(LauncherEvent::Ended(launcher.clone(), infos));
        if let Some(unused) = unused {
            unused.close();
        }
    }

    /// Makes the connection of the tool to its launcher from the accepted socket.
    fn attach(
        &self,
        own: Proc<'static>,
        launcher: &Proc<'static>,
        release: Option<String>,
        stream: TcpStream,
        form: PeerForm,
    ) -> Result<Attachment, String> {
        let address = stream.peer_addr().map_err(|error| error.to_string())?;
        let server = launcher.clone();
        let mut settings = Settings::new(own, Uri { server, address });
        settings.role = Role::TOOL_WITH_ID;
        settings.layout = form.layout;
        settings.server_version = release;
        settings.thread_start.clone_from(&self.0.thread_start);
        let made = Attachment::of_launcher(settings, stream, (self.0.listener)(launcher));
        made.map_err(|error| error.to_string())
    }

    /// Adds the connection of a launcher, which the tool can then select as its server.
    fn accept(&self, made: Attachment) {
        let launcher = made.server().clone();
        let unused = self.add_connected(made);
        (self.0.notify)(LauncherEvent::Connected(launcher));
        if let Some(unused) = unused {
            // This runs on the thread of the server, which must not wait for a reply.
            unused.close();
        }
    }
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
) -> Result<Vec<(OsString, OsString)>, Error> {
    let refused = |error: pmix_server::Error| {
        let why = format!("cannot start a launcher: {error}");
        Error::new(error.status(), why)
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

/// Returns the status for an error of the system: a lack of resources, or a failed launch.
fn of_system(error: Option<Errno>) -> Status {
    match error {
        Some(Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE) => {
            Status::ERR_JOB_INSUFFICIENT_RESOURCES
        }
        _ => Status::ERR_JOB_FAILED_TO_LAUNCH,
    }
}
