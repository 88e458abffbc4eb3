// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses every captured message and packs it again to the same bytes.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use bfrops::{Layout, Module};
use data_encoding::HEXLOWER_PERMISSIVE;
use pmix_proto::reply::Reply;
use pmix_proto::{Command, Event, Frame, Header, Hello, Inbox, PeerForm, Request, Tag};

/// A captured connection: its name, and its messages with their direction.
struct Capture {
    name: String,
    frames: Vec<(bool, Frame)>,
}

fn captures() -> Vec<Capture> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/wire");
    let entries = std::fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let captures = paths.filter(|path| path.extension().is_some_and(|end| end == "hex"));
    let captures = captures.map(|path| Capture {
        name: path.file_name().unwrap().display().to_string(),
        frames: frames(&std::fs::read_to_string(&path).unwrap()),
    });
    captures.collect()
}

/// Returns the messages of a capture, split by an inbox as they would arrive.
fn frames(text: &str) -> Vec<(bool, Frame)> {
    let mut frames = Vec::new();
    let mut from_client = false;
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("== ") {
            from_client = title.starts_with("CLIENT");
        } else if let Some(raw) = line.trim().strip_prefix("RAW ") {
            let bytes = unhex(raw);
            let mut inbox = match bytes.starts_with(&[0xff; 8]) {
                true => Inbox::of_server(u32::MAX),
                false => Inbox::new(u32::MAX),
            };
            inbox.push(&bytes);
            frames.push((from_client, inbox.next_frame().unwrap().unwrap()));
            assert!(!inbox.is_inside_frame(), "{line}");
        }
    }
    frames
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    HEXLOWER_PERMISSIVE.decode(&digits).unwrap()
}

/// Returns the number of bytes after the last info of a hello.
fn excess(hello: &Hello<'_>, payload: &[u8]) -> usize {
    let whole = hello.encode().unwrap();
    let again = &whole[Header::LEN..];
    assert!(payload.starts_with(again));
    payload.len() - again.len()
}

/// Parses a message and packs it again.
fn again(
    form: &PeerForm,
    asked: &HashMap<Tag, Command>,
    from_client: bool,
    frame: &Frame,
) -> Vec<u8> {
    let (tag, payload) = (frame.header.tag, &frame.payload);
    match (from_client, tag) {
        (true, Tag::HEARTBEAT) => Vec::new(),
        (true, _) => {
            let request = Request::decode(form, None, payload).unwrap();
            assert!(!matches!(request, Request::Unknown(_)), "{request:?}");
            request.encode(form, None).unwrap()
        }
        (false, Tag::EVENT) => {
            let event = Event::decode(form, None, payload).unwrap();
            event.encode(form, None).unwrap()
        }
        (false, Tag::OUTPUT) => {
            let output = pmix_proto::Output::decode(form, None, payload).unwrap();
            output.encode(form, None).unwrap()
        }
        (false, _) => {
            // A heartbeat has a reply only if the server does not support it: a status.
            let command = asked.get(&tag).copied().unwrap_or(Command::FINALIZE);
            let reply = Reply::decode(command, form, None, payload).unwrap();
            reply.encode(form, None).unwrap()
        }
    }
}

#[test]
fn every_captured_message_survives_byte_by_byte() {
    let mut commands = BTreeSet::new();
    let mut replies = BTreeSet::new();
    for capture in captures() {
        let mut form = PeerForm::new(Layout::new(Module::V41), b"4.2.2");
        let mut asked = HashMap::new();
        for (index, (from_client, frame)) in capture.frames.iter().enumerate() {
            let place = format!("{} message {index}", capture.name);
            if frame.header.is_hello() {
                let hello = Hello::decode(&frame.payload).expect(&place);
                form = hello.form().expect(&place);
                // Clients of 4.2 send one byte too many.
                assert_eq!(
                    excess(&hello, &frame.payload),
                    usize::from(form.major == 4),
                    "{place}"
                );
                continue;
            }
            if *from_client && frame.header.tag.is_request() {
                let command = Request::command_of(&form, &frame.payload).unwrap();
                commands.insert(command);
                asked.insert(frame.header.tag, command);
            }
            if !*from_client {
                replies.extend(asked.get(&frame.header.tag).copied());
            }
            let again = again(&form, &asked, *from_client, frame);
            assert_eq!(again, frame.payload, "{place}");
        }
    }
    let names = |set: &BTreeSet<Command>| set.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert!(commands.len() >= 28, "{:?}", names(&commands));
    assert!(replies.len() >= 27, "{:?}", names(&replies));
}

#[test]
fn truncated_captured_messages_are_typed_errors_with_an_offset() {
    for capture in captures() {
        let mut form = PeerForm::new(Layout::new(Module::V41), b"4.2.2");
        for (from_client, frame) in &capture.frames {
            if frame.header.is_hello() {
                form = Hello::decode(&frame.payload).unwrap().form().unwrap();
            }
            if !*from_client || !frame.header.tag.is_request() {
                continue;
            }
            for len in 0..frame.payload.len() {
                let cut = &frame.payload[..len];
                // A truncated list without a count may still be valid.
                if let Err(error) = Request::decode(&form, None, cut) {
                    assert!(!error.status().is_success());
                    assert!(error.offset().unwrap() <= len, "{error}");
                }
                for command in Command::ALL {
                    if let Err(error) = Reply::decode(*command, &form, None, cut) {
                        assert!(error.offset().unwrap() <= len, "{error}");
                    }
                }
            }
            let mut long = frame.payload.clone();
            long.push(0xff);
            let command = Request::command_of(&form, &frame.payload).unwrap();
            // In messages with unparsed data or a list without a count, a truncated end is not
            // detected.
            if command == Command::COMMIT {
                continue;
            }
            let decoded = Request::decode(&form, None, &long);
            // The server ignores the bytes that a newer peer appends.
            if form.is_newer() && command != Command::DEREGEVENTS {
                assert_eq!(decoded, Request::decode(&form, None, &frame.payload));
                continue;
            }
            let error = decoded.unwrap_err();
            assert_eq!(error.offset(), Some(frame.payload.len()), "{error}");
        }
    }
}
