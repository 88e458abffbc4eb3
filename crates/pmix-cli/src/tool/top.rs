// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix top`: memory and processor time of the processes of running jobs, as their servers measure them.

use std::collections::BTreeMap;
use std::io::Write as _;

use crate::args::{Global, Top};
use crate::failure::{Exit, Failure};
use crate::output::Out;

mod measure;
mod metrics;
pub(super) mod rows;
mod view;
mod watch;

use rows::Rows;
use view::Snapshot;
use watch::Watch;

/// Runs the command.
pub(crate) fn run(global: &Global, args: &Top) -> Result<Exit, Failure> {
    if args.openmetrics {
        return metrics::run(global, args);
    }
    let mut watch = Watch::start(args)?;
    let shown = show(global, args, &mut watch);
    watch.finish();
    shown
}

/// Prints one snapshot after the other.
fn show(global: &Global, args: &Top, watch: &mut Watch<'_>) -> Result<Exit, Failure> {
    let mut out = Out::new();
    let is_live = out.is_terminal() && !global.json && !args.once;
    let mut left = match args.count {
        Some(count) => Some(count),
        None if is_live => None,
        None => Some(1),
    };
    let mut rows: BTreeMap<usize, Rows> = BTreeMap::new();
    let (mut is_first, mut has_measured) = (true, false);
    while left != Some(0) {
        if has_measured && !watch.wait() {
            break;
        }
        watch.measure();
        has_measured = true;
        if is_first && watch.servers.values().all(|watched| watched.is_over()) {
            // With several servers, the message of each would not help more than the first.
            let failure = watch
                .servers
                .values_mut()
                .find_map(|watched| watched.failure.take());
            return failure.map_or(Ok(Exit::Ok), Err);
        }
        let has_news = update(&mut rows, watch, args);
        let is_empty = rows.values().all(Rows::is_empty);
        if !is_first && (rows.is_empty() || (args.nspace.is_some() && is_empty)) {
            break;
        }
        if !has_news {
            continue;
        }
        let snapshot = Snapshot::of(&rows, watch, args.sort);
        match global.json {
            true => snapshot.write_json(&mut out)?,
            false => snapshot.write(&mut out, is_live)?,
        }
        out.flush()?;
        is_first = false;
        left = left.map(|left| left - 1);
    }
    Ok(Exit::Ok)
}

/// Takes the measurements that came. Returns `true` if there are any, or if a server has ended.
fn update(rows: &mut BTreeMap<usize, Rows>, watch: &mut Watch<'_>, args: &Top) -> bool {
    let num_before = rows.len();
    rows.retain(|index, _| { watch.servers.get(index) }.is_some_and(|watched| !watched.is_over()));
    let mut has_news = rows.len() < num_before;
    for (index, watched) in &mut watch.servers {
        let Some(measured) = watched.fresh.take() else {
            continue;
        };
        has_news = true;
        if !watched.is_over() {
            let rows = rows.entry(*index).or_default();
            rows.next(measured.rows, measured.at);
            rows.set_pending(measured.pending);
            rows.sort(args.sort);
        }
    }
    has_news
}
