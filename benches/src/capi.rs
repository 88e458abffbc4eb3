// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask bench capi`: measures our `libpmix.so.2` in place of a stock library, in the same run.

use std::path::PathBuf;
use std::time::Duration;

use pmix_interop::capi;
use pmix_interop::capi::slurm::{Beside, Both};
use pmix_interop::capi::swapped;
use pmix_interop::peers::Library;
use pmix_interop::server::programs;
use xtask::install;
use xtask::process;

use crate::server::jobs::{self, Call, Client, RUNS, Side, Work, at_most, in_turns};
use crate::server::runs::{Field, Figures, Pair, kib};
use crate::table::{self, Row, time};
use crate::{Report, gds, machine};

/// Debian's packages with which MPI programs are compiled and run.
const PACKAGES: &[&str] = &["libopenmpi-dev", "openmpi-bin"];

/// Measures, prints and writes the table.
///
/// # Errors
/// Returns an error if one of our programs cannot be built.
pub(super) fn measure(call: &str, report: &mut Report) -> Result<(), String> {
    install::packages(PACKAGES);
    let field = Field::prepare()?;
    let library = capi::library("dist")?;
    if report.wants("calls") {
        calls(&field, &library, report)?;
    }
    if report.wants("mpirun") {
        report.add("mpirun", mpirun(&field, &library));
    }
    if report.wants("srun") {
        report.add("srun", srun(&field, &library));
    }
    if report.wants("register") {
        gds::registering_in_c(&library, report)?;
    }
    if report.wants("open") {
        opening(&field, &library, report)?;
    }
    let text = format!(
        "`{call}`, on {}. Figures of jobs are medians of their processes and the least of {RUNS} jobs, which \
         took turns; a ratio is the stock library's over ours.\n\n{}",
        machine(),
        table::markdown(&report.rows)
    );
    let path = install::scratch("bench")?.join("capi.md");
    std::fs::write(&path, &text).map_err(|e| format!("{}: {e}", path.display()))?;
    println!("\n{text}");
    Ok(())
}

const CALLS: [Call; 2] = [
    Call {
        title: "PMIx_Init and PMIx_Finalize, processor time",
        figures: &["init_cpu_ns", "finalize_cpu_ns"],
        bound: Some(4.0),
        sizes: &[64],
        shown: time,
    },
    Call {
        title: "PMIx_Get of a key of the own job, processor time",
        figures: &["get_cpu_ns"],
        bound: Some(20.0),
        sizes: &[1, 64],
        shown: time,
    },
];

/// The limit of the time of a get of a key of the own job, in nanoseconds.
const MOST_OF_GET: f64 = 500.0;

/// Compares our library under our server with the best stock library under our server and under its own.
fn calls(field: &Field, library: &Library, report: &mut Report) -> Result<(), String> {
    let client = Client {
        title: "libpmix of ours".to_owned(),
        program: programs::compile_for("ours", library, "costs")?,
    };
    let ours = Side::new(&client, &field.ours);
    let peers = jobs::sides_of_peers(field, &jobs::theirs(field)?);
    let mut sides = vec![ours.clone()];
    sides.extend(peers.iter().cloned());
    for size in [1, 64] {
        let best = in_turns(field, &sides, size, Work::Calls);
        for call in CALLS.iter().filter(|call| call.sizes.contains(&size)) {
            report.add(call.title, best.row(call, size, &ours, &peers));
        }
        let row = best.of(&ours).and_then(|figures| {
            let input = format!("{size} processes, {}", ours.title());
            let value = figures.get("get_cpu_ns")?;
            Ok(at_most(
                "PMIx_Get of a key of the own job",
                input,
                value,
                MOST_OF_GET,
                time,
            ))
        });
        report.add("get", row);
    }
    Ok(())
}

/// The number of runs of the MPI program with each library, and the time limit of a run. mpirun of 4.1.4
/// does not always end, with either library.
const MPI_RUNS: u32 = 9;
const MPI_LIMIT: Duration = Duration::from_secs(20);

/// Returns the least time of the runs of an MPI program under mpirun with one library, and the number of runs that
/// did not end.
struct MpiRuns {
    least: f64,
    unfinished: u32,
}

/// Measures an Open MPI 4.1 program with one barrier under its own mpirun.
fn mpirun(field: &Field, library: &Library) -> Result<Row, String> {
    const SIZE: u32 = 32;
    let program = swapped::compile_for_debian("hello")?;
    let run = |runs: &mut MpiRuns, library| {
        let mut command = swapped::mpi_job(&program, SIZE, library);
        match field.timed_within(&mut command, MPI_LIMIT) {
            Ok((_, took)) => runs.least = runs.least.min(took),
            Err(why) => {
                println!("mpirun: {why}");
                runs.unfinished += 1;
            }
        }
    };
    let none = || MpiRuns {
        least: f64::MAX,
        unfinished: 0,
    };
    let (mut ours, mut stock) = (none(), none());
    for _ in 0..MPI_RUNS {
        run(&mut ours, Some(library));
        run(&mut stock, None);
    }
    if ours.unfinished == MPI_RUNS || stock.unfinished == MPI_RUNS {
        return Err("no run of mpirun ended well".to_owned());
    }
    let input = format!(
        "{SIZE} processes; of {MPI_RUNS} runs {} with ours and {} with the other did not end well",
        ours.unfinished, stock.unfinished
    );
    Ok(Pair {
        figure: "mpirun of Open MPI 4.1, ours on both sides, whole command",
        input,
        ours: ours.least,
        peer: stock.least,
        name: "the installed library".to_owned(),
        bound: Some(1.0 / 0.9),
        shown: time,
    }
    .row())
}

/// Measures a Slurm step over two nodes, from the start of its first process to the finalize of its last one.
fn srun(field: &Field, library: &Library) -> Result<Row, String> {
    const EACH: u32 = 32;
    let installed = field.release("4.")?;
    let cluster = Beside::start(library, &installed.peer.library, "modex")?;
    let run = |library| -> Result<f64, String> {
        let mut command = cluster.step(library, EACH);
        let (text, _) = field.timed_within(&mut command, jobs::LIMIT)?;
        inside(&text, 2 * EACH)
    };
    let (mut ours, mut stock) = (f64::MAX, f64::MAX);
    for _ in 0..SRUNS {
        ours = ours.min(run(Both::Ours)?);
        stock = stock.min(run(Both::Installed)?);
    }
    Ok(Pair {
        figure: "srun: init, modex, finalize, ours on both sides, time inside the step",
        input: format!("2 nodes of {EACH} processes"),
        ours,
        peer: stock,
        name: installed.peer.version.clone(),
        bound: Some(1.0 / 0.7),
        shown: time,
    }
    .row())
}

/// The number of steps with each library.
const SRUNS: usize = 7;

/// Returns the time from the first start to the last end that `procs` processes print.
fn inside(text: &str, size: u32) -> Result<f64, String> {
    let lines = text.lines().filter(|line| line.starts_with("{\"rank\""));
    let all: Vec<_> = lines.map(Figures::of_text).collect::<Result<_, _>>()?;
    if Ok(all.len()) != usize::try_from(size) {
        return Err(format!("{} of {size} processes said when", all.len()));
    }
    let (mut first, mut last) = (f64::MAX, 0.0_f64);
    for one in &all {
        first = first.min(one.get("begun_ns")?);
        last = last.max(one.get("ended_ns")?);
    }
    Ok(last - first)
}

/// The limit of the private memory of a client, in KiB.
const MOST_OWN_KIB: f64 = 3.0 * 1024.0;

/// Measures a process that opens a library, calls it and is a client of our server.
fn opening(field: &Field, library: &Library, report: &mut Report) -> Result<(), String> {
    let program = opened()?;
    let run = |library: &Library| -> Result<Figures, String> {
        let mut command = field.ours.command(1);
        command.arg(&program).arg(library.file());
        let text = field.run(&mut command)?;
        let line = text.lines().find(|line| line.starts_with("{\"rank\""));
        Figures::of_text(line.ok_or_else(|| format!("no figures in {text:.300}"))?)
    };
    for release in &field.releases {
        let both = || -> Result<(Figures, Figures), String> {
            let (mut ours, mut theirs) = (run(library)?, run(&release.peer.library)?);
            for _ in 1..RUNS {
                ours = ours.or_less(&run(library)?);
                theirs = theirs.or_less(&run(&release.peer.library)?);
            }
            Ok((ours, theirs))
        };
        let both = both();
        for (figure, title, shown, bound) in [
            (
                "open_ns",
                "dlopen and first call",
                time as fn(f64) -> String,
                Some(1.0),
            ),
            ("init_ns", "PMIx_Init after that", time, None),
            (
                "grown_kib",
                "memory of a client, opening included",
                kib,
                Some(1.0),
            ),
            ("own_kib", "its own of that memory", kib, Some(1.0)),
        ] {
            let row = both.clone().and_then(|(ours, theirs)| {
                Ok(Pair {
                    figure: title,
                    input: format!("beside {}", release.peer.version),
                    ours: ours.get(figure)?,
                    peer: theirs.get(figure)?,
                    name: release.peer.version.clone(),
                    bound,
                    shown,
                }
                .row())
            });
            report.add(title, row);
        }
    }
    let row = run(library).and_then(|figures| {
        let (input, value) = ("one process".to_owned(), figures.get("own_kib")?);
        Ok(at_most(
            "a client's own memory",
            input,
            value,
            MOST_OWN_KIB,
            kib,
        ))
    });
    report.add("memory", row);
    Ok(())
}

/// Compiles the program, which is not linked to a PMIx library.
///
/// # Errors
/// Returns the compiler's error.
fn opened() -> Result<PathBuf, String> {
    let program = install::scratch("bench")?.join("opened");
    let mut gcc = std::process::Command::new("gcc");
    gcc.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-I"]);
    gcc.arg(process::root().join("include"))
        .arg("-o")
        .arg(&program);
    gcc.arg(process::root().join("tests/server/programs/opened.c"));
    process::output(gcc.arg("-ldl"))?;
    Ok(program)
}
