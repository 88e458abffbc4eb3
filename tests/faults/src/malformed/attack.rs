// SPDX-License-Identifier: MIT OR Apache-2.0
//! Malformed hellos and messages, generated from a seed.

use bfrops::{BufferKind, Layout, Module};
use pmix_proto::{Header, Hello, PeerForm, Request, Role, Tag};

use super::mutate::mutate;
use crate::raw::{self, Peer};
use pmix_interop::captures;
use pmix_interop::random::Random;

/// Captured messages of real clients and tools, from which attacks are made.
pub(super) struct Armoury {
    /// Hellos with their headers.
    hellos: Vec<Vec<u8>>,
    /// The jobs named in the hellos.
    pub(super) jobs: Vec<String>,
    /// Payloads as v41 packs them.
    requests: Vec<Vec<u8>>,
}

/// The last bytes of a connection.
pub(super) enum Tail {
    /// Nothing: every message was complete, so a ping can show that the server still serves the peer.
    Whole,
    /// An incomplete message, or one that must end the connection.
    Broken(Vec<u8>),
}

impl Armoury {
    /// Reads the captures.
    ///
    /// # Errors
    /// Returns a message if they cannot be read.
    pub(super) fn read() -> Result<Self, String> {
        let captures = captures::read_all().map_err(|e| format!("testdata/wire: {e}"))?;
        let (mut hellos, mut jobs, mut requests) = (Vec::new(), Vec::new(), Vec::new());
        for message in captures.iter().flatten().filter(|m| m.from_client) {
            if !message.is_hello() {
                if Request::decode(&v41(), None, &message.payload).is_ok() {
                    requests.push(message.payload.clone());
                }
                continue;
            }
            hellos.push([&message.header[..], &message.payload].concat());
            let hello = Hello::decode(&message.payload).map_err(|e| e.to_string())?;
            jobs.extend(hello.proc.map(|proc| proc.nspace.to_string()));
        }
        jobs.sort();
        jobs.dedup();
        Ok(Self {
            hellos,
            jobs,
            requests,
        })
    }

    /// Returns a malformed hello.
    pub(super) fn hello(&self, random: &mut Random) -> Vec<u8> {
        let mut hello = random.pick(&self.hellos).clone();
        match random.within(0, 9) {
            0 => {
                let len = random.within(0, hello.len() as u64 - 1);
                hello.truncate(usize::try_from(len).unwrap_or(0));
            }
            1 => wrong_header(&mut hello, random),
            2 => hello = own_hello(random),
            3 => hello = noise(random),
            4 => hello = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
            _ => {
                let mut payload = hello.split_off(Header::LEN);
                mutate(&mut payload, random, &self.hellos);
                let len = u32::try_from(payload.len()).unwrap_or(u32::MAX);
                hello = [&Header::hello(len).encode()[..], &payload].concat();
            }
        }
        hello
    }

    /// Returns a malformed message of a registered peer in a well-formed frame.
    pub(super) fn message(&self, form: &PeerForm, random: &mut Random) -> Vec<u8> {
        let tag = match random.within(0, 15) {
            0 => Tag(u32::try_from(random.within(0, 99)).unwrap_or(0)),
            _ => Tag(u32::try_from(random.within(101, 1 << 20)).unwrap_or(101)),
        };
        let request = random.pick(&self.requests);
        let request = Request::decode(&v41(), None, request);
        let payload = request.and_then(|request| request.encode(form, None));
        let mut payload = payload.unwrap_or_default();
        match random.within(0, 5) {
            // Combine any command with a payload of another.
            0 => payload = noise(random),
            1 if payload.len() > 1 => {
                let command = random.within(0, 255);
                payload[1] = u8::try_from(command).unwrap_or(0);
            }
            2 => payload.truncate(payload.len() / 2),
            _ => mutate(&mut payload, random, &[]),
        }
        Peer::frame(tag, &payload)
    }

    /// Returns the last bytes of a connection.
    pub(super) fn tail(&self, form: &PeerForm, random: &mut Random) -> Tail {
        let broken = match random.within(0, 7) {
            // In turn: a cut header, one that claims too much, a cut frame, a second hello.
            0 => Header::new(0, Tag(200), 7).encode()[..9].to_vec(),
            1 => Header::new(0, Tag(200), u32::MAX).encode().to_vec(),
            2 => {
                let mut frame = self.message(form, random);
                frame.pop();
                frame
            }
            3 => random.pick(&self.hellos).clone(),
            _ => return Tail::Whole,
        };
        Tail::Broken(broken)
    }
}

/// Returns the form in which the captured requests are packed.
fn v41() -> PeerForm {
    PeerForm::new(Layout::new(Module::V41), b"5.0.11")
}

/// Puts wrong numbers into a header.
fn wrong_header(hello: &mut Vec<u8>, random: &mut Random) {
    let len: u32 = *random.pick(&[0, 1, 0x7f, 0x2_0001, 0x7fff_ffff, 0xffff_ffff]);
    let header = match random.within(0, 3) {
        0 => Header::hello(len).encode(),
        1 => Header::new(0, Tag(u32::MAX), len).encode(),
        2 => Header::new(-1, Tag(101), len).encode(),
        // A hello whose length counts its header, too.
        _ => Header::new(-1, Tag(u32::MAX), u32::try_from(hello.len()).unwrap_or(0)).encode(),
    };
    hello.splice(..Header::LEN, header);
}

/// Returns a hello of ours with one wrong field.
fn own_hello(random: &mut Random) -> Vec<u8> {
    let claimed = [0xff; 300];
    let role = Role(u8::try_from(random.within(0, 255)).unwrap_or(0));
    let len = usize::try_from(random.within(0, 300)).unwrap_or(0);
    let layout = Layout::new(*random.pick(&Module::ALL)).with_buffer(BufferKind::Described);
    let proc = role
        .says_proc()
        .then(|| pmix_types::Proc::new("nobody", pmix_types::Rank::new(0)));
    let mut hello = raw::hello(role, proc, &claimed[..len], layout);
    match random.within(0, 3) {
        0 => hello.psec = "munge".into(),
        1 => hello.module = "v99".into(),
        2 => hello.gds = "shmem2".into(),
        _ => hello.version = "no release".into(),
    }
    hello.encode().unwrap_or_default()
}

fn noise(random: &mut Random) -> Vec<u8> {
    let len = random.within(1, 400);
    (0..len).map(|_| random.number().to_le_bytes()[0]).collect()
}
