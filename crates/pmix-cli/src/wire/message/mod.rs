// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--message`: whole messages, one after the other, with what their commands say they hold.
//!
//! A request says its command; a reply has the tag of its request. So one direction of a
//! connection explains its requests, and both together, as in a capture, explain everything. The
//! first message says how the client packs. A message that cannot be read leaves the next ones
//! untouched: the lengths in the headers alone say where they begin.

mod capture;
mod commands;
mod frame;
mod handshake;
mod show;
mod walk;

use std::collections::HashMap;
use std::io::Write;

use bfrops::{BufferKind, Layout, Limits, Note};
use pmix_types::{DataArray, DataType, Status};
use preg_core::Preg;

use super::explain::{self, Fault, Title};
use crate::args::WireDecode;
use crate::failure::{Exit, Failure};
use crate::input::Source;
use crate::session::Session;
use commands::{Command, Step};
pub(crate) use frame::Side;
use frame::{Frame, HEADER};
use walk::Walk;

/// What is known of a connection while its messages pass by.
struct Connection<'a> {
    preg: &'a Preg,
    layout: Layout,
    limits: Limits,
    /// The first number of the client's release.
    major: u32,
    /// The command of replies whose request is not there.
    assumed: Option<&'static Command>,
    /// Requests without a reply so far, by tag.
    asked: HashMap<u32, &'static Command>,
    with_notes: bool,
}

/// A message and what it says.
struct Message {
    /// In words, for the title.
    what: String,
    command: Option<&'static str>,
    calls: Vec<walk::Call>,
    titles: Vec<Title>,
    notes: Vec<Note>,
    fault: Option<Fault>,
}

/// What a message is to hold.
struct Plan {
    /// In words, for the title.
    what: String,
    command: Option<&'static Command>,
    /// Its calls, if they are known.
    steps: Option<&'static [Step]>,
}

impl Plan {
    fn plain(what: &str, steps: &'static [Step]) -> Self {
        Self {
            what: what.to_owned(),
            command: None,
            steps: Some(steps),
        }
    }
}

/// The tag of heartbeats.
const HEARTBEAT: u32 = 1;

pub(super) fn run(session: &mut Session, args: &WireDecode) -> Result<Exit, Failure> {
    let assumed = args.command.as_deref().map(|name| {
        let cure = "docs/cli.md names the commands";
        Command::named(name)
            .ok_or_else(|| Failure::usage(format!("no command is called {name:?}")).cure(cure))
    });
    let assumed = assumed.transpose()?;
    let source = super::bytes::source(args)?;
    if args.explain {
        explain::check_len(&source.bytes)?;
    }
    let (frames, rest) = frames(args, source)?;
    let mut connection = Connection {
        preg: &session.preg,
        layout: args.peer.layout(),
        limits: args.limits(),
        major: 5,
        assumed,
        asked: HashMap::new(),
        with_notes: args.explain,
    };
    let mut exit = Exit::Ok;
    for (index, frame) in frames.iter().enumerate() {
        let message = connection.read(frame);
        if message.fault.is_some() {
            exit = Exit::Negative;
        }
        let out = &mut session.out;
        if args.explain {
            let report = show::report(index, frame, &message);
            explain::show(out, session.style, session.json, &report)?;
        } else {
            out.json_text(&show::line(frame, &message))?;
            out.write_all(b"\n")?;
        }
    }
    if rest > 0 || frames.is_empty() {
        session.out.flush()?;
        let message = format!("{rest} bytes are no message: a header has {HEADER}");
        return Err(Failure::data(message));
    }
    Ok(exit)
}

/// The messages of the input, and how many bytes at its end are none.
fn frames(args: &WireDecode, source: Source) -> Result<(Vec<Frame>, usize), Failure> {
    if !args.raw
        && let Some(frames) = capture::read(&source.bytes)
    {
        return Ok((frames, 0));
    }
    let source = super::bytes::decoded(args, source)?;
    let (frames, rest) = frame::cut(&source.bytes, args.from);
    Ok((frames, rest.len()))
}

impl Connection<'_> {
    /// Reads one message.
    fn read(&mut self, frame: &Frame) -> Message {
        if frame.header.is_first() {
            return self.first(frame);
        }
        let mut walk = Walk::new(self.layout, self.limits, self.preg, self.with_notes);
        let mut part = walk.part(&frame.payload, 0);
        let plan = match frame.from {
            Side::Client => {
                match self.sent_by_client(frame, || {
                    walk.call(&mut part, "command", Some(DataType::COMMAND))
                }) {
                    Ok(plan) => plan,
                    Err(fault) => return message("request", None, walk, Some(fault), frame),
                }
            }
            Side::Server => self.sent_by_server(frame.header.tag),
        };
        let described = self.layout.buffer == BufferKind::Described;
        let result = match plan.steps {
            Some(steps) => walk.steps(&mut part, steps),
            None if described => walk.described(&mut part),
            None => Err(Fault {
                status: Status::ERR_NOT_SUPPORTED,
                offset: part.offset(),
                message: format!("what a {} holds is not known", plan.what),
            }),
        };
        let result = result.and_then(|()| walk.finish(&part));
        message(&plan.what, plan.command, walk, result.err(), frame)
    }

    /// What a message of a client holds; requests begin with a command.
    fn sent_by_client<'p>(
        &mut self,
        frame: &Frame,
        command: impl FnOnce() -> Result<DataArray<'p>, Fault>,
    ) -> Result<Plan, Fault> {
        let tag = frame.header.tag;
        if tag == HEARTBEAT && frame.payload.is_empty() {
            return Ok(Plan::plain("heartbeat", &[]));
        }
        let (what, command) = request(&command()?);
        self.asked.extend(command.map(|command| (tag, command)));
        Ok(Plan {
            what,
            command,
            steps: command.map(|command| commands::form(command.request, self.major)),
        })
    }

    /// What a message of a server holds.
    fn sent_by_server(&mut self, tag: u32) -> Plan {
        match tag {
            0 => Plan::plain("event", commands::EVENT),
            HEARTBEAT => Plan::plain("reply to a heartbeat", commands::REFUSED),
            2 => Plan::plain("forwarded output", commands::OUTPUT),
            3 => Plan::plain("flow of output", commands::FLOW),
            4 => Plan::plain("deleted key", commands::DELETED),
            _ => match self.asked.remove(&tag).or(self.assumed) {
                Some(command) => Plan {
                    what: format!("reply to {}", command.name),
                    command: Some(command),
                    steps: Some(commands::form(command.reply, self.major)),
                },
                None => Plan {
                    what: "reply to a request that is not here".to_owned(),
                    command: None,
                    steps: None,
                },
            },
        }
    }

    /// Reads the first message, and how the client packs from it.
    fn first(&mut self, frame: &Frame) -> Message {
        let seen = handshake::read(&frame.payload);
        self.layout = seen.layout.unwrap_or(self.layout);
        self.major = seen.major.unwrap_or(self.major);
        let mut walk = Walk::new(self.layout, self.limits, self.preg, self.with_notes);
        walk.notes = seen.notes;
        let fault = match seen.fault {
            Some(message) => Some(Fault {
                status: Status::ERR_UNPACK_READ_PAST_END_OF_BUFFER,
                offset: seen.end,
                message,
            }),
            None => {
                let mut part = walk.part(&frame.payload, seen.end);
                match frame.payload.get(seen.end..) {
                    // Clients of 4.2 send one byte too many.
                    None | Some([] | [0]) => None,
                    Some(_) => walk.steps(&mut part, commands::INTRODUCTION).err(),
                }
            }
        };
        message("introduction", None, walk, fault, frame)
    }
}

/// What a request is called, and its command if that is known.
fn request(data: &DataArray<'_>) -> (String, Option<&'static Command>) {
    let number = match data {
        DataArray::Command(items) => items.first().map(|number| number.as_raw()),
        _ => None,
    };
    match number.and_then(Command::of) {
        Some(command) => (format!("request {}", command.name), Some(command)),
        None => (
            format!("request with command {}", number.unwrap_or_default()),
            None,
        ),
    }
}

fn message(
    what: &str,
    command: Option<&'static Command>,
    walk: Walk<'_>,
    fault: Option<Fault>,
    frame: &Frame,
) -> Message {
    let (len, there) = (frame.header.len, frame.payload.len());
    let is_cut = there < len;
    Message {
        what: what.to_owned(),
        command: command.map(|command| command.name),
        calls: walk.calls,
        titles: walk.titles,
        notes: walk.notes,
        // Where bytes are missing, that they are is what is wrong.
        fault: match is_cut {
            true => Some(Fault {
                status: Status::ERR_UNPACK_READ_PAST_END_OF_BUFFER,
                offset: fault.map_or(there, |fault| fault.offset),
                message: format!("the message has {len} bytes and {there} are here"),
            }),
            false => fault,
        },
    }
}
