// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask bench client`: measures the calls of a client, beside the real client libraries under the
//! same servers in the same run.
//!
//! One program in C is built for every library, ours included. A second one in Rust uses the crate. Each process
//! of a job prints its figures. The table has the median of the processes and the least value of several jobs.

use pmix_interop::capi;
use pmix_interop::server::launcher::Far;
use pmix_interop::server::programs;
use xtask::install;

use crate::server::jobs::{self, Call, Client, RUNS, Side, Work, at_most, in_turns};
use crate::server::runs::{Field, Figures, kib};
use crate::table::{self, Row, Verdict, time};
use crate::tools::bench_program;
use crate::{Report, machine};

/// The largest job, which has four local processes.
const LARGE: Far = Far(&[(4095, 128), (1, 124)]);
const LOCAL: u32 = 4;

struct Clients {
    /// The crate, and the C library.
    ours: [Client; 2],
    theirs: Vec<Client>,
}

/// Measures, prints and writes the table.
///
/// # Errors
/// Returns an error if one of our programs cannot be built.
pub(super) fn measure(call: &str, report: &mut Report) -> Result<(), String> {
    let field = Field::prepare()?;
    let clients = Clients::prepare(&field)?;
    if report.wants("calls") {
        calls(&field, &clients, report);
    }
    if report.wants("hosts") {
        hosts(&field, &clients, report);
    }
    if report.wants("whole") {
        whole(&field, &clients, report);
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
        "`{call}`, on {}. Figures are medians of the processes of a job and the least of {RUNS} jobs, which \
         took turns; a ratio is the other's over ours, and the other is the best of all.\n\n{}",
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
        let library = capi::library("dist")?;
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
        let theirs = jobs::theirs(field)?;
        Ok(Self { ours, theirs })
    }
}

/// The timed calls, each with its required ratio to the best real client.
const CALLS: &[Call] = &[
    Call {
        title: "init and finalize, processor time",
        figures: &["init_cpu_ns", "finalize_cpu_ns"],
        bound: Some(5.0),
        sizes: &[1, 64],
        shown: time,
    },
    Call {
        title: "get of a key of the own job, processor time",
        figures: &["get_cpu_ns"],
        bound: Some(20.0),
        sizes: &[1, 64],
        shown: time,
    },
    Call {
        title: "the same from 16 threads",
        figures: &["threads_cpu_ns"],
        bound: None,
        sizes: &[1],
        shown: time,
    },
    Call {
        title: "get of 1 KB of each process after a fence",
        figures: &["peer_get_ns"],
        bound: Some(20.0),
        sizes: &[64],
        shown: time,
    },
    Call {
        title: "empty fence",
        figures: &["fence_ns"],
        bound: Some(1.5),
        sizes: &[2, 8, 32, 64],
        shown: time,
    },
    Call {
        title: "memory of a client that has all data",
        figures: &["full_kib"],
        bound: None,
        sizes: &[1, 64],
        shown: kib,
    },
];

/// The limits of the time to get a key of the own job, in the crate and in C, in nanoseconds. The
/// next constant limits the increase of this time when other processes get keys at the same time.
const MOST_OF_GET: [f64; 2] = [300.0, 500.0];
const MOST_LONGER: f64 = 2.0;

/// The limit of a client's private memory after gets of 64 kilobytes: half of the bytes that it read.
const MOST_ADDED_KIB: f64 = 32.0;

/// Compares our clients under our server with the best real client under our server and under its own.
fn calls(field: &Field, clients: &Clients, report: &mut Report) {
    let ours = clients.ours.each_ref();
    let ours = ours.map(|client| Side::new(client, &field.ours));
    let peers = jobs::sides_of_peers(field, &clients.theirs);
    let mut sides = ours.to_vec();
    sides.extend(peers.iter().cloned());
    let mut alone: [Option<f64>; 2] = [None, None];
    for size in [1, 2, 8, 32, 64] {
        let best = in_turns(field, &sides, size, Work::Calls);
        for ((side, alone), most) in ours.iter().zip(&mut alone).zip(MOST_OF_GET) {
            for call in CALLS.iter().filter(|call| call.sizes.contains(&size)) {
                report.add(call.title, best.row(call, size, side, &peers));
            }
            match best.of(side) {
                Ok(figures) => {
                    for row in limits(size, &side.title(), figures, alone, most) {
                        report.add("gets", row);
                    }
                }
                Err(why) => report.add("calls", Err(why)),
            }
        }
    }
}

/// Compares the time of a get among many callers, and the memory that gets leave in a client, with their
/// limits. `alone` is the time of a get when one process calls, and `most` is its limit.
fn limits(
    size: u32,
    title: &str,
    figures: &Figures,
    alone: &mut Option<f64>,
    most: f64,
) -> Vec<Result<Row, String>> {
    let input = format!("{size} processes, {title}");
    let longer = |figure: &str, how: &str, alone: Option<f64>| {
        let (value, alone) = (figures.get(figure)?, alone.ok_or("no time of one process")?);
        Ok(Row {
            figure: format!("get of a key of the own job, {how}"),
            input: input.clone(),
            ours: time(value),
            peer: format!("one process and thread: {}", time(alone)),
            ratio: table::factor(value / alone),
            bound: format!("at most {MOST_LONGER}"),
            verdict: Verdict::of(value <= MOST_LONGER * alone),
        })
    };
    let mut rows = Vec::new();
    if size == 1 {
        *alone = figures.get("get_cpu_ns").ok();
        let figure = "get of a key of the own job";
        rows.push(
            figures
                .get("get_cpu_ns")
                .map(|value| at_most(figure, input.clone(), value, most, time)),
        );
        rows.push(longer("threads_cpu_ns", "16 threads", *alone));
    }
    if size == 64 {
        rows.push(longer("get_cpu_ns", "64 busy processes", *alone));
        let figure = "memory of its own that a client takes for the gets of 64 KB";
        rows.push(
            figures
                .get("added_kib")
                .map(|value| at_most(figure, input.clone(), value, MOST_ADDED_KIB, kib)),
        );
    }
    rows
}

/// Compares our clients under the host around each real library with that library's own client. Our clients share
/// memory with our server only, so gets of other processes and fences are shown without a required ratio.
fn hosts(field: &Field, clients: &Clients, report: &mut Report) {
    for (own, release) in clients.theirs.iter().zip(&field.releases) {
        let ours = clients.ours.each_ref();
        let ours = ours.map(|client| Side::new(client, &release.host));
        let peer = [Side::new(own, &release.host)];
        let mut sides = ours.to_vec();
        sides.extend(peer.iter().cloned());
        for size in [1, 64] {
            let best = in_turns(field, &sides, size, Work::Calls);
            for side in &ours {
                for call in CALLS.iter().filter(|call| call.sizes.contains(&size)) {
                    let own_data = ["peer_get_ns", "fence_ns", "full_kib"];
                    let shared = call.figures.iter().any(|name| own_data.contains(name));
                    let call = Call {
                        bound: call.bound.filter(|_| !shared),
                        ..*call
                    };
                    report.add(call.title, best.row(&call, size, side, &peer));
                }
            }
        }
    }
}

/// Measures a whole job of 64 processes that exchange data, with each of our clients, beside prterun with its own.
fn whole(field: &Field, clients: &Clients, report: &mut Report) {
    let ours = clients.ours.each_ref();
    let ours = ours.map(|client| Side::new(client, &field.ours));
    let pairs = clients.theirs.iter().zip(&field.releases);
    let own = pairs.filter_map(|(client, release)| Some((client, release.prterun.as_ref()?)));
    let peers: Vec<_> = own
        .map(|(client, server)| Side::new(client, server))
        .collect();
    let mut sides = ours.to_vec();
    sides.extend(peers.iter().cloned());
    let call = Call {
        title: "whole command",
        figures: &["whole_ns"],
        bound: Some(1.0 / 0.35),
        sizes: &[64],
        shown: time,
    };
    let best = in_turns(field, &sides, 64, Work::Exchange);
    for side in &ours {
        report.add(call.title, best.row(&call, 64, side, &peers));
    }
}

/// Measures the additional memory of a client in a job of half a million processes over one of four.
fn large(field: &Field, client: &Client, is_ours: bool) -> Result<Row, String> {
    let least = |large: bool| {
        let mut least = f64::MAX;
        for _ in 0..RUNS {
            let command = match large {
                true => field.ours.command_of_larger(LOCAL, LARGE)?,
                false => field.ours.command(LOCAL),
            };
            let figures = jobs::run(field, command, client, Work::Nothing)?;
            least = least.min(figures.get("idle_kib")?);
        }
        Ok::<_, String>(least)
    };
    let (small, large) = (least(false)?, least(true)?);
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
