// SPDX-License-Identifier: MIT OR Apache-2.0
//! The directives of a spawn that concern debuggers.
//!
//! Source: PMIx Standard, chapter "Tools and Debuggers", "Debugger attributes".

use std::collections::BTreeSet;
use std::ops::Range;

use pmix_server::upcall::Spawn;
use pmix_types::{DataArray, Info, Nspace, Proc, Rank, Value, keys};

use crate::App;
use crate::stops::{DebugStops, StopPoint};

/// A directive that concerns debuggers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DebugDirective {
    /// A stop of processes.
    Stop(StopPoint),
    /// A mark of applications that consist of debugger daemons (`PMIX_DEBUGGER_DAEMONS`).
    Daemons,
    /// The target of the daemons: processes (`PMIX_DEBUG_TARGET`) or a job (`PMIX_DEBUG_JOB`).
    Target,
    /// The number of daemons on each node that has a target process (`PMIX_DEBUG_DAEMONS_PER_NODE`).
    PerNode,
    /// The number of daemons for each target process (`PMIX_DEBUG_DAEMONS_PER_PROC`).
    PerProc,
}

/// The directives of one spawn that concern debuggers.
#[derive(Debug, Default)]
pub(crate) struct DebugRequest {
    stops: Vec<Stop>,
    has_daemons: bool,
    target: Option<Proc<'static>>,
    per_node: Option<u32>,
    per_proc: Option<u32>,
}

/// A directive by which processes stop.
#[derive(Debug)]
struct Stop {
    point: StopPoint,
    who: Value<'static>,
    /// The application whose infos contain it; `None` for the whole job.
    app: Option<usize>,
}

impl DebugRequest {
    /// Adds a directive of the job or of one application.
    ///
    /// # Errors
    /// Returns a message if its value is invalid.
    pub(crate) fn take(
        &mut self,
        directive: DebugDirective,
        info: &Info<'static>,
        app: Option<usize>,
    ) -> Result<(), String> {
        match directive {
            DebugDirective::Daemons => self.has_daemons |= info.truth().is_true(),
            DebugDirective::Target => self.target = Some(target(info)?),
            DebugDirective::PerNode => self.per_node = Some(positive(info)?),
            DebugDirective::PerProc => self.per_proc = Some(positive(info)?),
            DebugDirective::Stop(point) => self.stops.push(Stop {
                point,
                who: info.value.clone(),
                app,
            }),
        }
        Ok(())
    }

    /// Returns `true` if processes are to stop in init.
    pub(crate) fn stops_in_init(&self) -> bool {
        let is_false = |who: &Value<'_>| who.truth().as_bool() == Some(false);
        { self.stops.iter() }.any(|stop| stop.point == StopPoint::InInit && !is_false(&stop.who))
    }

    /// Returns `true` if the job consists of debugger daemons.
    pub(crate) fn is_of_daemons(&self) -> bool {
        self.has_daemons || self.per_node.is_some() || self.per_proc.is_some()
    }

    /// Returns the target of the daemons.
    ///
    /// # Errors
    /// Returns a message if no target is given.
    pub(crate) fn target(&self) -> Result<&Proc<'static>, String> {
        let missing = "PMIX_DEBUGGER_DAEMONS without PMIX_DEBUG_TARGET";
        self.target.as_ref().ok_or_else(|| missing.to_owned())
    }

    /// Returns the requested number of daemons for this number of target processes on this node, if any.
    ///
    /// # Errors
    /// Returns a message if both kinds of numbers are given.
    pub(crate) fn num_daemons(&self, num_targets: u32) -> Result<Option<u32>, String> {
        match (self.per_node, self.per_proc) {
            (Some(_), Some(_)) => {
                Err("PMIX_DEBUG_DAEMONS_PER_NODE and PMIX_DEBUG_DAEMONS_PER_PROC".to_owned())
            }
            (None, per_proc) => Ok(per_proc.map(|each| each.saturating_mul(num_targets))),
            (per_node, None) => Ok(per_node),
        }
    }

    /// Returns the ranks that stop. A directive of one application applies only to its processes. Debugger daemons do
    /// not stop.
    pub(crate) fn stops(&self, apps: &[App]) -> DebugStops {
        let mut stops = DebugStops::default();
        if self.is_of_daemons() {
            return stops;
        }
        for Stop { point, who, app } in &self.stops {
            let all = ranks_of(apps, *app);
            stops.at_mut(*point).extend(named(who, all));
        }
        stops
    }
}

/// Splits debugger daemons from a spawn that has them beside the applications that they debug. They become a job of
/// their own.
pub(crate) fn without_daemons(mut call: Spawn) -> (Spawn, Option<Spawn>) {
    let is_of_daemons = |infos: &[Info<'_>]| {
        let says = |info: &Info<'_>| info.key.is(keys::DEBUGGER_DAEMONS) && info.truth().is_true();
        infos.iter().any(says)
    };
    if is_of_daemons(&call.infos) {
        return (call, None);
    }
    let apps = std::mem::take(&mut call.apps);
    let (daemons, apps): (Vec<_>, Vec<_>) =
        { apps.into_iter() }.partition(|app| is_of_daemons(&app.info));
    if daemons.is_empty() || apps.is_empty() {
        // At most one of the two lists has applications, so nothing is split.
        call.apps = apps.into_iter().chain(daemons).collect();
        return (call, None);
    }
    let mut of_daemons = call.clone();
    of_daemons.apps = daemons;
    call.apps = apps;
    (call, Some(of_daemons))
}

/// Returns the target of daemons: named processes, or all of a named job.
fn target(info: &Info<'static>) -> Result<Proc<'static>, String> {
    match &info.value {
        Value::Proc(proc) => Ok(proc.clone()),
        Value::String(Some(name)) => {
            let nspace = Nspace::new(name.clone());
            Ok(Proc::new(nspace, Rank::WILDCARD))
        }
        _ => Err(format!("{} does not name processes", info.key)),
    }
}

/// Returns a positive number.
fn positive(info: &Info<'static>) -> Result<u32, String> {
    let number: Option<u32> = info.value.to_number().ok();
    let number = number.filter(|number| *number > 0);
    number.ok_or_else(|| format!("{} without a number above 0", info.key))
}

/// Returns the ranks of one application, or of all.
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

/// Returns the ranks in `of` that a directive names.
///
/// The requester of a spawn cannot know the nspace of the new job, so the nspaces of processes are ignored.
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

/// Removes duplicates, so that repeated ranks cost no time.
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
        request
            .take(DebugDirective::Stop(StopPoint::InApp), &info, app)
            .unwrap();
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
        // The first rank is beyond the job, the second belongs to the other application.
        assert_eq!(ranks(Value::Rank(Rank::new(5)), None), []);
        assert_eq!(ranks(Value::Rank(Rank::new(0)), Some(1)), []);
        let procs = DataArray::Proc(vec![proc(4), proc(1), proc(4), proc(9)]);
        assert_eq!(ranks(Value::DataArray(procs), None), [1, 4]);
        let none = DataArray::Rank(Vec::new());
        assert_eq!(ranks(Value::DataArray(none), None), []);
    }
}
