// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures what clients that connect at the same time cost a server: connections, job information, fences.

use super::runs::{Field, Figures, Floor, Pair, Release};
use crate::Report;
use crate::table::time;
use pmix_interop::server::launcher::Launcher;

/// The number of runs of each job. The least value of each figure is reported.
const RUNS: usize = 6;

const FENCES: u32 = 60;

/// The best figures of several runs. Our server runs before and after each of the others.
struct Best {
    ours: Figures,
    theirs: Vec<(String, Figures)>,
}

fn best(
    field: &Field,
    release: &Release,
    peers: &[&Launcher],
    size: u32,
    fences: u32,
) -> Result<Best, String> {
    let run =
        |launcher: &Launcher| field.time(launcher.command(size), &release.timing, size, fences);
    let mut ours = run(&field.ours)?;
    let mut theirs: Vec<(String, Figures)> = Vec::new();
    for round in 0..RUNS {
        for (number, peer) in peers.iter().enumerate() {
            let figures = run(peer).map_err(|why| format!("{}: {why}", peer.title()))?;
            match theirs.get_mut(number).filter(|_| round > 0) {
                Some((_, best)) => *best = best.clone().or_less(&figures),
                None => theirs.push((peer.title(), figures)),
            }
            ours = ours.or_less(&run(&field.ours)?);
        }
    }
    Ok(Best { ours, theirs })
}

impl Best {
    /// Returns the peer with the least figure.
    fn least(&self, figure: &str) -> Result<(String, f64), String> {
        let mut least: Option<(String, f64)> = None;
        for (name, figures) in &self.theirs {
            let value = figures.get(figure)?;
            if least.as_ref().is_none_or(|(_, best)| value < *best) {
                least = Some((name.clone(), value));
            }
        }
        least.ok_or_else(|| "no peer here".to_owned())
    }
}

/// Measures the connection of 64 clients. Each real server is measured with clients of its own release, because
/// it gives other clients less data and does not share memory with them.
pub(super) fn connecting(field: &Field, report: &mut Report) -> Result<(), String> {
    for release in &field.releases {
        let input = format!("64 clients of {}", release.peer.version);
        for host in field.releases.iter().map(|of| &of.host) {
            let own = *host == release.host;
            let best = match best(field, release, &[host], 64, 0) {
                Ok(best) => best,
                Err(why) => {
                    report.add("connecting", Err(why));
                    continue;
                }
            };
            for (figure, title, bound) in [
                (
                    "connect_cpu_ns",
                    "server time to connect clients",
                    Some(3.0),
                ),
                ("init_ns", "PMIx_Init, median of the ranks", None),
            ] {
                let bound = bound.filter(|_| own);
                let row = pair(&best, figure, title, &input, bound);
                report.add(title, row.map(Pair::row));
            }
        }
    }
    Ok(())
}

fn pair(
    best: &Best,
    figure: &str,
    title: &'static str,
    input: &str,
    bound: Option<f64>,
) -> Result<Pair, String> {
    let (name, peer) = best.least(figure)?;
    Ok(Pair {
        figure: title,
        input: input.to_owned(),
        ours: best.ours.get(figure)?,
        peer,
        name,
        bound,
        shown: time,
    })
}

/// Measures fences of 2 to 64 ranks against the better server.
pub(super) fn fences(field: &Field, report: &mut Report) -> Result<(), String> {
    let peers = field.theirs();
    let floor = Floor::compile();
    for size in [2, 8, 32, 64] {
        let floor = floor.as_ref().map_err(Clone::clone);
        report.add("floor", floor.and_then(|floor| floor.row(field, size)));
        for release in &field.releases {
            let input = format!("{size} ranks, {}", release.peer.version);
            match best(field, release, &peers, size, FENCES) {
                Ok(best) => {
                    for (figure, title, bound) in [
                        ("empty_ns", "empty fence", 1.0),
                        ("empty_cpu_ns", "empty fence, server time", 2.0),
                        ("full_ns", "fence collecting 1 KB of each", 1.0),
                        (
                            "full_cpu_ns",
                            "put, commit and that fence, server time",
                            2.0,
                        ),
                    ] {
                        let row = pair(&best, figure, title, &input, Some(bound));
                        report.add(title, row.map(Pair::row));
                    }
                }
                Err(why) => report.add("fences", Err(why)),
            }
        }
    }
    Ok(())
}
