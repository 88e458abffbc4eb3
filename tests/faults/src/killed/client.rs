// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients that are killed at every point of their lives. The other processes of the job must learn of it in time, and
//! the server must release everything.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

use bfrops::{Layout, Module};
use pmix_proto::{Request, Tag, reply};
use pmix_types::Status;

use super::points::{self, Others, POINTS, Point};
use crate::peer::{self, argument};
use crate::raw::Peer;
use crate::server::{Server, files, me};
use crate::wait::{Times, shown};
use crate::{Field, Verdict};

/// The time limit in seconds of a survivor's request, after which it ends without a notice of the loss.
const LIMIT: i32 = 1;

/// The time within which a survivor must have a result in every case.
const DEADLINE: Duration = Duration::from_secs(4);

const JOB: &str = "mortal";

/// Kills a client at every point, repeatedly.
pub(crate) fn run(field: &Field) -> Result<Verdict, String> {
    let mut server = field.server("client-killed", &[])?;
    // Warm up: what the server allocates in the first round is kept for reuse and must not count as growth.
    round(&mut server, &POINTS[4])?;
    let base = server.figures()?;
    let there = files(&server.directory);
    let rounds = field.count(10, 1);
    let mut times = Times::default();
    for point in POINTS {
        let mut worst = Times::default();
        for number in 0..rounds {
            let fault = |why| format!("{}, round {number}: {why}", point.name);
            let waited = round(&mut server, point).map_err(fault)?;
            waited.into_iter().for_each(|time| worst.push(time));
            server.settle(base.descriptors).map_err(fault)?;
        }
        println!(
            "        {:18} results after {} at worst",
            point.name,
            shown(worst.worst())
        );
        times.extend(worst);
    }
    let after = server.figures()?;
    if files(&server.directory) != there || after.threads != base.threads {
        return Err(format!(
            "left behind: {:?}, {after:?}",
            files(&server.directory)
        ));
    }
    server.end()?;
    let growth = after.memory.saturating_sub(base.memory);
    Ok(Verdict::Held(format!(
        "{} points x {rounds}: {} results of survivors, worst after {}; growth {growth} KiB; \
         descriptors {} and {}",
        POINTS.len(),
        times.len(),
        shown(times.worst()),
        base.descriptors,
        after.descriptors,
    )))
}

/// Kills one client and returns how long each survivor waited for its result.
fn round(server: &mut Server, point: &Point) -> Result<Vec<Duration>, String> {
    let (uid, gid) = me();
    server.tell(&format!("job {JOB} 4 3 {uid} {gid}"))?;
    server.tell("hold")?;
    let mut survivors = [Survivor::enter(server, 1)?, Survivor::enter(server, 2)?];
    let waiting = match point.others {
        Others::Nothing => 0,
        Others::OneInFence => 1,
        Others::Fence | Others::Data | Others::Connect => 2,
    };
    for survivor in &mut survivors[..waiting] {
        survivor.ask(&match point.others {
            Others::Data => points::get(JOB, 0),
            Others::Connect => points::connect(JOB),
            _ if point.name == "fence-collecting" => points::collect(JOB),
            _ => points::fence(JOB),
        })?;
    }
    kill_at(server, point)?;
    let killed = Instant::now();
    if !point.is_missed() {
        // The server cannot know that the process has exited: it did not register, or has finalized. The host reports
        // it.
        server.tell(&format!("exited {JOB} 0"))?;
    }
    let mut times = Vec::new();
    if point.others == Others::OneInFence {
        survivors[1].ask(&match point.name {
            "fence-collecting" => points::collect(JOB),
            _ => points::fence(JOB),
        })?;
        survivors[1].result(killed)?;
    }
    if point.others == Others::Connect {
        server.tell("release")?;
    }
    for survivor in &mut survivors[..waiting] {
        times.push(survivor.result(killed)?);
    }
    // Requests made after the loss must complete too.
    let asked = Instant::now();
    for survivor in &mut survivors {
        survivor.ask(&points::fence_within(JOB, LIMIT))?;
    }
    for survivor in &mut survivors {
        times.push(survivor.result(asked)?);
    }
    server.tell("release")?;
    for mut survivor in survivors {
        survivor.ask(&Request::Finalize)?;
        survivor.result(Instant::now())?;
    }
    server.tell(&format!("forget {JOB}"))?;
    Ok(times)
}

/// Starts a client, and kills it when it has reached the point.
fn kill_at(server: &Server, point: &Point) -> Result<(), String> {
    let mut command = peer::command(&["reach", point.name, &argument(&server.uri), JOB]);
    let fault = |e: std::io::Error| e.to_string();
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(fault)?;
    let mut line = String::new();
    if let Some(output) = child.stdout.take() {
        BufReader::new(output).read_line(&mut line).map_err(fault)?;
    }
    child.kill().map_err(fault)?;
    child.wait().map_err(fault)?;
    match line.trim() {
        "here" => Ok(()),
        _ => Err("the client did not come so far".to_owned()),
    }
}

/// Another process of the job.
struct Survivor {
    peer: Peer,
    tag: Tag,
}

impl Survivor {
    fn enter(server: &Server, rank: u32) -> Result<Self, String> {
        let layout = Layout::new(Module::V41);
        let peer = Peer::client(server.uri.address, JOB, rank, layout)?;
        let patience = peer.stream.set_read_timeout(Some(DEADLINE));
        patience.map_err(|e| e.to_string())?;
        Ok(Self {
            peer,
            tag: Tag::FIRST_REQUEST,
        })
    }

    /// Sends a request, and waits until the server has handled it.
    fn ask(&mut self, request: &Request<'_>) -> Result<(), String> {
        self.tag = self.tag.next();
        let bytes = self.peer.request(self.tag, request)?;
        self.peer
            .stream
            .write_all(&bytes)
            .map_err(|e| e.to_string())
    }

    /// Waits for the result, and returns the time since `since`.
    fn result(&mut self, since: Instant) -> Result<Duration, String> {
        let payload = self
            .peer
            .reply(self.tag)?
            .ok_or("a survivor was hung up on")?;
        let done = reply::Done::decode(&self.peer.form, None, &payload);
        let _: Status = done.map_err(|e| e.to_string())?.status;
        Ok(since.elapsed())
    }
}
