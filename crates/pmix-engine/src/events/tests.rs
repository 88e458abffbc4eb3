// SPDX-License-Identifier: MIT OR Apache-2.0
//! The guarantees of the event state machine.

mod users;

use std::sync::Arc;
use std::time::{Duration, Instant};

use pmix_types::{DataRange, Info, Nspace, Proc, Rank, Status, Value, keys};

use super::{EventSource, Events, Listener, Notification, Reporter};
use crate::PeerId;
use crate::config::EventLimits;

const CODE: Status = Status::from_raw(-7);

/// Events with four peers: ranks 0 to 2 of `a`, rank 0 of `b`.
struct Fixture {
    events: Events,
    now: Instant,
}

fn listener(number: u64) -> Listener {
    let (_, proc) = peer(number);
    Listener {
        proc,
        uid: 100,
        is_tool: false,
        receives_all: false,
    }
}

fn peer(number: u64) -> (PeerId, Proc<'static>) {
    let proc = match number {
        3 => Proc::new("b", Rank::new(0)),
        rank => Proc::new("a", Rank::new(u32::try_from(rank).unwrap())),
    };
    (PeerId::of(number), proc)
}

fn sessions(nspace: &Nspace<'_>) -> Option<u32> {
    match nspace.as_bytes() {
        b"a" => Some(1),
        b"b" => Some(2),
        _ => None,
    }
}

impl Fixture {
    fn new() -> Self {
        Self::with(EventLimits::default())
    }

    fn with(limits: EventLimits) -> Self {
        Self {
            events: Events::new(limits),
            now: Instant::now(),
        }
    }

    /// Creates a fixture with all four peers registered for everything.
    fn all() -> Self {
        let mut fixture = Self::new();
        for number in 0..4 {
            fixture.register(number, &[], &[]);
        }
        fixture
    }

    fn register(&mut self, number: u64, codes: &[Status], infos: &[Info<'_>]) -> Vec<Status> {
        let asked = self.events.ask_for(codes).unwrap();
        let id = PeerId::of(number);
        let registered = self.events.register(id, &listener(number), codes, infos);
        registered.unwrap();
        asked
    }

    fn take(&mut self, notification: Notification) -> Vec<u64> {
        let recipients = self
            .events
            .take(&Arc::new(notification), &sessions, self.now);
        recipients
            .into_iter()
            .map(|peer| u64::from(peer.index()))
            .collect()
    }

    fn raise(&mut self, from: u64, status: Status, range: DataRange) -> Vec<u64> {
        self.take(notification(from, status, range, vec![]))
    }

    fn replay(&mut self, number: u64) -> Vec<i32> {
        let kept = self.events.replay(PeerId::of(number), &sessions, self.now);
        kept.iter()
            .map(|notification| notification.status.as_raw())
            .collect()
    }
}

fn notification(
    from: u64,
    status: Status,
    range: DataRange,
    infos: Vec<Info<'static>>,
) -> Notification {
    let (peer, source) = peer(from);
    let notification = Notification::new(Reporter::Peer(peer), status, source, range, infos);
    notification.unwrap().only(Some(100))
}

fn said(key: &'static str) -> Info<'static> {
    Info::new(key, true)
}

#[test]
fn an_event_reaches_its_range_except_its_source() {
    let mut fixture = Fixture::all();
    let cases = [
        (DataRange::UNDEF, vec![1, 2, 3]),
        (DataRange::RM, vec![]),
        (DataRange::LOCAL, vec![1, 2, 3]),
        (DataRange::NAMESPACE, vec![1, 2]),
        (DataRange::SESSION, vec![1, 2]),
        (DataRange::GLOBAL, vec![1, 2, 3]),
        (DataRange::PROC_LOCAL, vec![]),
    ];
    for (range, recipients) in cases {
        assert_eq!(fixture.raise(0, CODE, range), recipients, "{range}");
    }
}

#[test]
fn a_job_without_a_known_session_belongs_to_every_session() {
    let mut fixture = Fixture::all();
    let source = Proc::new("elsewhere", Rank::new(0));
    let notification =
        Notification::new(Reporter::Host, CODE, source, DataRange::SESSION, vec![]).unwrap();
    assert_eq!(fixture.take(notification), [0, 1, 2, 3]);
}

#[test]
fn a_custom_range_names_processes_or_whole_jobs() {
    let mut fixture = Fixture::all();
    let targets = vec![
        Proc::new("a", Rank::new(2)),
        Proc::new("b", Rank::WILDCARD),
        Proc::new("a", Rank::new(0)),
    ];
    let infos = vec![Info::new(keys::EVENT_CUSTOM_RANGE, targets)];
    let recipients = fixture.take(notification(0, CODE, DataRange::CUSTOM, infos));
    assert_eq!(recipients, [2, 3], "not the source");
}

#[test]
fn a_custom_range_has_a_list_of_processes() {
    let (peer, source) = peer(0);
    let new = |range, infos| {
        let reporter = Reporter::Peer(peer);
        Notification::new(reporter, CODE, source.clone(), range, infos).map_err(|e| e.status())
    };
    let listed = vec![Info::new(keys::EVENT_CUSTOM_RANGE, source.clone())];
    assert_eq!(new(DataRange::CUSTOM, vec![]), Err(Status::ERR_BAD_PARAM));
    assert!(new(DataRange::CUSTOM, listed).is_ok());
    let wrong = vec![Info::new(keys::EVENT_CUSTOM_RANGE, "a.0")];
    assert_eq!(new(DataRange::CUSTOM, wrong), Err(Status::ERR_BAD_PARAM));
    assert_eq!(
        new(DataRange::from_raw(8), vec![]),
        Err(Status::ERR_BAD_PARAM)
    );
}

#[test]
fn a_list_of_processes_narrows_any_other_range() {
    let mut fixture = Fixture::all();
    let targets = vec![Proc::new("a", Rank::new(2)), Proc::new("b", Rank::WILDCARD)];
    let infos = vec![Info::new(keys::EVENT_CUSTOM_RANGE, targets)];
    let recipients = fixture.take(notification(0, CODE, DataRange::LOCAL, infos.clone()));
    assert_eq!(recipients, [2, 3]);
    let recipients = fixture.take(notification(0, CODE, DataRange::NAMESPACE, infos));
    assert_eq!(recipients, [2]);
}

#[test]
fn the_host_gets_debugger_waits_and_releases_of_any_range() {
    let (peer, source) = peer(0);
    let concerns_host = |reporter, status, range| {
        let made = Notification::new(reporter, status, source.clone(), range, vec![]);
        made.unwrap().concerns_host()
    };
    let own = Reporter::Peer(peer);
    for status in [Status::READY_FOR_DEBUG, Status::DEBUGGER_RELEASE] {
        assert!(concerns_host(own, status, DataRange::LOCAL));
        assert!(concerns_host(own, status, DataRange::RM));
        assert!(!concerns_host(Reporter::Host, status, DataRange::SESSION));
    }
    assert!(!concerns_host(own, CODE, DataRange::LOCAL));
}

#[test]
fn a_non_default_event_skips_default_handlers() {
    let mut fixture = Fixture::new();
    fixture.register(1, &[], &[]);
    fixture.register(2, &[CODE], &[]);
    let infos = vec![said(keys::EVENT_NON_DEFAULT)];
    let recipients = fixture.take(notification(0, CODE, DataRange::GLOBAL, infos));
    assert_eq!(recipients, [2]);
    assert_eq!(fixture.raise(0, CODE, DataRange::GLOBAL), [1, 2]);
}

#[test]
fn a_peer_with_several_registrations_gets_an_event_once() {
    let mut fixture = Fixture::new();
    fixture.register(1, &[], &[]);
    fixture.register(1, &[CODE, CODE], &[]);
    fixture.register(1, &[CODE], &[]);
    assert_eq!(fixture.raise(0, CODE, DataRange::GLOBAL), [1]);
}

#[test]
fn a_code_is_delivered_until_its_last_registration_is_removed() {
    let mut fixture = Fixture::new();
    fixture.register(1, &[CODE], &[]);
    fixture.register(1, &[CODE], &[]);
    fixture.events.deregister(PeerId::of(1), &[CODE]);
    assert_eq!(fixture.raise(0, CODE, DataRange::GLOBAL), [1]);
    fixture.events.deregister(PeerId::of(1), &[CODE]);
    assert_eq!(fixture.raise(0, CODE, DataRange::GLOBAL), [] as [u64; 0]);
    assert_eq!(fixture.events.registry.len(), (0, 0));
    // A deregistration without a registration is ignored.
    fixture
        .events
        .deregister(PeerId::of(1), &[CODE, super::registry::DEFAULT]);
}

#[test]
fn the_default_handler_is_deregistered_by_the_lowest_code() {
    let mut fixture = Fixture::new();
    fixture.register(1, &[], &[]);
    fixture
        .events
        .deregister(PeerId::of(1), &[Status::from_raw(i32::MIN)]);
    assert_eq!(fixture.raise(0, CODE, DataRange::GLOBAL), [] as [u64; 0]);
}

#[test]
fn a_registration_for_affected_processes_gets_only_their_events() {
    let mut fixture = Fixture::new();
    let about = |rank| Proc::new("a", Rank::new(rank));
    let wanted = Info::new(keys::EVENT_AFFECTED_PROC, about(2));
    fixture.register(1, &[CODE], std::slice::from_ref(&wanted));
    let mut raise = |infos| fixture.take(notification(0, CODE, DataRange::GLOBAL, infos));
    let affects = |rank| vec![Info::new(keys::EVENT_AFFECTED_PROCS, vec![about(rank)])];
    assert_eq!(raise(affects(2)), [1]);
    assert_eq!(raise(affects(0)), [] as [u64; 0]);
    assert_eq!(raise(vec![]), [1], "no affected processes");
    let all = Proc::new("a", Rank::WILDCARD);
    assert_eq!(raise(vec![Info::new(keys::EVENT_AFFECTED_PROC, all)]), [1]);
}

#[test]
fn a_wider_registration_coexists_with_a_narrow_one() {
    let mut fixture = Fixture::new();
    let wanted = Info::new(keys::EVENT_AFFECTED_PROC, Proc::new("a", Rank::new(2)));
    fixture.register(1, &[CODE], std::slice::from_ref(&wanted));
    fixture.register(1, &[CODE], &[]);
    let other = Proc::new("a", Rank::new(0));
    let infos = vec![Info::new(keys::EVENT_AFFECTED_PROC, other)];
    let recipients = fixture.take(notification(0, CODE, DataRange::GLOBAL, infos));
    assert_eq!(recipients, [1]);
}

#[test]
fn late_registrants_get_stored_events_in_order_and_once() {
    let mut fixture = Fixture::new();
    fixture.register(2, &[], &[]);
    for code in [-7, -8, -9, -7] {
        assert_eq!(
            fixture.raise(0, Status::from_raw(code), DataRange::GLOBAL),
            [2]
        );
    }
    fixture.register(1, &[Status::from_raw(-9), CODE], &[]);
    assert_eq!(fixture.replay(1), [-7, -9, -7]);
    fixture.register(1, &[], &[]);
    assert_eq!(fixture.replay(1), [-8], "only undelivered events");
    assert_eq!(fixture.replay(1), [] as [i32; 0]);
    assert_eq!(fixture.replay(2), [] as [i32; 0], "already delivered");
    assert_eq!(fixture.replay(0), [] as [i32; 0], "not registered");
    fixture.register(0, &[], &[]);
    assert_eq!(fixture.replay(0), [] as [i32; 0], "the peer is the source");
}

#[test]
fn a_debugger_release_applies_to_one_stop_only() {
    let release = Status::DEBUGGER_RELEASE;
    let mut fixture = Fixture::new();
    fixture.raise(0, release, DataRange::GLOBAL);
    fixture.raise(0, CODE, DataRange::GLOBAL);
    let (_, released) = peer(1);
    fixture.events.released(std::slice::from_ref(&released));
    fixture.register(1, &[release, CODE], &[]);
    assert_eq!(fixture.replay(1), [CODE.as_raw()]);
    // The release of one process does not affect another.
    fixture.register(2, &[release], &[]);
    assert_eq!(fixture.replay(2), [release.as_raw()]);
    // A later release is for the next stop, even if the process has not reached it.
    fixture.events.forget(PeerId::of(1));
    fixture.raise(0, release, DataRange::GLOBAL);
    fixture.register(1, &[release], &[]);
    assert_eq!(fixture.replay(1), [release.as_raw()]);
    // The records of a deregistered job do not affect a later job of its name.
    fixture.events.forget(PeerId::of(1));
    fixture.raise(3, release, DataRange::GLOBAL);
    fixture.events.released(std::slice::from_ref(&released));
    fixture.events.forget_nspace(&released.nspace);
    fixture.register(1, &[release], &[]);
    assert_eq!(fixture.replay(1), [release.as_raw()]);
}

#[test]
fn stored_events_keep_their_range_and_directives() {
    let mut fixture = Fixture::new();
    fixture.raise(0, CODE, DataRange::NAMESPACE);
    fixture.take(notification(
        0,
        CODE,
        DataRange::GLOBAL,
        vec![said(keys::EVENT_DO_NOT_CACHE)],
    ));
    fixture.take(notification(
        0,
        CODE,
        DataRange::GLOBAL,
        vec![said(keys::EVENT_NON_DEFAULT)],
    ));
    fixture.register(3, &[], &[]);
    assert_eq!(fixture.replay(3), [] as [i32; 0]);
    fixture.register(3, &[CODE], &[]);
    assert_eq!(fixture.replay(3), [-7]);
}

#[test]
fn stored_events_expire() {
    let mut fixture = Fixture::new();
    fixture.raise(0, CODE, DataRange::GLOBAL);
    let due = fixture.now + EventLimits::default().kept_for;
    fixture.now = due - Duration::from_millis(1);
    fixture.register(1, &[], &[]);
    assert_eq!(fixture.replay(1), [-7]);
    fixture.now = due;
    fixture.register(2, &[], &[]);
    assert_eq!(fixture.replay(2), [] as [i32; 0]);
    assert_eq!(fixture.events.cache.len().0, 0);
}

/// Creates an event of the host about the job `job`.
fn told_of_job(status: Status) -> Notification {
    let source = Proc::new("job", Rank::new(0));
    Notification::of_host(status, (&source).into(), DataRange::SESSION, &[]).unwrap()
}

#[test]
fn job_state_events_are_stored_while_they_may_apply() {
    let mut fixture = Fixture::new();
    fixture.raise(0, CODE, DataRange::GLOBAL);
    for status in [
        Status::READY_FOR_DEBUG,
        Status::EVENT_JOB_END,
        Status::ERR_PROC_ABORTED,
    ] {
        fixture.take(told_of_job(status));
    }
    fixture.now += 100 * EventLimits::default().kept_for;
    fixture.register(1, &[], &[]);
    assert_eq!(fixture.replay(1), [Status::READY_FOR_DEBUG.as_raw()]);
    assert_eq!(fixture.events.cache.len().0, 1);
}

#[test]
fn late_registrants_get_the_end_of_a_deregistered_job_for_a_time() {
    let mut fixture = Fixture::new();
    fixture.take(told_of_job(Status::READY_FOR_DEBUG));
    fixture.take(told_of_job(Status::EVENT_JOB_END));
    fixture.events.forget_nspace(&Nspace::new("job"));
    fixture.register(1, &[], &[]);
    assert_eq!(fixture.replay(1), [Status::EVENT_JOB_END.as_raw()]);
    fixture.now += EventLimits::default().kept_for;
    fixture.register(2, &[], &[]);
    assert_eq!(fixture.replay(2), [] as [i32; 0]);
    assert_eq!(fixture.events.cache.len().0, 0);
}

#[test]
fn stored_events_are_bounded_in_number_and_bytes() {
    let one = notification(0, CODE, DataRange::GLOBAL, vec![]).weight();
    let limits = EventLimits {
        kept: 3,
        kept_bytes: 2 * one + one / 2,
        ..EventLimits::default()
    };
    let mut fixture = Fixture::with(limits);
    for code in 1..=5 {
        fixture.raise(0, Status::from_raw(code), DataRange::GLOBAL);
    }
    fixture.register(1, &[], &[]);
    assert_eq!(fixture.replay(1), [4, 5], "a third event does not fit");
    let large = Info::new("large", vec![0_u8; 2 * one]);
    fixture.take(notification(0, CODE, DataRange::GLOBAL, vec![large]));
    fixture.register(2, &[], &[]);
    assert_eq!(
        fixture.replay(2),
        [4, 5],
        "an oversized event displaces no other"
    );
}

#[test]
fn a_source_that_floods_displaces_its_own_events() {
    let mut fixture = Fixture::new();
    fixture.raise(2, CODE, DataRange::GLOBAL);
    for code in 1..=5000 {
        fixture.raise(0, Status::from_raw(code), DataRange::GLOBAL);
    }
    fixture.register(1, &[], &[]);
    let replayed = fixture.replay(1);
    let limits = EventLimits::default();
    assert_eq!(replayed.len(), limits.kept_per_source + 1);
    assert_eq!(replayed.first(), Some(&-7));
    assert_eq!(replayed.last(), Some(&5000));
}

#[test]
fn delivered_events_are_distinguished_when_slots_are_reused() {
    let limits = EventLimits {
        kept: 2,
        ..EventLimits::default()
    };
    let mut fixture = Fixture::with(limits);
    fixture.register(1, &[Status::from_raw(1)], &[]);
    for code in 1..=7 {
        fixture.raise(0, Status::from_raw(code), DataRange::GLOBAL);
    }
    fixture.register(1, &[], &[]);
    assert_eq!(fixture.replay(1), [6, 7]);
    fixture.raise(2, Status::from_raw(8), DataRange::GLOBAL);
    assert_eq!(fixture.replay(1), [] as [i32; 0]);
    fixture.register(3, &[], &[]);
    assert_eq!(fixture.replay(3), [7, 8]);
}

#[test]
fn registrations_of_a_peer_are_bounded() {
    let limits = EventLimits {
        codes_per_peer: 3,
        procs_per_peer: 4,
        ..EventLimits::default()
    };
    let mut fixture = Fixture::with(limits);
    let codes: Vec<_> = (1..=3).map(Status::from_raw).collect();
    fixture.register(1, &codes, &[]);
    fixture.register(1, &codes, &[]);
    let (id, proc) = peer(1);
    let refused = fixture
        .events
        .register(id, &listener(1), &[], &[])
        .unwrap_err();
    assert_eq!(refused.status(), Status::ERR_OUT_OF_RESOURCE);
    let many = vec![CODE; 4];
    let refused = fixture.events.ask_for(&many).unwrap_err();
    assert_eq!(refused.status(), Status::ERR_OUT_OF_RESOURCE);
    let two = vec![proc.clone(), Proc::new("b", Rank::WILDCARD)];
    let about = Info::new(keys::EVENT_AFFECTED_PROCS, two);
    let (other, _) = peer(2);
    let about = std::slice::from_ref(&about);
    let refused = fixture.events.register(other, &listener(2), &codes, about);
    assert_eq!(refused.unwrap_err().status(), Status::ERR_OUT_OF_RESOURCE);
    assert_eq!(
        fixture.events.registry.len(),
        (1, 3),
        "a refused registration leaves no state"
    );
    fixture
        .events
        .register(other, &listener(2), &codes[..2], about)
        .unwrap();
}

#[test]
fn a_registration_with_invalid_affected_processes_is_refused() {
    let mut fixture = Fixture::new();
    let infos = [Info::new(keys::EVENT_AFFECTED_PROC, Value::Undef)];
    let refused = fixture
        .events
        .register(PeerId::of(1), &listener(1), &[CODE], &infos);
    let refused = refused.unwrap_err();
    assert_eq!(refused.status(), Status::ERR_BAD_PARAM);
    assert!(refused.to_string().contains("pmix.evproc"), "{refused}");
    assert_eq!(fixture.events.len(), [0; 4]);
}

#[test]
fn each_host_code_is_registered_with_the_host_once() {
    let mut fixture = Fixture::new();
    let of_jobs = [CODE, Status::ERR_LOST_CONNECTION];
    assert_eq!(fixture.register(0, &of_jobs, &[]), []);
    let of_host = [
        Status::EVENT_SYS_BASE,
        Status::EVENT_SYS_OTHER,
        Status::EXTERNAL_ERR_BASE,
        Status::from_raw(17),
    ];
    assert_eq!(fixture.register(0, &of_host, &[]), of_host);
    assert_eq!(fixture.register(1, &of_host, &[]), []);
    assert_eq!(
        fixture.register(1, &[], &[]),
        [],
        "a default handler is not registered with the host"
    );
    fixture.events.forget(PeerId::of(0));
    assert_eq!(fixture.events.no_longer_wanted(), []);
    fixture.events.deregister(PeerId::of(1), &of_host[..1]);
    assert_eq!(fixture.events.no_longer_wanted(), [Status::EVENT_SYS_BASE]);
    fixture.events.forget(PeerId::of(1));
    assert_eq!(fixture.events.no_longer_wanted().len(), 3);
    assert_eq!(fixture.events.no_longer_wanted(), []);
    fixture.register(0, &of_host, &[]);
    fixture.events.host_declined(&of_host);
    assert_eq!(
        fixture.register(1, &of_host, &[]),
        of_host,
        "the host is asked again"
    );
}

#[test]
fn the_host_gets_events_beyond_the_node_except_its_own() {
    let concerns = |reporter, range, infos| {
        let (_, source) = peer(0);
        let notification = Notification::new(reporter, CODE, source, range, infos).unwrap();
        notification.concerns_host()
    };
    let own = Reporter::Peer(PeerId::of(0));
    for range in [DataRange::RM, DataRange::NAMESPACE, DataRange::GLOBAL] {
        assert!(concerns(own, range, vec![]), "{range}");
        assert!(concerns(Reporter::Server, range, vec![]), "{range}");
        assert!(!concerns(Reporter::Host, range, vec![]), "{range}");
        assert!(!concerns(own, range, vec![said(keys::EVENT_STAYS_LOCAL)]));
    }
    assert!(!concerns(own, DataRange::LOCAL, vec![]));
    assert!(!concerns(own, DataRange::PROC_LOCAL, vec![]));
}

#[test]
fn an_event_of_the_host_skips_its_source() {
    let mut fixture = Fixture::all();
    let (_, source) = peer(0);
    let event = |reporter| {
        Notification::new(reporter, CODE, source.clone(), DataRange::NAMESPACE, vec![]).unwrap()
    };
    assert_eq!(fixture.take(event(Reporter::Host)), [1, 2]);
    assert_eq!(fixture.take(event(Reporter::Server)), [0, 1, 2]);
    let of_host = |source| {
        let range = DataRange::NAMESPACE;
        Notification::of_host(CODE, source, range, &[]).unwrap()
    };
    assert_eq!(
        fixture.take(of_host(EventSource::Reporter(&source))),
        [1, 2]
    );
    assert_eq!(fixture.take(of_host(EventSource::from(&source))), [1, 2]);
    let observed = of_host(EventSource::Observed(&source));
    assert!(!observed.concerns_host());
    assert_eq!(fixture.take(observed), [0, 1, 2]);
    // A second process of the same name has not received the event that the first one raised.
    let again = PeerId::of(9);
    fixture
        .events
        .register(again, &listener(0), &[], &[])
        .unwrap();
    assert_eq!(fixture.raise(0, CODE, DataRange::NAMESPACE), [1, 2, 9]);
}

#[test]
fn removed_peers_and_jobs_leave_no_events() {
    let mut fixture = Fixture::all();
    let of_host = [Status::from_raw(5), Status::EVENT_NODE_DOWN];
    fixture.register(1, &of_host, &[]);
    fixture.raise(0, CODE, DataRange::GLOBAL);
    fixture.raise(3, CODE, DataRange::GLOBAL);
    fixture.events.forget_nspace(&Nspace::new("a"));
    assert_eq!(fixture.events.len(), [4, 3, 1, 4]);
    fixture.events.forget_nspace(&Nspace::new("b"));
    for number in 0..4 {
        fixture.events.forget(PeerId::of(number));
    }
    assert_eq!(fixture.events.len(), [0; 4]);
}
