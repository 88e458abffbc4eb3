// SPDX-License-Identifier: MIT OR Apache-2.0
//! The guarantees of publish and lookup.

use std::time::{Duration, Instant};

use pmix_types::{
    DataArray, DataRange, Info, Nspace, Persistence, Proc, Rank, Status, Text, Value, keys,
};

use super::{Caller, LookupResult, PubSub, PubSubLimits};

/// Returns a process of user 100 on node 0 in session 1.
fn caller(nspace: &'static str, rank: u32) -> Caller {
    Caller {
        node: Some(0),
        session: Some(1),
        ..Caller::new(Proc::new(nspace, Rank::new(rank)), 100, 10)
    }
}

fn datum(key: &'static str) -> Info<'static> {
    Info::new(key, format!("value of {key}"))
}

fn on(range: DataRange) -> Info<'static> {
    Info::new(keys::RANGE, range)
}

fn kept(persistence: Persistence) -> Info<'static> {
    Info::new(keys::PERSISTENCE, persistence)
}

/// A `PubSub` whose lookups have numbers as tokens.
struct Service {
    pubsub: PubSub<u32>,
    now: Instant,
}

impl Service {
    fn new() -> Self {
        Self {
            pubsub: PubSub::default(),
            now: Instant::now(),
        }
    }

    fn publish(&mut self, who: &Caller, infos: &[Info<'_>]) -> Vec<LookupResult<u32>> {
        self.pubsub.publish(who, infos).unwrap()
    }

    fn refused(&mut self, who: &Caller, infos: &[Info<'_>]) -> Status {
        self.pubsub.publish(who, infos).unwrap_err().status()
    }

    fn lookup(
        &mut self,
        who: &Caller,
        names: &[&'static str],
        infos: &[Info<'_>],
    ) -> LookupResult<u32> {
        let names: Vec<_> = names.iter().copied().map(Text::from).collect();
        let results = self.pubsub.lookup(0, who, &names, infos, self.now);
        results.unwrap().expect("it does not wait")
    }

    fn status(&mut self, who: &Caller, names: &[&'static str], infos: &[Info<'_>]) -> Status {
        self.lookup(who, names, infos).status
    }

    fn wait(&mut self, token: u32, who: &Caller, name: &'static str, infos: &[Info<'_>]) {
        let mut all = vec![Info::new(keys::WAIT, 0)];
        all.extend_from_slice(infos);
        let names = [Text::from(name)];
        let results = self.pubsub.lookup(token, who, &names, &all, self.now);
        assert_eq!(results.unwrap(), None);
    }
}

fn tokens(results: &[LookupResult<u32>]) -> Vec<(u32, Status)> {
    results.iter().map(|l| (l.token, l.status)).collect()
}

#[test]
fn published_data_is_found_with_its_publisher() {
    let mut service = Service::new();
    service.publish(&caller("a", 0), &[datum("one"), datum("two")]);
    let found = service.lookup(&caller("b", 7), &["two", "one"], &[]);
    assert_eq!(found.status, Status::SUCCESS);
    let keys: Vec<_> = found.data.iter().map(|d| d.key.to_string()).collect();
    assert_eq!(keys, ["two", "one"], "in the order of the question");
    assert_eq!(found.data[0].value, Value::from("value of two"));
    assert_eq!(found.data[0].proc, Proc::new("a", Rank::new(0)));
}

#[test]
fn the_status_says_how_much_is_there() {
    let mut service = Service::new();
    let (own, other) = (caller("a", 0), caller("a", 1));
    service.publish(&own, &[datum("one")]);
    assert_eq!(
        service.status(&other, &["one", "two"], &[]),
        Status::ERR_PARTIAL_SUCCESS
    );
    assert_eq!(service.status(&other, &["two"], &[]), Status::ERR_NOT_FOUND);
    let foreign = Caller {
        uid: 101,
        ..caller("b", 0)
    };
    assert_eq!(
        service.status(&foreign, &["one"], &[]),
        Status::ERR_NO_PERMISSIONS
    );
    assert_eq!(
        service.status(&foreign, &["one", "two"], &[]),
        Status::ERR_NOT_FOUND,
        "which of them is there is not told"
    );
}

#[test]
fn each_range_is_seen_from_where_it_reaches() {
    let publisher = caller("a", 0);
    let at = |nspace, rank, node, session| Caller {
        node: Some(node),
        session: Some(session),
        ..caller(nspace, rank)
    };
    let host = Caller {
        is_host: true,
        ..at("server", 0, 5, 5)
    };
    let others = [
        publisher.clone(),
        at("a", 1, 1, 1),
        at("b", 0, 0, 1),
        at("b", 0, 1, 1),
        at("b", 0, 1, 2),
        host,
    ];
    let cases = [
        (
            DataRange::PROC_LOCAL,
            [true, false, false, false, false, false],
        ),
        (DataRange::RM, [false, false, false, false, false, true]),
        (DataRange::LOCAL, [true, false, true, false, false, false]),
        (
            DataRange::NAMESPACE,
            [true, true, false, false, false, false],
        ),
        (DataRange::SESSION, [true, true, true, true, false, false]),
        (DataRange::GLOBAL, [true, true, true, true, true, true]),
    ];
    for (range, seen) in cases {
        let mut service = Service::new();
        service.publish(&publisher, &[datum("k"), on(range)]);
        for (other, seen) in others.iter().zip(seen) {
            let found = service.status(other, &["k"], &[on(DataRange::GLOBAL)]);
            assert_eq!(found.is_success(), seen, "{range} from {other:?}");
        }
    }
}

#[test]
fn a_lookup_is_among_the_publishers_in_its_range() {
    let mut service = Service::new();
    service.publish(&caller("a", 0), &[datum("k"), on(DataRange::GLOBAL)]);
    let elsewhere = Caller {
        session: Some(2),
        ..caller("b", 0)
    };
    assert_eq!(
        service.status(&elsewhere, &["k"], &[]),
        Status::ERR_NOT_FOUND,
        "the session is the default"
    );
    let cases = [
        (DataRange::GLOBAL, Status::SUCCESS),
        (DataRange::LOCAL, Status::SUCCESS),
        (DataRange::NAMESPACE, Status::ERR_NOT_FOUND),
        (DataRange::PROC_LOCAL, Status::ERR_NOT_FOUND),
        (DataRange::RM, Status::ERR_NOT_FOUND),
    ];
    for (range, status) in cases {
        assert_eq!(
            service.status(&elsewhere, &["k"], &[on(range)]),
            status,
            "{range}"
        );
    }
    let listed = vec![Proc::new("a", Rank::WILDCARD)];
    let among = [
        on(DataRange::CUSTOM),
        Info::new(keys::EVENT_CUSTOM_RANGE, listed),
    ];
    assert_eq!(service.status(&elsewhere, &["k"], &among), Status::SUCCESS);
}

#[test]
fn a_custom_range_is_for_those_it_lists() {
    let mut service = Service::new();
    let listed = vec![Proc::new("b", Rank::new(1)), Proc::new("c", Rank::WILDCARD)];
    let infos = [
        datum("k"),
        on(DataRange::CUSTOM),
        Info::new(keys::EVENT_CUSTOM_RANGE, listed),
    ];
    service.publish(&caller("a", 0), &infos);
    for (nspace, rank, seen) in [("b", 1, true), ("b", 0, false), ("c", 9, true)] {
        let found = service.status(&caller(nspace, rank), &["k"], &[]);
        assert_eq!(found.is_success(), seen, "{nspace}.{rank}");
    }
    let lacking = [datum("k"), on(DataRange::CUSTOM)];
    assert_eq!(
        service.refused(&caller("a", 0), &lacking),
        Status::ERR_BAD_PARAM
    );
}

#[test]
fn a_key_is_published_once_on_a_range() {
    let mut service = Service::new();
    let (first, second) = (caller("a", 0), caller("b", 0));
    service.publish(&first, &[datum("k")]);
    for who in [&first, &second] {
        assert_eq!(
            service.refused(who, &[datum("k")]),
            Status::ERR_DUPLICATE_KEY
        );
    }
    assert_eq!(
        service.refused(&first, &[datum("new"), datum("k")]),
        Status::ERR_DUPLICATE_KEY
    );
    assert_eq!(
        service.status(&first, &["new"], &[]),
        Status::ERR_NOT_FOUND,
        "all or nothing"
    );
    assert_eq!(
        service.refused(&first, &[datum("twice"), datum("twice")]),
        Status::ERR_DUPLICATE_KEY
    );
    service.publish(&first, &[datum("k"), on(DataRange::GLOBAL)]);
    service.publish(&first, &[datum("k"), on(DataRange::NAMESPACE)]);
    service.publish(&second, &[datum("k"), on(DataRange::NAMESPACE)]);
}

#[test]
fn other_users_read_data_with_permission() {
    let mut service = Service::new();
    let own = caller("a", 0);
    let ids = |key, ids| Info::new(key, DataArray::Uint32(ids));
    let permissions = vec![
        ids(keys::ACCESS_USERIDS, vec![101]),
        ids(keys::ACCESS_GRPIDS, vec![20]),
    ];
    let infos = [datum("k"), Info::new(keys::ACCESS_PERMISSIONS, permissions)];
    service.publish(&own, &infos);
    let user = |uid, gid| Caller {
        uid,
        gid,
        ..caller("b", 0)
    };
    assert_eq!(service.status(&user(101, 1), &["k"], &[]), Status::SUCCESS);
    assert_eq!(service.status(&user(1, 20), &["k"], &[]), Status::SUCCESS);
    assert_eq!(service.status(&own, &["k"], &[]), Status::SUCCESS);
    assert_eq!(
        service.status(&user(100, 10), &["k"], &[]),
        Status::ERR_NO_PERMISSIONS
    );
}

#[test]
fn data_for_the_first_reader_is_removed_by_the_first_lookup() {
    let mut service = Service::new();
    let own = caller("a", 0);
    service.publish(&own, &[datum("k"), kept(Persistence::FIRST_READ)]);
    let foreign = Caller {
        uid: 7,
        ..caller("b", 0)
    };
    assert_eq!(
        service.status(&foreign, &["k"], &[]),
        Status::ERR_NO_PERMISSIONS
    );
    assert_eq!(service.status(&own, &["k"], &[]), Status::SUCCESS);
    assert_eq!(service.status(&own, &["k"], &[]), Status::ERR_NOT_FOUND);
    service.publish(&own, &[datum("k"), kept(Persistence::FIRST_READ)]);
}

#[test]
fn data_stay_as_long_as_they_were_to() {
    let own = caller("a", 0);
    let with = |persistence| {
        let mut service = Service::new();
        service.publish(&own, &[datum("k"), kept(persistence)]);
        service
    };
    let left = |service: &mut Service| service.status(&own, &["k"], &[]).is_success();
    let cases = [
        (Persistence::PROC, [false, false, false]),
        (Persistence::APP, [true, false, false]),
        (Persistence::NSPACE, [true, false, false]),
        (Persistence::SESSION, [true, true, false]),
        (Persistence::INDEF, [true, true, true]),
    ];
    for (persistence, expected) in cases {
        let mut service = with(persistence);
        service.pubsub.proc_ended(&Proc::new("a", Rank::new(1)));
        service.pubsub.job_ended(&Nspace::new("b"));
        service.pubsub.session_ended(2);
        assert!(left(&mut service), "others have ended");
        service.pubsub.proc_ended(&own.proc);
        assert_eq!(left(&mut service), expected[0], "{persistence}");
        service.pubsub.job_ended(&own.proc.nspace);
        assert_eq!(left(&mut service), expected[1], "{persistence}");
        service.pubsub.session_ended(1);
        assert_eq!(left(&mut service), expected[2], "{persistence}");
    }
    let mut service = Service::new();
    service.publish(&own, &[datum("k")]);
    service.pubsub.job_ended(&own.proc.nspace);
    assert!(service.pubsub.is_empty(), "the application is the default");
    let invalid = [datum("k"), kept(Persistence::from_raw(9))];
    assert_eq!(service.refused(&own, &invalid), Status::ERR_BAD_PARAM);
}

#[test]
fn unreachable_data_is_removed_with_its_job() {
    let mut service = Service::new();
    for range in [DataRange::NAMESPACE, DataRange::PROC_LOCAL] {
        let infos = [datum("k"), on(range), kept(Persistence::INDEF)];
        service.publish(&caller("a", 0), &infos);
    }
    service.pubsub.job_ended(&Nspace::new("a"));
    assert!(service.pubsub.is_empty());
}

#[test]
fn a_process_takes_back_its_own_data_only() {
    let mut service = Service::new();
    let (own, other) = (caller("a", 0), caller("a", 1));
    service.publish(&own, &[datum("one"), datum("two")]);
    service.publish(&own, &[datum("one"), on(DataRange::GLOBAL)]);
    service.pubsub.unpublish(&other, &[], &[]).unwrap();
    assert_eq!(service.pubsub.len(), (3, 0));
    service
        .pubsub
        .unpublish(&own, &[Text::from("one")], &[])
        .unwrap();
    assert_eq!(service.pubsub.len(), (2, 0), "that of the session");
    service.publish(&own, &[datum("one")]);
    let global = [on(DataRange::GLOBAL)];
    service.pubsub.unpublish(&own, &[], &global).unwrap();
    assert_eq!(service.pubsub.len(), (2, 0));
    service.publish(&own, &[datum("three"), on(DataRange::NAMESPACE)]);
    service.pubsub.unpublish(&own, &[], &[]).unwrap();
    assert!(
        service.pubsub.is_empty(),
        "without keys and range: everything"
    );
    service
        .pubsub
        .unpublish(&own, &[Text::from("one")], &[])
        .unwrap();
}

#[test]
fn a_lookup_waits_until_all_or_enough_is_there() {
    let mut service = Service::new();
    let (own, other) = (caller("a", 0), caller("a", 1));
    let names = ["one", "two", "three"].map(Text::from);
    for (token, number) in [(0, 0), (2, 2)] {
        let wait = [Info::new(keys::WAIT, number)];
        let results = service
            .pubsub
            .lookup(token, &other, &names, &wait, service.now);
        assert_eq!(results.unwrap(), None);
    }
    assert_eq!(
        tokens(&service.publish(&own, &[datum("one"), datum("x")])),
        []
    );
    let enough = service.publish(&own, &[datum("two")]);
    assert_eq!(tokens(&enough), [(2, Status::ERR_PARTIAL_SUCCESS)]);
    assert_eq!(enough[0].data.len(), 2);
    let all = service.publish(&own, &[datum("three")]);
    assert_eq!(tokens(&all), [(0, Status::SUCCESS)]);
    assert_eq!(all[0].data.len(), 3);
    let wait = [Info::new(keys::WAIT, 2)];
    assert_eq!(
        service.status(&other, &["one", "two", "no"], &wait),
        Status::ERR_PARTIAL_SUCCESS,
        "enough is there already"
    );
}

#[test]
fn a_lookup_does_not_wait_for_unreadable_data() {
    let mut service = Service::new();
    service.publish(&caller("a", 0), &[datum("k")]);
    let foreign = Caller {
        uid: 7,
        ..caller("b", 0)
    };
    let wait = [Info::new(keys::WAIT, 0)];
    assert_eq!(
        service.status(&foreign, &["k"], &wait),
        Status::ERR_NO_PERMISSIONS
    );
}

#[test]
fn data_for_the_first_reader_goes_to_the_first_waiting_lookup() {
    let mut service = Service::new();
    let own = caller("a", 0);
    service.wait(1, &caller("a", 1), "k", &[]);
    service.wait(2, &caller("a", 2), "k", &[]);
    let infos = [datum("k"), kept(Persistence::FIRST_READ)];
    assert_eq!(
        tokens(&service.publish(&own, &infos)),
        [(1, Status::SUCCESS)]
    );
    assert_eq!(
        tokens(&service.publish(&own, &infos)),
        [(2, Status::SUCCESS)]
    );
    assert!(service.pubsub.is_empty());
}

#[test]
fn a_lookup_waits_as_long_as_it_says() {
    let mut service = Service::new();
    let who = caller("a", 0);
    service.wait(1, &who, "k", &[Info::new(keys::TIMEOUT, 3)]);
    service.wait(2, &who, "k", &[Info::new(keys::TIMEOUT, 0)]);
    let until = service.pubsub.poll_timeout().unwrap();
    assert_eq!(until - service.now, Duration::from_secs(3));
    let before = until - Duration::from_nanos(1);
    assert_eq!(service.pubsub.handle_timeout(before), []);
    let over = service.pubsub.handle_timeout(until);
    assert_eq!(tokens(&over), [(1, Status::ERR_TIMEOUT)]);
    assert_eq!(
        service.pubsub.poll_timeout(),
        None,
        "the other waits for ever"
    );
    assert_eq!(service.pubsub.len(), (0, 1));
}

#[test]
fn lookups_of_ended_processes_are_dropped() {
    let mut service = Service::new();
    service.wait(1, &caller("a", 0), "k", &[]);
    service.wait(2, &caller("a", 1), "k", &[]);
    service.wait(3, &caller("b", 0), "k", &[]);
    let gone = service.pubsub.proc_ended(&Proc::new("a", Rank::new(1)));
    assert_eq!(gone, [2]);
    assert_eq!(service.pubsub.job_ended(&Nspace::new("a")), [1]);
    let answered = service.publish(&caller("b", 1), &[datum("k")]);
    assert_eq!(tokens(&answered), [(3, Status::SUCCESS)]);
}

// Planted: published data do not count toward the limit of their job.
#[test]
fn published_data_of_a_job_is_bounded_and_released() {
    let limits = PubSubLimits {
        bytes_per_job: 1000,
        ..PubSubLimits::default()
    };
    let mut pubsub = PubSub::<u32>::new(limits);
    let own = caller("a", 0);
    let large = Info::new("large", vec![0_u8; 500]);
    for _ in 0..3 {
        pubsub.publish(&own, std::slice::from_ref(&large)).unwrap();
        let more = Info::new("more", vec![0_u8; 500]);
        let refused = pubsub.publish(&own, std::slice::from_ref(&more));
        assert_eq!(refused.unwrap_err().status(), Status::ERR_OUT_OF_RESOURCE);
        pubsub.publish(&caller("b", 0), &[more]).unwrap();
        pubsub.job_ended(&Nspace::new("b"));
        pubsub.unpublish(&own, &[], &[]).unwrap();
    }
    assert!(pubsub.is_empty() && pubsub.weights.is_empty());
    assert!(pubsub.by_key.is_empty() && pubsub.by_publisher.is_empty());
}

#[test]
fn the_number_of_ranges_of_a_key_is_limited() {
    let limits = PubSubLimits {
        ranges_per_key: 2,
        ..PubSubLimits::default()
    };
    let mut pubsub = PubSub::<u32>::new(limits);
    let mut publish = |rank| {
        let infos = [datum("k"), on(DataRange::PROC_LOCAL)];
        let published = pubsub.publish(&caller("a", rank), &infos);
        published.map(|_| ()).map_err(|error| error.status())
    };
    assert_eq!(publish(0), Ok(()));
    assert_eq!(publish(1), Ok(()));
    assert_eq!(publish(2), Err(Status::ERR_OUT_OF_RESOURCE));
    pubsub.unpublish(&caller("a", 0), &[], &[]).unwrap();
    let infos = [datum("k"), on(DataRange::PROC_LOCAL)];
    pubsub.publish(&caller("a", 2), &infos).unwrap();
}

#[test]
fn a_key_that_a_lookup_names_twice_is_found_twice() {
    let mut service = Service::new();
    service.publish(&caller("a", 0), &[datum("k")]);
    let found = service.lookup(&caller("a", 1), &["k", "no", "k"], &[]);
    assert_eq!(found.status, Status::ERR_PARTIAL_SUCCESS);
    assert_eq!(found.data.len(), 2);
}

#[test]
fn how_much_a_process_waits_for_is_bounded() {
    let limits = PubSubLimits {
        waiting_keys_per_proc: 2,
        keys_per_lookup: 3,
        ..PubSubLimits::default()
    };
    let mut pubsub = PubSub::new(limits);
    let now = Instant::now();
    let names = ["a", "b", "c", "d"].map(Text::from);
    let wait = [Info::new(keys::WAIT, 0)];
    let mut wait_for = |rank, number: usize| {
        let who = caller("a", rank);
        let results = pubsub.lookup(0, &who, &names[..number], &wait, now);
        results.map_err(|error| error.status())
    };
    assert_eq!(wait_for(0, 2), Ok(None));
    assert_eq!(wait_for(0, 1), Err(Status::ERR_OUT_OF_RESOURCE));
    assert_eq!(wait_for(1, 1), Ok(None));
    assert_eq!(wait_for(2, 4), Err(Status::ERR_BAD_PARAM));
    assert_eq!(wait_for(2, 0), Err(Status::ERR_BAD_PARAM));
}

#[test]
fn directives_of_other_types_are_refused_and_change_nothing() {
    let mut service = Service::new();
    let own = caller("a", 0);
    let wrong = [
        Info::new(keys::RANGE, "session"),
        Info::new(keys::RANGE, DataRange::INVALID),
        Info::new(keys::PERSISTENCE, 1_u32),
        Info::new(keys::ACCESS_PERMISSIONS, true),
        Info::new(keys::TIMEOUT, "soon"),
    ];
    for info in wrong {
        let infos = [datum("k"), info.clone()];
        assert_eq!(
            service.refused(&own, &infos),
            Status::ERR_BAD_PARAM,
            "{info:?}"
        );
    }
    assert_eq!(service.refused(&own, &[]), Status::ERR_BAD_PARAM);
    assert_eq!(
        service.refused(&own, &[on(DataRange::GLOBAL)]),
        Status::ERR_BAD_PARAM
    );
    let nameless = Info::new("", 1_u32);
    assert_eq!(service.refused(&own, &[nameless]), Status::ERR_BAD_PARAM);
    assert!(service.pubsub.is_empty());
}

#[test]
fn the_caller_has_the_user_that_the_engine_passes() {
    let proc = Proc::new("a", Rank::new(3));
    let infos = [
        Info::new(keys::USERID, 7_u32),
        Info::new(keys::GRPID, 8_u32),
    ];
    let who = Caller::of_upcall(&proc, &infos);
    assert_eq!((who.uid, who.gid, &who.proc), (7, 8, &proc));
    assert_eq!(Caller::of_upcall(&proc, &[]).uid, u32::MAX);
}
