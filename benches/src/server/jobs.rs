// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs jobs whose processes print the cost of their calls (`tests/server/programs/costs.c`): the same job with
//! several client libraries and servers in turns.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use pmix_interop::server::launcher::Launcher;
use pmix_interop::server::programs;

use super::runs::{Field, Figures, Pair, kib};
use crate::Report;
use crate::table::{Row, Verdict, size, time};

/// The number of runs of each job. The least value of each figure is reported.
pub(crate) const RUNS: usize = 5;

/// The number of consecutive fences that each process times.
const ROUNDS: u32 = 200;

/// The time limit of a job.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// The calls that the processes of a job make.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    /// Init and finalize.
    Nothing,
    /// A put of a kilobyte, a fence, and a get of the value of every other process.
    Exchange,
    /// All timed calls, then the exchange.
    Calls,
}

impl Work {
    /// Returns the arguments of the program.
    fn words(self) -> Vec<String> {
        match self {
            Self::Nothing => Vec::new(),
            Self::Exchange => vec!["0".to_owned()],
            Self::Calls => vec![ROUNDS.to_string()],
        }
    }
}

/// The measuring program, compiled with one client library.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) title: String,
    pub(crate) program: PathBuf,
}

/// Returns the clients with the real libraries, in the order of the releases.
///
/// # Errors
/// Returns an error if a client does not compile.
pub(crate) fn theirs(field: &Field) -> Result<Vec<Client>, String> {
    let clients = field.releases.iter().map(|release| {
        Ok(Client {
            title: release.peer.version.clone(),
            program: programs::compile(&release.peer, "costs")?,
        })
    });
    clients.collect()
}

/// A client library under a server.
#[derive(Clone)]
pub(crate) struct Side {
    client: Client,
    server: Launcher,
}

impl Side {
    pub(crate) fn new(client: &Client, server: &Launcher) -> Self {
        Self {
            client: client.clone(),
            server: server.clone(),
        }
    }

    pub(crate) fn title(&self) -> String {
        format!("{} under {}", self.client.title, self.server.title())
    }
}

/// Returns every real client under our server, under a host around its own library, and under its own prterun.
pub(crate) fn sides_of_peers(field: &Field, clients: &[Client]) -> Vec<Side> {
    let mut sides = Vec::new();
    for (client, release) in clients.iter().zip(&field.releases) {
        sides.push(Side::new(client, &field.ours));
        sides.push(Side::new(client, &release.host));
        sides.extend(release.prterun.iter().map(|own| Side::new(client, own)));
    }
    sides
}

/// Returns the medians of the figures that the processes of a job print, and the time of the whole command
/// (`whole_ns`).
///
/// # Errors
/// Returns an error if the job fails or prints no figures.
pub(crate) fn run(
    field: &Field,
    mut command: Command,
    client: &Client,
    work: Work,
) -> Result<Figures, String> {
    command.arg(&client.program).args(work.words());
    let (text, took) = field.timed_within(&mut command, LIMIT)?;
    let lines = text
        .lines()
        .filter_map(|line| line.get(line.find("{\"rank\"")?..));
    let all: Vec<_> = lines.map(Figures::of_text).collect::<Result<_, _>>()?;
    match all.is_empty() {
        true => Err(format!("{}: no figures in {text:.300}", client.title)),
        false => Ok(Figures::medians(&all).with("whole_ns", took)),
    }
}

/// The best figures of each side, or the reason why a side has none.
pub(crate) struct Best {
    sides: Vec<(String, Result<Figures, String>)>,
}

/// Runs a job of `procs` processes on each side in turns, so that other load on the machine affects all sides.
pub(crate) fn in_turns(field: &Field, sides: &[Side], size: u32, work: Work) -> Best {
    let first = |side: &Side| (side.title(), run_on(field, side, size, work));
    let mut best: Vec<_> = sides.iter().map(first).collect();
    for _ in 1..RUNS {
        for (side, (_, best)) in sides.iter().zip(&mut best) {
            let next = run_on(field, side, size, work);
            *best = match (best.clone(), next) {
                (Ok(best), Ok(next)) => Ok(best.or_less(&next)),
                // prterun does not always end.
                (Ok(best), Err(_)) if matches!(side.server, Launcher::Prterun(..)) => Ok(best),
                (Err(_), next) if matches!(side.server, Launcher::Prterun(..)) => next,
                (Err(why), _) | (_, Err(why)) => Err(why),
            };
        }
    }
    for (title, figures) in &best {
        if let Err(why) = figures {
            println!("{size} processes, {title}: {why}");
        }
    }
    Best { sides: best }
}

fn run_on(field: &Field, side: &Side, size: u32, work: Work) -> Result<Figures, String> {
    run(field, side.server.command(size), &side.client, work)
}

impl Best {
    /// Returns the figures of a side.
    ///
    /// # Errors
    /// Returns an error if the job of this side failed.
    pub(crate) fn of(&self, side: &Side) -> Result<&Figures, String> {
        let title = side.title();
        let found = self.sides.iter().find(|(name, _)| *name == title);
        let (_, figures) = found.ok_or_else(|| format!("{title} was not run"))?;
        figures.as_ref().map_err(|why| format!("{title}: {why}"))
    }

    /// Returns the row of a call: our side against the best of the given sides that could be run.
    ///
    /// # Errors
    /// Returns an error if our side failed or no other side could be run.
    pub(crate) fn row(
        &self,
        call: &Call,
        size: u32,
        ours: &Side,
        peers: &[Side],
    ) -> Result<Row, String> {
        let mine = call.sum(self.of(ours)?)?;
        let mut least: Option<(String, f64)> = None;
        for peer in peers {
            if let Ok(figures) = self.of(peer) {
                let value = call.sum(figures)?;
                if least.as_ref().is_none_or(|(_, best)| value < *best) {
                    least = Some((peer.title(), value));
                }
            }
        }
        let (name, peer) = least.ok_or("no peer here")?;
        Ok(Pair {
            figure: call.title,
            input: format!("{size} processes, {}", ours.title()),
            ours: mine,
            peer,
            name,
            bound: call.bound,
            shown: call.shown,
        }
        .row())
    }
}

/// One comparison of calls: the figures that are added up, and the required ratio.
pub(crate) struct Call {
    pub(crate) title: &'static str,
    pub(crate) figures: &'static [&'static str],
    /// The required ratio of the better peer's figure to ours.
    pub(crate) bound: Option<f64>,
    /// The measured sizes of jobs.
    pub(crate) sizes: &'static [u32],
    /// The function that formats a figure.
    pub(crate) shown: fn(f64) -> String,
}

impl Call {
    fn sum(&self, figures: &Figures) -> Result<f64, String> {
        let mut values = self.figures.iter().map(|name| figures.get(name));
        values.try_fold(0.0, |sum, value| Ok(sum + value?))
    }
}

/// Returns the row of a figure with a fixed upper limit.
pub(crate) fn at_most(
    figure: &str,
    input: String,
    value: f64,
    most: f64,
    shown: fn(f64) -> String,
) -> Row {
    Row {
        figure: figure.to_owned(),
        input,
        ours: shown(value),
        peer: String::new(),
        ratio: String::new(),
        bound: format!("at most {}", shown(most)),
        verdict: Verdict::of(value <= most),
    }
}

// Measures the first get of each process after a collecting fence, by unmodified clients. The
// servers are ours, a host around 4.2.2, which shares memory with its own clients, and prterun.

const SIZES: &[u32] = &[2, 8, 32, 64];

const CALLS: [Call; 3] = [
    Call {
        title: "first get of each process",
        figures: &["peer_get_ns"],
        bound: Some(2.0),
        sizes: SIZES,
        shown: time,
    },
    Call {
        title: "bytes sent to a client in the fence and the gets",
        figures: &["received_bytes"],
        bound: None,
        sizes: SIZES,
        shown: size,
    },
    Call {
        title: "memory of a client that has all data",
        figures: &["full_kib"],
        bound: None,
        sizes: SIZES,
        shown: kib,
    },
];

/// The required ratio of two times of the whole command: the time under the host in C to the time
/// under our server. The second number is the number of processes for which the ratio is required.
const WHOLE: (f64, u32) = (1.0 / 0.8, 64);

/// Measures jobs whose processes read all data of each other, with the clients of each release.
pub(super) fn gets(field: &Field, report: &mut Report) -> Result<(), String> {
    let clients = theirs(field)?;
    let host = field.release("4.2").map(|release| &release.host);
    let prterun = field.release("5.").map(|release| release.prterun.as_ref());
    for client in &clients {
        let ours = Side::new(client, &field.ours);
        let host = host.clone().map(|host| Side::new(client, host));
        let prterun = prterun.clone().ok().flatten();
        let peers: Vec<_> = host
            .iter()
            .cloned()
            .chain(prterun.map(|prterun| Side::new(client, prterun)))
            .collect();
        let mut sides = vec![ours.clone()];
        sides.extend(peers.iter().cloned());
        for size in SIZES.iter().copied() {
            let best = in_turns(field, &sides, size, Work::Exchange);
            for call in &CALLS {
                report.add(call.title, best.row(call, size, &ours, &peers));
            }
            let row = host
                .clone()
                .and_then(|host| whole(&best, size, &ours, &host));
            report.add("whole command", row);
        }
    }
    Ok(())
}

/// Compares the whole command with the host alone.
fn whole(best: &Best, size: u32, ours: &Side, host: &Side) -> Result<Row, String> {
    let (bound, judged) = WHOLE;
    Ok(Pair {
        figure: "whole command of processes that read all",
        input: format!("{size} processes, {}", ours.title()),
        ours: best.of(ours)?.get("whole_ns")?,
        peer: best.of(host)?.get("whole_ns")?,
        name: host.title(),
        bound: Some(bound).filter(|_| size == judged),
        shown: time,
    }
    .row())
}
