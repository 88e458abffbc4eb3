// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask bench client`: what a client's calls cost, beside the real client libraries under the
//! same server (`pmix run`) in the same run.
//!
//! One program in C is built for every library, ours included, and is written once more in Rust for
//! the crate. Each process of a job prints its figures; their median counts, and of several jobs the
//! least.

use std::path::PathBuf;
use std::process::Command;

use pmix_interop::capi;
use pmix_interop::server::launcher::Far;
use pmix_interop::server::programs;
use xtask::install;

use crate::server::rows::{Pair, kib};
use crate::server::runs::{Field, Figures};
use crate::table::{self, Row, Verdict, time};
use crate::tools::bench_program;
use crate::{Report, machine};

/// How often each job is run; the least of each figure counts.
const RUNS: usize = 5;

/// How many fences of a process are timed; the least counts.
const ROUNDS: u32 = 50;

/// The largest job, of which four processes are here.
const LARGE: Far = Far(&[(4095, 128), (1, 124)]);
const LOCAL: u32 = 4;

/// A program around one client library.
struct Client {
    title: String,
    program: PathBuf,
}

struct Clients {
    /// The crate, and the C library.
    ours: [Client; 2],
    theirs: Vec<Client>,
}

/// Measures, prints and writes the table.
///
/// # Errors
/// Something of ours cannot be built.
pub(super) fn measure(call: &str, report: &mut Report) -> Result<(), String> {
    let field = Field::prepare()?;
    let clients = Clients::prepare(&field)?;
    if report.wants("calls") {
        for size in [1, 2, 8, 32, 64] {
            if let Err(why) = calls(&field, &clients, size, report) {
                report.add("calls", Err(why));
            }
        }
    }
    if report.wants("whole") {
        for client in &clients.ours {
            let row = whole(&field, client, &clients);
            report.add("whole command", row);
        }
    }
    if report.wants("large") {
        for client in &clients.ours {
            report.add("memory of a client", large(&field, client, true));
        }
        for client in &clients.theirs {
            report.add("memory of a client", large(&field, client, false));
        }
    }
    let text = format!(
        "`{call}`, on {}. Figures are medians of the processes of a job and the least of {RUNS} jobs; a \
         ratio is the other's over ours. The server is `pmix run` for all but whole commands.\n\n{}",
        machine(),
        table::markdown(&report.rows)
    );
    let path = install::scratch("bench")?.join("client.md");
    std::fs::write(&path, &text).map_err(|e| format!("{}: {e}", path.display()))?;
    println!("\n{text}");
    Ok(())
}

impl Clients {
    fn prepare(field: &Field) -> Result<Self, String> {
        let library = capi::library("release")?;
        let ours = [
            Client {
                title: "crate pmix".to_owned(),
                program: bench_program("pmix", "costs")?,
            },
            Client {
                title: "libpmix of ours".to_owned(),
                program: programs::compile_for("ours", &library, "costs")?,
            },
        ];
        let theirs = field.releases.iter().map(|release| {
            Ok(Client {
                title: release.peer.version.clone(),
                program: programs::compile(&release.peer, "costs")?,
            })
        });
        let theirs = theirs.collect::<Result<_, String>>()?;
        Ok(Self { ours, theirs })
    }
}

/// What the processes of a job say, as medians; without rounds they do nothing together.
fn figures(
    field: &Field,
    mut command: Command,
    client: &Client,
    rounds: Option<u32>,
) -> Result<Figures, String> {
    command.arg(&client.program);
    command.args(rounds.map(|rounds| rounds.to_string()));
    let text = field.run(&mut command)?;
    let lines = text.lines().filter(|line| line.starts_with("{\"rank\""));
    let all: Vec<_> = lines.map(Figures::of_text).collect::<Result<_, _>>()?;
    match all.is_empty() {
        true => Err(format!("{}: no figures in {text:.300}", client.title)),
        false => Ok(Figures::medians(&all)),
    }
}

/// One comparison of calls: the figures that are added up, and what is promised.
struct Call {
    title: &'static str,
    figures: &'static [&'static str],
    /// How many times ours the better peer's is promised to be.
    bound: f64,
    /// The sizes of jobs that are measured.
    sizes: &'static [u32],
    shown: fn(f64) -> String,
}

const CALLS: &[Call] = &[
    Call {
        title: "init and finalize, processor time",
        figures: &["init_cpu_ns", "finalize_cpu_ns"],
        bound: 5.0,
        sizes: &[1, 64],
        shown: time,
    },
    Call {
        title: "get of a key of the own job, processor time",
        figures: &["get_cpu_ns"],
        bound: 20.0,
        sizes: &[1, 64],
        shown: time,
    },
    Call {
        title: "the same from 16 threads",
        figures: &["threads_cpu_ns"],
        bound: 20.0,
        sizes: &[1],
        shown: time,
    },
    Call {
        title: "get of 1 KB of each process after a fence",
        figures: &["peer_get_ns"],
        bound: 20.0,
        sizes: &[2, 8, 32, 64],
        shown: time,
    },
    Call {
        title: "empty fence",
        figures: &["fence_ns"],
        bound: 1.5,
        sizes: &[2, 8, 32, 64],
        shown: time,
    },
    Call {
        title: "memory of a client that has all data",
        figures: &["full_kib"],
        bound: 1.0,
        sizes: &[1, 64],
        shown: kib,
    },
];

/// The calls of jobs of one size, of each of our clients against the better peer.
fn calls(field: &Field, clients: &Clients, size: u32, report: &mut Report) -> Result<(), String> {
    let run = |client: &Client| figures(field, field.ours.command(size), client, Some(ROUNDS));
    let best = |client: &Client| -> Result<Figures, String> {
        (1..RUNS).try_fold(run(client)?, |best, _| Ok(best.or_less(&run(client)?)))
    };
    let theirs: Vec<_> = clients.theirs.iter().map(&best).collect::<Result<_, _>>()?;
    for ours in &clients.ours {
        let mine = best(ours)?;
        for call in CALLS.iter().filter(|call| call.sizes.contains(&size)) {
            let row = row(call, size, (ours, &mine), (&clients.theirs, &theirs));
            report.add(call.title, row);
        }
    }
    Ok(())
}

fn row(
    call: &Call,
    size: u32,
    (client, mine): (&Client, &Figures),
    (peers, theirs): (&[Client], &[Figures]),
) -> Result<Row, String> {
    let sum = |figures: &Figures| -> Result<f64, String> {
        let mut values = call.figures.iter().map(|name| figures.get(name));
        values.try_fold(0.0, |sum, value| Ok(sum + value?))
    };
    let mut least: Option<(&str, f64)> = None;
    for (peer, figures) in peers.iter().zip(theirs) {
        let value = sum(figures)?;
        if least.is_none_or(|(_, best)| value < best) {
            least = Some((&peer.title, value));
        }
    }
    let (name, peer) = least.ok_or("no peer here")?;
    Ok(Pair {
        figure: call.title,
        input: format!("{size} processes, {}", client.title),
        ours: sum(mine)?,
        peer,
        name: name.to_owned(),
        bound: Some(call.bound),
        shown: call.shown,
    }
    .row())
}

/// A whole job of 64 with each of our clients, beside prterun with its own.
fn whole(field: &Field, client: &Client, clients: &Clients) -> Result<Row, String> {
    let release = field.release("5.")?;
    let prterun = release.prterun.as_ref().ok_or("no prterun here")?;
    let mut theirs = clients.theirs.iter();
    let own = theirs.find(|client| client.title == release.peer.version);
    let own = own.ok_or("no client of prterun's release")?;
    let (mut ours, mut peer) = (f64::MAX, f64::MAX);
    for _ in 0..RUNS {
        let mut command = field.ours.command(64);
        ours = ours.min(field.whole(command.arg(&client.program).arg("1"))?);
        let mut command = prterun.command(64);
        peer = peer.min(field.whole(command.arg(&own.program).arg("1"))?);
    }
    Ok(Pair {
        figure: "whole command",
        input: format!("64 processes, {}", client.title),
        ours,
        peer,
        name: prterun.title(),
        bound: Some(1.0 / 0.35),
        shown: time,
    }
    .row())
}

/// How much more memory a client needs for a job of half a million processes than for one of four.
fn large(field: &Field, client: &Client, is_ours: bool) -> Result<Row, String> {
    let small = figures(field, field.ours.command(LOCAL), client, None)?;
    let command = field.ours.command_of_larger(LOCAL, LARGE)?;
    let large = figures(field, command, client, None)?;
    let (small, large) = (small.get("idle_kib")?, large.get("idle_kib")?);
    Ok(Row {
        figure: "memory of a client, job of 524,288".to_owned(),
        input: client.title.clone(),
        ours: kib(large),
        peer: format!("a job of four: {}", kib(small)),
        ratio: table::factor(large / small),
        bound: "64 KB more".to_owned(),
        verdict: match is_ours {
            true => Verdict::of(large - small <= 64.0),
            false => Verdict::Shown,
        },
    })
}
