// SPDX-License-Identifier: MIT OR Apache-2.0
//! Seeds of the protocol targets: the messages of the captures after the bytes that select a case in
//! `fuzz/targets/proto.rs`.

use std::collections::{HashMap, HashSet};
use std::io;

use bfrops::{Layout, Module};
use pmix_proto::{PeerForm, Request};

use crate::captures::{self, Message, layouts};

/// Returns the seeds of a target.
pub(super) fn of(target: &str) -> io::Result<Vec<Vec<u8>>> {
    let of_capture = |capture: Vec<Message>| match target {
        "proto_handshake" => hellos(&capture),
        "proto_frames" => streams(&capture),
        "engine_newer" => requests_of_newer(&capture),
        _ => [parts(&capture), requests_anew(&capture)].concat(),
    };
    Ok(captures::read_all()?
        .into_iter()
        .flat_map(of_capture)
        .collect())
}

fn hellos(capture: &[Message]) -> Vec<Vec<u8>> {
    let hellos = capture.iter().filter(|message| message.is_hello());
    hellos.map(|message| message.payload.clone()).collect()
}

/// Returns each side of a connection as a whole, in pieces of two sizes, with payloads up to the highest limit.
fn streams(capture: &[Message]) -> Vec<Vec<u8>> {
    let mut streams = Vec::new();
    for (from_client, side) in [(true, 1), (false, 0)] {
        let side_of = capture
            .iter()
            .filter(|message| message.from_client == from_client);
        let stream: Vec<u8> = side_of
            .flat_map(|message| [&message.header[..], &message.payload].concat())
            .collect();
        for size in [0, 40] {
            streams.push([&[side, 255, size][..], &stream].concat());
        }
    }
    streams
}

/// Returns every message alone: layout v41, the release, the kind, the payload.
fn parts(capture: &[Message]) -> Vec<Vec<u8>> {
    let mut asked = HashMap::new();
    let mut parts = Vec::new();
    let version = capture.iter().find(|message| message.is_hello());
    let major = version.map_or(4, |hello| major(&hello.payload));
    for message in capture.iter().filter(|message| !message.is_hello()) {
        let tag = message.header.get(4..8).unwrap_or_default();
        let what = match (message.from_client, tag) {
            (true, _) => {
                asked.insert(tag, message.payload.get(1).copied().unwrap_or_default());
                0
            }
            (false, [0, 0, 0, tag @ 0..=4]) => 128 | tag,
            (false, tag) => asked.get(tag).map_or(1, |command| command + 1),
        };
        parts.push([&[10, major - 3, what][..], &message.payload].concat());
    }
    parts
}

/// Returns the requests packed in every layout, one of each command.
fn requests_anew(capture: &[Message]) -> Vec<Vec<u8>> {
    let v41 = PeerForm::new(Layout::new(Module::V41), b"5.0.11");
    let mut seen = HashSet::new();
    let mut seeds = Vec::new();
    for message in capture.iter().filter(|message| message.from_client) {
        let Ok(request) = Request::decode(&v41, None, &message.payload) else {
            continue;
        };
        if message.is_hello() || !seen.insert(request.command()) {
            continue;
        }
        for (choice, layout) in (0..).zip(layouts()) {
            let form = PeerForm::new(layout, b"5.0.11");
            if let Ok(payload) = request.encode(&form, None) {
                seeds.push([&[choice, 2, 0][..], &payload].concat());
            }
        }
    }
    seeds
}

/// Returns every request as of a newer client: module v41, the numbers of the version, the command itself, the payload,
/// alone and with bytes after it.
fn requests_of_newer(capture: &[Message]) -> Vec<Vec<u8>> {
    let requests = capture
        .iter()
        .filter(|message| message.from_client && !message.is_hello());
    let with =
        |message: &Message, more: &[u8]| [&[0, 0, 0, 0][..], &message.payload, more].concat();
    requests
        .flat_map(|message| [with(message, b""), with(message, b"\x02\x07 and more")])
        .collect()
}

/// Returns the major version: the digit before the first dot.
fn major(hello: &[u8]) -> u8 {
    let dot = hello.windows(2).position(|pair| pair[1] == b'.');
    let digit = dot.and_then(|at| hello.get(at)).copied().unwrap_or(b'4');
    digit.saturating_sub(b'0').clamp(3, 7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captures_give_seeds_of_every_kind() {
        let count = |target| of(target).expect("the captures are there").len();
        assert!(count("proto_handshake") >= 8);
        assert!(count("proto_frames") >= 40);
        assert!(count("proto_messages") >= 200);
        assert!(count("engine_newer") >= 200);
        let messages = of("proto_messages").expect("the captures are there");
        // A request for job information of a client of 5.0.
        assert!(messages.contains(&vec![10, 2, 0, 2, 0]));
    }

    #[test]
    fn every_module_has_a_seed_of_every_captured_command() {
        let messages = of("proto_messages").expect("the captures are there");
        for (choice, layout) in (0..).zip(layouts()) {
            let form = PeerForm::new(layout, b"5.0.11");
            let of_layout = messages
                .iter()
                .filter(|seed| seed.starts_with(&[choice, 2, 0]));
            let commands: HashSet<_> = of_layout
                .filter_map(|seed| Request::command_of(&form, &seed[3..]))
                .collect();
            assert!(commands.len() >= 20, "{layout:?}: {}", commands.len());
        }
    }
}
