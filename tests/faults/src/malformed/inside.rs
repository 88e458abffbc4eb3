// SPDX-License-Identifier: MIT OR Apache-2.0
//! A process of a job that attacks its own server: by connections with malformed hellos, and by malformed messages of
//! its own.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use bfrops::{Layout, Module};
use pmix_client::Settings;
use pmix_interop::random::Random;
use pmix_proto::{Command, Header, PeerForm, Request, Tag};

use super::attack::Armoury;
use crate::raw::{self, Peer};

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
pub(crate) fn run(count: u32, seed: u64, done: &Path) -> Result<(), String> {
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
