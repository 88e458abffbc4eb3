// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix events`: the events of jobs and processes that a server reports.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pmix_proto::Event;
use pmix_tool::{ClientEvent, FoundServer};
use pmix_types::{DataArray, Info, Nspace, Proc, Rank, Status, Text, Value, keys};
use serde_json::{Value as Json, json};

use super::fleet::Fleet;
use super::{MAX_FOLLOWED_OF_OTHERS, attach_to_each, attach_with, leave, node, warn_of_lost};
use crate::args::{Attach, Events, Global};
use crate::failure::{Exit, Failure};
use crate::get::typed_json;
use crate::output::Out;
use crate::style::printable;

/// The default events: changes of jobs and processes, including waits for a debugger.
const OF_JOBS: &[Status] = &[
    Status::EVENT_JOB_START,
    Status::EVENT_JOB_END,
    Status::READY_FOR_DEBUG,
    Status::EVENT_PROC_TERMINATED,
    Status::ERR_EXIT_NONZERO_TERM,
    Status::ERR_PROC_ABORTED,
    Status::ERR_PROC_ABORTED_BY_SIG,
    Status::ERR_PROC_FAILED_TO_START,
    Status::ERR_PROC_KILLED_BY_CMD,
    Status::ERR_PROC_REQUESTED_ABORT,
    Status::ERR_PROC_SENSOR_BOUND_EXCEEDED,
    Status::ERR_PROC_TERM_WO_SYNC,
    Status::ERR_JOB_ABORTED,
    Status::ERR_JOB_ABORTED_BY_SIG,
    Status::ERR_JOB_ABORTED_BY_SYS_EVENT,
    Status::ERR_JOB_ALLOC_FAILED,
    Status::ERR_JOB_APP_NOT_EXECUTABLE,
    Status::ERR_JOB_CANCELED,
    Status::ERR_JOB_EXE_NOT_FOUND,
    Status::ERR_JOB_FAILED_TO_LAUNCH,
    Status::ERR_JOB_FAILED_TO_MAP,
    Status::ERR_JOB_INSUFFICIENT_RESOURCES,
    Status::ERR_JOB_KILLED_BY_CMD,
    Status::ERR_JOB_NON_ZERO_TERM,
    Status::ERR_JOB_NO_EXE_SPECIFIED,
    Status::ERR_JOB_SENSOR_BOUND_EXCEEDED,
    Status::ERR_JOB_SYS_OP_FAILED,
    Status::ERR_JOB_TERM_WO_SYNC,
    Status::ERR_JOB_WDIR_NOT_ACCESSIBLE,
    Status::ERR_JOB_WDIR_NOT_FOUND,
    Status::PROCESS_SET_DEFINE,
    Status::PROCESS_SET_DELETE,
];

/// The maximum number of events that wait for the output. More events wait in the client, which
/// drops events beyond its limit. Events of other users may be long.
const WAITING: usize = 64;

/// The maximum number of servers that are followed. Each needs a thread.
const MAX_SERVERS: usize = 256;

/// The time that servers have to confirm the disconnect.
const FAREWELL: Duration = Duration::from_secs(1);

/// A report of the thread of a server.
enum Report {
    Event(ClientEvent),
    /// The thread has ended. It has the reason if it could not follow the server.
    Ended(Option<Failure>),
}

/// A server whose events are followed.
struct Followed {
    server: FoundServer,
    /// The thread of the server ends when this is dropped; `None` once the server has ended or has failed.
    ends: Option<Sender<()>>,
}

/// Runs the command.
pub(crate) fn run(global: &Global, args: &Events) -> Result<Exit, Failure> {
    let (fleet, servers) = Fleet::find(&args.attach, args.nspace.as_deref())?;
    let (sender, reports) = mpsc::sync_channel(WAITING);
    let mut following = Following {
        args,
        fleet,
        sender,
        servers: BTreeMap::new(),
        next: 0,
        has_events: false,
        is_full: false,
    };
    following.add(servers);
    let shown = following.show(global, &reports);
    let Following {
        servers, sender, ..
    } = following;
    drop((servers, sender));
    // The channel closes with the last thread. Reading it keeps the listeners from blocking while the tools disconnect.
    let until = Instant::now() + FAREWELL;
    while let Some(left) = until.checked_duration_since(Instant::now())
        && reports.recv_timeout(left).is_ok()
    {}
    shown
}

/// The servers that are followed.
struct Following<'a> {
    args: &'a Events,
    fleet: Fleet,
    sender: SyncSender<(usize, Report)>,
    servers: BTreeMap<usize, Followed>,
    /// The number of the next server.
    next: usize,
    /// `true` once a server has reported an event.
    has_events: bool,
    /// `true` once a server was left out.
    is_full: bool,
}

impl Following<'_> {
    /// Follows the servers that are not followed yet.
    fn add(&mut self, servers: Vec<FoundServer>) {
        for server in servers {
            let is_known = |followed: &Followed| followed.server.uri == server.uri;
            if self.servers.values().any(is_known) {
                continue;
            }
            // The servers of other users come last, and do not replace those of this user.
            let is_others = server.owner.is_some();
            let num_alike = { self.servers.values() }.filter(|followed| {
                followed.ends.is_some() && followed.server.owner.is_some() == is_others
            });
            let limit = match is_others {
                true => MAX_FOLLOWED_OF_OTHERS,
                false => MAX_SERVERS,
            };
            if num_alike.count() >= limit {
                if !self.is_full {
                    let of_others = if is_others { " of other users" } else { "" };
                    let server = node::describe(&server);
                    tracing::warn!(
                        "{limit} servers{of_others} are followed; the events of {server} are not shown"
                    );
                }
                self.is_full = true;
                continue;
            }
            match self.begin(&server) {
                Ok(ends) => {
                    let followed = Followed {
                        server,
                        ends: Some(ends),
                    };
                    self.servers.insert(self.next, followed);
                    self.next += 1;
                }
                Err(error) => tracing::warn!(
                    "cannot start a thread for the events of {}: {error}",
                    node::describe(&server)
                ),
            }
        }
    }

    /// Starts the thread of a server, which ends when the returned sender is dropped.
    fn begin(&self, server: &FoundServer) -> std::io::Result<Sender<()>> {
        let (ends, ended) = mpsc::channel::<()>();
        let (index, sender) = (self.next, self.sender.clone());
        let (server, attach) = (server.clone(), Attach::by_job(self.args.attach.timeout));
        let is_one_of_many = self.fleet.is_all();
        let codes = match self.args.codes.is_empty() {
            true => OF_JOBS.to_vec(),
            false => self.args.codes.clone(),
        };
        let work = move || {
            let events = sender.clone();
            let listener = move |event| {
                // The receiver is dropped only when the command is about to exit.
                let _ = events.send((index, Report::Event(event)));
            };
            let failure = follow_one(&server, &attach, is_one_of_many, codes, &ended, listener);
            let _ = sender.send((index, Report::Ended(failure.err())));
        };
        thread::Builder::new().spawn(work)?;
        Ok(ends)
    }

    /// Prints events until the servers end, or until `--count` events were printed.
    fn show(
        &mut self,
        global: &Global,
        reports: &Receiver<(usize, Report)>,
    ) -> Result<Exit, Failure> {
        let mut out = Out::new();
        let mut left = self.args.count;
        let mut failure = None;
        while left != Some(0)
            && self
                .servers
                .values()
                .any(|followed| followed.ends.is_some())
        {
            let found = self.fleet.search();
            if !found.is_empty() {
                // A server that failed is kept as long as it has a file, so that it is not tried again.
                self.servers.retain(|_, followed| {
                    followed.ends.is_some()
                        || found.iter().any(|found| found.uri == followed.server.uri)
                });
                self.add(found);
            }
            let come = match self.fleet.next_search() {
                None => reports.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(at) => reports.recv_timeout(at.saturating_duration_since(Instant::now())),
            };
            let (index, report) = match come {
                Ok(come) => come,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            match report {
                Report::Event(ClientEvent::Event(event)) => {
                    self.has_events = true;
                    let server = self.server_to_name(index);
                    if self.print(global, &mut out, &event, server)? {
                        left = left.map(|left| left - 1);
                    }
                }
                Report::Event(ClientEvent::Lost) => self.end(index, None, &mut failure),
                Report::Event(_) => {}
                Report::Ended(why) => self.end(index, why, &mut failure),
            }
        }
        match failure {
            Some(failure) if !self.has_events => Err(failure),
            _ => Ok(Exit::Ok),
        }
    }

    /// Returns the server of an event if several servers are followed.
    fn server_to_name(&self, index: usize) -> Option<&FoundServer> {
        let is_one_of_several = self.next > 1;
        let followed = self.servers.get(&index).filter(|_| is_one_of_several);
        followed.map(|followed| &followed.server)
    }

    /// Records the end of a server.
    fn end(&mut self, index: usize, why: Option<Failure>, first: &mut Option<Failure>) {
        let Some(followed) = self.servers.get_mut(&index) else {
            return;
        };
        followed.ends = None;
        if let Some(why) = why {
            if self.next > 1 {
                let server = node::describe(&followed.server);
                let why = printable(why.message().as_bytes());
                tracing::warn!("the events of {server} are not shown: {why}");
            }
            first.get_or_insert(why);
        }
    }

    /// Prints an event unless it is about another job. Returns `true` if it was printed.
    fn print(
        &self,
        global: &Global,
        out: &mut Out,
        event: &Event<'_>,
        server: Option<&FoundServer>,
    ) -> Result<bool, Failure> {
        let about = EventView::of(event);
        if let Some(nspace) = &self.args.nspace
            && !about.concerns(nspace.as_bytes())
        {
            return Ok(false);
        }
        let time = about.time(now());
        match global.json {
            true => {
                let mut line = about.to_json(time);
                if let (Some(server), Some(line)) = (server, line.as_object_mut()) {
                    let name = server.uri.server.nspace.as_text().to_str_lossy();
                    line.insert("server".to_owned(), name.into());
                    line.insert("server_pid".to_owned(), server.pid.into());
                }
                out.json(&line)?;
            }
            false => about.write(out, time, server)?,
        }
        out.flush()?;
        Ok(true)
    }
}

/// Follows the events of a server until the server ends or `ended` is closed.
fn follow_one(
    server: &FoundServer,
    attach: &Attach,
    is_one_of_many: bool,
    codes: Vec<Status>,
    ended: &Receiver<()>,
    listener: impl FnMut(ClientEvent) + Send + 'static,
) -> Result<(), Failure> {
    let tool = match is_one_of_many {
        true => attach_to_each(server, attach, listener)?,
        false => attach_with(server, attach, listener)?,
    };
    tool.register_events(codes, Vec::new()).wait()?;
    // If the server is lost by then, the tool no longer has it as its primary server.
    let client = tool.primary()?.clone();
    // Nothing is sent: this waits for the end of the command or of the server.
    let _ = ended.recv();
    warn_of_lost(client.num_lost_events(), "events");
    leave(tool);
    Ok(())
}

/// Returns `true` if an event is about a job.
pub(super) fn is_about(event: &Event<'_>, nspace: &str) -> bool {
    EventView::of(event).concerns(nspace.as_bytes())
}

/// Returns the time since 1970.
fn now() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default()
}

/// The contents of an event.
struct EventView<'e> {
    event: &'e Event<'e>,
    affected: Vec<&'e Proc<'e>>,
    nspace: Option<&'e Text<'e>>,
    exit_code: Option<i32>,
    text: Option<&'e Text<'e>>,
}

impl<'e> EventView<'e> {
    fn of(event: &'e Event<'e>) -> Self {
        let text = |key| {
            event.infos.iter().find_map(|info| match &info.value {
                Value::String(Some(text)) if info.key.is(key) => Some(text),
                _ => None,
            })
        };
        let code = event.infos.iter().find(|info| info.key.is(keys::EXIT_CODE));
        Self {
            event,
            affected: event.infos.iter().flat_map(affected).collect(),
            nspace: text(keys::NSPACE),
            exit_code: code.and_then(|info| info.value.to_number().ok()),
            text: text(keys::EVENT_TEXT_MESSAGE),
        }
    }

    /// Returns `true` if the event is about a job. This depends on its affected processes, or else
    /// on the job that it names, or else on its source.
    fn concerns(&self, nspace: &[u8]) -> bool {
        let is = |other: &Nspace<'_>| other.as_bytes() == nspace;
        match (self.affected.is_empty(), self.nspace) {
            (false, _) => self.affected.iter().any(|proc| is(&proc.nspace)),
            (true, Some(name)) => name.as_bytes() == nspace,
            (true, None) => is(&self.event.source.nspace),
        }
    }

    /// Returns the time of the event. This is its time stamp, which has whole seconds. If the stamp
    /// is not older than the time of arrival, it is the time of arrival, which is more precise.
    fn time(&self, come: Duration) -> Duration {
        let mut infos = self.event.infos.iter();
        let named = infos.find_map(|info| match info.value {
            Value::Time(seconds) if info.key.is(keys::EVENT_TIMESTAMP) => {
                u64::try_from(seconds).ok()
            }
            _ => None,
        });
        let named = named.filter(|seconds| *seconds < come.as_secs());
        named.map_or(come, Duration::from_secs)
    }

    fn to_json(&self, time: Duration) -> Json {
        let event = self.event;
        let infos = event.infos.iter().map(|info| {
            json!({
                "key": info.key.as_text().to_str_lossy(),
                "value": typed_json(&info.value),
            })
        });
        json!({
            "time": time.as_secs_f64(),
            "status": event.status.as_raw(),
            "name": event.status.constant().map(|row| row.full_name()),
            "source": proc(&event.source),
            "affected": self.affected.iter().map(|one| proc(one)).collect::<Vec<_>>(),
            "exit_code": self.exit_code,
            "text": self.text.map(|text| text.to_str_lossy()),
            "infos": infos.collect::<Vec<_>>(),
        })
    }

    /// Writes the event as a line, with its server if the command follows several servers.
    fn write(
        &self,
        out: &mut Out,
        time: Duration,
        server: Option<&FoundServer>,
    ) -> Result<(), Failure> {
        let seconds = time.as_secs() % (24 * 60 * 60);
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
        let seconds = seconds % 60;
        let status = match self.event.status.constant() {
            Some(row) => row.full_name().to_owned(),
            None => self.event.status.as_raw().to_string(),
        };
        write!(out, "{hours:02}:{minutes:02}:{seconds:02}Z {status}")?;
        match (self.affected.is_empty(), self.nspace) {
            (false, _) => {
                for proc in &self.affected {
                    write!(out, " {}", words(proc))?;
                }
            }
            (true, Some(name)) => write!(out, " {}", printable(name.as_bytes()))?,
            (true, None) => write!(out, " from {}", words(&self.event.source))?,
        }
        match (self.text, self.exit_code) {
            (Some(text), _) => write!(out, ": {}", printable(text.as_bytes()))?,
            (None, Some(code)) => write!(out, ": exit code {code}")?,
            (None, None) => {}
        }
        if let Some(server) = server {
            write!(out, " (server {})", node::describe(server))?;
        }
        out.write_all(b"\n")?;
        Ok(())
    }
}

/// Returns the affected processes in an info.
fn affected<'e>(info: &'e Info<'e>) -> &'e [Proc<'e>] {
    match &info.value {
        Value::Proc(proc) if info.key.is(keys::EVENT_AFFECTED_PROC) => std::slice::from_ref(proc),
        Value::DataArray(DataArray::Proc(procs)) if info.key.is(keys::EVENT_AFFECTED_PROCS) => {
            procs
        }
        _ => &[],
    }
}

fn proc(proc: &Proc<'_>) -> Json {
    json!({ "nspace": proc.nspace.as_text().to_str_lossy(), "rank": proc.rank.as_raw() })
}

/// Returns the name of a process, or of the job for all its processes.
fn words(proc: &Proc<'_>) -> String {
    let nspace = printable(proc.nspace.as_bytes());
    match proc.rank {
        Rank::WILDCARD => nspace,
        rank => format!("{nspace},{rank}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Root's own servers come first, and each kind has its own limit.
    #[test]
    fn servers_of_other_users_do_not_replace_own_ones_and_are_fewer() {
        let (sender, _reports) = mpsc::sync_channel(WAITING);
        let args = Events {
            nspace: None,
            codes: Vec::new(),
            count: None,
            attach: Attach::by_job(Duration::from_millis(1)),
        };
        let mut following = Following {
            args: &args,
            fleet: Fleet::of_all(),
            sender,
            servers: BTreeMap::new(),
            next: 0,
            has_events: false,
            is_full: false,
        };
        // Nothing listens at these addresses.
        let server = |index: usize, owner| {
            let uri = format!("server{index}.0;tcp4://127.0.0.1:1");
            let mut server = FoundServer::at(uri.parse().unwrap());
            server.owner = owner;
            server
        };
        let others = (0..MAX_FOLLOWED_OF_OTHERS + 10).map(|index| server(index, Some(54_321)));
        following.add(others.collect());
        assert_eq!(following.servers.len(), MAX_FOLLOWED_OF_OTHERS);
        assert!(following.is_full);
        following.add(vec![server(1000, None)]);
        assert_eq!(following.servers.len(), MAX_FOLLOWED_OF_OTHERS + 1);
    }
}
