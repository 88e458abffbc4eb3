// SPDX-License-Identifier: MIT OR Apache-2.0
//! The monitors of files at a host that does not monitor files. The library then watches the files itself, as OpenPMIx
//! does.
//!
//! One thread owns the monitors. It begins with the first request and ends with the server, which waits for it: the
//! program may close the library afterwards.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
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
pub(crate) struct FileMonitors(Mutex<Option<Worker>>);

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

    /// Serves a request that the host does not support.
    pub(super) fn request(&self, call: upcall::Monitor, done: Done) {
        let mut worker = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if worker.is_none() {
            // Nothing is monitored here, so there is nothing to cancel.
            if call.monitor.key.is(keys::MONITOR_CANCEL) {
                return done.not_supported();
            }
            let (messages, received) = mpsc::channel();
            let named = thread::Builder::new().name("pmix-files".to_owned());
            match named.stack_size(STACK_BYTES).spawn(move || run(&received)) {
                Ok(thread) => *worker = Some(Worker { messages, thread }),
                Err(_) => return done.fail(Status::ERR_OUT_OF_RESOURCE),
            }
        }
        if let Some(worker) = &*worker {
            // The thread receives until the last sender is dropped.
            let _ = worker.messages.send(Message::Request(Box::new(call), done));
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
        let worker = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(worker) = &*worker {
            let _ = worker.messages.send(message());
        }
    }

    /// Ends the thread.
    pub(crate) fn end(&self) {
        let worker = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Worker { messages, thread }) = worker {
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
                    Ok(infos) => done.partly(Status::SUCCESS, infos),
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
        if service.deadline().is_some_and(|due| due <= now)
            && let Ok(server) = server()
        {
            for event in service.tick(&LocalNode::default(), now) {
                notify(&server, &event);
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
