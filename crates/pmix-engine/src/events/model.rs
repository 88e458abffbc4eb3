// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random histories of a server's events, compared with a model that stores and searches all of them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use pmix_types::{DataRange, Info, Nspace, Proc, Rank, Status, keys};

use super::registry::DEFAULT;
use super::{Events, Listener, Notification, Reporter};
use crate::PeerId;
use crate::config::EventLimits;

const LIMITS: EventLimits = EventLimits {
    codes_per_peer: 100,
    procs_per_peer: 100,
    kept: 5,
    kept_per_source: 3,
    kept_bytes: usize::MAX,
    kept_for: Duration::from_secs(10),
};

/// The number of peers: two processes of each of two jobs. Peers with odd numbers have another user, and the last
/// receives the events of all users.
const NUM_PEERS: u8 = 4;

#[derive(Clone, Debug)]
enum Step {
    Register(u8, Vec<i8>),
    Deregister(u8, i8),
    Raise(u8, i8, Kind),
    Wait(u8),
    Leave(u8),
    EndJob(bool),
}

#[derive(Clone, Copy, Debug)]
struct Kind {
    range: u8,
    non_default: bool,
    do_not_cache: bool,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let peer = 0..NUM_PEERS;
    let code = -3..3_i8;
    let kind = (0..8_u8, any::<bool>(), prop::bool::weighted(0.2));
    let kind = kind.prop_map(|(range, non_default, do_not_cache)| Kind {
        range,
        non_default,
        do_not_cache,
    });
    let codes = prop::collection::vec(code.clone(), 0..3);
    let step = prop_oneof![
        4 => (peer.clone(), codes).prop_map(|(peer, codes)| Step::Register(peer, codes)),
        2 => (peer.clone(), code.clone()).prop_map(|(peer, code)| Step::Deregister(peer, code)),
        8 => (peer.clone(), code, kind).prop_map(|(peer, code, kind)| Step::Raise(peer, code, kind)),
        1 => (1..6_u8).prop_map(Step::Wait),
        1 => peer.prop_map(Step::Leave),
        1 => any::<bool>().prop_map(Step::EndJob),
    ];
    prop::collection::vec(step, 0..60)
}

fn nspace_of(peer: u8) -> &'static str {
    if peer < 2 { "a" } else { "b" }
}

/// Returns `true` for peer 3, a tool of the server's user.
fn receives_all(peer: u8) -> bool {
    peer == 3
}

fn listener(peer: u8) -> Listener {
    Listener {
        proc: Proc::new(nspace_of(peer), Rank::new(peer.into())),
        uid: u32::from(peer % 2),
        is_tool: receives_all(peer),
        receives_all: receives_all(peer),
    }
}

/// Returns the status of a code; code 0 deregisters the default handler.
fn status(code: i8) -> Status {
    match code {
        0 => DEFAULT,
        other => Status::from_raw(other.into()),
    }
}

/// An event in the model.
#[derive(Clone, Debug)]
struct Seen {
    from: u8,
    code: i8,
    kind: Kind,
    at: u64,
    had: BTreeSet<u8>,
}

/// The complete history, searched for each result.
#[derive(Debug, Default)]
struct Model {
    now: u64,
    registered: Vec<(u8, i8)>,
    kept: Vec<Seen>,
}

impl Model {
    fn receives(&self, peer: u8, seen: &Seen) -> bool {
        let is_in = match seen.kind.range {
            1 | 6 | 7 => false,
            3 => nspace_of(peer) == nspace_of(seen.from),
            _ => true,
        };
        let wants = self.registered.iter().any(|(who, code)| {
            let named = *code != 0 && *code == seen.code;
            *who == peer && (named || (*code == 0 && !seen.kind.non_default))
        });
        let may_hear = receives_all(peer) || peer % 2 == seen.from % 2;
        is_in && wants && peer != seen.from && may_hear
    }

    fn expire(&mut self) {
        let now = self.now;
        self.kept
            .retain(|seen| now - seen.at < LIMITS.kept_for.as_secs());
    }

    fn raise(&mut self, from: u8, code: i8, kind: Kind) -> Vec<u8> {
        let mut seen = Seen {
            from,
            code,
            kind,
            at: self.now,
            had: BTreeSet::new(),
        };
        let recipients: Vec<_> = (0..NUM_PEERS)
            .filter(|peer| self.receives(*peer, &seen))
            .collect();
        seen.had = recipients.iter().copied().collect();
        if !kind.do_not_cache {
            self.expire();
            let own: Vec<_> = (0..self.kept.len())
                .filter(|i| self.kept[*i].from == from)
                .collect();
            if own.len() >= LIMITS.kept_per_source {
                self.kept.remove(own[0]);
            }
            if self.kept.len() >= LIMITS.kept {
                self.kept.remove(0);
            }
            self.kept.push(seen);
        }
        recipients
    }

    fn register(&mut self, peer: u8, codes: &[i8]) -> Vec<i8> {
        let distinct: BTreeSet<_> = match codes {
            [] => BTreeSet::from([0]),
            codes => codes.iter().copied().collect(),
        };
        self.registered
            .extend(distinct.into_iter().map(|code| (peer, code)));
        self.expire();
        let due = (0..self.kept.len()).filter(|place| {
            let seen = &self.kept[*place];
            !seen.had.contains(&peer) && self.receives(peer, seen)
        });
        let due: Vec<_> = due.collect();
        for place in &due {
            self.kept[*place].had.insert(peer);
        }
        due.into_iter().map(|place| self.kept[place].code).collect()
    }

    fn deregister(&mut self, peer: u8, code: i8) {
        if let Some(place) = self
            .registered
            .iter()
            .position(|known| *known == (peer, code))
        {
            self.registered.remove(place);
        }
    }
}

/// The implementation, driven by the same steps.
struct Real {
    events: Events,
    now: Instant,
}

fn alone(_: &Nspace<'_>) -> Option<u32> {
    None
}

impl Real {
    fn raise(&mut self, from: u8, code: i8, kind: Kind) -> Vec<u8> {
        let range = DataRange::from_raw(kind.range);
        let mut infos = vec![
            Info::new(keys::EVENT_NON_DEFAULT, kind.non_default),
            Info::new(keys::EVENT_DO_NOT_CACHE, kind.do_not_cache),
        ];
        if range == DataRange::CUSTOM {
            infos.push(Info::new(
                keys::EVENT_CUSTOM_RANGE,
                Proc::new("c", Rank::WILDCARD),
            ));
        }
        let Listener { proc, uid, .. } = listener(from);
        let reporter = Reporter::Peer(PeerId::of(from.into()));
        let notification =
            Notification::new(reporter, Status::from_raw(code.into()), proc, range, infos);
        let notification = Arc::new(notification.unwrap().only(Some(uid)));
        let recipients = self.events.take(&notification, &alone, self.now);
        recipients
            .into_iter()
            .map(|peer| u8::try_from(peer.index()).unwrap())
            .collect()
    }

    fn register(&mut self, peer: u8, codes: &[i8]) -> Vec<i8> {
        let id = PeerId::of(peer.into());
        let statuses: Vec<_> = codes.iter().copied().map(status).collect();
        let registered = self.events.register(id, &listener(peer), &statuses, &[]);
        registered.unwrap();
        let replayed = self.events.replay(id, &alone, self.now).into_iter();
        let code =
            |notification: Arc<Notification>| i8::try_from(notification.status.as_raw()).unwrap();
        replayed.map(code).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    /// Checks that every history delivers the same events to the same peers as the model, once and in order.
    #[test]
    fn events_reach_the_peers_of_a_naive_model(steps in steps()) {
        let mut model = Model::default();
        let mut real = Real { events: Events::new(LIMITS), now: Instant::now() };
        for step in steps {
            match step {
                Step::Register(peer, codes) => {
                    prop_assert_eq!(real.register(peer, &codes), model.register(peer, &codes));
                }
                Step::Deregister(peer, code) => {
                    real.events.deregister(PeerId::of(peer.into()), &[status(code)]);
                    model.deregister(peer, code);
                }
                Step::Raise(from, code, kind) => {
                    let recipients = real.raise(from, code, kind);
                    prop_assert_eq!(recipients, model.raise(from, code, kind));
                }
                Step::Wait(seconds) => {
                    real.now += Duration::from_secs(seconds.into());
                    model.now += u64::from(seconds);
                }
                Step::Leave(peer) => {
                    real.events.forget(PeerId::of(peer.into()));
                    model.registered.retain(|(who, _)| *who != peer);
                    // A peer that connects again counts as a new one.
                    model.kept.iter_mut().for_each(|seen| _ = seen.had.remove(&peer));
                }
                Step::EndJob(first) => {
                    let nspace = if first { "a" } else { "b" };
                    real.events.forget_nspace(&Nspace::new(nspace));
                    model.kept.retain(|seen| nspace_of(seen.from) != nspace);
                }
            }
        }
    }
}
