// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask bench gds`: measures the registration of jobs, beside the real servers on the same maps in the same
//! run.

mod client;
mod maps;
mod programs;
mod reply;

use super::table::{Row, Verdict, factor, size, time};
use super::{Race, Report, both, machine, table};
use maps::{Job, Shape};
use pmix_interop::peers::Library;
use programs::{Figures, Program};
use xtask::install;

/// A figure that we and the peers have.
struct Figure {
    name: &'static str,
    title: &'static str,
    /// The promised ratios to 5.0 and to any release.
    bound: f64,
    only_new: bool,
}

const FIGURES: [Figure; 6] = [
    Figure {
        name: "register",
        title: "register",
        bound: 100.0,
        only_new: false,
    },
    Figure {
        name: "deregister",
        title: "deregister",
        bound: 100.0,
        only_new: false,
    },
    Figure {
        name: "get_job",
        title: "get of a job key",
        bound: 50.0,
        only_new: true,
    },
    Figure {
        name: "get_rank",
        title: "get of a process key",
        bound: 50.0,
        only_new: true,
    },
    Figure {
        name: "get_node",
        title: "get of the peers on a node",
        bound: 50.0,
        only_new: true,
    },
    Figure {
        name: "get_leader",
        title: "get of a node key",
        bound: 50.0,
        only_new: true,
    },
];

/// The jobs that the peers also register. Each peer needs a minute for the last one.
const BESIDE: [(Shape, u32, u32); 5] = [
    (Shape::Native, 16, 8),
    (Shape::Native, 256, 64),
    (Shape::Native, 4096, 128),
    (Shape::Raw, 4096, 128),
    (Shape::Native, 65_536, 16),
];

/// The largest job that is measured beside the peers without `--full`.
const QUICK: u32 = 4096;

const fn job((shape, nodes, each): (Shape, u32, u32)) -> Job {
    Job { shape, nodes, each }
}

/// Measures, prints and writes the tables.
///
/// # Errors
/// Returns an error if our program cannot be built or the maps cannot be written.
pub(super) fn measure(call: &str, report: &mut Report) -> Result<(), String> {
    let ours = programs::ours()?;
    let peers = programs::theirs();
    if report.wants("beside") {
        for one in BESIDE.map(job) {
            beside_peers(one, &ours, &peers, report)?;
        }
    }
    if report.wants("reply") {
        reply::measure(&ours, &peers, report)?;
    }
    if report.wants("alone") {
        alone(&ours, report)?;
        growth(&ours, report)?;
    }
    let releases: Vec<_> = peers.iter().map(|p| p.name.as_str()).collect();
    let text = format!(
        "`{call}`, on {}; libpmix {}. Times are the least of several runs, of one get where many \
         are made; a ratio is the other's time or memory over ours. Memory is what is held after \
         registration: by our allocator's count, by the resident pages of a peer.\n\n{}",
        machine(),
        releases.join(" and "),
        table::markdown(&report.rows)
    );
    let path = install::scratch("bench")?.join("gds.md");
    std::fs::write(&path, &text).map_err(|e| format!("{}: {e}", path.display()))?;
    println!("\n{text}");
    Ok(())
}

/// The number of times each library registers the same job through `PMIx_server_register_nspace`.
const CYCLES: u32 = 2;

/// Measures the registration of 4,096 nodes with 128 processes each through `PMIx_server_register_nspace` of our C
/// library, beside the real ones.
///
/// # Errors
/// Returns an error if the maps cannot be written or the program with our library does not compile.
pub(super) fn registering_in_c(library: &Library, report: &mut Report) -> Result<(), String> {
    let job = job((Shape::Native, 4096, 128));
    let ours = programs::around("ours", library)?;
    let files = job.write(&install::scratch("bench/gds")?)?;
    let run = || ours.register(&files, job.nodes, CYCLES);
    for peer in programs::theirs() {
        // Measure ours before and after the peer, so that other load on the machine affects both.
        let before = run();
        let theirs = peer.register(&files, job.nodes, CYCLES);
        let mine = before.and_then(|before| Ok(before.or_better(run()?)));
        let row = mine.and_then(|mine| {
            let race = Race {
                figure: "PMIx_server_register_nspace",
                input: job.title(),
                peer: &peer.name,
                bound: Some(100.0),
                judged: true,
            };
            let theirs = theirs.and_then(|theirs| theirs.get("register"));
            Ok(race.row(&mine.get("register")?, theirs))
        });
        report.add("register", row);
    }
    Ok(())
}

fn beside_peers(
    job: Job,
    ours: &Program,
    peers: &[Program],
    report: &mut Report,
) -> Result<(), String> {
    let files = job.write(&install::scratch("bench/gds")?)?;
    let run = |peer: &Program| {
        if job.nodes > QUICK && !report.full {
            return Err("a minute; with `--full`".to_owned());
        }
        let cycles = if job.nodes >= QUICK { 0 } else { 5 };
        peer.run(&files, job.nodes, cycles, &[])
    };
    // Measure ours before and after the peer, so that other load on the machine affects both.
    let before = ours.run(&files, job.nodes, 20, &[]);
    let theirs: Vec<_> = peers.iter().map(run).collect();
    let after = ours.run(&files, job.nodes, 20, &[]);
    let mine = match before.and_then(|before| Ok(before.or_better(after?))) {
        Ok(mine) => mine,
        Err(why) => {
            report.add("gds", Err(why));
            return Ok(());
        }
    };
    report.add("calls", calls(job, &mine));
    for (peer, theirs) in peers.iter().zip(&theirs) {
        for figure in &FIGURES {
            report.add(figure.title, race(figure, job, &mine, peer, theirs));
        }
        report.add("memory", memory(job, &mine, peer, theirs));
    }
    Ok(())
}

fn race(
    figure: &Figure,
    job: Job,
    mine: &Figures,
    peer: &Program,
    theirs: &Result<Figures, String>,
) -> Result<Row, String> {
    let theirs = theirs.as_ref().map_err(String::clone);
    let bound = match (figure.name, job.nodes) {
        ("register", 65_536) => 2000.0,
        _ => figure.bound,
    };
    // The ratio of the registration is promised for large jobs only.
    let large = figure.name != "register" || job.nodes >= QUICK;
    let race = Race {
        figure: figure.title,
        input: job.title(),
        peer: &peer.name,
        bound: Some(bound),
        judged: large && (!figure.only_new || peer.name.starts_with("5.")),
    };
    Ok(race.row(
        &mine.get(figure.name)?,
        theirs.and_then(|t| t.get(figure.name)),
    ))
}

fn memory(
    job: Job,
    mine: &Figures,
    peer: &Program,
    theirs: &Result<Figures, String>,
) -> Result<Row, String> {
    let used = mine.get("memory")?.least;
    let theirs = theirs.as_ref().map_err(String::clone);
    let other = theirs.and_then(|t| Ok(t.get("memory")?.least));
    Ok(Row {
        figure: "memory".to_owned(),
        input: job.title(),
        ours: size(used),
        peer: match &other {
            Ok(other) => format!("{}: {}", peer.name, size(*other)),
            Err(why) => why.clone(),
        },
        ratio: other.map_or_else(|_| String::new(), |other| factor(other / used)),
        bound: "at most 64 KB".to_owned(),
        verdict: Verdict::of(used <= 65_536.0),
    })
}

/// Counts the allocations of a get.
fn calls(job: Job, mine: &Figures) -> Result<Row, String> {
    let names = ["get_job", "get_rank", "get_node", "get_leader"];
    let counts: Result<Vec<f64>, String> = names
        .iter()
        .map(|name| Ok(mine.get(&format!("calls_{name}"))?.least))
        .collect();
    let counts = counts?;
    Ok(Row {
        figure: "allocations of a get: job, process, peers, node".to_owned(),
        input: job.title(),
        ours: counts
            .iter()
            .map(f64::to_string)
            .collect::<Vec<_>>()
            .join(", "),
        peer: String::new(),
        ratio: String::new(),
        bound: "at most 2".to_owned(),
        verdict: Verdict::of(counts.iter().all(|count| *count <= 2.0)),
    })
}

/// Measures jobs that are too large for every peer.
fn alone(ours: &Program, report: &mut Report) -> Result<(), String> {
    let dir = install::scratch("bench/gds")?;
    for (shape, nodes, each) in [
        (Shape::Native, 100_000, 100),
        (Shape::Text, 100_000, 100),
        (Shape::Native, 1_000_000, 128),
        (Shape::Fold, 1_000_000, 128),
    ] {
        let job = job((shape, nodes, each));
        let figures = ours.run(&job.write(&dir)?, nodes, 3, &[]);
        report.add(
            "register",
            figures
                .as_ref()
                .map_err(String::clone)
                .and_then(|f| large(job, f)),
        );
        if let Ok(figures) = figures {
            report.add("calls", calls(job, &figures));
        }
    }
    for (nodes, each) in [(100_000, 128), (1_000_000, 128)] {
        let job = job((Shape::Fold, nodes, each));
        let figures = ours.run(&job.write(&dir)?, nodes, 3, &["folded"]);
        let row = figures.and_then(|figures| handed_over(job, &figures));
        report.add("register", row);
    }
    for (shape, extra, bound) in [
        (Shape::Uneven, &[][..], 16.0),
        (Shape::Native, &["procs"][..], 64.0),
    ] {
        let job = job((shape, 4096, 128));
        let files = job.write(&dir)?;
        let row = ours.run(&files, job.nodes, 1, extra).and_then(|figures| {
            let used = figures.get("memory")?.least;
            let each = used / f64::from(files.num_procs);
            let arrays = if extra.is_empty() {
                ""
            } else {
                ", an array of 7 for each process"
            };
            Ok(Row {
                figure: "memory for each process".to_owned(),
                input: format!("{}{arrays}", job.title()),
                ours: format!("{each:.2} B, {} in all", size(used)),
                peer: String::new(),
                ratio: String::new(),
                bound: format!("at most {bound} B"),
                verdict: Verdict::of(each <= bound),
            })
        });
        report.add("memory", row);
    }
    Ok(())
}

/// Measures a registration of maps that the host has folded. It expands no map to text.
fn handed_over(job: Job, figures: &Figures) -> Result<Row, String> {
    let (register, peak) = (figures.get("register")?, figures.get("peak")?.least);
    let used = size(figures.get("memory")?.least);
    Ok(Row {
        figure: "register, maps handed over folded".to_owned(),
        input: format!("{} x {}", job.nodes, job.each),
        ours: format!("{}, {used}, {} at most", both(&register), size(peak)),
        peer: String::new(),
        ratio: String::new(),
        bound: "10 ms, 1 MB".to_owned(),
        verdict: Verdict::of(register.least < 10e6 && peak < 1e6),
    })
}

/// Compares the time of a registration with the time to read each byte of the maps.
fn large(job: Job, figures: &Figures) -> Result<Row, String> {
    let (register, scan) = (figures.get("register")?, figures.get("scan")?);
    let quick = job.nodes >= 1_000_000;
    let used = size(figures.get("memory")?.least);
    Ok(Row {
        figure: "register".to_owned(),
        input: job.title(),
        ours: format!("{}, {used}", both(&register)),
        peer: format!("looking at each byte: {}", time(scan.least)),
        ratio: format!("{} of that", factor(register.least / scan.least)),
        bound: if quick { "100 ms" } else { "" }.to_owned(),
        verdict: if quick {
            Verdict::of(register.least < 100e6)
        } else {
            Verdict::Shown
        },
    })
}

/// Measures a get, which must cost the same in the largest job as in the smallest.
fn growth(ours: &Program, report: &mut Report) -> Result<(), String> {
    let dir = install::scratch("bench/gds")?;
    let of = |nodes, each| {
        let job = job((Shape::Native, nodes, each));
        ours.run(&job.write(&dir)?, nodes, 0, &[])
    };
    let (small, big) = (of(16, 8), of(100_000, 100));
    for figure in FIGURES.iter().filter(|f| f.name.starts_with("get_")) {
        let get = |figures: &Result<Figures, String>| {
            figures.as_ref().map_err(String::clone)?.get(figure.name)
        };
        let row = get(&small).and_then(|small| {
            let big = get(&big)?;
            let ratio = big.least / small.least;
            // A list of a hundred ranks is longer than one of eight.
            let judged = figure.name != "get_node";
            Ok(Row {
                figure: format!("{}, growth", figure.title),
                input: "16 x 8 to 100000 x 100".to_owned(),
                ours: format!("{} to {}", time(small.least), time(big.least)),
                peer: String::new(),
                ratio: factor(ratio),
                bound: "at most 2".to_owned(),
                verdict: if judged {
                    Verdict::of(ratio <= 2.0)
                } else {
                    Verdict::NotJudged
                },
            })
        });
        report.add("growth", row);
    }
    Ok(())
}
