// SPDX-License-Identifier: MIT OR Apache-2.0
//! Malformed hellos and messages, generated from a seed.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use bfrops::{BufferKind, Layout, Module};
use pmix_client::Settings;
use pmix_interop::captures;
use pmix_interop::random::Random;
use pmix_proto::{Command, Header, Hello, PeerForm, Request, Role, Tag};

use crate::raw::{self, Peer};

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

// A process of a job that attacks its own server: by connections with malformed hellos, and by malformed messages of
// its own.

/// The commands by which a process may rightfully end its whole job.
const FATAL: &[Command] = &[
    Command::ABORT,
    Command::FINALIZE,
    Command::NOTIFY,
    Command::JOB_CONTROL,
];

/// Returns `true` if a request may rightfully end the job, or triggers a fault of the host: Slurm
/// 22.05 treats a get for a process of another job as one of its own job.
fn ends_the_job(form: &PeerForm, payload: &[u8], job: &str) -> bool {
    let command = Request::command_of(form, payload);
    match Request::decode(form, None, payload) {
        Ok(Request::Get(get)) => get.nspace.as_bytes() != job.as_bytes(),
        _ => command.is_some_and(|command| FATAL.contains(&command)),
    }
}

/// The tag of the last request.
const LAST: Tag = Tag(0x7fff_fff1);

/// Attacks `count` times as the process that the environment names, then finalizes and creates a file.
///
/// # Errors
/// Returns a message if the server does not reply, disconnects a process of its job or keeps a malformed connection.
pub(crate) fn attack_server(count: u32, seed: u64, done: &Path) -> Result<(), String> {
    let settings = Settings::from_env().map_err(|e| e.to_string())?;
    let address = settings.server.ok_or("no server")?.address;
    let armoury = Armoury::read()?;
    let mut random = Random::new(seed);
    let job = settings.proc.nspace.to_string();
    let rank = settings.proc.rank.as_raw();
    let mut peer = Peer::client(address, &job, rank, Layout::new(Module::V41))?;
    let form = peer.form;
    for number in 0..count {
        let hello = armoury.hello(&mut random);
        let stream = raw::connect(address).map_err(|e| e.to_string())?;
        raw::say_and_leave(stream, &hello).map_err(|e| format!("{e}; after {hello:02x?}"))?;
        let message = armoury.message(&form, &mut random);
        let payload = message.get(Header::LEN..).unwrap_or_default();
        // Such a message would end the job rightfully, which proves nothing about the server.
        if ends_the_job(&form, payload, &job) {
            continue;
        }
        let fault = |e: String| format!("message {number}: {e}; after {message:02x?}");
        let sent = peer.stream.write_all(&message);
        sent.map_err(|e| fault(e.to_string()))?;
        // The reply proves that the server has handled the message and still serves this process.
        if !peer.ping().map_err(fault)? {
            return Err(fault("the server hung up".to_owned()));
        }
    }
    let bytes = peer.request(LAST, &Request::Finalize)?;
    peer.stream.write_all(&bytes).map_err(|e| e.to_string())?;
    peer.reply(LAST)?.ok_or("the server hung up")?;
    fs::write(done, "").map_err(|e| format!("{}: {e}", done.display()))
}

/// Numbers that claim much more data than there is.
const CLAIMS: [&[u8]; 6] = [
    &[0xff; 9],
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0xfe, 0xff, 0xff, 0xff, 0x0f],
    &[0x7f, 0xff, 0xff, 0xff],
    &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1],
    &[0xfe, 0xff, 0x7f],
];

/// Changes bytes in one to four places, in part with pieces of other messages.
pub(super) fn mutate(bytes: &mut Vec<u8>, random: &mut Random, others: &[Vec<u8>]) {
    for _ in 0..random.within(1, 4) {
        mutate_once(bytes, random, others);
    }
}

fn mutate_once(bytes: &mut Vec<u8>, random: &mut Random, others: &[Vec<u8>]) {
    let len = bytes.len() as u64;
    let place = |random: &mut Random| usize::try_from(random.number() % (len + 1)).unwrap_or(0);
    let at = place(random);
    let end = at.max(place(random).min(at + 32));
    match random.within(0, 7) {
        0 => bytes.truncate(at),
        1 => drop(bytes.drain(at..end)),
        2 => {
            let copy = bytes[at..end].to_vec();
            bytes.splice(at..at, copy);
        }
        3 => {
            bytes.splice(at..end, random.pick(&CLAIMS).iter().copied());
        }
        4 if !others.is_empty() => {
            let other = random.pick(others);
            let from = at.min(other.len());
            bytes.splice(at.., other[from..].iter().copied());
        }
        5 => {
            bytes.splice(at..at, random.number().to_le_bytes());
        }
        _ => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << random.within(0, 7);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_bytes_and_others_give_others() {
        let mutated = |seed| {
            let mut bytes: Vec<u8> = (0..100).collect();
            mutate(&mut bytes, &mut Random::new(seed), &[vec![7; 50]]);
            bytes
        };
        for seed in 0..1000 {
            assert_eq!(mutated(seed), mutated(seed));
        }
        assert_ne!(mutated(1), mutated(2));
        let mut empty = Vec::new();
        mutate(&mut empty, &mut Random::new(3), &[]);
    }
}
