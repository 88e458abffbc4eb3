// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures whole commands: jobs from start to end, an idle server, and a thousand clients.

use std::process::Command;

use super::runs::{Field, Figures, Floor, Pair, kib};
use crate::Report;
use crate::table::{Row, Verdict, factor, time};
use crate::tools::bench_program;
use pmix_interop::server::launcher::Launcher;

/// The number of runs of a whole command. The least time is reported.
const RUNS: usize = 21;

/// Measures `pmix run` and prterun with the same client.
pub(super) fn whole(field: &Field, report: &mut Report) -> Result<(), String> {
    let release = field.release("5.")?;
    let prterun = release.prterun.as_ref().ok_or("no prterun here")?;
    for size in [2, 32, 64] {
        let run = |launcher: &Launcher| {
            let mut command = launcher.command(size);
            field.whole(command.arg(&release.short))
        };
        let both = (0..RUNS).try_fold((f64::MAX, f64::MAX), |(ours, theirs), _| {
            Ok((ours.min(run(&field.ours)?), theirs.min(run(prterun)?)))
        });
        let row = both.map(|(ours, peer)| {
            Pair {
                figure: "whole command",
                input: format!("-n {size}, {} client", release.peer.version),
                ours,
                peer,
                name: prterun.title(),
                bound: Some(1.0 / 0.7).filter(|_| size > 2),
                shown: time,
            }
            .row()
        });
        report.add("whole command", row);
    }
    Ok(())
}

/// Measures the start of a server in a new process until the server is ready.
pub(super) fn start(field: &Field, report: &mut Report) -> Result<(), String> {
    let program = bench_program("pmix-server", "start")?;
    let ours = || -> Result<Figures, String> {
        let text = field.run(&mut Command::new(&program))?;
        Figures::of_text(text.trim())
    };
    for release in &field.releases {
        let Launcher::Host(host, _) = &release.host else {
            continue;
        };
        let file = field.home().join("host.json");
        let theirs = || -> Result<Figures, String> {
            field.run(Command::new(host).arg("--json").arg(&file))?;
            Figures::of_file(&file)
        };
        let both = (0..11).try_fold((f64::MAX, f64::MAX), |(mine, other), _| {
            let (ours, theirs) = (ours()?.get("init_ns")?, theirs()?.get("init_ns")?);
            Ok::<_, String>((mine.min(ours), other.min(theirs)))
        });
        let row = both.map(|(ours, peer)| {
            Pair {
                figure: "start to ready",
                input: "no job".to_owned(),
                ours,
                peer,
                name: format!("PMIx_server_init of {}", release.peer.version),
                bound: Some(2.0),
                shown: time,
            }
            .row()
        });
        report.add("start to ready", row);
    }
    Ok(())
}

/// Measures the memory of an idle server, which its child process reads.
pub(super) fn idle(field: &Field, report: &mut Report) -> Result<(), String> {
    const ASK: &str = "sleep 0.3; sed -n 's/^VmRSS: *//p' /proc/$PPID/status";
    let run = |launcher: &Launcher| {
        let text = field.run(launcher.command(1).args(["sh", "-c", ASK]))?;
        let mut words = text.split_whitespace();
        let number = words.find_map(|word| word.parse::<f64>().ok());
        number.ok_or_else(|| format!("no memory in {text:.100}"))
    };
    let host = &field.release("4.2")?.host;
    let row = run(&field.ours).and_then(|ours| {
        let theirs = run(host)?;
        Ok(Row {
            figure: "idle server, resident".to_owned(),
            input: "one process".to_owned(),
            ours: kib(ours),
            peer: format!("{}: {}", host.title(), kib(theirs)),
            ratio: factor(theirs / ours),
            bound: "at most 8 MB".to_owned(),
            verdict: Verdict::of(ours * 1024.0 < 8e6),
        })
    });
    report.add("idle server", row);
    Ok(())
}

/// Measures the processor time of `pmix run` without its children, from the command's own summary.
fn served(field: &Field, size: u32, fences: u32) -> Result<f64, String> {
    let Launcher::Ours(pmix) = &field.ours else {
        return Err("the other launchers do not take our client".to_owned());
    };
    let mut command = Command::new("sh");
    // The limit allows fewer than two descriptors for each client.
    command.args(["-c", "ulimit -n 1100; exec \"$@\"", "sh"]);
    command
        .arg(pmix)
        .args(["run", "--json", "-n", &size.to_string()]);
    command.arg(&field.pmix);
    command.args(["hello", "--quiet", "--peers", "1"]);
    command.args(["--fences", &fences.to_string()]);
    let text = field.run(&mut command)?;
    let line = text.lines().find(|line| line.starts_with("{\""));
    Figures::of_text(line.unwrap_or_default())?.get("cpu_seconds")
}

/// Measures the server's time for one rank in one fence, with few and with many clients.
pub(super) fn many(field: &Field, report: &mut Report) -> Result<(), String> {
    let each = |size: u32| {
        let (few, many) = (10, 60);
        let best = |fences| {
            let runs = (0..3).map(|_| served(field, size, fences));
            runs.collect::<Result<Vec<_>, _>>()
                .map(|times| times.into_iter().fold(f64::MAX, f64::min))
        };
        let used = best(many)? - best(few)?;
        Ok::<_, String>(used * 1e9 / f64::from(size) / f64::from(many - few))
    };
    let floor = Floor::compile().and_then(|floor| floor.growth(field));
    report.add("floor", floor);
    let row = each(64).and_then(|small| {
        let large = each(1000)?;
        let ratio = large / small;
        Ok(Row {
            figure: "server time of a fence for each rank".to_owned(),
            input: "64 and 1000 clients, 1100 descriptors".to_owned(),
            ours: format!("{} and {}", time(small), time(large)),
            peer: String::new(),
            ratio: factor(ratio),
            bound: "at most 1.3".to_owned(),
            verdict: Verdict::of(ratio <= 1.3),
        })
    });
    report.add("many clients", row);
    Ok(())
}
