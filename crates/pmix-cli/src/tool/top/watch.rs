// SPDX-License-Identifier: MIT OR Apache-2.0
//! The servers that `pmix top` measures. Each has a thread, because a server that is stopped must not delay the others.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use pmix_tool::{ClientEvent, FoundServer, Tool};
use pmix_types::Status;

use super::measure::{Bounds, Measured, measure};
use crate::args::Top;
use crate::failure::Failure;
use crate::tool::fleet::Fleet;
use crate::tool::{MAX_FOLLOWED_OF_OTHERS, attach_to_each, attach_with, is_answer, leave};

/// The maximum number of servers that are measured. Each needs a thread and memory.
const MAX_SERVERS: usize = 256;

/// The time to wait for further servers after the first server has replied.
const OTHERS: Duration = Duration::from_secs(3);

/// The time that servers have to confirm the disconnect.
const FAREWELL: Duration = Duration::from_secs(1);

/// A report of the thread of a server.
enum Report {
    /// A measurement, or the reason why there is none, after which the thread ends.
    Measured(Result<Measured, Failure>),
    /// The server has ended.
    Lost,
}

/// A server and its last report.
pub(super) struct Watched {
    pub(super) server: FoundServer,
    /// The sender of requests to the thread.
    requests: Sender<()>,
    /// `true` from a request until the reply to it.
    is_busy: bool,
    /// `true` if the reply did not come in time. The next measurement of the other servers does not wait for it.
    is_late: bool,
    /// The measurement that was not taken yet.
    pub(super) fresh: Option<Measured>,
    /// The reason why the server has no measurement.
    pub(super) failure: Option<Failure>,
    is_lost: bool,
    /// `true` once the server has replied.
    has_replied: bool,
}

impl Watched {
    /// Returns `true` if the server has never replied and has not failed.
    pub(super) fn is_silent(&self) -> bool {
        !self.has_replied && !self.is_over()
    }

    /// Returns `true` if the server has ended or cannot be measured.
    pub(super) fn is_over(&self) -> bool {
        self.is_lost || self.failure.is_some()
    }
}

/// All servers that are measured.
pub(super) struct Watch<'a> {
    args: &'a Top,
    fleet: Fleet,
    pub(super) servers: BTreeMap<usize, Watched>,
    /// The number of the next server.
    next: usize,
    /// The number of servers that are not measured.
    pub(super) num_more: usize,
    sender: Sender<(usize, Report)>,
    reports: Receiver<(usize, Report)>,
}

impl<'a> Watch<'a> {
    /// Starts with the servers that the arguments select.
    pub(super) fn start(args: &'a Top) -> Result<Self, Failure> {
        let (fleet, servers) = Fleet::find(&args.attach, args.nspace.as_deref())?;
        let (sender, reports) = mpsc::channel();
        let mut watch = Self {
            args,
            fleet,
            servers: BTreeMap::new(),
            next: 0,
            num_more: 0,
            sender,
            reports,
        };
        watch.add(servers);
        Ok(watch)
    }

    /// Adds the servers that are not known yet.
    fn add(&mut self, servers: Vec<FoundServer>) {
        self.num_more = 0;
        for server in servers {
            let is_known = |watched: &Watched| watched.server.uri == server.uri;
            if self.servers.values().any(is_known) {
                continue;
            }
            let is_others = server.owner.is_some();
            let num_alike = { self.servers.values() }.filter(|watched| {
                !watched.is_over() && watched.server.owner.is_some() == is_others
            });
            let limit = match is_others {
                true => MAX_FOLLOWED_OF_OTHERS,
                false => MAX_SERVERS,
            };
            if num_alike.count() >= limit {
                self.num_more += 1;
                continue;
            }
            let index = self.next;
            match self.begin(index, &server) {
                Ok(requests) => {
                    let watched = Watched {
                        server,
                        requests,
                        is_busy: false,
                        is_late: false,
                        fresh: None,
                        failure: None,
                        is_lost: false,
                        has_replied: false,
                    };
                    self.servers.insert(index, watched);
                    self.next += 1;
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot start a thread; fewer servers are measured");
                    self.num_more += 1;
                }
            }
        }
    }

    /// Starts the thread of a server. It ends with the command, or when the server fails.
    fn begin(&self, index: usize, server: &FoundServer) -> std::io::Result<Sender<()>> {
        let (requests, due) = mpsc::channel::<()>();
        let (reports, lost) = (self.sender.clone(), self.sender.clone());
        let (server, nspace) = (server.clone(), self.args.nspace.clone());
        let attach = crate::args::Attach::by_job(self.args.attach.timeout);
        let is_one_of_many = self.fleet.is_all();
        let bounds = match is_one_of_many && server.owner.is_some() {
            true => Bounds::OF_OTHERS,
            false => Bounds::NONE,
        };
        let work = move || {
            let listener = move |event| {
                if matches!(event, ClientEvent::Lost) {
                    // The receiver is dropped when the command exits.
                    let _ = lost.send((index, Report::Lost));
                }
            };
            let tool = match is_one_of_many {
                true => attach_to_each(&server, &attach, listener),
                false => attach_with(&server, &attach, listener),
            };
            let tool = match tool {
                Ok(tool) => tool,
                Err(failure) => {
                    let _ = reports.send((index, Report::Measured(Err(failure))));
                    return;
                }
            };
            register(&tool);
            for () in due {
                let measured = measure(&tool, nspace.as_deref(), bounds);
                let has_failed = measured.is_err();
                if reports.send((index, Report::Measured(measured))).is_err() || has_failed {
                    break;
                }
            }
            leave(tool);
        };
        thread::Builder::new().spawn(work)?;
        Ok(requests)
    }

    /// Searches for new servers, requests a measurement of each server, and waits for the replies, but not long for a
    /// server that is slower than others.
    pub(super) fn measure(&mut self) {
        let found = self.fleet.search();
        if !found.is_empty() {
            // A server that failed is kept as long as it has a file, so that it is not asked again.
            self.servers.retain(|_, watched| {
                !watched.is_over() || found.iter().any(|found| found.uri == watched.server.uri)
            });
            self.add(found);
        }
        for watched in self.servers.values_mut() {
            if !watched.is_busy && !watched.is_over() {
                watched.is_busy = watched.requests.send(()).is_ok();
            }
        }
        let mut until = None;
        let is_awaited = |watched: &Watched| watched.is_busy && !watched.is_late;
        while self.servers.values().any(is_awaited) {
            let left = until.map(|until: Instant| until.saturating_duration_since(Instant::now()));
            let come = match left {
                None => self.reports.recv().ok(),
                Some(left) => self.reports.recv_timeout(left).ok(),
            };
            let Some((index, report)) = come else { break };
            self.keep(index, report);
            until.get_or_insert_with(|| Instant::now() + OTHERS);
        }
        for watched in self.servers.values_mut() {
            watched.is_late = watched.is_busy;
        }
    }

    /// Waits until the next measurement is due. Returns `false` if every server has ended.
    pub(super) fn wait(&mut self) -> bool {
        let until = Instant::now() + self.args.interval;
        loop {
            if self.servers.values().all(Watched::is_over) {
                return false;
            }
            let left = until.saturating_duration_since(Instant::now());
            // The time is checked for each report, so that a server cannot delay the next measurement.
            if left.is_zero() {
                return true;
            }
            match self.reports.recv_timeout(left) {
                Ok((index, report)) => self.keep(index, report),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return true,
            }
        }
    }

    fn keep(&mut self, index: usize, report: Report) {
        let Some(watched) = self.servers.get_mut(&index) else {
            return;
        };
        match report {
            // The thread still reports why its request failed: the reply may have been too long.
            Report::Lost => watched.is_lost = true,
            Report::Measured(measured) => {
                watched.is_busy = false;
                match measured {
                    Ok(measured) => {
                        watched.has_replied = true;
                        watched.fresh = Some(measured);
                    }
                    // The server has ended.
                    Err(failure) if watched.is_lost && !is_answer(failure.status()) => {}
                    Err(failure) => watched.failure = Some(failure),
                }
            }
        }
    }

    /// Disconnects from the servers.
    pub(super) fn finish(self) {
        let Self {
            servers,
            sender,
            reports,
            ..
        } = self;
        // A thread ends when its requests end. The channel of the reports closes with the last thread.
        drop((servers, sender));
        let until = Instant::now() + FAREWELL;
        while let Some(left) = until.checked_duration_since(Instant::now())
            && reports.recv_timeout(left).is_ok()
        {}
    }
}

/// Registers for the end of jobs, which also reports the end of the server. A server without such events is polled.
fn register(tool: &Tool) {
    let registered = tool
        .register_events(vec![Status::EVENT_JOB_END], Vec::new())
        .wait();
    if let Err(error) = registered {
        tracing::debug!(%error, "cannot register for the end of jobs; polling instead");
    }
}
