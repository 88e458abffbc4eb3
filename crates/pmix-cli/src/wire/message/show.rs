// SPDX-License-Identifier: MIT OR Apache-2.0
//! A message as a report and as a line of JSON.

use pmix_proto::Command;
use serde_json::{Value as Json, json};

use super::Message;
use super::frame::{Frame, Side};
use crate::octets;
use crate::wire::explain::Report;

const fn side(from: Side) -> &'static str {
    match from {
        Side::Client => "client",
        Side::Server => "server",
    }
}

pub(super) fn report<'m>(index: usize, frame: &'m Frame, message: &'m Message) -> Report<'m> {
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
pub(super) fn line(frame: &Frame, message: &Message) -> String {
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
