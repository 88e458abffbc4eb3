// SPDX-License-Identifier: MIT OR Apache-2.0
//! Heartbeat monitors: the peers that must send heartbeats, and the times of the last ones.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pmix_types::{DataRange, Info, Status, Text, Value, keys};

use crate::{Error, PeerId};

/// A monitor that a peer set for its own heartbeats (`PMIx_Process_monitor`).
#[derive(Clone, Debug, PartialEq)]
pub(super) struct HeartbeatMonitor {
    /// The name for cancelling it (`PMIX_MONITOR_ID`).
    pub(super) id: Option<Text<'static>>,
    /// The event to raise when the monitor expires.
    pub(super) event: Status,
    /// The range of the event.
    pub(super) range: DataRange,
    /// The time without a heartbeat after which it expires: one interval, and one for each heartbeat that may be
    /// missed.
    pub(super) window: Duration,
    /// Further infos for the event: the process may handle the loss itself.
    pub(super) infos: Vec<Info<'static>>,
}

impl HeartbeatMonitor {
    /// Decodes a monitor (PMIx Standard, `PMIx_Process_monitor`, `PMIX_MONITOR_HEARTBEAT`).
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` without a time, and for directives of a wrong type.
    pub(super) fn read(error: Status, infos: &[Info<'_>]) -> Result<Self, Error> {
        let mut monitor = Self {
            id: None,
            // DEVIATION: OpenPMIx raises PMIX_MONITOR_HEARTBEAT_ALERT regardless of the requested code, and ignores the
            // number of heartbeats that may be missed; the Standard defines both as implemented here;
            // `a_heartbeat_is_missed_after_the_allowed_drops`.
            event: match error {
                Status::SUCCESS => Status::MONITOR_HEARTBEAT_ALERT,
                other => other,
            },
            range: DataRange::NAMESPACE,
            window: Duration::ZERO,
            infos: Vec::new(),
        };
        let (mut seconds, mut drops) = (0, 0);
        for info in infos {
            match info.key.as_text().as_str() {
                Some(keys::MONITOR_HEARTBEAT_TIME) => seconds = number(info)?,
                Some(keys::MONITOR_HEARTBEAT_DROPS) => drops = number(info)?,
                Some(keys::MONITOR_ID) => monitor.id = name(info)?,
                Some(keys::RANGE) => match info.value {
                    // A custom range would require a list of processes.
                    Value::DataRange(range) if range != DataRange::CUSTOM => monitor.range = range,
                    _ => return Err(wrong(info)),
                },
                Some(keys::MONITOR_APP_CONTROL) => {
                    let handles = info.truth().is_true();
                    monitor
                        .infos
                        .push(Info::new(keys::MONITOR_APP_CONTROL, handles));
                }
                _ => {}
            }
        }
        if seconds == 0 {
            let message = "missing pmix.monitor.btime, the time between heartbeats";
            return Err(Error::bad(message));
        }
        // Both factors have 32 bits, so the product fits.
        let seconds = u64::from(seconds) * (u64::from(drops) + 1);
        monitor.window = Duration::from_secs(seconds);
        Ok(monitor)
    }
}

/// Returns the name in an info that cancels monitors; `None` for all monitors.
pub(super) fn name(info: &Info<'_>) -> Result<Option<Text<'static>>, Error> {
    match &info.value {
        Value::Undef | Value::String(None) | Value::Pointer(()) => Ok(None),
        Value::String(Some(name)) => Ok(Some(Text::new(name.as_bytes().to_vec()))),
        _ => Err(wrong(info)),
    }
}

fn number(info: &Info<'_>) -> Result<u32, Error> {
    info.value.to_number().map_err(|_| wrong(info))
}

#[cold]
fn wrong(info: &Info<'_>) -> Error {
    let found = info.value.data_type();
    Error::bad(format!("{} has the unexpected type {found}", info.key))
}

/// The heartbeat monitors, by peer.
#[derive(Debug, Default)]
pub(super) struct HeartbeatMonitors(BTreeMap<PeerId, MonitoredPeer>);

#[derive(Debug)]
struct MonitoredPeer {
    last: Instant,
    monitors: Vec<ActiveMonitor>,
}

#[derive(Debug)]
struct ActiveMonitor {
    monitor: HeartbeatMonitor,
    /// The time it was set; the first heartbeat is due one window later.
    since: Instant,
    /// `true` after it has expired, until the next heartbeat.
    is_missed: bool,
}

impl ActiveMonitor {
    fn due(&self, last: Instant) -> Option<Instant> {
        let due = last.max(self.since).checked_add(self.monitor.window);
        due.filter(|_| !self.is_missed)
    }
}

impl HeartbeatMonitors {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds a monitor for the heartbeats of a peer.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_OUT_OF_RESOURCE` if the peer has `most` monitors already.
    pub(super) fn add(
        &mut self,
        peer: PeerId,
        monitor: HeartbeatMonitor,
        most: usize,
        now: Instant,
    ) -> Result<(), Error> {
        let monitored = self.0.entry(peer).or_insert_with(|| MonitoredPeer {
            last: now,
            monitors: Vec::new(),
        });
        if monitored.monitors.len() >= most {
            let message = format!("a process can have at most {most} monitors at a time");
            return Err(Error::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        monitored.monitors.push(ActiveMonitor {
            monitor,
            since: now,
            is_missed: false,
        });
        Ok(())
    }

    /// Records a heartbeat. Returns `true` if an expired monitor is active again.
    pub(super) fn beat(&mut self, peer: PeerId, now: Instant) -> bool {
        let Some(monitored) = self.0.get_mut(&peer) else {
            return false;
        };
        monitored.last = now;
        let mut again = false;
        for active in &mut monitored.monitors {
            again |= std::mem::take(&mut active.is_missed);
        }
        again
    }

    /// Cancels the monitors with a name, or all. Returns `true` if there were any.
    pub(super) fn cancel(&mut self, peer: PeerId, id: Option<&Text<'_>>) -> bool {
        let Some(monitored) = self.0.get_mut(&peer) else {
            return false;
        };
        let before = monitored.monitors.len();
        let named = |active: &ActiveMonitor| active.monitor.id.as_ref() == id;
        monitored
            .monitors
            .retain(|active| id.is_some() && !named(active));
        let after = monitored.monitors.len();
        if after == 0 {
            self.0.remove(&peer);
        }
        after < before
    }

    /// Returns the time at which the next monitor of a peer expires without a further heartbeat.
    pub(super) fn due(&self, peer: PeerId) -> Option<Instant> {
        let monitored = self.0.get(&peer)?;
        let due = monitored.monitors.iter();
        due.filter_map(|active| active.due(monitored.last)).min()
    }

    /// Returns the monitors of a peer that have expired, each once.
    pub(super) fn missed(&mut self, peer: PeerId, now: Instant) -> Vec<HeartbeatMonitor> {
        let Some(monitored) = self.0.get_mut(&peer) else {
            return Vec::new();
        };
        let mut missed = Vec::new();
        for active in &mut monitored.monitors {
            if active.due(monitored.last).is_some_and(|due| due <= now) {
                // One alert for one silence; the next heartbeat starts the monitor again.
                active.is_missed = true;
                missed.push(active.monitor.clone());
            }
        }
        missed
    }

    /// Removes the monitors of a peer.
    pub(super) fn forget(&mut self, peer: PeerId) {
        self.0.remove(&peer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: PeerId = PeerId::of(1);

    fn monitor(seconds: u32, drops: u32, id: &'static str) -> HeartbeatMonitor {
        let infos = [
            Info::new(keys::MONITOR_HEARTBEAT_TIME, seconds),
            Info::new(keys::MONITOR_HEARTBEAT_DROPS, drops),
            Info::new(keys::MONITOR_ID, id),
        ];
        HeartbeatMonitor::read(Status::from_raw(-9), &infos).unwrap()
    }

    fn names(missed: &[HeartbeatMonitor]) -> Vec<String> {
        let name = |monitor: &HeartbeatMonitor| monitor.id.as_ref().unwrap().to_string();
        missed.iter().map(name).collect()
    }

    #[test]
    fn a_heartbeat_is_missed_after_the_allowed_drops() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut monitors = HeartbeatMonitors::default();
        monitors
            .add(PEER, monitor(2, 0, "strict"), 9, start)
            .unwrap();
        monitors.add(PEER, monitor(2, 2, "lax"), 9, start).unwrap();
        assert_eq!(monitors.due(PEER), Some(at(2)));
        assert_eq!(names(&monitors.missed(PEER, at(1))), [""; 0]);
        assert!(!monitors.beat(PEER, at(1)));
        assert_eq!(monitors.due(PEER), Some(at(3)));
        let missed = monitors.missed(PEER, at(3));
        assert_eq!(names(&missed), ["strict"]);
        assert_eq!(missed[0].event, Status::from_raw(-9));
        assert_eq!(
            monitors.due(PEER),
            Some(at(7)),
            "a missed heartbeat is reported once"
        );
        assert_eq!(names(&monitors.missed(PEER, at(7))), ["lax"]);
        assert_eq!(monitors.due(PEER), None);
        assert!(
            monitors.beat(PEER, at(8)),
            "a later heartbeat arms the monitor again"
        );
        assert_eq!(monitors.due(PEER), Some(at(10)));
    }

    #[test]
    fn a_later_monitor_does_not_count_the_time_before() {
        let start = Instant::now();
        let mut monitors = HeartbeatMonitors::default();
        monitors.add(PEER, monitor(100, 0, "a"), 9, start).unwrap();
        let later = start + Duration::from_secs(50);
        monitors.add(PEER, monitor(2, 0, "b"), 9, later).unwrap();
        assert_eq!(monitors.due(PEER), Some(later + Duration::from_secs(2)));
    }

    #[test]
    fn monitors_are_cancelled_by_name_or_all() {
        let start = Instant::now();
        let mut monitors = HeartbeatMonitors::default();
        for id in ["a", "b", "c"] {
            monitors.add(PEER, monitor(1, 0, id), 9, start).unwrap();
        }
        assert!(!monitors.cancel(PEER, Some(&Text::from("x"))));
        assert!(!monitors.cancel(PeerId::of(2), None));
        assert!(monitors.cancel(PEER, Some(&Text::from("b"))));
        let due = start + Duration::from_secs(1);
        assert_eq!(names(&monitors.missed(PEER, due)), ["a", "c"]);
        assert!(monitors.cancel(PEER, None));
        assert!(monitors.0.is_empty());
    }

    #[test]
    fn a_monitor_has_a_time_and_its_directives_their_types() {
        let read = |infos: &[Info<'_>]| {
            HeartbeatMonitor::read(Status::SUCCESS, infos).map_err(|e| e.status())
        };
        let time = Info::new(keys::MONITOR_HEARTBEAT_TIME, 1_u32);
        let least = read(std::slice::from_ref(&time)).unwrap();
        assert_eq!(least.event, Status::MONITOR_HEARTBEAT_ALERT);
        assert_eq!(least.range, DataRange::NAMESPACE);
        assert_eq!(read(&[]), Err(Status::ERR_BAD_PARAM));
        let wrong = [
            Info::new(keys::MONITOR_HEARTBEAT_TIME, "often"),
            Info::new(keys::MONITOR_HEARTBEAT_DROPS, -1),
            Info::new(keys::MONITOR_ID, 1_u32),
            Info::new(keys::RANGE, 3_u32),
            Info::new(keys::RANGE, DataRange::CUSTOM),
        ];
        for info in wrong {
            let infos = [time.clone(), info.clone()];
            assert_eq!(read(&infos), Err(Status::ERR_BAD_PARAM), "{info:?}");
        }
        let longest = monitor(u32::MAX, u32::MAX, "").window;
        assert!(longest > Duration::from_secs(1 << 60));
    }

    #[test]
    fn monitors_are_bounded() {
        let mut monitors = HeartbeatMonitors::default();
        let now = Instant::now();
        monitors.add(PEER, monitor(1, 0, "a"), 1, now).unwrap();
        let refused = monitors.add(PEER, monitor(1, 0, "b"), 1, now);
        assert_eq!(refused.unwrap_err().status(), Status::ERR_OUT_OF_RESOURCE);
    }
}
