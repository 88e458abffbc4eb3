// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the first get of each process after a collecting fence, by unmodified clients: under our server,
//! under a host around 4.2.2, which shares memory with its own clients, and under prterun.

use super::jobs::{self, Best, Call, Side, Work};
use super::rows::{Pair, kib};
use super::runs::Field;
use crate::Report;
use crate::table::{Row, size, time};

const SIZES: &[u32] = &[2, 8, 32, 64];

const CALLS: [Call; 3] = [
    Call {
        title: "first get of each process",
        figures: &["peer_get_ns"],
        bound: Some(2.0),
        sizes: SIZES,
        shown: time,
    },
    Call {
        title: "bytes sent to a client in the fence and the gets",
        figures: &["received_bytes"],
        bound: None,
        sizes: SIZES,
        shown: size,
    },
    Call {
        title: "memory of a client that has all data",
        figures: &["full_kib"],
        bound: None,
        sizes: SIZES,
        shown: kib,
    },
];

/// The required ratio of the time of the whole command under the host in C to the time under our server, and
/// the number of processes that it is required for.
const WHOLE: (f64, u32) = (1.0 / 0.8, 64);

/// Measures jobs whose processes read all data of each other, with the clients of each release.
pub(super) fn gets(field: &Field, report: &mut Report) -> Result<(), String> {
    let clients = jobs::theirs(field)?;
    let host = field.release("4.2").map(|release| &release.host);
    let prterun = field.release("5.").map(|release| release.prterun.as_ref());
    for client in &clients {
        let ours = Side::new(client, &field.ours);
        let host = host.clone().map(|host| Side::new(client, host));
        let prterun = prterun.clone().ok().flatten();
        let peers: Vec<_> = host
            .iter()
            .cloned()
            .chain(prterun.map(|prterun| Side::new(client, prterun)))
            .collect();
        let mut sides = vec![ours.clone()];
        sides.extend(peers.iter().cloned());
        for size in SIZES.iter().copied() {
            let best = jobs::in_turns(field, &sides, size, Work::Exchange);
            for call in &CALLS {
                report.add(call.title, best.row(call, size, &ours, &peers));
            }
            let row = host
                .clone()
                .and_then(|host| whole(&best, size, &ours, &host));
            report.add("whole command", row);
        }
    }
    Ok(())
}

/// Compares the whole command with the host alone.
fn whole(best: &Best, size: u32, ours: &Side, host: &Side) -> Result<Row, String> {
    let (bound, judged) = WHOLE;
    Ok(Pair {
        figure: "whole command of processes that read all",
        input: format!("{size} processes, {}", ours.title()),
        ours: best.of(ours)?.get("whole_ns")?,
        peer: best.of(host)?.get("whole_ns")?,
        name: host.title(),
        bound: Some(bound).filter(|_| size == judged),
        shown: time,
    }
    .row())
}
