// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--message`: the decoding of whole messages, whose contents their commands determine.
//!
//! A request contains its command, and a reply has the tag of its request. So replies can be
//! decoded only if the input has both directions of a connection, as a capture has. The first
//! message has the packing format of the client. A message that cannot be decoded does not affect
//! the next ones, because the headers have the lengths.

mod capture;
mod trace;
mod walk;

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use bfrops::{BufferKind, Layout, Limits, TracedField};
use pmix_proto::outline::{self, Part};
use pmix_proto::{Command, Header, Hello, Tag};
use pmix_types::{DataArray, DataType, Status};
use preg_core::Preg;
use serde_json::{Value as Json, json};

use super::explain::{self, Fault, Report, Title};
use crate::args::WireDecode;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::input::Source;
use crate::octets;
use capture::Frame;
use walk::Walk;

pub(crate) use capture::Side;
pub(crate) use trace::Trace;

/// The state of a connection while its messages are decoded.
struct Connection {
    preg: Arc<Preg>,
    layout: Layout,
    limits: Limits,
    /// The first number of the client's release.
    major: u32,
    /// The command of replies whose request is not in the input.
    assumed: Option<Command>,
    /// The commands of requests without a reply so far, by tag.
    asked: HashMap<Tag, Command>,
    with_trace: bool,
}

/// A message and its explanation.
struct Message {
    /// A description for the title.
    what: String,
    command: Option<Command>,
    calls: Vec<walk::Call>,
    titles: Vec<Title>,
    notes: Vec<TracedField>,
    fault: Option<Fault>,
}

/// The expected contents of a message.
struct Plan {
    /// A description for the title.
    what: String,
    command: Option<Command>,
    /// The pack calls of the message, if they are known.
    steps: Option<Vec<Part>>,
}

impl Plan {
    fn plain(what: &str, steps: Option<Vec<Part>>) -> Self {
        Self {
            what: what.to_owned(),
            command: None,
            steps,
        }
    }
}

pub(super) fn run(context: &mut Context, args: &WireDecode) -> Result<Exit, Failure> {
    let assumed = args.command.as_deref().map(|name| {
        walk::named(name).ok_or_else(|| {
            let cure = format!("known commands: {}", walk::names());
            Failure::usage(format!("unknown command {name:?}")).cure(cure)
        })
    });
    let assumed = assumed.transpose()?;
    let source = super::bytes::source(args)?;
    if args.explain {
        explain::check_len(&source.bytes)?;
    }
    let (frames, rest) = frames(args, source)?;
    let mut connection = Connection {
        preg: Arc::clone(&context.preg),
        layout: args.peer.layout(),
        limits: args.limits(),
        major: 5,
        assumed,
        asked: HashMap::new(),
        with_trace: args.explain,
    };
    let mut exit = Exit::Ok;
    for (index, frame) in frames.iter().enumerate() {
        let message = connection.read(frame);
        if message.fault.is_some() {
            exit = Exit::Negative;
        }
        let out = &mut context.out;
        if args.explain {
            let report = report(index, frame, &message);
            explain::show(out, context.style, context.json, &report)?;
        } else {
            out.json_text(&line(frame, &message))?;
            out.write_all(b"\n")?;
        }
    }
    if rest > 0 || frames.is_empty() {
        context.out.flush()?;
        let message = format!(
            "{rest} bytes are too few for a message: a header has {}",
            Header::LEN
        );
        return Err(Failure::data(message));
    }
    Ok(exit)
}

/// Returns the messages of the input, and the number of trailing bytes.
fn frames(args: &WireDecode, source: Source) -> Result<(Vec<Frame>, usize), Failure> {
    if !args.raw
        && let Some(frames) = capture::read(&source.bytes)
    {
        return Ok((frames, 0));
    }
    let source = super::bytes::decoded(args, source)?;
    let (frames, rest) = capture::cut(&source.bytes, args.from);
    Ok((frames, rest.len()))
}

impl Connection {
    /// Reads one message.
    fn read(&mut self, frame: &Frame) -> Message {
        if frame.header.is_hello() {
            return self.first(frame);
        }
        let preg = Arc::clone(&self.preg);
        let mut walk = Walk::new(self.layout, self.limits, &*preg, self.with_trace);
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
        let result = match &plan.steps {
            Some(steps) => walk.steps(&mut part, steps),
            None if described => walk.described(&mut part),
            None => Err(Fault {
                status: Status::ERR_NOT_SUPPORTED,
                offset: part.offset(),
                message: format!("the contents of a {} are unknown", plan.what),
            }),
        };
        let result = result.and_then(|()| walk.finish(&part));
        message(&plan.what, plan.command, walk, result.err(), frame)
    }

    /// Returns the contents of a client's message. Requests begin with a command.
    fn sent_by_client<'p>(
        &mut self,
        frame: &Frame,
        command: impl FnOnce() -> Result<DataArray<'p>, Fault>,
    ) -> Result<Plan, Fault> {
        let tag = frame.header.tag;
        if tag == Tag::HEARTBEAT && frame.payload.is_empty() {
            return Ok(Plan::plain("heartbeat", Some(Vec::new())));
        }
        let (what, command) = request(&command()?);
        self.asked.extend(command.map(|command| (tag, command)));
        Ok(Plan {
            what,
            command,
            steps: command.and_then(|command| outline::request(command, self.major)),
        })
    }

    /// Returns the contents of a server's message.
    fn sent_by_server(&mut self, tag: Tag) -> Plan {
        let what = match tag {
            Tag::EVENT => "event",
            Tag::HEARTBEAT => "reply to a heartbeat",
            Tag::OUTPUT => "forwarded output",
            Tag::FLOW => "flow control of output",
            Tag::DELETED => "deleted key",
            _ => return self.reply(tag),
        };
        Plan::plain(what, outline::unsolicited(tag, self.major))
    }

    fn reply(&mut self, tag: Tag) -> Plan {
        match self.asked.remove(&tag).or(self.assumed) {
            Some(command) => Plan {
                what: format!("reply to {command}"),
                command: Some(command),
                steps: outline::reply(command, self.major),
            },
            None => Plan::plain("reply to an unknown request", None),
        }
    }

    /// Decodes the first message, and the client's packing format in it.
    fn first(&mut self, frame: &Frame) -> Message {
        let (hello, notes) = Hello::explain(&frame.payload);
        let end = notes.last().map_or(0, |note| note.range.end);
        let form = hello.as_ref().ok().and_then(|hello| hello.form().ok());
        if let Some(form) = form {
            (self.layout, self.major) = (form.layout, form.major);
        }
        let preg = Arc::clone(&self.preg);
        let mut walk = Walk::new(self.layout, self.limits, &*preg, self.with_trace);
        walk.notes = notes;
        let fault = match (hello, frame.payload.get(end..)) {
            (Err(error), _) => Some(Fault {
                status: error.status(),
                offset: error.offset().unwrap_or_default(),
                message: error.message().to_owned(),
            }),
            // Clients of 4.2 send one byte too many.
            (Ok(_), None | Some([] | [0])) => None,
            (Ok(_), Some(_)) => {
                let mut part = walk.part(&frame.payload, end);
                walk.steps(&mut part, &outline::introduction()).err()
            }
        };
        message("introduction", None, walk, fault, frame)
    }
}

/// Returns the name of a request, and its command if it is known.
fn request(data: &DataArray<'_>) -> (String, Option<Command>) {
    let command = match data {
        DataArray::Command(items) => items.first().copied().map(Command::from),
        _ => None,
    };
    let command = command.unwrap_or(Command(0));
    match outline::request(command, 0) {
        Some(_) => (format!("request {command}"), Some(command)),
        None => (format!("request with command {}", command.0), None),
    }
}

fn message(
    what: &str,
    command: Option<Command>,
    walk: Walk<'_>,
    fault: Option<Fault>,
    frame: &Frame,
) -> Message {
    let (len, there) = (frame.header.len, frame.payload.len());
    let is_cut = usize::try_from(len).is_ok_and(|len| there < len);
    Message {
        what: what.to_owned(),
        command,
        calls: walk.calls,
        titles: walk.titles,
        notes: walk.notes,
        // If the message is truncated, that is the reported error.
        fault: match is_cut {
            true => Some(Fault {
                status: Status::ERR_UNPACK_READ_PAST_END_OF_BUFFER,
                offset: fault.map_or(there, |fault| fault.offset),
                message: format!("the message has {len} bytes, but only {there} are present"),
            }),
            false => fault,
        },
    }
}

const fn side(from: Side) -> &'static str {
    match from {
        Side::Client => "client",
        Side::Server => "server",
    }
}

fn report<'m>(index: usize, frame: &'m Frame, message: &'m Message) -> Report<'m> {
    let header = frame.header;
    let (from, what) = (side(frame.from), &message.what);
    let tag = match header.is_hello() {
        true => "none".to_owned(),
        false => header.tag.0.to_string(),
    };
    let title = format!(
        "message {} of the {from}: {what}; peer {}, tag {tag}, {} bytes",
        index + 1,
        header.index,
        header.len
    );
    Report {
        title,
        head: head(frame, message),
        bytes: &frame.payload,
        calls: &message.titles,
        notes: &message.notes,
        fault: message.fault.as_ref(),
    }
}

/// Returns the fields of the header in JSON.
fn head(frame: &Frame, message: &Message) -> Vec<(&'static str, Json)> {
    vec![
        ("from", json!(side(frame.from))),
        ("tag", json!(frame.header.tag.0)),
        ("len", json!(frame.header.len)),
        ("what", json!(message.what)),
        ("command", json!(message.command.and_then(Command::name))),
    ]
}

/// Returns a message as JSON on one line.
fn line(frame: &Frame, message: &Message) -> String {
    let mut parts = Vec::new();
    for (name, value) in head(frame, message) {
        parts.push(format!("\"{name}\":{value}"));
    }
    let calls = message.calls.iter().map(|call| {
        let (offset, name) = (call.offset, json!(call.name));
        let (data_type, list) = (json!(call.data_type.to_string()), &call.list);
        format!("{{\"offset\":{offset},\"name\":{name},\"type\":{data_type},\"value\":{list}}}")
    });
    parts.push(format!(
        "\"calls\":[{}]",
        calls.collect::<Vec<_>>().join(",")
    ));
    if frame.header.is_hello() {
        let payload = octets::hex(&frame.payload);
        parts.push(format!("\"payload_hex\":\"{payload}\""));
    }
    if let Some(fault) = &message.fault {
        parts.push(format!("\"fault\":{}", fault.to_json()));
    }
    format!("{{{}}}", parts.join(","))
}
