// SPDX-License-Identifier: MIT OR Apache-2.0
//! Signs of life: who promised them, and who has missed too many.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pmix_types::{DataRange, Info, Status, Text, Value, keys};

use crate::{Error, PeerId};

/// A promise to give signs of life.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Promise {
    /// What the process calls it, to cancel it.
    pub(super) id: Option<Text<'static>>,
    /// The event that is raised when it is broken.
    pub(super) event: Status,
    /// Whom the event is for.
    pub(super) range: DataRange,
    /// How long it is kept without a sign: the time of one, and of all that may be missed.
    pub(super) patience: Duration,
    /// What else was said; the host wants to know whether the process handles it itself.
    pub(super) infos: Vec<Info<'static>>,
}

impl Promise {
    /// Reads a promise (PMIx Standard, `PMIx_Process_monitor`, `PMIX_MONITOR_HEARTBEAT`).
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` without a time, and for directives of other types.
    pub(super) fn read(error: Status, infos: &[Info<'_>]) -> Result<Self, Error> {
        let mut promise = Self {
            id: None,
            // DEVIATION: OpenPMIx raises PMIX_MONITOR_HEARTBEAT_ALERT whatever code was asked for,
            // and does not count what may be missed; the Standard has both as they are here;
            // `a_promise_is_broken_after_all_that_may_be_missed`.
            event: match error {
                Status::SUCCESS => Status::MONITOR_HEARTBEAT_ALERT,
                other => other,
            },
            range: DataRange::NAMESPACE,
            patience: Duration::ZERO,
            infos: Vec::new(),
        };
        let (mut seconds, mut drops) = (0, 0);
        for info in infos {
            match info.key.as_text().as_str() {
                Some(keys::MONITOR_HEARTBEAT_TIME) => seconds = number(info)?,
                Some(keys::MONITOR_HEARTBEAT_DROPS) => drops = number(info)?,
                Some(keys::MONITOR_ID) => promise.id = name(info)?,
                Some(keys::RANGE) => match info.value {
                    // A custom one would need its list of processes.
                    Value::DataRange(range) if range != DataRange::CUSTOM => promise.range = range,
                    _ => return Err(wrong(info)),
                },
                Some(keys::MONITOR_APP_CONTROL) => {
                    let handles = info.truth().is_true();
                    promise
                        .infos
                        .push(Info::new(keys::MONITOR_APP_CONTROL, handles));
                }
                _ => {}
            }
        }
        if seconds == 0 {
            let message = "signs of life without pmix.monitor.btime, the time between them";
            return Err(Error::bad(message));
        }
        let seconds = u64::from(seconds) * (u64::from(drops) + 1);
        promise.patience = Duration::from_secs(seconds);
        Ok(promise)
    }
}

/// The name in an info that cancels what has it, or, without one, everything.
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
    Error::bad(format!("{} cannot have the type {found}", info.key))
}

/// All promises.
#[derive(Debug, Default)]
pub(super) struct Heartbeats(BTreeMap<PeerId, Heart>);

#[derive(Debug)]
struct Heart {
    last: Instant,
    promises: Vec<Watched>,
}

#[derive(Debug)]
struct Watched {
    promise: Promise,
    /// When it was given; until then no sign was owed.
    since: Instant,
    /// Whether it is known to be broken. It counts again with the next sign.
    is_broken: bool,
}

impl Watched {
    fn due(&self, last: Instant) -> Option<Instant> {
        let due = last.max(self.since).checked_add(self.promise.patience);
        due.filter(|_| !self.is_broken)
    }
}

impl Heartbeats {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// A peer promises signs of life.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_OUT_OF_RESOURCE` if it has promised `most` times already.
    pub(super) fn promise(
        &mut self,
        peer: PeerId,
        promise: Promise,
        most: usize,
        now: Instant,
    ) -> Result<(), Error> {
        let heart = self.0.entry(peer).or_insert_with(|| Heart {
            last: now,
            promises: Vec::new(),
        });
        if heart.promises.len() >= most {
            let message = format!("a process can be watched in {most} ways at a time");
            return Err(Error::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        heart.promises.push(Watched {
            promise,
            since: now,
            is_broken: false,
        });
        Ok(())
    }

    /// A sign of life. Tells whether a broken promise counts again.
    pub(super) fn beat(&mut self, peer: PeerId, now: Instant) -> bool {
        let Some(heart) = self.0.get_mut(&peer) else {
            return false;
        };
        heart.last = now;
        let mut again = false;
        for watched in &mut heart.promises {
            again |= std::mem::take(&mut watched.is_broken);
        }
        again
    }

    /// Takes back promises of a name, or all. Tells whether there were any.
    pub(super) fn cancel(&mut self, peer: PeerId, id: Option<&Text<'_>>) -> bool {
        let Some(heart) = self.0.get_mut(&peer) else {
            return false;
        };
        let before = heart.promises.len();
        let named = |watched: &Watched| watched.promise.id.as_ref() == id;
        heart
            .promises
            .retain(|watched| id.is_some() && !named(watched));
        let after = heart.promises.len();
        if after == 0 {
            self.0.remove(&peer);
        }
        after < before
    }

    /// When the next promise of a peer is broken, unless it gives a sign before.
    pub(super) fn due(&self, peer: PeerId) -> Option<Instant> {
        let heart = self.0.get(&peer)?;
        let due = heart.promises.iter();
        due.filter_map(|watched| watched.due(heart.last)).min()
    }

    /// The promises of a peer that are broken by now; each is told of once.
    pub(super) fn broken(&mut self, peer: PeerId, now: Instant) -> Vec<Promise> {
        let Some(heart) = self.0.get_mut(&peer) else {
            return Vec::new();
        };
        let mut broken = Vec::new();
        for watched in &mut heart.promises {
            if watched.due(heart.last).is_some_and(|due| due <= now) {
                watched.is_broken = true;
                broken.push(watched.promise.clone());
            }
        }
        broken
    }

    /// Forgets a peer.
    pub(super) fn forget(&mut self, peer: PeerId) {
        self.0.remove(&peer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: PeerId = PeerId::of(1);

    fn promise(seconds: u32, drops: u32, id: &'static str) -> Promise {
        let infos = [
            Info::new(keys::MONITOR_HEARTBEAT_TIME, seconds),
            Info::new(keys::MONITOR_HEARTBEAT_DROPS, drops),
            Info::new(keys::MONITOR_ID, id),
        ];
        Promise::read(Status::from_raw(-9), &infos).unwrap()
    }

    fn names(broken: &[Promise]) -> Vec<String> {
        let name = |promise: &Promise| promise.id.as_ref().unwrap().to_string();
        broken.iter().map(name).collect()
    }

    #[test]
    fn a_promise_is_broken_after_all_that_may_be_missed() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut hearts = Heartbeats::default();
        hearts
            .promise(PEER, promise(2, 0, "strict"), 9, start)
            .unwrap();
        hearts
            .promise(PEER, promise(2, 2, "lax"), 9, start)
            .unwrap();
        assert_eq!(hearts.due(PEER), Some(at(2)));
        assert_eq!(names(&hearts.broken(PEER, at(1))), [""; 0]);
        assert!(!hearts.beat(PEER, at(1)));
        assert_eq!(hearts.due(PEER), Some(at(3)));
        let broken = hearts.broken(PEER, at(3));
        assert_eq!(names(&broken), ["strict"]);
        assert_eq!(broken[0].event, Status::from_raw(-9));
        assert_eq!(hearts.due(PEER), Some(at(7)), "it is told of once");
        assert_eq!(names(&hearts.broken(PEER, at(7))), ["lax"]);
        assert_eq!(hearts.due(PEER), None);
        assert!(hearts.beat(PEER, at(8)), "they count again");
        assert_eq!(hearts.due(PEER), Some(at(10)));
    }

    #[test]
    fn a_later_promise_owes_nothing_for_the_time_before() {
        let start = Instant::now();
        let mut hearts = Heartbeats::default();
        hearts
            .promise(PEER, promise(100, 0, "a"), 9, start)
            .unwrap();
        let later = start + Duration::from_secs(50);
        hearts.promise(PEER, promise(2, 0, "b"), 9, later).unwrap();
        assert_eq!(hearts.due(PEER), Some(later + Duration::from_secs(2)));
    }

    #[test]
    fn promises_are_cancelled_by_name_or_all() {
        let start = Instant::now();
        let mut hearts = Heartbeats::default();
        for id in ["a", "b", "c"] {
            hearts.promise(PEER, promise(1, 0, id), 9, start).unwrap();
        }
        assert!(!hearts.cancel(PEER, Some(&Text::from("x"))));
        assert!(!hearts.cancel(PeerId::of(2), None));
        assert!(hearts.cancel(PEER, Some(&Text::from("b"))));
        let due = start + Duration::from_secs(1);
        assert_eq!(names(&hearts.broken(PEER, due)), ["a", "c"]);
        assert!(hearts.cancel(PEER, None));
        assert!(hearts.0.is_empty());
    }

    #[test]
    fn a_promise_has_a_time_and_its_directives_their_types() {
        let read =
            |infos: &[Info<'_>]| Promise::read(Status::SUCCESS, infos).map_err(|e| e.status());
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
        let longest = promise(u32::MAX, u32::MAX, "").patience;
        assert!(longest > Duration::from_secs(1 << 60));
    }

    #[test]
    fn promises_are_bounded() {
        let mut hearts = Heartbeats::default();
        let now = Instant::now();
        hearts.promise(PEER, promise(1, 0, "a"), 1, now).unwrap();
        let refused = hearts.promise(PEER, promise(1, 0, "b"), 1, now);
        assert_eq!(refused.unwrap_err().status(), Status::ERR_OUT_OF_RESOURCE);
    }
}
