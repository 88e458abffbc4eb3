// SPDX-License-Identifier: MIT OR Apache-2.0
//! The initiator, the tool that requested this launcher: its directives for the job, and its
//! release of the launcher.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `PMIX_LAUNCHER_PAUSE_FOR_TOOL` | a tool has this launcher started: it asks the server that started it for `PMIX_LAUNCH_DIRECTIVES`, and waits for its release unless the value is empty, 0, false or no |
//! | `PMIX_LAUNCHER_RNDZ_URI` | the address of the tool, with which the launcher connects: it asks the tool for `PMIX_LAUNCH_DIRECTIVES`, and waits for its release |
//! | `PMIX_KEEPALIVE_PIPE` | the descriptor of either end of a pipe; the launcher ends, as by SIGTERM, when the initiator no longer holds the other one. Its job does not have the descriptor |
//!
//! Source: PMIx Standard, chapter "Tools and Debuggers", "Indirect launch".

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::os::unix::net::UnixStream;
use std::thread;

use pmix_client::driver::ToolConnection;
use pmix_client::{Client, ClientEvent, Settings};
use pmix_launch::{PAUSE_FOR_TOOL, Plan, ToolWait};
use pmix_mca::Environment;
use pmix_proto::Role;
use pmix_server::ConnectedTool;
use pmix_types::{BREAKPOINT_IN_INIT, DataArray, DataRange, Info, Proc, Status, Value, keys};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Signal, getpid, kill_process};

use crate::failure::{Exit, Failure};

/// The connections of this launcher with the server that started it for the initiator, or with the
/// initiator itself, and the stream that signals its release.
pub(super) struct Initiator {
    /// The tool, if it passed its address.
    tool: Option<ToolConnection>,
    /// The client connection with the server that started this launcher; `None` if no server did.
    client: Option<Client>,
    /// The stream that signals a release, if the launcher waits for one.
    released: Option<UnixStream>,
    /// The other end of `released` if there is no server, so that only an attached tool releases
    /// the launcher. It stays open and unused.
    _release: Option<UnixStream>,
}

impl Initiator {
    /// Connects with the server that started this launcher, if a tool requested the launcher.
    ///
    /// # Errors
    /// A variable cannot be read, or the server or tool does not reply.
    pub(super) fn of(environment: &Environment) -> Result<Option<Self>, Failure> {
        watch_keepalive(environment)?;
        let named = Settings::of_launcher(environment);
        let unread = |e: pmix_client::Error| Failure::new(Exit::Usage, e.status(), e.to_string());
        if let Some(settings) = named.map_err(unread)? {
            return Self::of_tool(settings).map(Some);
        }
        let Some(mark) = environment.first_of(&[PAUSE_FOR_TOOL]) else {
            return Ok(None);
        };
        let mark = mark.to_string_lossy().to_ascii_lowercase();
        let waits = !["", "0", "false", "no"].contains(&mark.as_str());
        let (released, release) = pair()?;
        let settings = match Settings::of(environment) {
            Err(e) if e.status() == Status::ERR_NOT_AVAILABLE => None,
            settings => Some(settings?),
        };
        let mut release = Some(release);
        let client = match settings {
            None => None,
            Some(mut settings) => {
                settings.role = Role::STARTED_LAUNCHER;
                // The launcher waits later, when its own server exists, through which it can also
                // be released.
                settings.stops_in_init = false;
                let mut release = release.take();
                let client = Client::init(settings)?;
                client.set_listener(move |event| match event {
                    ClientEvent::Event(event) if event.status == Status::DEBUGGER_RELEASE => {
                        if let Some(Err(e)) = release.as_mut().map(|to| to.write_all(&[1])) {
                            tracing::debug!("the launcher cannot wait for a release: {e}");
                        }
                    }
                    // Without the connection, the launcher cannot be released.
                    ClientEvent::Lost => release = None,
                    _ => {}
                });
                Some(client)
            }
        };
        let mut initiator = Self {
            tool: None,
            client,
            released: None,
            _release: release,
        };
        if waits || initiator.stops_in_init() {
            if let Some(client) = &initiator.client {
                client
                    .register_events(vec![Status::DEBUGGER_RELEASE], Vec::new())
                    .wait()?;
            }
            initiator.released = Some(released);
        }
        Ok(Some(initiator))
    }

    /// Connects with the tool that requested this launcher.
    fn of_tool(settings: Settings) -> Result<Self, Failure> {
        let address = settings.server.as_ref().map(|tool| tool.address);
        let address = address
            .map(|address| address.to_string())
            .unwrap_or_default();
        let connected = ToolConnection::open(settings);
        let tool = connected.map_err(|e| {
            let message =
                format!("the tool in PMIX_LAUNCHER_RNDZ_URI ({address}) is not available: {e}");
            Failure::new(Exit::Usage, e.status(), message)
        })?;
        let (released, release) = pair()?;
        Ok(Self {
            tool: Some(tool),
            client: None,
            released: Some(released),
            _release: Some(release),
        })
    }

    /// Applies the tool's directives to the plan of the command line.
    pub(super) fn direct(&self, plan: Plan) -> Result<Plan, Failure> {
        match self.job_info(keys::LAUNCH_DIRECTIVES) {
            Some(Value::DataArray(DataArray::Info(directives))) => {
                plan.directed(&directives).map_err(super::refused)
            }
            _ => Ok(plan),
        }
    }

    /// Returns the source of the release, if the launcher must wait for one.
    pub(super) fn wait(&mut self) -> Option<ToolWait> {
        let released = self.released.take()?;
        let client = self.client.clone();
        let tool = self.tool.take();
        let of_tool = tool.as_ref().map(|tool| tool.launcher.clone());
        let launcher = of_tool.or_else(|| client.as_ref().map(|client| client.proc().clone()));
        let parent = match self.job_info(keys::PARENT_ID) {
            Some(Value::Proc(parent)) => Some(parent),
            _ => None,
        };
        let of_release = client.clone();
        let ready = move || {
            if let Some(client) = client {
                notify_ready(&client, parent);
            }
        };
        let released_here = move || {
            if let Some(client) = of_release {
                notify_released(&client);
            }
        };
        Some(ToolWait {
            tool: tool.map(connected),
            launcher,
            released,
            ready: Box::new(ready),
            released_here: Box::new(released_here),
        })
    }

    fn stops_in_init(&self) -> bool {
        let found = self.job_info(keys::DEBUG_STOP_IN_INIT);
        let proc = self.client.as_ref().map(Client::proc);
        proc.zip(found)
            .is_some_and(|(proc, value)| value.is_for(proc))
    }

    /// Returns a value of the job info of this launcher from the tool or the server.
    fn job_info(&self, key: &'static str) -> Option<Value<'static>> {
        if let Some(tool) = &self.tool {
            return tool.job_info(key);
        }
        let client = self.client.as_ref()?;
        let at_once = [Info::new(keys::IMMEDIATE, true)];
        client.get(&client.job(), key, &at_once).wait().ok()
    }
}

impl Drop for Initiator {
    /// Finalizes the connection with the server that started this process. Without this, the server
    /// would treat its exit as a failure.
    fn drop(&mut self) {
        if let Some(client) = &self.client
            && let Err(e) = client.finalize()
        {
            tracing::debug!("cannot disconnect from the server that started this launcher: {e}");
        }
    }
}

/// Converts the connection for the server of this launcher.
fn connected(tool: ToolConnection) -> ConnectedTool {
    ConnectedTool {
        name: tool.tool,
        form: tool.form,
        stream: tool.stream,
        unread: tool.unread,
    }
}

/// Creates a pair of sockets: a release sent to one is received from the other.
fn pair() -> Result<(UnixStream, UnixStream), Failure> {
    let pair = UnixStream::pair();
    pair.map_err(|e| Failure::usage(format!("cannot wait for a release: {e}")))
}

/// Notifies the server that started this launcher that the launcher waits, and the initiator that
/// tools can attach.
fn notify_ready(client: &Client, parent: Option<Proc<'static>>) {
    let once = [
        Info::new(keys::EVENT_NON_DEFAULT, true),
        Info::new(keys::EVENT_DO_NOT_CACHE, true),
    ];
    let mut waits = once.to_vec();
    waits.push(Info::new(keys::BREAKPOINT, BREAKPOINT_IN_INIT));
    let waits = client.notify(Status::READY_FOR_DEBUG, DataRange::RM, waits);
    let ready = parent.map(|parent| {
        let mut infos = vec![Info::new(keys::EVENT_NON_DEFAULT, true)];
        infos.push(Info::new(keys::EVENT_CUSTOM_RANGE, vec![parent]));
        client.notify(Status::LAUNCHER_READY, DataRange::CUSTOM, infos)
    });
    for notification in [Some(waits), ready].into_iter().flatten() {
        if let Err(e) = notification.wait() {
            tracing::warn!(
                "cannot notify the server that started this launcher that the launcher waits: {e}"
            );
        }
    }
}

/// Notifies the server that started this launcher that it no longer waits. The event is the one
/// with which a tool releases a launcher.
fn notify_released(client: &Client) {
    let infos = vec![
        Info::new(keys::EVENT_NON_DEFAULT, true),
        Info::new(keys::EVENT_DO_NOT_CACHE, true),
        Info::new(keys::EVENT_CUSTOM_RANGE, vec![client.proc().clone()]),
    ];
    let released = client.notify(Status::DEBUGGER_RELEASE, DataRange::RM, infos);
    if let Err(e) = released.wait() {
        tracing::warn!(
            "cannot notify the server that started this launcher that the launcher continues: {e}"
        );
    }
}

/// Returns the flags of an inherited descriptor that is no standard stream, else `None`.
/// Descriptors that this program opens have CLOEXEC, inherited ones do not.
fn flags_of_inherited(number: u32) -> Option<OFlags> {
    let about = fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap_or_default();
    let flags = about.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = u32::from_str_radix(flags?.trim(), 8).ok()?;
    let flags = OFlags::from_bits_retain(flags);
    (number > 2 && !flags.contains(OFlags::CLOEXEC)).then_some(flags)
}

/// Parses the number of an inherited pipe. Returns it with the flags of the descriptor.
///
/// # Errors
/// The text is not the number of an inherited pipe. The error is the reason.
fn inherited_pipe(named: &str) -> Result<(u32, OFlags), String> {
    let number: u32 = named.parse().map_err(|e| format!("{e}"))?;
    let Ok(about) = fs::metadata(format!("/proc/self/fd/{number}")) else {
        return Err("the descriptor is not open".to_owned());
    };
    if !about.file_type().is_fifo() {
        return Err("the descriptor is not a pipe".to_owned());
    }
    let flags = flags_of_inherited(number);
    let flags = flags.ok_or("the launcher did not inherit the descriptor")?;
    Ok((number, flags))
}

/// Ends this launcher when the initiator closes its end of a pipe. If the variable is not the
/// number of a pipe, it is ignored with a warning: it may be from the environment of a launcher
/// that has exited.
fn watch_keepalive(environment: &Environment) -> Result<(), Failure> {
    let Some(number) = environment.first_of(&["PMIX_KEEPALIVE_PIPE"]) else {
        return Ok(());
    };
    let named = number.to_string_lossy().into_owned();
    let (number, flags) = match inherited_pipe(&named) {
        Ok(pipe) => pipe,
        Err(why) => {
            tracing::warn!("PMIX_KEEPALIVE_PIPE={named:?} is ignored: {why}");
            return Ok(());
        }
    };
    // Tools with libraries of OpenPMIx keep the read end.
    let is_to_write = flags & OFlags::RWMODE == OFlags::WRONLY;
    let mut how = File::options();
    how.read(!is_to_write).write(is_to_write);
    // Opening the write end fails if the tool has exited, and must not wait for another reader.
    if is_to_write {
        how.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    }
    let unread = |why: String| {
        let message = format!("PMIX_KEEPALIVE_PIPE={named:?} is invalid: {why}");
        Failure::usage(message).cure("expected the number of a descriptor that is an end of a pipe")
    };
    let pipe = how.open(format!("/proc/self/fd/{number}"));
    let mut pipe = pipe.map_err(|e| unread(e.to_string()))?;
    // The reopened pipe is closed on exec. The inherited descriptor has no other owner in this process, so it
    // is closed here.
    if let Ok(given) = i32::try_from(number)
        && let Err(e) = nix::unistd::close(given)
    {
        tracing::debug!("processes of the job may inherit the pipe of the tool: {e}");
    }
    let watch = move || {
        match is_to_write {
            true => wait_for_no_reader(&pipe),
            false => {
                let mut bytes = [0; 64];
                while pipe.read(&mut bytes).is_ok_and(|length| length > 0) {}
            }
        }
        tracing::info!("the tool that started this launcher has exited");
        if let Err(e) = kill_process(getpid(), Signal::TERM) {
            tracing::warn!("cannot terminate the launcher after the tool that started it: {e}");
        }
    };
    let started = thread::Builder::new()
        .name("keepalive".to_owned())
        .spawn(watch);
    started.map_err(|e| unread(e.to_string()))?;
    Ok(())
}

/// Waits until all read ends of a pipe are closed.
fn wait_for_no_reader(pipe: &File) {
    // `poll` reports an error without any requested events.
    let mut polled = [PollFd::new(pipe, PollFlags::empty())];
    while let Err(Errno::INTR) = poll(&mut polled, None) {}
}
