// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix run` with little memory left.

use std::fs;
use std::path::Path;

use pmix_client::{Client, Fence};
use pmix_proto::{Request, reply, request};
use pmix_types::{Info, Status, keys};
use rustix::process::{Resource, Rlimit, prlimit};

use super::blocked::{app, spawn};
use super::{Launcher, PATIENCE, build, own};
use crate::server::address_space;
use crate::wait::until;
use crate::{Field, Verdict};

/// The memory left to the launcher.
const LEFT: u64 = 48 << 20;

/// The sizes of the requests that a process makes, in MiB.
const SIZES: [usize; 4] = [1, 4, 16, 20];

/// Sends requests larger than the memory that is left: they are refused by status and the job goes on.
pub(crate) fn short_of_memory(field: &Field) -> Result<Verdict, String> {
    let pmix = build(field)?;
    let own = own()?;
    let directory = field.directory("launcher-memory")?;
    let path = |name: &str| directory.join(name).to_string_lossy().into_owned();
    let (ready, go) = (path("ready"), path("go"));
    let job = [&*own, "peer", "asks-for-memory", &ready, &go];
    let mut launcher = Launcher::start(field, &pmix, &[], &job)?;
    let is_ready = until(PATIENCE, || Path::new(&ready).exists().then_some(()));
    is_ready.ok_or_else(|| format!("the process does not come: {}", launcher.give_up()))?;
    let limit = Some(address_space(launcher.child.id())? + LEFT);
    let limit = Rlimit {
        current: limit,
        maximum: limit,
    };
    prlimit(launcher.pid(), Resource::As, limit).map_err(|e| e.to_string())?;
    fs::write(&go, "").map_err(|e| e.to_string())?;
    let code = launcher.end(PATIENCE)?;
    let answers = launcher.output(PATIENCE)?;
    let said = launcher.errors(PATIENCE)?;
    let refused = Status::ERR_NOMEM.to_string();
    let num_refused = answers
        .lines()
        .filter(|line| line.ends_with(&refused))
        .count();
    let all = answers.lines().count();
    let figures = format!(
        "{} MiB left: {num_refused} of {all} spawns and logs of {} to {} MiB are {refused}",
        LEFT >> 20,
        SIZES[0],
        SIZES[SIZES.len() - 1]
    );
    // The largest request of each kind exceeds the memory that is left.
    match code == Some(0) && all == 2 * SIZES.len() && num_refused >= 2 && num_refused < all {
        true => Ok(Verdict::Held(figures)),
        false => Err(format!("{figures}, exit code {code:?}: {answers}{said}")),
    }
}

/// Requests spawns and logs of several sizes once `go` exists, and prints the status of each. Then starts an ordinary
/// job.
pub(crate) fn asks_for_memory(mut client: Client, ready: &Path, go: &Path) -> Result<(), String> {
    let fault = |e: pmix_client::Error| e.to_string();
    let own = Fence::new().of([client.proc().clone()]);
    client.fence(&own).map_err(fault)?;
    fs::write(ready, "").map_err(|e| e.to_string())?;
    until(PATIENCE, || go.exists().then_some(())).ok_or("nothing is to be done")?;
    for size in SIZES {
        let text = "x".repeat(100_000);
        let vars = (0..size * 10).map(|number| format!("V{number}={text}"));
        let vars: Vec<_> = vars.collect();
        let vars: Vec<_> = vars.iter().map(String::as_str).collect();
        let status = spawn(&mut client, Vec::new(), vec![app(&["true"], &vars)])?;
        println!("spawn of {size} MiB: {status}");
        client.fence(&own).map_err(fault)?;
        let log = Request::Log(request::Log {
            time: 0,
            data: vec![Info::new(keys::LOG_STDERR, "\0".repeat(size << 20))],
            directives: Vec::new(),
        });
        let payload = client.request(&log).map_err(fault)?;
        let answer = reply::Done::decode(client.form(), None, &payload);
        let answer = answer.map_err(|e| e.to_string())?;
        println!("log of {size} MiB: {}", answer.status);
        client.fence(&own).map_err(fault)?;
    }
    let status = spawn(&mut client, Vec::new(), vec![app(&["true"], &[])])?;
    match status == Status::SUCCESS.to_string() {
        true => client.finalize().map_err(fault),
        false => Err(format!("a small spawn afterwards: {status}")),
    }
}
