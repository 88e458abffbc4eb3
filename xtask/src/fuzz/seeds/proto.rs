// SPDX-License-Identifier: MIT OR Apache-2.0
//! Seeds of the targets of the protocol: the messages of the captures, behind the bytes by which
//! `fuzz/targets/proto.rs` chooses.

use std::collections::HashMap;
use std::io;

use crate::captures::{self, Message};

/// The seeds of a target.
pub(super) fn of(target: &str) -> io::Result<Vec<Vec<u8>>> {
    let of_capture = |capture: Vec<Message>| match target {
        "proto_handshake" => hellos(&capture),
        "proto_frames" => streams(&capture),
        _ => parts(&capture),
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

/// Each side as a whole, in pieces of two sizes, with payloads up to the highest limit.
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

/// Every message alone: layout v41, the release, what it is, the payload.
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

/// The first number of the version: the digit before the first dot.
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
        let messages = of("proto_messages").expect("the captures are there");
        // A request for job information of a client of 5.0.
        assert!(messages.contains(&vec![10, 2, 0, 2, 0]));
    }
}
