// SPDX-License-Identifier: MIT OR Apache-2.0
//! Init: the connection, the hello and the job info, and the stop for a debugger.
//!
//! Source: PMIx Standard, chapters "Client Initialization and Finalization" and "Tools and Debuggers",
//! `PMIX_DEBUG_STOP_IN_INIT`.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::Instant;

use pmix_mca::Environment;
use pmix_proto::Role;
use pmix_types::{BREAKPOINT_IN_INIT, DataRange, Info, Status, keys};

use super::Client;
use crate::connection::{Connection, Deadline};
use crate::core::Core;
use crate::hello::{credential, hello};
use crate::shared_data::SharedData;
use crate::socket::Socket;
use crate::{Error, Settings};

/// Connects to the server of the settings and completes init. Returns the core, its socket and the read buffer.
pub(super) fn connect(settings: Settings) -> Result<(Core, Socket, Box<[u8]>), Error> {
    let Some(server) = &settings.server else {
        // This socket has no peer. Threads and loops only need a descriptor to wait on.
        let (socket, buffer) = Connection::new(Socket::unconnected()?).into_parts();
        return Ok((Core::singleton(settings), socket, buffer));
    };
    let end = Deadline::after(settings.init_limit.or(settings.time_limit));
    let credential = credential(&settings)?;
    let shared = settings.shared_data.as_deref();
    let (nspace, most) = (&settings.proc.nspace, settings.max_reply_bytes);
    // The hello announces that this process reads the table, so the table is opened first.
    let shared = shared.and_then(|at| SharedData::open(nspace, at, most));
    let mut connection = Connection::new(Socket::connect(server, end.left())?);
    let hello = hello(&settings, &credential, shared.is_some());
    let mut core = Core::new(settings.clone(), &hello, end.at())?.reading(shared);
    let outcome = loop {
        if let Some((_, outcome)) = core.poll_completed() {
            break outcome;
        }
        if let Err(error) = exchange(&mut core, &mut connection) {
            // The loss completes init with this error, which the next iteration returns.
            core.handle_closed(error);
        }
        let now = Instant::now();
        if core.poll_timeout().is_some_and(|limit| limit <= now) {
            core.handle_timeout(now);
        }
    };
    outcome.map_err(|error| explain(error, &settings))?;
    let (socket, buffer) = connection.into_parts();
    // The limits of init do not apply to later reads and writes.
    socket
        .set_write_timeout(None)
        .and_then(|()| socket.set_read_timeout(None))
        .map_err(|error| Error::lost("cannot poll the connection", error))?;
    Ok((core, socket, buffer))
}

/// Adds the users of both sides to the error of a client whose connection the server closed. A server does not send the
/// reason to clients, because clients of OpenPMIx 4.2 would wait forever.
fn explain(error: Error, settings: &Settings) -> Error {
    // Only servers of this project have a directory that tells the user, and read parts of commits.
    let is_ours = settings.reads_commit_parts;
    if settings.role != Role::CLIENT || !is_ours || error.status() != Status::ERR_UNREACH {
        return error;
    }
    let environment = Environment::of_process();
    let Some(directory) = environment
        .first_of(&["PMIX_SERVER_TMPDIR"])
        .map(PathBuf::from)
    else {
        return error;
    };
    let own = rustix::process::geteuid().as_raw();
    // The launcher creates the directory for the user of its processes. A directory of several users, such as /tmp, tells
    // nothing.
    let about = directory.symlink_metadata();
    let expected = about.ok().filter(|about| about.mode() & 0o022 == 0);
    match expected.map(|about| about.uid()) {
        Some(expected) if expected != own => error.of(format_args!(
            "the server did not admit this process, which user {own} runs: it expects user {expected}, the owner of \
             the session directory {}",
            directory.display()
        )),
        _ => error,
    }
}

/// Sends and receives once, at most until the next time limit of the core.
fn exchange(core: &mut Core, connection: &mut Connection) -> io::Result<()> {
    let end = Deadline::after(None).or_before(core.poll_timeout());
    if connection.transmit(core, end)?
        && let Some(bytes) = connection.receive(end)?
    {
        core.handle_input(bytes, Instant::now());
    }
    Ok(())
}

impl Client {
    /// Waits for the release by a debugger if the job info requests the stop for this process.
    ///
    /// OpenPMIx stops every process regardless of the value; here only the processes that the value names stop. The
    /// directive is part of the job info that init has received, so no request is sent for it.
    pub(super) fn stop_in_init(&self) -> Result<(), Error> {
        let settings = self.settings();
        let is_started = [Role::CLIENT, Role::STARTED_TOOL, Role::STARTED_LAUNCHER];
        if !settings.stops_in_init || !is_started.contains(&settings.role) {
            return Ok(());
        }
        let only_here = [Info::new(keys::OPTIONAL, true)];
        let known = &self.0.known;
        let found = known.get(&self.job(), keys::DEBUG_STOP_IN_INIT, &only_here);
        match found {
            Some(Ok(value)) if value.is_for(self.proc()) => self.wait_for_release(),
            _ => Ok(()),
        }
    }

    fn wait_for_release(&self) -> Result<(), Error> {
        let release = [Status::DEBUGGER_RELEASE];
        // A debugger may release the process as soon as it is announced, so the registration precedes the event.
        self.register_events(release, []).wait()?;
        let ready = [
            Info::new(keys::EVENT_NON_DEFAULT, true),
            Info::new(keys::EVENT_DO_NOT_CACHE, true),
            Info::new(keys::BREAKPOINT, BREAKPOINT_IN_INIT),
        ];
        let range = DataRange::RM;
        self.notify(Status::READY_FOR_DEBUG, range, ready).wait()?;
        // The event ends init. Handlers that the program registers later must not receive it.
        self.0.wait_for_event(None, |core| {
            let is_released = core.take_event(Status::DEBUGGER_RELEASE);
            is_released.then_some(())
        })?;
        self.deregister_events(&release)
    }
}
