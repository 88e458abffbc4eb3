// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits of `pmix run`: descriptors, file sizes, unknown ranks and jobs, and frequent pulls of output.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::time::{Duration, Instant};

use pmix_client::Client;
use pmix_proto::{Request, reply, request};
use pmix_types::{Info, Status, keys};
use rustix::process::{Resource, Rlimit, prlimit};

use super::blocked::{app, spawn};
use super::{Launcher, PATIENCE, allowed, build, own, within};
use crate::server::address_space;
use crate::wait::{shown, until};
use crate::{Field, Verdict};

/// The time within which the launcher must refuse a job.
const REFUSED: Duration = Duration::from_secs(1);

/// Sets a file size limit. The trace must end with a message, and the job must continue. A process
/// whose output reaches the limit must end by SIGXFSZ, and the others must continue.
pub(crate) fn files(field: &Field) -> Result<Verdict, String> {
    const LIMIT: &str = "1";
    let pmix = build(field)?;
    let tmpdir = field.directory("launcher")?;
    let directory = field.directory("launcher-files")?;
    let path = |name: &str| directory.join(name).to_string_lossy().into_owned();
    let trace = path("trace");
    let options = ["--trace", &trace, "-n", "2"];
    let hello = ["pmix", "hello", "--bytes", "100000", "--quiet"];
    let mut launcher = Launcher::limited(&tmpdir, &pmix, ("-f", LIMIT), &options, &hello)?;
    let code = launcher.end(PATIENCE)?;
    let said = launcher.errors(PATIENCE)?;
    if code != Some(0) || !said.contains("the trace ends here") {
        return Err(format!("a trace: exit code {code:?}, {said}"));
    }
    let outputs = path("outputs");
    let options = ["--output-dir", &outputs, "--keep-going"];
    let job = [
        "head",
        "-c",
        "100000",
        "/dev/zero",
        ":",
        "sh",
        "-c",
        "sleep 0.1; echo on",
    ];
    let mut launcher = Launcher::limited(&tmpdir, &pmix, ("-f", LIMIT), &options, &job)?;
    let code = launcher.end(PATIENCE)?;
    let said = launcher.errors(PATIENCE)?;
    let other = fs::read_to_string(directory.join("outputs/rank.1.stdout")).unwrap_or_default();
    let named = said.contains(") was killed by SIGXFSZ");
    if code != Some(128 + 25) || !named || other != "on\n" {
        return Err(format!(
            "an output: exit code {code:?}, {said}, rank 1 wrote {other:?}"
        ));
    }
    Ok(Verdict::Held(
        "a trace and an output that may not grow: errors by name, 2 of 2 jobs went on".to_owned(),
    ))
}

/// Starts more processes than the launcher may have descriptors for. The job must be refused before the session
/// directory, which cannot be made here, is created.
pub(crate) fn too_many(field: &Field) -> Result<Verdict, String> {
    let pmix = build(field)?;
    let begun = Instant::now();
    let options = ["-n", "100000"];
    let limit = ("-n", "1024");
    let unusable = Path::new("/proc");
    let mut launcher = Launcher::limited(unusable, &pmix, limit, &options, &["true"])?;
    let code = launcher.end(PATIENCE)?;
    let took = begun.elapsed();
    let said = launcher.errors(PATIENCE)?;
    let figures = format!("100000 processes refused after {}", shown(took));
    let named = said.contains("100000 processes") && said.contains("start fewer");
    match code == Some(2) && named && took < allowed(field, REFUSED) {
        true => Ok(Verdict::Held(figures)),
        false => Err(format!("{figures}, exit code {code:?}: {said}")),
    }
}

/// Fences and connects with ranks and jobs that do not exist.
pub(crate) fn names(field: &Field) -> Result<Verdict, String> {
    let pmix = build(field)?;
    let own = own()?;
    let job = [&*own, "peer", "unknown-names"];
    let mut launcher = Launcher::start(field, &pmix, &["-n", "1"], &job)?;
    let code = launcher.end(PATIENCE)?;
    let said = launcher.errors(PATIENCE)?;
    let answers = launcher.output(PATIENCE)?;
    let answers: Vec<_> = answers.lines().collect();
    let refused = answers.iter().filter(|line| line.contains("NOT_FOUND"));
    let refused = refused.count();
    let named = said.contains("operation=fence nspace=absent rank=0");
    match code == Some(0) && refused == answers.len() && refused == 4 && named {
        true => Ok(Verdict::Held(format!(
            "{refused} of {refused} fences and connects are refused, the unknown job is named"
        ))),
        false => Err(format!("exit code {code:?}, {answers:?}: {said}")),
    }
}

/// Pulls the output of thousands of names as often as one process may.
pub(crate) fn pulls(field: &Field) -> Result<Verdict, String> {
    const RANKS: usize = 4;
    let pmix = build(field)?;
    let own = own()?;
    let lines = field.count(200_000, 20_000);
    let mut times = Vec::new();
    for pulls in ["0", "256"] {
        let directory = field.directory("launcher-pulls")?;
        let path = |name: &str| directory.join(name).to_string_lossy().into_owned();
        let (pulled, done) = (path("pulled"), path("done"));
        let script = format!("until [ -e {pulled} ]; do sleep 0.01; done; exec seq {lines}");
        let num = RANKS.to_string();
        let job = [
            &*own, "peer", "pulls", pulls, "4096", &pulled, &done, ":", "-n", &num, "sh", "-c",
            &script,
        ];
        let mut launcher = Launcher::start(field, &pmix, &["--forward-io"], &job)?;
        let pulled = until(PATIENCE, || directory.join("pulled").exists().then_some(()));
        pulled.ok_or_else(|| format!("nothing was pulled: {}", launcher.give_up()))?;
        let begun = Instant::now();
        let output = launcher.child.stdout.take().ok_or("the output was read")?;
        let all = RANKS * lines;
        let count = move || {
            let mut output = BufReader::new(output);
            let (mut line, mut count) = (Vec::new(), 0);
            while count < all && output.read_until(b'\n', &mut line).unwrap_or(0) > 0 {
                line.clear();
                count += 1;
            }
            count
        };
        let count = within(PATIENCE * 2, "output", count)?;
        times.push(begun.elapsed());
        fs::write(&done, "").map_err(|e| format!("{done}: {e}"))?;
        let code = launcher.end(PATIENCE)?;
        if (count, code) != (all, Some(0)) {
            return Err(format!(
                "{pulls} pulls: {count} of {all} lines, exit code {code:?}: {}",
                launcher.errors(PATIENCE)?
            ));
        }
    }
    let (without, with) = (times[0], times[1]);
    let figures = format!(
        "{} lines of others in {}, beside 256 pulls of 4,096 names in {}",
        RANKS * lines,
        shown(without),
        shown(with)
    );
    // Before pulls were bounded, a hundredth of the output arrived in this time.
    match with < allowed(field, without * 20 + REFUSED) {
        true => Ok(Verdict::Held(figures)),
        false => Err(figures),
    }
}

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
    let own = [client.proc().clone()];
    client.fence(&own, []).wait().map_err(fault)?;
    fs::write(ready, "").map_err(|e| e.to_string())?;
    until(PATIENCE, || go.exists().then_some(())).ok_or("nothing is to be done")?;
    for size in SIZES {
        let text = "x".repeat(100_000);
        let vars = (0..size * 10).map(|number| format!("V{number}={text}"));
        let vars: Vec<_> = vars.collect();
        let vars: Vec<_> = vars.iter().map(String::as_str).collect();
        let status = spawn(&mut client, Vec::new(), vec![app(&["true"], &vars)])?;
        println!("spawn of {size} MiB: {status}");
        client.fence(&own, []).wait().map_err(fault)?;
        let log = Request::Log(request::Log {
            time: 0,
            data: vec![Info::new(keys::LOG_STDERR, "\0".repeat(size << 20))],
            directives: Vec::new(),
        });
        let payload = client.request(log).wait().map_err(fault)?;
        let answer = reply::Done::decode(client.form(), None, &payload);
        let answer = answer.map_err(|e| e.to_string())?;
        println!("log of {size} MiB: {}", answer.status);
        client.fence(&own, []).wait().map_err(fault)?;
    }
    let status = spawn(&mut client, Vec::new(), vec![app(&["true"], &[])])?;
    match status == Status::SUCCESS.to_string() {
        true => client.finalize().map_err(fault),
        false => Err(format!("a small spawn afterwards: {status}")),
    }
}
