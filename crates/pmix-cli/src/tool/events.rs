// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix events`: the events of jobs and processes that a server reports.

use std::io::Write as _;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pmix_proto::Event;
use pmix_tool::ClientEvent;
use pmix_types::{DataArray, Info, Nspace, Proc, Rank, Status, Text, Value, keys};
use serde_json::{Value as Json, json};

use super::{attach_with, find_job, leave, warn_of_lost};
use crate::args::{Events, Global};
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
/// drops events beyond its limit.
const WAITING: usize = 1024;

/// Runs the command.
pub(crate) fn run(global: &Global, args: &Events) -> Result<Exit, Failure> {
    let server = find_job(&args.attach, args.nspace.as_deref())?;
    let (sender, events) = mpsc::sync_channel(WAITING);
    let tool = attach_with(&server, &args.attach, move |event| {
        // The receiver is dropped only when the command is about to exit.
        let _ = sender.send(event);
    })?;
    let codes = match args.codes.is_empty() {
        true => OF_JOBS.to_vec(),
        false => args.codes.clone(),
    };
    tool.register_events(codes, Vec::new()).wait()?;
    // If the server is lost by then, the tool no longer has it as its primary server.
    let client = tool.primary()?.clone();
    let shown = follow(global, args, &events);
    warn_of_lost(client.num_lost_events(), "events");
    // Dropping the receiver keeps the listener from blocking while the tool disconnects.
    drop(events);
    leave(tool);
    shown
}

/// Prints events until the server ends, or until `--count` events were printed.
fn follow(global: &Global, args: &Events, events: &Receiver<ClientEvent>) -> Result<Exit, Failure> {
    let mut out = Out::new();
    let mut left = args.count;
    while left != Some(0)
        && let Ok(come) = events.recv()
    {
        let event = match come {
            ClientEvent::Event(event) => event,
            ClientEvent::Lost => break,
            _ => continue,
        };
        let about = EventView::of(&event);
        if let Some(nspace) = &args.nspace
            && !about.concerns(nspace.as_bytes())
        {
            continue;
        }
        let time = about.time(now());
        match global.json {
            true => out.json(&about.to_json(time))?,
            false => about.write(&mut out, time)?,
        }
        out.flush()?;
        left = left.map(|left| left - 1);
    }
    Ok(Exit::Ok)
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

    fn write(&self, out: &mut Out, time: Duration) -> Result<(), Failure> {
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
