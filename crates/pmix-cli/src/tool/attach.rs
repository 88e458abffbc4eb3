// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix attach`: the output of a running job, until it ends.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use data_encoding::HEXLOWER;
use pmix_client::Forwarded;
use pmix_host::forward::Lines;
use pmix_proto::LOST_OUTPUT;
use pmix_tool::{ClientEvent, Tool};
use pmix_types::{Info, IofChannel, Rank, Status, Value, keys};
use serde_json::{Value as Json, json};

use super::{attach_with, events, find_job, leave, ps, warn_of_lost};
use crate::args::{AttachTo, Global, Ranks, Stream};
use crate::failure::{Exit, Failure};
use crate::output::Out;
use crate::style::printable;

/// The number of the pull.
const PULL: u64 = 1;
/// The maximum number of pieces of output that wait to be written. More pieces wait in the client.
const WAITING: usize = 64;
/// The time without output, after the job has terminated, after which streams count as ended.
const SILENCE: Duration = Duration::from_secs(1);

/// Runs the command.
pub(crate) fn run(global: &Global, args: &AttachTo) -> Result<Exit, Failure> {
    let server = find_job(&args.attach, Some(&args.nspace))?;
    let (sender, come) = mpsc::sync_channel(WAITING);
    let tool = attach_with(&server, &args.attach, move |event| {
        // The receiver is dropped only when the command is about to exit.
        let _ = sender.send(event);
    })?;
    // If the server is lost by then, the tool no longer has it as its primary server.
    let client = tool.primary()?.clone();
    let mut num_dropped = 0;
    let ended = follow(global, args, &tool, &come, &mut num_dropped);
    let num_lost = client.num_lost_events().saturating_add(num_dropped);
    warn_of_lost(num_lost, "pieces of output");
    // Dropping the receiver keeps the listener from blocking on the channel while the tool disconnects.
    drop(come);
    leave(tool);
    ended
}

/// Pulls the output and prints it until the job has terminated. Counts output that the server
/// dropped.
fn follow(
    global: &Global,
    args: &AttachTo,
    tool: &Tool,
    come: &Receiver<ClientEvent>,
    num_dropped: &mut u64,
) -> Result<Exit, Failure> {
    let channels = match args.stream {
        Stream::Stdout => IofChannel::STDOUT_CHANNEL,
        Stream::Stderr => IofChannel::STDERR_CHANNEL,
        Stream::Both => IofChannel::STDOUT_CHANNEL | IofChannel::STDERR_CHANNEL,
    };
    // The event of the job's end may arrive before its last output.
    tool.register_events(vec![Status::EVENT_JOB_END], Vec::new())
        .wait()?;
    let procs = match ps::procs(tool, &args.nspace)? {
        Ok(procs) => procs,
        // A server that does not list the processes of a job may still forward their output.
        Err(_) => {
            refuse_unknown(tool, &args.nspace)?;
            Vec::new()
        }
    };
    if let Some(missing) = ps::missing_rank(&args.nspace, &procs, args.ranks.as_ref()) {
        let status = Status::ERR_NOT_FOUND;
        let message = format!("{missing} ({status})");
        return Err(Failure::new(Exit::Negative, status, message));
    }
    let is_meant = |rank: &Rank| {
        let is_in = |(first, last): &(u32, u32)| (*first..=*last).contains(&rank.as_raw());
        (args.ranks.as_ref()).is_none_or(|ranks| ranks.0.iter().any(is_in))
    };
    let running = procs.iter().filter(|row| !ps::is_over(row.state));
    let ranks: Vec<_> = running.map(|row| row.proc.rank).filter(is_meant).collect();
    let sources = Ranks::procs(args.ranks.as_ref(), &args.nspace);
    tool.iof_pull(sources, Vec::new(), channels, PULL).wait()
        .map_err(|error| {
            let status = error.status();
            let failure = Failure::from(error);
            match status {
                Status::ERR_NOT_SUPPORTED => failure
                    .cure("the server does not forward output: start the job with `pmix run --forward-io`, and attach on the node of the launcher"),
                _ => failure,
            }
        })?;
    let num_streams = match args.stream {
        Stream::Both => 2,
        _ => 1,
    };
    let mut shown = OutputView::new(global.json, args, ranks.len() * num_streams);
    let ending = shown.until_the_end(come);
    *num_dropped = shown.num_dropped;
    let ending = ending?;
    shown.finish()?;
    let Some(ending) = ending else {
        let nspace = &args.nspace;
        let message =
            format!("lost the connection to the server of job {nspace:?} before the job ended");
        return Err(Failure::new(
            Exit::Negative,
            Status::ERR_LOST_CONNECTION,
            message,
        ));
    };
    if global.json {
        shown.out.json(&ending.to_json(&args.nspace))?;
        shown.out.flush()?;
    } else if let Some(text) = &ending.text {
        tracing::info!("{text}");
    }
    Ok(match ending.exit_code {
        0 => Exit::Ok,
        code => Exit::Job(code),
    })
}

/// Fails if the server does not list the job: the end of an unknown job would never be reported.
fn refuse_unknown(tool: &Tool, nspace: &str) -> Result<(), Failure> {
    match ps::names(tool) {
        Ok(names) if !names.iter().any(|name| name == nspace) => {
            let status = Status::ERR_NOT_FOUND;
            let message = format!("the server has no job {nspace:?} ({status})");
            let failure = Failure::new(Exit::Negative, status, message);
            Err(failure.cure("`pmix ps` lists the running jobs"))
        }
        _ => Ok(()),
    }
}

/// The end of a job.
struct Ending {
    exit_code: u8,
    text: Option<String>,
}

impl Ending {
    /// Reads the end of a job from the infos of the event.
    fn of(infos: &[Info<'_>]) -> Self {
        let find = |key: &str| infos.iter().find(|info| info.key.is(key));
        let number = |key: &str| find(key).and_then(|info| info.value.to_number::<i32>().ok());
        let status = find(keys::JOB_TERM_STATUS).map(|info| match &info.value {
            Value::Status(status) => status.as_raw(),
            value => value.to_number().unwrap_or(Status::ERROR.as_raw()),
        });
        let code = number(keys::EXIT_CODE).filter(|code| *code != 0);
        // A positive number is not a status: PRRTE sends the exit code in its place.
        let code = code.or_else(|| status.filter(|status| *status > 0));
        let exit_code = match (code, status) {
            (Some(code), _) => u8::try_from(code & 0xff).unwrap_or(1).max(1),
            (None, None | Some(0)) => 0,
            (None, Some(_)) => 1,
        };
        let text = find(keys::EVENT_TEXT_MESSAGE).and_then(|info| match &info.value {
            Value::String(Some(text)) => Some(printable(text.as_bytes())),
            _ => None,
        });
        Self { exit_code, text }
    }

    fn to_json(&self, nspace: &str) -> Json {
        json!({ "nspace": nspace, "exit_code": self.exit_code, "text": self.text })
    }
}

/// A stream of a process.
type Source = (Rank, IofChannel);

/// The output that is being printed.
struct OutputView<'a> {
    out: Out,
    is_json: bool,
    args: &'a AttachTo,
    /// The number of streams at the start.
    num_streams: usize,
    ended: BTreeSet<Source>,
    /// The assembly of complete, tagged lines for each stream.
    lines: BTreeMap<Source, Lines>,
    /// The number of pieces that the server reported as dropped.
    num_dropped: u64,
}

impl<'a> OutputView<'a> {
    fn new(is_json: bool, args: &'a AttachTo, num_streams: usize) -> Self {
        Self {
            out: Out::new(),
            is_json,
            args,
            num_streams,
            ended: BTreeSet::new(),
            lines: BTreeMap::new(),
            num_dropped: 0,
        }
    }

    /// Prints output until the job has terminated and all streams have ended. Returns the end of
    /// the job, or `None` if the server was lost before.
    fn until_the_end(&mut self, come: &Receiver<ClientEvent>) -> Result<Option<Ending>, Failure> {
        let mut ending: Option<(Ending, Instant)> = None;
        loop {
            let all_ended = self.num_streams > 0 && self.ended.len() >= self.num_streams;
            let next = match &ending {
                Some(_) if all_ended => break,
                Some((_, until)) => {
                    come.recv_timeout(until.saturating_duration_since(Instant::now()))
                }
                None => come.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            let Ok(next) = next else { break };
            match next {
                ClientEvent::Output(piece) if piece.local_id == PULL => {
                    self.show(&piece)?;
                    if let Some((_, until)) = &mut ending {
                        *until = Instant::now() + SILENCE;
                    }
                }
                ClientEvent::Event(event)
                    if event.status == Status::EVENT_JOB_END
                        && events::is_about(&event, &self.args.nspace) =>
                {
                    ending = Some((Ending::of(&event.infos), Instant::now() + SILENCE));
                }
                ClientEvent::Lost => break,
                _ => {}
            }
        }
        Ok(ending.map(|(ending, _)| ending))
    }

    fn show(&mut self, piece: &Forwarded) -> Result<(), Failure> {
        let source = (piece.source.rank, piece.channel);
        let lost = { piece.infos.iter() }.find(|info| info.key.is(LOST_OUTPUT));
        if let Some(Ok(num_dropped)) = lost.map(|info| info.value.to_number()) {
            self.num_dropped = self.num_dropped.max(num_dropped);
        }
        if piece.data.is_empty() {
            self.ended.insert(source);
            return self.end_line(source);
        }
        if self.is_json {
            self.out.json(&piece_json(piece))?;
            self.out.flush()?;
            return Ok(());
        }
        if !self.args.tag_output {
            return Ok(self.write(piece.channel, &piece.data)?);
        }
        let tagged = || Lines::tagged(&piece.source, stream(piece.channel));
        let mut whole = Vec::new();
        let lines = self.lines.entry(source).or_insert_with(tagged);
        lines.push(&piece.data, &mut whole);
        Ok(self.write(piece.channel, &whole)?)
    }

    /// Prints the incomplete line of a stream that has ended.
    fn end_line(&mut self, source: Source) -> Result<(), Failure> {
        let mut rest = Vec::new();
        if let Some(mut lines) = self.lines.remove(&source) {
            lines.finish(&mut rest);
        }
        Ok(self.write(source.1, &rest)?)
    }

    fn write(&mut self, channel: IofChannel, bytes: &[u8]) -> io::Result<()> {
        match channel == IofChannel::STDERR_CHANNEL {
            true => io::stderr().write_all(bytes),
            false => {
                self.out.write_all(bytes)?;
                self.out.flush()
            }
        }
    }

    /// Prints the incomplete lines of all streams.
    fn finish(&mut self) -> Result<(), Failure> {
        let left: Vec<_> = self.lines.keys().copied().collect();
        left.into_iter()
            .try_for_each(|source| self.end_line(source))
    }
}

fn stream(channel: IofChannel) -> &'static str {
    match channel {
        IofChannel::STDERR_CHANNEL => "stderr",
        IofChannel::STDDIAG_CHANNEL => "stddiag",
        _ => "stdout",
    }
}

fn piece_json(piece: &Forwarded) -> Json {
    let rank = piece.source.rank.as_raw();
    let stream = stream(piece.channel);
    match std::str::from_utf8(&piece.data) {
        Ok(text) => json!({ "rank": rank, "stream": stream, "text": text }),
        Err(_) => json!({ "rank": rank, "stream": stream, "hex": HEXLOWER.encode(&piece.data) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_ends_with_its_exit_code_however_its_server_tells_it() {
        let status = |raw| Info::new(keys::JOB_TERM_STATUS, Status::from_raw(raw));
        let code = |code: i32| Info::new(keys::EXIT_CODE, code);
        for (infos, expected) in [
            (vec![], 0),
            (vec![status(0)], 0),
            (vec![status(0), code(0)], 0),
            (vec![status(-404), code(3)], 3),
            // The infos of prterun.
            (vec![status(3)], 3),
            (vec![status(-404)], 1),
            (vec![status(-402), code(256)], 1),
            (vec![code(-1)], 255),
        ] {
            assert_eq!(Ending::of(&infos).exit_code, expected, "{infos:?}");
        }
    }
}
