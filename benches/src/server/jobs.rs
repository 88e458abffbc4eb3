// SPDX-License-Identifier: MIT OR Apache-2.0
//! Jobs whose processes print what their calls cost (`tests/server/programs/costs.c`): the same job with
//! several client libraries and servers in turns.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use pmix_interop::server::launcher::Launcher;
use pmix_interop::server::programs;

use super::rows::Pair;
use super::runs::{Field, Figures};
use crate::table::{Row, Verdict};

/// The number of runs of each job, of which the least value of each figure is reported.
pub(crate) const RUNS: usize = 5;

/// The number of fences that each process times one behind the other.
const ROUNDS: u32 = 200;

/// How long a job may take.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// What the processes of a job do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    /// Init and finalize.
    Nothing,
    /// They put a kilobyte, fence and get that of every other process.
    Exchange,
    /// All calls that are timed, and then the exchange.
    Calls,
}

impl Work {
    /// The program's arguments.
    fn words(self) -> Vec<String> {
        match self {
            Self::Nothing => Vec::new(),
            Self::Exchange => vec!["0".to_owned()],
            Self::Calls => vec![ROUNDS.to_string()],
        }
    }
}

/// A program around one client library.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) title: String,
    pub(crate) program: PathBuf,
}

/// The clients around the real libraries, in the order of the releases.
///
/// # Errors
/// One does not compile.
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

/// Every real client under our server, under a host around its own library, and under its own prterun.
pub(crate) fn sides_of_peers(field: &Field, clients: &[Client]) -> Vec<Side> {
    let mut sides = Vec::new();
    for (client, release) in clients.iter().zip(&field.releases) {
        sides.push(Side::new(client, &field.ours));
        sides.push(Side::new(client, &release.host));
        sides.extend(release.prterun.iter().map(|own| Side::new(client, own)));
    }
    sides
}

/// What the processes of a job say, as medians, and how long the whole command took (`whole_ns`).
///
/// # Errors
/// The job fails, or says nothing.
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

/// The best figures of each side, or why there are none.
pub(crate) struct Best {
    sides: Vec<(String, Result<Figures, String>)>,
}

/// Runs a job of so many processes on each side in turns: a busy moment of the machine falls on all.
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
    /// The figures of a side.
    ///
    /// # Errors
    /// Its job failed.
    pub(crate) fn of(&self, side: &Side) -> Result<&Figures, String> {
        let title = side.title();
        let found = self.sides.iter().find(|(name, _)| *name == title);
        let (_, figures) = found.ok_or_else(|| format!("{title} was not run"))?;
        figures.as_ref().map_err(|why| format!("{title}: {why}"))
    }

    /// The row of a call: our side against the better of these others, as far as they could be run.
    ///
    /// # Errors
    /// Ours failed, or there is no other.
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

/// One comparison of calls: the figures that are added up, and what is asked.
pub(crate) struct Call {
    pub(crate) title: &'static str,
    pub(crate) figures: &'static [&'static str],
    /// How many times ours the better peer's is to be.
    pub(crate) bound: Option<f64>,
    /// The sizes of jobs that are measured.
    pub(crate) sizes: &'static [u32],
    /// How a figure is written.
    pub(crate) shown: fn(f64) -> String,
}

impl Call {
    fn sum(&self, figures: &Figures) -> Result<f64, String> {
        let mut values = self.figures.iter().map(|name| figures.get(name));
        values.try_fold(0.0, |sum, value| Ok(sum + value?))
    }
}

/// The row of a figure that is to be at most so much, whatever others take.
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
