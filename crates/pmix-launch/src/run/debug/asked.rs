// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a spawn asks for that concerns debuggers, read out of its infos.
//!
//! Source: PMIx Standard, chapter "Tools and Debuggers", "Debugger attributes".

use std::collections::BTreeSet;
use std::ops::Range;

use pmix_types::{DataArray, Info, Rank, Value};

use crate::App;
use crate::stops::{DebugStops, StopPoint};

/// What a directive asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::run) enum Wish {
    /// That processes stop.
    Stop(StopPoint),
}

/// All that a spawn asks for.
#[derive(Debug, Default)]
pub(in crate::run) struct DebugRequest {
    stops: Vec<Stop>,
}

/// A directive that processes stop.
#[derive(Debug)]
struct Stop {
    point: StopPoint,
    who: Value<'static>,
    /// The application whose own infos have it; none for one that holds for the whole job.
    app: Option<usize>,
}

impl DebugRequest {
    /// Takes a directive, of the job or of one application.
    pub(in crate::run) fn take(&mut self, wish: Wish, info: &Info<'static>, app: Option<usize>) {
        match wish {
            Wish::Stop(point) => self.stops.push(Stop {
                point,
                who: info.value.clone(),
                app,
            }),
        }
    }

    /// The ranks that stop. What is said of one application is for its processes alone.
    pub(in crate::run) fn stops(&self, apps: &[App]) -> DebugStops {
        let mut stops = DebugStops::default();
        for Stop { point, who, app } in &self.stops {
            let all = ranks_of(apps, *app);
            stops.at_mut(*point).extend(named(who, all));
        }
        stops
    }
}

/// The ranks of an application, or of all.
fn ranks_of(apps: &[App], app: Option<usize>) -> Range<u32> {
    let mut next = 0u32;
    let mut ranges = apps.iter().map(|app| {
        let first = next;
        next = next.saturating_add(app.num_procs);
        first..next
    });
    match app {
        Some(app) => ranges.nth(app).unwrap_or_default(),
        None => 0..ranges.last().map_or(0, |last| last.end),
    }
}

/// Those of some ranks that a directive names.
///
/// Who asks for a job does not know what it will be called, so the nspaces of processes do not count.
fn named(who: &Value<'_>, of: Range<u32>) -> BTreeSet<Rank> {
    let one = |rank: Rank| match rank {
        Rank::WILDCARD => of.clone(),
        rank if of.contains(&rank.as_raw()) => rank.as_raw()..rank.as_raw() + 1,
        _ => 0..0,
    };
    let ranges: Vec<_> = match who {
        Value::Rank(rank) => vec![one(*rank)],
        Value::Proc(proc) => vec![one(proc.rank)],
        Value::DataArray(DataArray::Rank(ranks)) => {
            distinct(ranks.iter().copied()).map(one).collect()
        }
        Value::DataArray(DataArray::Proc(procs)) => distinct(procs.iter().map(|proc| proc.rank))
            .map(one)
            .collect(),
        other if other.truth().as_bool() == Some(false) => Vec::new(),
        _ => vec![of.clone()],
    };
    ranges.into_iter().flatten().map(Rank::new).collect()
}

/// Each once, so that nobody pays for what is said again.
fn distinct(ranks: impl Iterator<Item = Rank>) -> impl Iterator<Item = Rank> {
    ranks.collect::<BTreeSet<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmix_types::{Proc, keys};

    fn apps() -> Vec<App> {
        let app = |num_procs| App {
            program: "true".into(),
            args: Vec::new(),
            num_procs,
            wdir: None,
            exports: Vec::new(),
        };
        vec![app(2), app(3)]
    }

    fn ranks(who: Value<'static>, app: Option<usize>) -> Vec<u32> {
        let mut request = DebugRequest::default();
        let info = Info::new(keys::DEBUG_STOP_IN_APP, who);
        request.take(Wish::Stop(StopPoint::InApp), &info, app);
        let stops = request.stops(&apps());
        assert!(stops.in_init.is_empty());
        stops.in_app.iter().map(|rank| rank.as_raw()).collect()
    }

    #[test]
    fn all_of_a_job_or_of_an_application_stop_or_those_that_are_named() {
        let proc = |rank| Proc::new("", Rank::new(rank));
        let all = [0, 1, 2, 3, 4];
        assert_eq!(ranks(Value::Undef, None), all);
        assert_eq!(ranks(true.into(), None), all);
        assert_eq!(ranks(Value::Rank(Rank::WILDCARD), None), all);
        assert_eq!(ranks(false.into(), None), []);
        assert_eq!(ranks(true.into(), Some(1)), [2, 3, 4]);
        assert_eq!(ranks(true.into(), Some(7)), []);
        assert_eq!(ranks(Value::Rank(Rank::new(3)), None), [3]);
        // A rank beyond the job, and one of the other application.
        assert_eq!(ranks(Value::Rank(Rank::new(5)), None), []);
        assert_eq!(ranks(Value::Rank(Rank::new(0)), Some(1)), []);
        let procs = DataArray::Proc(vec![proc(4), proc(1), proc(4), proc(9)]);
        assert_eq!(ranks(Value::DataArray(procs), None), [1, 4]);
        let none = DataArray::Rank(Vec::new());
        assert_eq!(ranks(Value::DataArray(none), None), []);
    }
}
