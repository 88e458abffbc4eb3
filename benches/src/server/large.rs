// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures what connecting costs four clients of a large job, with more or less of the job's data in the reply.

use std::process::Command;

use bfrops::{Layout, Module};
use gds_hash::{Codec, Job, LocalNode, Remote};
use pmix_types::{Info, Release as Tables, keys};
use preg_core::Params;

use super::rows::{Pair, kib};
use super::runs::{Field, Figures, Release};
use crate::Report;
use crate::table::{Row, Verdict, size, time};
use pmix_interop::server::launcher::{Far, HERE};

/// The number of local processes of the job.
const LOCAL: u32 = 4;

/// The maps of the other processes, from a thousand processes to half a million.
const SIZES: [Far; 3] = [
    Far(&[(7, 128), (1, 100)]),
    Far(&[(781, 128), (1, 28)]),
    Far(&[(4095, 128), (1, 124)]),
];

/// The amounts of job data in a reply, each with the parameters of `pmix run` that set it.
const FORMS: [(&str, Remote, [&str; 2]); 3] = [
    ("all", Remote::Whole, ["-1", "-1"]),
    ("places", Remote::Places, ["0", "-1"]),
    ("nothing", Remote::Nothing, ["0", "0"]),
];

/// The number of runs of each job. The least value of each figure is reported.
const RUNS: usize = 2;

/// Measures four clients of jobs of several sizes, with more or less data about remote processes in the reply.
/// The largest job is also measured under the host of the client's own release.
pub(super) fn large(field: &Field, report: &mut Report) -> Result<(), String> {
    for release in &field.releases {
        let [.., largest] = SIZES;
        let theirs = (release.host)
            .command_of_larger(LOCAL, largest)
            .and_then(|command| field.time(command, &release.timing, LOCAL, 5));
        for (name, remote, limits) in FORMS {
            for far in SIZES {
                let ours = run(field, release, far, limits);
                let row = ours.as_ref().map_err(Clone::clone);
                let row = row.and_then(|ours| one(release, far, (name, remote), ours));
                report.add("large job", row);
                if let Ok(ours) = ours
                    && far.num_procs() == largest.num_procs()
                {
                    against(release, (name, remote), &ours, &theirs, report);
                }
            }
        }
    }
    Ok(())
}

fn run(field: &Field, release: &Release, far: Far, limits: [&str; 2]) -> Result<Figures, String> {
    let once = || {
        let mut command: Command = field.ours.command_of_larger(LOCAL, far)?;
        for (name, limit) in ["gds_hash_whole", "gds_hash_places"].iter().zip(limits) {
            command.args(["--mca", name, limit]);
        }
        field.time(command, &release.timing, LOCAL, 5)
    };
    let first = once()?;
    (1..RUNS).try_fold(first, |best, _| Ok(best.or_less(&once()?)))
}

/// The cost of one client and the length of the reply.
fn one(
    release: &Release,
    far: Far,
    (name, remote): (&str, Remote),
    ours: &Figures,
) -> Result<Row, String> {
    let num_procs = far.num_procs() + LOCAL;
    let (memory, bytes) = (ours.get("client_kib")?, reply_len(release, far, remote)?);
    let bytes = size(f64::from(u32::try_from(bytes).unwrap_or(u32::MAX)));
    Ok(Row {
        figure: "processor time of PMIx_Init".to_owned(),
        input: format!(
            "{num_procs} processes, {}, told {name} of those elsewhere",
            release.peer.version
        ),
        ours: time(ours.get("init_cpu_ns")?),
        peer: format!("{bytes} are sent, {} in the client", kib(memory)),
        ratio: String::new(),
        bound: String::new(),
        verdict: Verdict::Shown,
    })
}

/// Returns the number of bytes in which the reply describes the maps.
fn reply_len(release: &Release, far: Far, remote: Remote) -> Result<usize, String> {
    let preg = pmix_builtin::open_preg(&Params::default()).map_err(|e| e.to_string())?;
    let (nodes, procs) = far.maps(LOCAL);
    let infos = [
        Info::new(keys::NODE_MAP, nodes),
        Info::new(keys::PROC_MAP, procs),
    ];
    let job =
        Job::register(&preg, &LocalNode::new(HERE), "job", &infos).map_err(|e| e.to_string())?;
    let tables = match release.peer.version.starts_with("4.") {
        true => Tables::V4_2_2,
        false => Tables::V5_0_11,
    };
    let reply = job.reply(&Codec::new(Layout::new(Module::V41)), tables, remote);
    reply.map(|reply| reply.len()).map_err(|e| e.to_string())
}

/// Adds the rows of the largest job beside the host.
fn against(
    release: &Release,
    (name, remote): (&str, Remote),
    ours: &Figures,
    theirs: &Result<Figures, String>,
    report: &mut Report,
) {
    // Only the row of the older release has a required ratio, and no row of a whole reply has one.
    let judged = release.peer.version.starts_with("4.2") && remote != Remote::Whole;
    for (figure, title, bound, shown) in [
        (
            "init_ns",
            "PMIx_Init, median of the ranks",
            20.0,
            time as fn(f64) -> String,
        ),
        ("server_peak_kib", "server memory at most", 50.0, kib),
        ("client_kib", "client memory", 1.0, kib),
    ] {
        let pair = theirs.as_ref().map_err(Clone::clone).and_then(|theirs| {
            let (ours, peer) = (ours.get(figure)?, theirs.get(figure)?);
            Ok(Pair {
                figure: title,
                input: format!(
                    "4 of 524,288 processes, {}, told {name}",
                    release.peer.version
                ),
                ours,
                peer,
                name: release.host.title(),
                bound: Some(bound).filter(|_| judged),
                shown,
            })
        });
        report.add(title, pair.map(Pair::row));
    }
}
