// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures parsing into folded maps, and their expansion.

use std::path::{Path, PathBuf};

use super::table::{Row, Verdict, factor, size, time};
use super::{Effort, Race, Report, Tools, beside, lists};

/// The number of measurements of each size where sizes are compared.
const ROUNDS: usize = 3;

/// Measures every row of this part.
pub(super) fn measure(tools: &Tools, report: &mut Report) {
    if !report.wants("parse") {
        return;
    }
    report.add("parse of one run", one_run(tools));
    for operation in ["names", "text"] {
        report.add("expand", per_name(tools, operation));
        report.add("expand", beside_old(tools, operation));
    }
    for (kind, _) in lists::NODES {
        report.add("parse raw", throughput(tools, "raw", kind));
        report.add("parse compress", throughput(tools, "compress", kind));
    }
}

/// Measures consecutive names as the native encoder writes them: one range.
fn folded(tools: &Tools, count: u64) -> Result<PathBuf, String> {
    let list = lists::nodes(&tools.lists, "seq", count)?;
    tools.encoded("regex", "native", &list)
}

fn one_run(tools: &Tools) -> Result<Row, String> {
    let value = folded(tools, 1_000_000)?;
    let effort = Effort {
        runs: 1000,
        cap_ms: 500,
    };
    let ours = tools.ours("nodes", "-", &value, effort)?;
    Ok(Row {
        figure: "parse of one run into a `NodeList`".to_owned(),
        input: "1000000 consecutive".to_owned(),
        ours: format!("{}, {} of memory", super::both(&ours), size(ours.bytes)),
        peer: String::new(),
        ratio: String::new(),
        bound: "under 10 µs, under 1 kB".to_owned(),
        verdict: Verdict::of(ours.least < 10_000.0 && ours.bytes < 1024.0),
    })
}

fn what(operation: &str) -> &'static str {
    match operation {
        "names" => "expand to a string per name",
        _ => "expand to one text",
    }
}

/// Measures the cost per name, which must not depend on the number of names.
fn per_name(tools: &Tools, operation: &str) -> Result<Row, String> {
    let mut costs = [f64::MAX; 3];
    // In rounds, so that other load on the machine affects all sizes.
    for _ in 0..ROUNDS {
        for (cost, count) in costs.iter_mut().zip([10_000_u32, 100_000, 1_000_000]) {
            let value = folded(tools, u64::from(count))?;
            let ours = tools.ours(operation, "-", &value, Effort::USUAL)?;
            *cost = cost.min(ours.least / f64::from(count));
        }
    }
    let least = costs.iter().copied().fold(f64::MAX, f64::min);
    let most = costs.iter().copied().fold(0.0, f64::max);
    Ok(Row {
        figure: format!("{}, per name", what(operation)),
        input: "10^4, 10^5, 10^6 consecutive".to_owned(),
        ours: costs.map(|ns| format!("{ns:.1} ns")).join(", "),
        peer: String::new(),
        ratio: format!("most / least {}", factor(most / least)),
        bound: "at most 1.2".to_owned(),
        verdict: Verdict::of(most <= 1.2 * least),
    })
}

/// Compares a million names of ours with a hundred thousand of the old library.
fn beside_old(tools: &Tools, operation: &str) -> Result<Row, String> {
    let (large, small) = (folded(tools, 1_000_000)?, folded(tools, 100_000)?);
    let nothing = empty(tools)?;
    // Its only public decoder is the registration of a job. The cost of a registration without a map is subtracted.
    let register = |file: &Path, effort| tools.peer("4.2.2", "register", file, effort);
    let (ours, other) = beside(
        || tools.ours(operation, "-", &large, Effort::USUAL),
        || {
            let mut decode = register(&small, Effort::ONCE)?;
            decode.least -= register(&nothing, Effort::USUAL)?.least;
            Ok(decode)
        },
    )?;
    let race = Race {
        figure: what(operation),
        input: "1000000 consecutive; the other 100000".to_owned(),
        peer: "4.2.2",
        bound: Some(20.0),
        judged: true,
    };
    Ok(race.row(&ours, other))
}

fn empty(tools: &Tools) -> Result<PathBuf, String> {
    let path = tools.lists.join("empty.txt");
    std::fs::write(&path, "").map_err(|e| e.to_string())?;
    Ok(path)
}

/// Measures the bytes of list text per second, from the string form to a folded list.
fn throughput(tools: &Tools, scheme: &str, kind: &str) -> Result<Row, String> {
    let list = lists::nodes(&tools.lists, kind, 1_000_000)?;
    let value = tools.encoded("regex", scheme, &list)?;
    let bytes = length(&list)?;
    let share = |operation: &str, name: &str| {
        let (ours, other) = beside(
            || tools.ours("nodes", "-", &value, Effort::USUAL),
            || tools.zlib(operation, &list, Effort::USUAL),
        )?;
        let text = other.as_ref().map_or_else(String::clone, |t| {
            format!("{name} {:.2} GB/s", bytes / t.least)
        });
        let share = other.map_or_else(
            |_| String::new(),
            |t| format!("{:.3} of {name}", t.least / ours.least),
        );
        Ok::<_, String>((ours, text, share))
    };
    let mut all = vec![share("memcpy", "memcpy")?];
    if scheme == "compress" {
        all.push(share("inflate", "zlib inflate")?);
    }
    let least = all.iter().map(|(t, ..)| t.least).fold(f64::MAX, f64::min);
    let rate = bytes / least;
    Ok(Row {
        figure: format!("parse of {scheme} into a `NodeList`"),
        input: format!("1000000 {}", lists::title(kind)),
        ours: format!("{rate:.2} GB/s ({})", time(least)),
        peer: join(all.iter().map(|(_, text, _)| text)),
        ratio: join(all.iter().map(|(.., share)| share)),
        bound: "0.5 GB/s".to_owned(),
        verdict: Verdict::of(rate >= 0.5),
    })
}

fn join<'a>(texts: impl Iterator<Item = &'a String>) -> String {
    texts.map(String::as_str).collect::<Vec<_>>().join(", ")
}

fn length(path: &Path) -> Result<f64, String> {
    let data = std::fs::metadata(path).map_err(|e| format!("{}: {e}", path.display()))?;
    u32::try_from(data.len())
        .map(f64::from)
        .map_err(|e| format!("{}: {e}", path.display()))
}
