// SPDX-License-Identifier: MIT OR Apache-2.0
//! The monitors of a host, which serve the upcall `monitor` for files and resource usage.
//!
//! | monitor | object | result | event |
//! | --- | --- | --- | --- |
//! | `PMIX_MONITOR_FILE` | a file | none | `PMIX_MONITOR_FILE_ALERT` after some checks without a change |
//! | `PMIX_MONITOR_PROC_RESOURCE_USAGE` | processes of this node | usage | `PMIX_MONITOR_RESUSAGE_UPDATE` |
//! | `PMIX_MONITOR_NODE_RESOURCE_USAGE`, `_DISK_`, `_NET_` | node, disks, interfaces | usage | the same |
//! | `PMIX_MONITOR_CANCEL` | a monitor | none | none |
//!
//! A change is one of the size, access time or modification time. `PMIX_MONITOR_RESOURCE_RATE` sets the interval in
//! seconds.
//!
//! Usage is returned as infos ([`crate::usage`]). A request whose value is an array of a type
//! `PMIX_PROC_STATS`, `PMIX_NODE_STATS`, `PMIX_DISK_STATS` or `PMIX_NET_STATS` returns one array of that
//! type, for compatibility with 4.2 and 5.0. Releases 4.2.2 and 5.0.11 cannot unpack the `PMIX_PROC_STATS`
//! that they pack, so their programs must request infos.
//!
//! One thread for each process with monitored files (64 at most) checks its files, so that a file system that
//! does not respond cannot block other processes. A check that has not completed when the next is due counts
//! as unchanged.
//!
//! The host reads files and processes with its own privileges, so it serves only its own user and the
//! superuser.
//!
//! Source: PMIx Standard, chapter "Process Management", "Process and Job Monitoring"; OpenPMIx, the manual
//! page PMIx_Process_monitor(3).

mod file;
mod file_checks;
mod sample;
mod used;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pmix_server::upcall::Monitor;
use pmix_types::{DataRange, ErrorDetail, Info, Nspace, Proc, Rank, Status, Text, Value, keys};

use self::file::FileMonitor;
use self::file_checks::FileChecks;
use self::sample::Samples;
use self::used::UsageMonitor;
use crate::Error;
use crate::usage::Detail;

/// Maximum number of monitors of a process.
const MOST_OF_ONE: usize = 64;
/// Maximum number of these that report usage.
const MOST_REPEATED: usize = 8;
/// Maximum number of monitors in total.
const MOST: usize = 4096;
/// Maximum length of the name of a monitor (`PMIX_MONITOR_ID`), in bytes.
const LONGEST_ID: usize = 511;

/// The host's data about its node: its name, and the processes that run there.
#[derive(Clone, Debug, Default)]
pub struct LocalNode {
    /// The name of the node.
    pub name: Text<'static>,
    /// The number of the node.
    pub nodeid: u32,
    /// The running processes with their process ids.
    pub processes: Vec<(Proc<'static>, i32)>,
}

/// An event that the host is to notify.
#[derive(Clone, Debug, PartialEq)]
pub struct MonitorEvent {
    /// The status of the event.
    pub status: Status,
    /// The observed process, which is the source; `None` if the server is the source.
    pub observed: Option<Proc<'static>>,
    /// The range of receivers.
    pub range: DataRange,
    /// The infos of the event.
    pub infos: Vec<Info<'static>>,
}

/// The service for monitor requests, with the monitors that repeat.
///
/// A host passes it the upcall `monitor`, reports ended processes and jobs, and calls [`tick`](Self::tick) at the
/// [`deadline`](Self::deadline). A measurement is shared by requests for a quarter of a second, so a figure may be that
/// old.
#[derive(Debug, Default)]
pub struct MonitorService {
    monitors: BTreeMap<CheckTime, ActiveMonitor>,
    /// Number of monitors of each process.
    owners: BTreeMap<Proc<'static>, usize>,
    last: u64,
    samples: Samples,
    checks: FileChecks,
}

/// The time of the next check of a monitor, and the monitor's number.
type CheckTime = (Instant, u64);

#[derive(Debug)]
struct ActiveMonitor {
    owner: Proc<'static>,
    /// The name for cancellation (`PMIX_MONITOR_ID`).
    id: Option<Text<'static>>,
    status: Status,
    range: Option<DataRange>,
    /// The time between checks.
    period: Duration,
    kind: MonitorKind,
}

#[derive(Debug)]
enum MonitorKind {
    File(FileMonitor),
    Usage(UsageMonitor),
}

impl MonitorService {
    /// Serves a request. Returns the measured usage, if the request asks for it.
    ///
    /// # Errors
    ///
    /// - `PMIX_ERR_NOT_SUPPORTED` for other monitors, and for an unknown required directive;
    /// - `PMIX_ERR_BAD_PARAM` for directives of other types, a file without a time between checks, or a name of
    ///   more than 511 bytes;
    /// - `PMIX_ERR_NO_PERMISSIONS` for another user than `user`, that of the host, and the superuser;
    /// - `PMIX_ERR_NOT_FOUND` if none of the named targets is on this node, or no monitor has the name to
    ///   cancel;
    /// - `PMIX_ERR_OUT_OF_RESOURCE` if the process has too many monitors, or names too many targets or
    ///   figures, and if no thread for its files can be started or 64 checks of them have not completed.
    pub fn monitor(
        &mut self,
        call: &Monitor,
        user: u32,
        node: &LocalNode,
        now: Instant,
    ) -> Result<Vec<Info<'static>>, Error> {
        if call.monitor.key.is(keys::MONITOR_CANCEL) {
            return self.cancel(&call.proc, &call.monitor).map(|()| Vec::new());
        }
        // A cancellation, above, concerns only monitors of the caller, so it needs no permission.
        permit(&call.directives, user)?;
        let common = CommonDirectives::read(&call.directives)?;
        let (period, kind, found) = if call.monitor.key.is(keys::MONITOR_FILE) {
            let (period, mut monitor) = FileMonitor::read(&call.monitor, &call.directives)?;
            monitor.begin(&mut self.checks, &call.proc)?;
            (Some(period), MonitorKind::File(monitor), Vec::new())
        } else {
            let monitor = UsageMonitor::read(&call.monitor, &call.directives)?;
            let found = monitor.measure(node, &mut self.samples, now)?;
            (common.rate, MonitorKind::Usage(monitor), found)
        };
        if let Some(period) = period {
            let status = match call.error {
                Status::SUCCESS => kind.status(),
                other => other,
            };
            let added = self.add(
                ActiveMonitor {
                    owner: call.proc.clone(),
                    id: common.id,
                    status,
                    range: common.range,
                    period,
                    kind,
                },
                now,
            );
            // The first check may have started a thread for a process that now has no monitor.
            if !self.owners.contains_key(&call.proc) {
                self.checks.forget(&call.proc);
            }
            added?;
        }
        Ok(found)
    }

    /// Measures processes of this node for a query. Each figure may be a quarter of a second old.
    pub fn measure(
        &mut self,
        procs: &[(Proc<'static>, i32)],
        node: &LocalNode,
        detail: Detail,
        now: Instant,
    ) -> Vec<pmix_types::ProcStats<'static>> {
        self.samples.processes(procs, &node.name, detail, now)
    }

    /// Drops the measurements of processes, because their state was changed. The next request measures them again.
    pub fn forget_measurements(&mut self) {
        self.samples.forget_processes();
    }

    /// Measures the node, its disks and its interfaces for a query. The figures may be a quarter of a second old.
    ///
    /// # Errors
    ///
    /// Returns an error if `/proc` cannot be read.
    pub fn measure_node(
        &mut self,
        node: &LocalNode,
        now: Instant,
    ) -> Result<pmix_types::NodeStats<'static>, Error> {
        self.samples.node(&node.name, now).cloned()
    }

    /// Returns the time for the next [`tick`](Self::tick), or `None` if there is no monitor.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let first = self.monitors.first_key_value();
        first.map(|((due, _), _)| *due)
    }

    /// Performs due checks, and returns the resulting events.
    pub fn tick(&mut self, node: &LocalNode, now: Instant) -> Vec<MonitorEvent> {
        let mut all_due = Vec::new();
        let asked = self.checks.last();
        self.checks.drain();
        while let Some(first) = self.monitors.first_entry()
            && first.key().0 <= now
        {
            let ((_, number), mut entry) = first.remove_entry();
            if let MonitorKind::File(monitor) = &mut entry.kind {
                monitor.request_check(&mut self.checks, &entry.owner);
            }
            all_due.push((number, entry));
        }
        // All due files are requested before the wait, so that one short wait serves all of them.
        self.checks.wait(asked);
        let mut events = Vec::new();
        for (number, mut entry) in all_due {
            let found = match &mut entry.kind {
                MonitorKind::File(monitor) => {
                    let missed = monitor.check(&mut self.checks, &entry.owner);
                    missed.map(|path| {
                        let path = Info::new(keys::MONITOR_FILE, Value::String(Some(path)));
                        let owner = Info::new(keys::EVENT_AFFECTED_PROC, entry.owner.clone());
                        vec![owner, path]
                    })
                }
                MonitorKind::Usage(monitor) => monitor.update(node, &mut self.samples, now),
            };
            events.extend(found.map(|infos| entry.event(infos)));
            // Missed checks are not repeated, since after a pause one check finds as much as several.
            self.monitors.insert((now + entry.period, number), entry);
        }
        events
    }

    /// Removes the monitors of a process that has terminated.
    pub fn proc_ended(&mut self, proc: &Proc<'_>) {
        if self.owners.contains_key(proc) {
            self.forget(|entry| entry.owner == *proc);
        }
    }

    /// Removes the monitors of all processes of a job that has terminated, or of a tool that has disconnected.
    pub fn job_ended(&mut self, nspace: &Nspace<'_>) {
        if self.owners.keys().any(|proc| proc.nspace == *nspace) {
            self.forget(|entry| entry.owner.nspace == *nspace);
        }
    }

    /// Returns the number of monitors.
    #[must_use]
    pub fn len(&self) -> usize {
        self.monitors.len()
    }

    /// Returns `true` if there is no monitor.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.monitors.is_empty()
    }

    fn add(&mut self, entry: ActiveMonitor, now: Instant) -> Result<(), Error> {
        let has = self.owners.get(&entry.owner).copied().unwrap_or(0);
        let repeated = |other: &&ActiveMonitor| other.owner == entry.owner && other.sends();
        let is_refused = has >= MOST_OF_ONE
            || self.monitors.len() >= MOST
            || (entry.sends() && self.monitors.values().filter(repeated).count() >= MOST_REPEATED);
        if is_refused {
            let message = format!(
                "the limit of monitors is reached ({MOST_OF_ONE} for each process, {MOST_REPEATED} of which \
                report resource usage; {MOST} in total): cancel one"
            );
            return Err(error(Status::ERR_OUT_OF_RESOURCE, message));
        }
        *self.owners.entry(entry.owner.clone()).or_default() += 1;
        self.last += 1;
        self.monitors.insert((now + entry.period, self.last), entry);
        Ok(())
    }

    fn cancel(&mut self, owner: &Proc<'_>, monitor: &Info<'_>) -> Result<(), Error> {
        let id = text(monitor)?;
        let is_meant = |entry: &ActiveMonitor| {
            entry.owner == *owner && id.as_ref().is_none_or(|id| entry.id.as_ref() == Some(id))
        };
        match (self.forget(is_meant), id) {
            (0, Some(id)) => {
                let message = format!("the process has no monitor {id}");
                Err(error(Status::ERR_NOT_FOUND, message))
            }
            _ => Ok(()),
        }
    }

    /// Removes monitors, and returns their number.
    fn forget(&mut self, is_meant: impl Fn(&ActiveMonitor) -> bool) -> usize {
        let (owners, checks) = (&mut self.owners, &mut self.checks);
        let before = self.monitors.len();
        self.monitors.retain(|_, entry| {
            let stays = !is_meant(entry);
            if !stays && let Some(count) = owners.get_mut(&entry.owner) {
                *count -= 1;
                if *count == 0 {
                    owners.remove(&entry.owner);
                    checks.forget(&entry.owner);
                }
            }
            stays
        });
        before - self.monitors.len()
    }
}

impl MonitorKind {
    /// Returns the default status of its events.
    const fn status(&self) -> Status {
        match self {
            Self::File(_) => Status::MONITOR_FILE_ALERT,
            Self::Usage(_) => Status::MONITOR_RESUSAGE_UPDATE,
        }
    }
}

impl ActiveMonitor {
    const fn sends(&self) -> bool {
        matches!(self.kind, MonitorKind::Usage(_))
    }

    /// Returns the event with these infos. The source of a file alert is the process of the file. The source of usage
    /// data is the server, so the event has the measured processes as infos.
    fn event(&self, details: Vec<Info<'static>>) -> MonitorEvent {
        let nspace = self.owner.nspace.clone();
        let (range, target) = match self.range {
            // Usage goes only to the requester; an alert goes to its whole job.
            None if self.sends() => (DataRange::CUSTOM, Some(self.owner.clone())),
            // The source of the event may be the server, whose namespace is another one.
            None | Some(DataRange::NAMESPACE) => {
                (DataRange::CUSTOM, Some(Proc::new(nspace, Rank::WILDCARD)))
            }
            Some(range) => (range, None),
        };
        let mut infos = Vec::new();
        infos.extend(target.map(|target| Info::new(keys::EVENT_CUSTOM_RANGE, target)));
        if self.sends() {
            // Figures are only for the handler that their requester registered, and they age quickly.
            infos.push(Info::new(keys::EVENT_NON_DEFAULT, true));
            infos.push(Info::new(keys::EVENT_DO_NOT_CACHE, true));
        }
        let id = self.id.clone();
        infos.extend(id.map(|id| Info::new(keys::MONITOR_ID, Value::String(Some(id)))));
        infos.extend(details);
        MonitorEvent {
            status: self.status,
            observed: (!self.sends()).then(|| self.owner.clone()),
            range,
            infos,
        }
    }
}

/// The directives that any monitor may have.
#[derive(Debug, Default)]
struct CommonDirectives {
    id: Option<Text<'static>>,
    range: Option<DataRange>,
    rate: Option<Duration>,
}

impl CommonDirectives {
    fn read(directives: &[Info<'_>]) -> Result<Self, Error> {
        let mut common = Self::default();
        for info in directives {
            match info.key.as_text().as_str() {
                Some(keys::MONITOR_ID) => common.id = id(info)?,
                Some(keys::RANGE) => match info.value {
                    // A custom range would need a list of processes, which the request does not have.
                    Value::DataRange(range) if range != DataRange::CUSTOM => {
                        common.range = Some(range);
                    }
                    _ => return Err(wrong(info)),
                },
                Some(keys::MONITOR_RESOURCE_RATE) => {
                    let seconds = number(info)?;
                    common.rate = (seconds > 0).then(|| Duration::from_secs(seconds.into()));
                }
                Some(key) if is_known(key) => {}
                _ if info.is_required() => {
                    let message = format!("unknown monitor directive {}", info.key);
                    return Err(error(Status::ERR_NOT_SUPPORTED, message));
                }
                _ => {}
            }
        }
        Ok(common)
    }
}

/// Returns `true` for directives that are read elsewhere or that request the only behavior of this host,
/// which monitors its own node for the requester.
fn is_known(key: &str) -> bool {
    const KNOWN: &[&str] = &[
        keys::USERID,
        keys::GRPID,
        keys::MONITOR_APP_CONTROL,
        keys::MONITOR_LOCAL_ONLY,
        keys::MONITOR_FILE_SIZE,
        keys::MONITOR_FILE_ACCESS,
        keys::MONITOR_FILE_MODIFY,
        keys::MONITOR_FILE_CHECK_TIME,
        keys::MONITOR_FILE_DROPS,
        keys::MONITOR_TARGET_PROCS,
        keys::MONITOR_TARGET_PIDS,
        keys::MONITOR_TARGET_NODES,
        keys::MONITOR_TARGET_NODEIDS,
        keys::MONITOR_TARGET_DISKS,
        keys::MONITOR_TARGET_NETS,
    ];
    KNOWN.contains(&key)
}

/// Checks that the requesting user is permitted to see data that the host can read.
fn permit(directives: &[Info<'_>], user: u32) -> Result<(), Error> {
    let asks = directives.iter().find(|info| info.key.is(keys::USERID));
    let asks: Option<u32> = asks.and_then(|info| info.value.to_number().ok());
    match asks {
        Some(asks) if asks == user || asks == 0 => Ok(()),
        _ => {
            let message = "files and processes are monitored only for processes of the host's user";
            Err(error(Status::ERR_NO_PERMISSIONS, message))
        }
    }
}

/// Returns the name of a monitor, if it has one.
fn id(info: &Info<'_>) -> Result<Option<Text<'static>>, Error> {
    let id = text(info)?;
    match id.as_ref().map_or(0, |id| id.len()) {
        len if len > LONGEST_ID => {
            let message = format!(
                "{} has {len} bytes, at most {LONGEST_ID} are possible",
                info.key
            );
            Err(error(Status::ERR_BAD_PARAM, message))
        }
        _ => Ok(id),
    }
}

/// Returns the text of an info, if it has one.
fn text(info: &Info<'_>) -> Result<Option<Text<'static>>, Error> {
    match &info.value {
        Value::Undef | Value::String(None) | Value::Pointer(()) => Ok(None),
        Value::String(Some(text)) => Ok(Some(Text::new(text.as_bytes().to_vec()))),
        _ => Err(wrong(info)),
    }
}

fn number(info: &Info<'_>) -> Result<u32, Error> {
    info.value.to_number().map_err(|_| wrong(info))
}

#[cold]
fn wrong(info: &Info<'_>) -> Error {
    let found = info.value.data_type();
    let message = format!("{} has the unexpected type {found}", info.key);
    error(Status::ERR_BAD_PARAM, message)
}

#[cold]
fn error(status: Status, message: impl Into<String>) -> Error {
    ErrorDetail::new(status, message).into()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use super::file_checks::tests::Gate;
    use super::*;

    #[test]
    fn a_late_result_counts_at_the_next_check() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("steps");
        fs::write(&path, "1").unwrap();
        let gate = Arc::<Gate>::default();
        let mut service = MonitorService {
            checks: FileChecks::with_gate(&gate, Duration::ZERO),
            ..MonitorService::default()
        };
        let owner = Proc::new("job", Rank::new(0));
        let file = Info::new(keys::MONITOR_FILE, format!("/hung{}", path.display()));
        let every = Info::new(keys::MONITOR_FILE_CHECK_TIME, 1_u32);
        let (period, mut monitor) = FileMonitor::read(&file, &[every]).unwrap();
        monitor.begin(&mut service.checks, &owner).unwrap();
        let entry = ActiveMonitor {
            owner: owner.clone(),
            id: None,
            status: Status::MONITOR_FILE_ALERT,
            range: None,
            period,
            kind: MonitorKind::File(monitor),
        };
        let mut now = Instant::now();
        let node = LocalNode::default();
        service.add(entry, now).unwrap();
        let mut num_told = || {
            // The last check ends between two checks, so the next check finds its result without a wait.
            gate.open();
            while !service.checks.is_idle(&owner) {
                service.checks.drain();
            }
            gate.shut();
            now += period;
            service.tick(&node, now).len()
        };
        assert_eq!(num_told(), 0);
        // Each check finds the result of the check that the previous one requested.
        assert_eq!([num_told(), num_told()], [1, 0]);
        fs::write(&path, "22").unwrap();
        assert_eq!([num_told(), num_told(), num_told()], [0, 1, 0]);
        gate.open();
    }

    #[test]
    fn the_name_of_a_monitor_is_as_long_as_a_key_at_most() {
        let read = |len: usize| {
            let read = CommonDirectives::read(&[Info::new(keys::MONITOR_ID, "x".repeat(len))]);
            read.map(|common| common.id.map_or(0, |id| id.len()))
                .map_err(|error| error.status())
        };
        assert_eq!(read(LONGEST_ID), Ok(LONGEST_ID));
        assert_eq!(read(LONGEST_ID + 1), Err(Status::ERR_BAD_PARAM));
    }
}
