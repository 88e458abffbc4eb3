// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the encoding of node lists and process maps by `native`, and `compress` beside zlib.

use super::table::{Row, Verdict, factor, size, time};
use super::{Effort, Race, Report, Tools, beside, lists};

/// The release whose default encoder is the native one.
const OLD: &str = "4.2.2";

/// Measures every row of this part.
pub(super) fn measure(tools: &Tools, report: &mut Report) {
    if report.wants("encode") {
        for (kind, _) in lists::NODES {
            for count in [10_000, 100_000, 1_000_000] {
                let row = nodes(tools, report.full, kind, count);
                report.add("native encode", row);
            }
        }
        for (kind, _) in lists::NODES {
            report.add("instructions", instructions(tools, kind));
        }
    }
    if report.wants("ppn") {
        for (kind, count, each) in [
            ("block", 10_000, 1),
            ("block", 100_000, 1),
            ("block", 10_000, 8),
            ("block", 100_000, 8),
            ("block", 10_000, 128),
            ("block", 100_000, 128),
            ("cyclic", 1_000, 8),
            ("cyclic", 100_000, 8),
            ("cyclic", 1_000, 128),
            ("cyclic", 10_000, 128),
        ] {
            report.add("generate_ppn", ppn(tools, report.full, kind, count, each));
        }
    }
    if report.wants("compress") {
        for (kind, title) in lists::NODES {
            let list = lists::nodes(&tools.lists, kind, 100_000);
            let row = list.and_then(|list| compress(tools, &list, format!("100,000 {title}")));
            report.add("compress", row);
        }
        for (kind, each) in [("block", 1), ("block", 8), ("cyclic", 1), ("cyclic", 8)] {
            let list = lists::procs(&tools.lists, kind, 100_000, each);
            let input = format!("process map {kind} 100,000 x {each}");
            report.add(
                "compress",
                list.and_then(|list| compress(tools, &list, input)),
            );
        }
    }
}

/// Returns the required ratio of the time of 4.2.2 to ours for a list of this kind and size.
fn bound(kind: &str) -> (f64, u64) {
    match kind {
        "seq" => (8.0, 1_000_000),
        "holes" => (25.0, 1_000_000),
        _ => (700.0, 100_000),
    }
}

/// Returns the number of repetitions of the real library: several if it is quick, one if a call
/// takes seconds, and none if a call takes minutes.
fn patience(kind: &str, count: u64, full: bool) -> Result<Effort, String> {
    match (kind, count) {
        ("seq" | "holes", _) | (_, ..=10_000) => Ok(Effort {
            runs: 7,
            cap_ms: 1500,
        }),
        ("shuf", ..=100_000) => Ok(Effort::ONCE),
        (_, ..=100_000) if full => Ok(Effort::ONCE),
        (_, ..=100_000) => Err("half a minute; with `--full`".to_owned()),
        _ => Err("over two minutes".to_owned()),
    }
}

fn nodes(tools: &Tools, full: bool, kind: &str, count: u64) -> Result<Row, String> {
    let list = lists::nodes(&tools.lists, kind, count)?;
    let (ours, other) = beside(
        || tools.ours("regex", "native", &list, Effort::USUAL),
        || patience(kind, count, full).and_then(|e| tools.peer(OLD, "regex", &list, e)),
    )?;
    let (least, at) = bound(kind);
    let race = Race {
        figure: "native encode",
        input: format!("{count} {}", lists::title(kind)),
        peer: OLD,
        bound: Some(least),
        judged: count == at,
    };
    let bytes = match &other {
        Ok(o) => format!(", {} against {}", size(ours.bytes), size(o.bytes)),
        Err(_) => format!(", {}", size(ours.bytes)),
    };
    let mut row = race.row(&ours, other);
    row.ours.push_str(&bytes);
    Ok(row)
}

/// Measures the instructions per name, which must stay nearly constant as the list grows.
fn instructions(tools: &Tools, kind: &str) -> Result<Row, String> {
    let per_name = |count: u32| {
        let list = lists::nodes(&tools.lists, kind, u64::from(count))?;
        Ok::<f64, String>(tools.instructions("regex", "native", &list)? / f64::from(count))
    };
    let (small, large) = (per_name(10_000)?, per_name(1_000_000)?);
    Ok(Row {
        figure: "native encode, instructions per name".to_owned(),
        input: lists::title(kind).to_owned(),
        ours: format!("{large:.1} at 10^6, {small:.1} at 10^4"),
        peer: String::new(),
        ratio: factor(large / small),
        bound: "at most 1.2".to_owned(),
        verdict: Verdict::of(large <= 1.2 * small),
    })
}

fn ppn(tools: &Tools, full: bool, kind: &str, count: u64, each: u64) -> Result<Row, String> {
    let list = lists::procs(&tools.lists, kind, count, each)?;
    let effort = match (kind, count, each) {
        (_, ..=1_000, _) | ("block", ..=10_000, _) => Ok(Effort {
            runs: 3,
            cap_ms: 500,
        }),
        ("block", _, 8 | 128) => Ok(Effort::ONCE),
        ("block", ..) if full => Ok(Effort::ONCE),
        ("block", ..) => Err("with `--full`".to_owned()),
        _ => Err("minutes".to_owned()),
    };
    let (ours, other) = beside(
        || tools.ours("ppn", "native", &list, Effort::USUAL),
        || effort.and_then(|e| tools.peer(OLD, "ppn", &list, e)),
    )?;
    let race = Race {
        figure: "generate_ppn native",
        input: format!("{kind} {count} x {each}"),
        peer: OLD,
        bound: match (kind, each) {
            ("block", 8) => Some(300.0),
            ("block", 128) => Some(80.0),
            _ => None,
        },
        judged: count == 100_000,
    };
    let made = format!(", {} as {}", size(ours.bytes), ours.framing);
    let mut row = race.row(&ours, other);
    row.ours.push_str(&made);
    Ok(row)
}

/// Compares the length and time of our stream with those of zlib at level 9.
fn compress(tools: &Tools, list: &std::path::Path, input: String) -> Result<Row, String> {
    let effort = Effort {
        runs: 5,
        cap_ms: 800,
    };
    let (ours, other) = beside(
        || tools.ours("regex2", "compress", list, Effort::USUAL),
        || tools.zlib("deflate", list, effort),
    )?;
    // The value is the length in four bytes, then the stream.
    let stream = ours.bytes - 4.0;
    let mut row = Row {
        figure: "compress encode".to_owned(),
        input,
        ours: format!("{}, {}", super::both(&ours), size(stream)),
        peer: String::new(),
        ratio: String::new(),
        bound: "at most 1.02 of the bytes, 0.4 of the time".to_owned(),
        verdict: Verdict::NotJudged,
    };
    match other {
        Ok(zlib) => {
            let (bytes, took) = (stream / zlib.bytes, ours.least / zlib.least);
            row.peer = format!("zlib 9: {}, {}", time(zlib.least), size(zlib.bytes));
            row.ratio = format!("{bytes:.4} of the bytes, {took:.3} of the time");
            row.verdict = Verdict::of(bytes <= 1.02 && took <= 0.4);
        }
        Err(why) => row.peer = why,
    }
    Ok(row)
}
