// SPDX-License-Identifier: MIT OR Apache-2.0
//! The monitors of files at a host that does not monitor files. The library then watches the files itself, as OpenPMIx
//! does.
//!
//! One thread owns the monitors. It begins with the first request and ends with the server, which waits for it: the
//! program may close the library afterwards. The threads of `pmix-host` that read the files end on their own; one that a
//! file system blocks remains.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use pmix_host::monitor::{LocalNode, MonitorEvent, MonitorService};
use pmix_server::{EventSource, Server, upcall};
use pmix_types::{Info, IntoOwned as _, Nspace, Proc, Status, keys};
use rustix::process::geteuid;

use super::pending::ReplyTo;
use crate::state::server;

/// The size of the thread's stack in bytes.
const STACK_BYTES: usize = 256 << 10;

/// The reply to a request.
type Done = ReplyTo<Vec<Info<'static>>>;

/// A message to the thread.
enum Message {
    Request(Box<upcall::Monitor>, Done),
    ProcEnded(Proc<'static>),
    JobEnded(Nspace<'static>),
}

/// The thread that watches files, if there is one.
#[derive(Default)]
pub(crate) struct FileMonitors(Mutex<State>);

#[derive(Default)]
enum State {
    /// No process has requested a monitor.
    #[default]
    Idle,
    Active(Worker),
    /// The server has ended.
    Ended,
}

struct Worker {
    messages: Sender<Message>,
    thread: JoinHandle<()>,
}

impl FileMonitors {
    /// Returns `true` if a request can be served here.
    pub(super) fn serves(call: &upcall::Monitor) -> bool {
        [keys::MONITOR_FILE, keys::MONITOR_CANCEL]
            .iter()
            .any(|key| call.monitor.key.is(*key))
    }

    /// Returns `true` if a process has requested a monitor.
    pub(super) fn is_active(&self) -> bool {
        matches!(*self.state(), State::Active(_))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves a request that the host does not support.
    pub(super) fn request(&self, call: upcall::Monitor, done: Done) {
        let mut state = self.state();
        if matches!(*state, State::Idle) {
            // Nothing is monitored here, so there is nothing to cancel.
            if call.monitor.key.is(keys::MONITOR_CANCEL) {
                return done.not_supported();
            }
            let (messages, received) = mpsc::channel();
            let named = thread::Builder::new().name("pmix-files".to_owned());
            match named.stack_size(STACK_BYTES).spawn(move || run(&received)) {
                Ok(thread) => *state = State::Active(Worker { messages, thread }),
                Err(_) => return done.fail(Status::ERR_OUT_OF_RESOURCE),
            }
        }
        match &*state {
            State::Active(worker) => {
                // The thread receives until the last sender is dropped.
                let _ = worker.messages.send(Message::Request(Box::new(call), done));
            }
            // As all requests that are open when the server ends.
            State::Idle | State::Ended => done.fail(Status::ERR_COMM_FAILURE),
        }
    }

    /// Removes the monitors of a process.
    pub(crate) fn proc_ended(&self, proc: &Proc<'_>) {
        self.send(|| Message::ProcEnded(proc.clone().into_owned()));
    }

    /// Removes the monitors of a job.
    pub(crate) fn job_ended(&self, nspace: &Nspace<'_>) {
        self.send(|| Message::JobEnded(nspace.clone().into_owned()));
    }

    fn send(&self, message: impl FnOnce() -> Message) {
        if let State::Active(worker) = &*self.state() {
            let _ = worker.messages.send(message());
        }
    }

    /// Ends the thread. Later requests fail.
    pub(crate) fn end(&self) {
        let state = std::mem::replace(&mut *self.state(), State::Ended);
        if let State::Active(Worker { messages, thread }) = state {
            drop(messages);
            let _ = thread.join();
        }
    }
}

/// Serves requests and checks files until the server ends.
fn run(messages: &Receiver<Message>) {
    let mut service = MonitorService::default();
    loop {
        let message = match service.deadline() {
            None => messages.recv().map_err(RecvTimeoutError::from),
            Some(due) => messages.recv_timeout(due.saturating_duration_since(Instant::now())),
        };
        match message {
            Ok(Message::Request(call, done)) => {
                let (node, now) = (LocalNode::default(), Instant::now());
                match service.monitor(&call, geteuid().as_raw(), &node, now) {
                    Ok(infos) => done.succeed(infos),
                    Err(error) => {
                        let (nspace, rank) = (&call.proc.nspace, call.proc.rank);
                        tracing::warn!(
                            "PMIx_Process_monitor from {nspace} rank {rank} failed: {error}"
                        );
                        done.fail(error.status());
                    }
                }
            }
            Ok(Message::ProcEnded(proc)) => service.proc_ended(&proc),
            Ok(Message::JobEnded(nspace)) => service.job_ended(&nspace),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let now = Instant::now();
        if service.deadline().is_some_and(|due| due <= now) {
            let events = service.tick(&LocalNode::default(), now);
            // A server that ends sends no more events.
            if let Ok(server) = server() {
                events.iter().for_each(|event| notify(&server, event));
            }
        }
    }
}

/// Sends the event of a file that has not changed.
fn notify(server: &Server, event: &MonitorEvent) {
    let source = server.proc();
    let source = match &event.observed {
        Some(proc) => EventSource::Observed(proc),
        None => EventSource::Reporter(source),
    };
    if let Err(error) = server.notify(event.status, source, event.range, &event.infos) {
        tracing::warn!("cannot send the event of a monitored file: {error}");
    }
}

#[cfg(test)]
mod tests {
    use pmix_types::{Rank, Value};

    use super::*;

    /// Makes a request and returns the status of its reply.
    fn asked(files: &FileMonitors, key: &str, value: &str) -> Status {
        let infos = vec![
            Info::new(keys::MONITOR_FILE_CHECK_TIME, 60_u32),
            Info::new(keys::MONITOR_ID, "log"),
            Info::new(keys::USERID, Value::Uint32(geteuid().as_raw())),
        ];
        let monitor = Info::new(key.to_owned(), value.to_owned());
        let proc = Proc::new("job", Rank::new(0));
        let call = upcall::Monitor::new(proc, monitor, Status::MONITOR_FILE_ALERT, infos);
        let (tell, told) = mpsc::channel();
        let done = move |reply: crate::memory::Result<(Status, _)>| {
            let _ = tell.send(reply.map_or_else(|status| status, |(status, _)| status));
        };
        files.request(call, ReplyTo::Own(Box::new(done)));
        told.recv().expect("each request gets a reply")
    }

    #[test]
    fn monitors_end_with_their_process_and_requests_with_the_server() {
        let files = FileMonitors::default();
        let cancel = || asked(&files, keys::MONITOR_CANCEL, "log");
        assert_eq!(cancel(), Status::ERR_NOT_SUPPORTED);
        assert_eq!(
            asked(&files, keys::MONITOR_FILE, "/proc/self/exe"),
            Status::SUCCESS
        );
        assert_eq!(cancel(), Status::SUCCESS);
        assert_eq!(
            asked(&files, keys::MONITOR_FILE, "/proc/self/exe"),
            Status::SUCCESS
        );
        files.proc_ended(&Proc::new("job", Rank::new(0)));
        assert_eq!(cancel(), Status::ERR_NOT_FOUND);
        files.end();
        assert_eq!(cancel(), Status::ERR_COMM_FAILURE);
    }
}
