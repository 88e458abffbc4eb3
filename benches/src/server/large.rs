// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures what connecting costs four clients of a large job, with more or less of the job's data in the reply.

use std::process::Command;

use bfrops::{Layout, Module};
use gds_hash::{Codec, Job, LocalNode, Remote};
use pmix_interop::server::launcher::{Far, HERE, Launcher};
use pmix_types::{Info, Release as Tables, keys};
use preg_core::Params;

use super::runs::{Field, Figures, Pair, Release, kib};
use crate::Report;
use crate::table::{Row, Verdict, size, time};

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

/// The number of runs of each command. The least value of each figure is reported.
const DESCRIBED_RUNS: usize = 11;

/// The maps of the job. Rank 0 is the only process of the first node, which is the local node.
const MAPS: [(&str, &str); 2] = [
    ("--nodes", "node[0000000-0099999]"),
    ("--procs", "fold:10/1;1*128/99999"),
];

/// Compares `pmix run` of the described job with `pmix run` of one process.
pub(super) fn described(field: &Field, report: &mut Report) -> Result<(), String> {
    let Launcher::Ours(pmix) = &field.ours else {
        return Err("the other launchers do not describe other nodes".to_owned());
    };
    let idle = || {
        let mut command = Command::new(pmix);
        command.args(["run", "-n", "1"]);
        command
    };
    let large = || {
        let mut command = Command::new(pmix);
        command.args(["run", "--node-name", "node0000000"]);
        for (option, map) in MAPS {
            command.args([option, map]);
        }
        command
    };
    let least = |measure: &dyn Fn() -> Result<f64, String>| {
        (0..DESCRIBED_RUNS).try_fold(f64::MAX, |least, _| Ok::<_, String>(least.min(measure()?)))
    };
    let whole = |command: &dyn Fn() -> Command| least(&|| field.whole(command().arg("true")));
    let peak = |command: &dyn Fn() -> Command| least(&|| peak_kib(field, command()));
    let row = whole(&idle).and_then(|idle_ns| {
        let (took, idle_kib) = (whole(&large)? - idle_ns, peak(&idle)?);
        let more = peak(&large)? - idle_kib;
        Ok(Row {
            figure: "described job, beyond one process".to_owned(),
            input: "100,000 nodes, 128 processes each".to_owned(),
            ours: format!("{}, {}", time(took), kib(more)),
            peer: format!("one process: {}, {}", time(idle_ns), kib(idle_kib)),
            ratio: String::new(),
            bound: "10 ms, 1 MB".to_owned(),
            verdict: Verdict::of(took < 10e6 && more * 1024.0 < 1e6),
        })
    });
    report.add("described job", row);
    Ok(())
}

/// Returns the peak memory of a launcher while its process runs, which the process reads.
fn peak_kib(field: &Field, mut command: Command) -> Result<f64, String> {
    const ASK: &str = "sed -n 's/^VmHWM: *//p' /proc/$PPID/status";
    let text = field.run(command.args(["sh", "-c", ASK]))?;
    let mut words = text.split_whitespace();
    let number = words.find_map(|word| word.parse::<f64>().ok());
    number.ok_or_else(|| format!("no memory in {text:.100}"))
}
