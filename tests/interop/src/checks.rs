// SPDX-License-Identifier: MIT OR Apache-2.0
//! The checks of maps in both directions. They compare the lists that values expand to, never the bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;
use xtask::process::root;

use super::harness::{Harness, hex};
use super::naive;
use super::ours::{DECLINED, Decoded, Encoded, Ours};
use super::peers::Peer;
use super::tally::Tally;

/// A list that is encoded in every form.
pub(crate) struct Case {
    /// The origin of the list.
    pub(crate) name: String,
    /// `true` if it is a process map.
    pub(crate) procs: bool,
    /// The list.
    pub(crate) text: String,
}

/// The highest rank that every release carries; no release expands the next one.
const HIGHEST_RANK: u64 = 2_147_483_646;

/// The maximum number of leading letters of a name that every release accepts.
const LONGEST_PREFIX: usize = 49;

impl Case {
    /// Returns the names, or the expanded ranks of each node. Returns `None` for lists that no real
    /// library carries: lists with empty elements, which every library drops, and process maps with
    /// words or with ranks out of range.
    fn list(&self) -> Option<Vec<String>> {
        if !self.procs {
            let names: Vec<_> = self.text.split(',').map(str::to_owned).collect();
            return names.iter().all(|n| !n.is_empty()).then_some(names);
        }
        let nodes = naive::expand(&self.text, true)?;
        let ranks = |node: &str| {
            node.split(',')
                .all(|r| r.parse().is_ok_and(|r: u64| r <= HIGHEST_RANK))
        };
        nodes.iter().all(|n| ranks(n)).then_some(nodes)
    }

    /// Returns `true` if the real encoders do not crash on the list.
    fn safe_for_peers(&self) -> bool {
        let letters = |n: &str| n.bytes().take_while(u8::is_ascii_alphabetic).count();
        self.procs || self.text.split(',').all(|n| letters(n) <= LONGEST_PREFIX)
    }
}

/// A form in which our side encodes.
struct Form {
    scheme: &'static str,
    settings: &'static [(&'static str, &'static str)],
    /// `true` if releases before 5.0 read it.
    old_readable: bool,
    /// `true` if rank ranges of a process map may be left unexpanded.
    ranges: bool,
}

const FORMS: &[Form] = &[
    Form {
        scheme: "native",
        settings: &[],
        old_readable: true,
        ranges: true,
    },
    Form {
        scheme: "raw",
        settings: &[],
        old_readable: true,
        ranges: false,
    },
    Form {
        scheme: "compress",
        settings: &[("pcompress_base_limit", "64")],
        old_readable: false,
        ranges: false,
    },
    Form {
        scheme: "auto",
        settings: &[],
        old_readable: false,
        ranges: false,
    },
    // The settings that the documentation recommends for sites with 4.2.2 peers.
    Form {
        scheme: "auto",
        settings: &[("preg", "native,raw")],
        old_readable: true,
        ranges: false,
    },
];

impl Form {
    fn title(&self) -> String {
        let settings: Vec<_> = self
            .settings
            .iter()
            .map(|(n, v)| format!(" {n}={v}"))
            .collect();
        format!("{}{}", self.scheme, settings.concat())
    }
}

fn kind(procs: bool) -> &'static str {
    if procs { "procs" } else { "nodes" }
}

/// Encodes every case in every form that the peer reads, and has the peer expand it.
///
/// # Errors
/// Returns a message if our command failed as a whole.
pub(crate) fn ours_to_theirs(
    ours: &Ours,
    peer: &Peer,
    cases: &[Case],
    tally: &mut Tally,
) -> Result<(), String> {
    let mut harness = Harness::new(&peer.program);
    for form in FORMS.iter().filter(|f| f.old_readable || peer.reads_blob) {
        let texts: Vec<_> = cases
            .iter()
            .map(
                |case| match case.list().filter(|_| case.procs && !form.ranges) {
                    Some(nodes) => nodes.join(";"),
                    None => case.text.clone(),
                },
            )
            .collect();
        let asked: Vec<_> = cases
            .iter()
            .zip(&texts)
            .map(|(c, t)| (c.procs, t.as_str()))
            .collect();
        let values = ours.encode(form.scheme, form.settings, &asked)?;
        for (case, value) in cases.iter().zip(values) {
            let what = format!(
                "ours to {}: {} {}",
                peer.version,
                form.title(),
                kind(case.procs)
            );
            let Some(list) = case.list() else {
                tally.leave_out(&what, "no real library carries such a list");
                continue;
            };
            if form.scheme != "auto" && value.status == DECLINED {
                tally.decline(&what);
                continue;
            }
            match expands_to(&mut harness, case, &value, &list) {
                Ok(()) => tally.pass(&what),
                Err(why) => tally.fail(&what, &format!("{}: {why}", case.name)),
            }
        }
    }
    Ok(())
}

/// Returns `true` if the peer expands our value to this list.
fn expands_to(
    peer: &mut Harness,
    case: &Case,
    value: &Encoded,
    list: &[String],
) -> Result<(), String> {
    if value.status != 0 {
        return Err(format!(
            "we do not encode it: {} {}",
            value.status, value.error
        ));
    }
    let shown = value.bytes.escape_ascii().to_string();
    let request = format!("{} {} {}", kind(case.procs), hex(&value.bytes), list.len());
    let (status, answers) = peer
        .request(&request)
        .map_err(|e| format!("{e} on {shown:.160}"))?;
    if status != 0 {
        return Err(format!("the peer answers {status} to {shown:.160}"));
    }
    let expected = list.join(if case.procs { ";" } else { "," });
    if answers.is_empty() || answers.iter().any(|a| a != expected.as_bytes()) {
        let got: Vec<_> = answers
            .iter()
            .map(|a| a.escape_ascii().to_string())
            .collect();
        return Err(format!("{shown:.160} became {:.160}", got.join(" / ")));
    }
    Ok(())
}

/// The configurations under which a peer encodes.
const CONFIGS: &[&[(&str, &str)]] = &[
    &[],
    &[("preg", "native")],
    &[("pcompress_base_limit", "64")],
];

/// Has the peer encode every case under every configuration, and decodes the values.
///
/// # Errors
/// Returns a message if our command failed as a whole.
pub(crate) fn theirs_to_ours(
    ours: &Ours,
    peer: &Peer,
    cases: &[Case],
    tally: &mut Tally,
) -> Result<(), String> {
    for config in CONFIGS {
        let mut harness = config
            .iter()
            .fold(Harness::new(&peer.program), |h, (name, value)| {
                h.with(name, value)
            });
        let setting = config
            .first()
            .map_or_else(|| "default".to_owned(), |(n, v)| format!("{n}={v}"));
        let mut made = Vec::new();
        for case in cases.iter().filter(|c| c.safe_for_peers()) {
            let what = format!("{} to us: {setting} {}", peer.version, kind(case.procs));
            match theirs(&mut harness, case) {
                Ok(Some((value, list))) => made.push((what, case, value, list)),
                Ok(None) => tally.leave_out(&what, "the library does not carry the list whole"),
                Err(why) => tally.fail(&what, &format!("{}: {why}", case.name)),
            }
        }
        let values: Vec<_> = made
            .iter()
            .map(|(_, c, value, _)| (c.procs, value.as_slice()))
            .collect();
        for ((what, case, value, list), got) in made.iter().zip(ours.decode(&values)?) {
            match reads_as(&got, value, list) {
                Ok(()) => tally.pass(what),
                Err(why) => tally.fail(what, &format!("{}: {why}", case.name)),
            }
        }
    }
    Ok(())
}

/// The peer's encoded value of a case and the list that it must decode to. This is the original
/// list. For text forms it is the list that the text contains, because the real encoders may lose
/// order and ranks.
type Made = Option<(Vec<u8>, Vec<String>)>;

fn theirs(harness: &mut Harness, case: &Case) -> Result<Made, String> {
    let Some(list) = case.list() else {
        return Ok(None);
    };
    let op = if case.procs { "ppn" } else { "regex" };
    let (status, values) = harness.request(&format!("{op} {}", hex(case.text.as_bytes())))?;
    let value = values.into_iter().next().unwrap_or_default();
    if status != 0 {
        return Err(format!("the peer does not encode it: {status}"));
    }
    if value.starts_with(b"blob:\0") {
        return Ok(Some((value, list)));
    }
    let text = String::from_utf8(value).map_err(|e| e.to_string())?;
    // The peer's 32-bit integers overflowed in this text, so there is nothing to compare with.
    Ok(naive::expand(&text, case.procs).map(|said| (text.into_bytes(), said)))
}

fn reads_as(got: &Decoded, value: &[u8], list: &[String]) -> Result<(), String> {
    let shown = value.escape_ascii().to_string();
    if got.status != 0 {
        return Err(format!(
            "we answer {} ({}) to {shown:.160}",
            got.status, got.error
        ));
    }
    if got.list != list {
        let (got, list) = (got.list.join(" "), list.join(" "));
        return Err(format!("{shown:.160} became {got:.160}, not {list:.160}"));
    }
    Ok(())
}

/// Returns every input of the generator vectors.
///
/// # Errors
/// Returns a message if the vectors are missing or are not JSON lines.
pub(crate) fn cases() -> Result<Vec<Case>, String> {
    let dir = root().join("testdata/preg");
    let mut by_id = BTreeMap::new();
    for row in rows(&dir.join("inputs.jsonl"))? {
        if let (Some(id), Some(input)) = (row["id"].as_str(), row["input"].as_str()) {
            by_id.insert(id.to_owned(), input.to_owned());
        }
    }
    let mut seen = BTreeSet::new();
    let mut cases = Vec::new();
    for (file, procs) in [
        ("generate_regex.jsonl", false),
        ("generate_ppn.jsonl", true),
    ] {
        for row in rows(&dir.join(file))? {
            let name = row["case"].as_str().unwrap_or("?").to_owned();
            let text = row["input"].as_str().map(str::to_owned);
            let by_id = || by_id.get(row["input_id"].as_str()?).cloned();
            let text = text
                .or_else(by_id)
                .ok_or_else(|| format!("{file}: case {name} has no input"))?;
            if seen.insert((procs, text.clone())) {
                cases.push(Case { name, procs, text });
            }
        }
    }
    Ok(cases)
}

fn rows(path: &Path) -> Result<Vec<Value>, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    text.lines()
        .map(|line| serde_json::from_str(line).map_err(|e| format!("{}: {e}", path.display())))
        .collect()
}
