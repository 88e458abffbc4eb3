// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the reply with job data: the time to build it, and the time to send it again.
//!
//! Our side builds the bytes in memory. The real library has no public call that does, so a client requests
//! them from a server over its socket. The time to build is the time of the first reply less the time of a
//! reply of the same length that the server has built before. Both times include the sending.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use bfrops::{Decoder, Layout, Module, wire_type};
use pmix_types::{Command as Request, keys};

use super::client::{Client, Variables};
use super::maps::{Files, Job, Shape};
use super::programs::{Program, clean};
use crate::table::{Verdict, time};
use crate::tools::Timing;
use crate::{Race, Report, Row, both};
use xtask::install;

/// The promised ratio of the time to build the reply.
const BOUND: f64 = 20.0;

/// The number of requests to a server.
const ASKED: usize = 200;

/// The command that requests the job data.
const REQ: Request = Request::from_raw(0);

/// A command that no server has, so that the reply is a status.
const NO_COMMAND: Request = Request::from_raw(200);

/// The job of a thousand ranks, with the maps alone and with an array for each rank.
const JOB: Job = Job {
    shape: Shape::Native,
    nodes: 125,
    each: 8,
};

/// Adds the rows.
///
/// # Errors
/// Returns an error if the maps cannot be written.
pub(super) fn measure(
    ours: &Program,
    peers: &[Program],
    report: &mut Report,
) -> Result<(), String> {
    let files = JOB.write(&install::scratch("bench/gds")?)?;
    for (extra, what) in [
        (&[][..], "the maps alone"),
        (&["procs"][..], "an array of 7 for each process"),
    ] {
        for peer in peers {
            let rows = one(ours, peer, &files, extra, what);
            let rows = rows.map_or_else(|why| vec![Err(why)], |rows| rows.map(Ok).into());
            for row in rows {
                report.add("reply", row);
            }
        }
    }
    Ok(())
}

fn one(
    ours: &Program,
    peer: &Program,
    files: &Files,
    extra: &[&str],
    what: &str,
) -> Result<[Row; 2], String> {
    let release = peer.name.split("rc").next().unwrap_or_default();
    let words = [extra, &["reply", release]].concat();
    let mine = || ours.run(files, JOB.nodes, 0, &words);
    // Measure ours before and after the peer, so that other load on the machine affects both.
    let before = mine()?;
    let theirs = Server::start(peer, files, extra).and_then(|server| server.time());
    let mine = before.or_better(mine()?);
    let (built, shared) = (mine.get("reply")?, mine.get("reply_shared")?);
    let bytes = mine.get("reply_bytes")?.least;
    let input = |theirs: &str| format!("{}, {what}; {bytes} B{theirs}", JOB.title());
    let length = theirs
        .as_ref()
        .ok()
        .map(|t| format!(", theirs {} B", t.bytes));
    let race = Race {
        figure: "job-info reply, built",
        input: input(&length.unwrap_or_default()),
        peer: &peer.name,
        bound: Some(BOUND),
        judged: true,
    };
    let again = Row {
        figure: "job-info reply, handed out again".to_owned(),
        input: input(""),
        ours: both(&shared),
        peer: theirs.as_ref().map_or_else(String::clone, |t| {
            format!("{}: {} with its sending", peer.name, time(t.shared))
        }),
        ratio: String::new(),
        bound: String::new(),
        verdict: Verdict::Shown,
    };
    Ok([race.row(&built, theirs.map(|t| t.built)), again])
}

/// The times of a server.
struct Theirs {
    built: Timing,
    /// The time with the sending, less the time of the shortest reply.
    shared: f64,
    bytes: usize,
}

/// The server with the job, as two jobs with different numbers of clients.
struct Server {
    child: Child,
    variables: Variables,
}

impl Server {
    fn start(peer: &Program, files: &Files, extra: &[&str]) -> Result<Self, String> {
        let numbers = [JOB.nodes, files.num_procs].map(|n| n.to_string());
        let mut child = clean(Command::new(&peer.replies))
            .args([&files.nodes, &files.procs])
            .args(numbers)
            .args(extra)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{}: {e}", peer.replies.display()))?;
        let lines = child.stdout.take().map(BufReader::new).into_iter();
        let lines = lines.flat_map(BufRead::lines).map_while(Result::ok);
        let variables = lines
            .take_while(|line| !line.is_empty())
            .filter_map(|line| {
                let (name, value) = line.split_once('=')?;
                Some((name.to_owned(), value.to_owned()))
            })
            .collect();
        Ok(Self { child, variables })
    }

    fn time(&self) -> Result<Theirs, String> {
        let mut alone = Client::connect(&self.variables, "built")?;
        let mut among = Client::connect(&self.variables, "shared")?;
        let (first, _) = among.ask(REQ)?;
        let (answer, _) = alone.ask(REQ)?;
        check(&answer, "built")?;
        check(&first, "shared")?;
        let mut times = [const { Vec::new() }; 3];
        for _ in 0..ASKED {
            let took = [
                alone.ask(REQ)?.1,
                among.ask(REQ)?.1,
                alone.ask(NO_COMMAND)?.1,
            ];
            times
                .iter_mut()
                .zip(took)
                .for_each(|(all, one)| all.push(one));
        }
        let [built, shared, nothing] = times.map(least_and_median);
        Ok(Theirs {
            built: Timing {
                least: built.0 - shared.0,
                median: built.1 - shared.1,
                bytes: 0.0,
                framing: String::new(),
            },
            shared: shared.0 - nothing.0,
            bytes: answer.len(),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server exits at the end of its input.
        drop(self.child.stdin.take());
        drop(self.child.wait());
    }
}

fn least_and_median(mut times: Vec<f64>) -> (f64, f64) {
    times.sort_unstable_by(f64::total_cmp);
    let at = |place: usize| times.get(place).copied().unwrap_or_default();
    (at(0), at(times.len() / 2))
}

/// Returns `true` if a reply describes this job and each of its processes.
fn check(answer: &[u8], nspace: &str) -> Result<(), String> {
    let fault = |e: bfrops::Error| format!("the reply cannot be read: {e}");
    let mut decoder = Decoder::new(Layout::new(Module::V41), answer);
    let name = decoder.one::<wire_type::String>().map_err(fault)?;
    let mut procs = 0;
    while !decoder.is_empty() {
        let kval = decoder.one::<wire_type::Kval>().map_err(fault)?;
        procs += u32::from(kval.key.is(keys::PROC_BLOB));
    }
    let named = name.is_some_and(|name| name == nspace);
    match procs == JOB.nodes * JOB.each && named {
        true => Ok(()),
        false => Err(format!("a reply about {procs} processes")),
    }
}

#[cfg(test)]
mod tests {
    use super::{check, least_and_median};

    #[test]
    fn a_reply_about_no_process_is_not_timed() {
        assert_eq!(
            check(b"\x02\x0cbuilt\0", "built"),
            Err("a reply about 0 processes".to_owned())
        );
    }

    #[test]
    fn the_least_and_the_median_do_not_depend_on_the_order() {
        assert_eq!(least_and_median(vec![5.0, 1.0, 3.0]), (1.0, 3.0));
    }
}
