// SPDX-License-Identifier: MIT OR Apache-2.0
//! Singletons: each is a job of one process without a server.

use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use pmix_client::driver::{Answer, Core, Driver};
use pmix_client::{Client, Settings};
use pmix_proto::{Request, request};
use pmix_types::{DataRange, Info, Proc, Query, Rank, Scope, Status, Value, keys};

/// A limit beyond every call of these tests, so that a call that hangs fails its test.
const LIMIT: Duration = Duration::from_secs(60);

fn settings() -> Settings {
    let mut settings = Settings::singleton();
    settings.time_limit = Some(LIMIT);
    settings
}

fn number(value: &Value<'_>) -> u32 {
    value.to_number().unwrap()
}

#[test]
fn the_job_of_a_singleton_has_one_process() {
    let client = Client::init(settings()).unwrap();
    assert!(client.is_singleton());
    let own = client.proc().clone();
    let name = own.nspace.to_string();
    assert!(name.starts_with("singleton."), "{name}");
    assert!(
        name.ends_with(&format!(".{}", std::process::id())),
        "{name}"
    );
    assert_eq!(own.rank, Rank::new(0));
    for key in [
        keys::JOB_SIZE,
        keys::LOCAL_SIZE,
        keys::NODE_SIZE,
        keys::MAX_PROCS,
    ] {
        assert_eq!(number(&client.get_of_job(key).wait().unwrap()), 1, "{key}");
    }
    for key in [
        keys::LOCAL_RANK,
        keys::NODE_RANK,
        keys::APPNUM,
        keys::GLOBAL_RANK,
    ] {
        assert_eq!(
            number(&client.get(&own, key, &[]).wait().unwrap()),
            0,
            "{key}"
        );
    }
    assert_eq!(
        client.get_of_job(keys::LOCAL_PEERS).wait().unwrap(),
        Value::from("0")
    );
    assert_eq!(
        client.get_of_job(keys::JOBID).wait().unwrap(),
        Value::from(name)
    );
    let error = client.get_of_job(keys::UNIV_SIZE).wait().unwrap_err();
    assert_eq!(error.status(), Status::ERR_NOT_FOUND);
    client.finalize().unwrap();
}

#[test]
fn a_singleton_serves_itself_and_nothing_else() {
    let client = Client::init(settings()).unwrap();
    let (own, job) = (client.proc().clone(), client.job());
    let other = Proc::new(own.nspace.clone(), Rank::new(1));
    client.put(Scope::GLOBAL, "card", "ib0:17").unwrap();
    client.commit().unwrap();
    client.commit().unwrap();
    client
        .fence([], [Info::new(keys::COLLECT_DATA, true)])
        .wait()
        .unwrap();
    assert_eq!(
        client.get(&own, "card", &[]).wait().unwrap(),
        Value::from("ib0:17")
    );
    client
        .connect(std::slice::from_ref(&own), &[])
        .wait()
        .unwrap();
    client.disconnect(&[job], &[]).wait().unwrap();
    client
        .register_events([Status::from_raw(-3100)], &[])
        .wait()
        .unwrap();
    client
        .deregister_events(&[Status::from_raw(-3100)])
        .unwrap();
    let code = Status::from_raw(-3100);
    client
        .notify(code, DataRange::PROC_LOCAL, &[])
        .wait()
        .unwrap();
    client
        .notify(code, DataRange::NAMESPACE, &[])
        .wait()
        .unwrap();
    assert_eq!(client.next_event(Duration::from_millis(10)).unwrap(), None);

    let unreachable = [
        client.fence([own.clone(), other.clone()], []).wait(),
        client.connect(&[own.clone(), other], &[]).wait(),
        client.notify(code, DataRange::LOCAL, &[]).wait(),
        client.notify(code, DataRange::CUSTOM, &[]).wait(),
        client.publish(&[Info::new("published", 1_u32)]).wait(),
        client.lookup(["published"], &[]).wait().map(drop),
        client.unpublish(["published"], []).wait(),
        client.abort(1, "ended by itself", &[]).wait(),
        client.heartbeat(),
        client
            .group_construct("group", std::slice::from_ref(&own), &[])
            .wait()
            .map(drop),
        client.group_invite("group", &[own], &[]).wait().map(drop),
    ];
    for (place, outcome) in unreachable.into_iter().enumerate() {
        let error = outcome.unwrap_err();
        assert_eq!(error.status(), Status::ERR_UNREACH, "{place}: {error}");
        assert!(
            error.to_string().contains("not started by a PMIx launcher"),
            "{error}"
        );
    }
    client.finalize().unwrap();
}

#[test]
fn a_singleton_refuses_a_required_directive_that_it_does_not_obey() {
    let client = Client::init(settings()).unwrap();
    let collectives = ["fence", "connect", "disconnect"];
    for place in collectives {
        let status_of = |infos: Vec<Info<'static>>| {
            let call = match place {
                "fence" => client.fence([client.job()], infos),
                "connect" => client.connect([client.job()], infos),
                _ => client.disconnect([client.job()], infos),
            };
            call.wait().map_err(|error| error.status())
        };
        let unknown = Info::new("color", true);
        assert_eq!(status_of(vec![unknown.clone()]), Ok(()), "{place}");
        let refused = Err(Status::ERR_NOT_SUPPORTED);
        assert_eq!(status_of(vec![unknown.required()]), refused, "{place}");
        let limit = Info::new(keys::TIMEOUT, 1_u32).required();
        assert_eq!(status_of(vec![limit]), Ok(()), "{place}");
        let collect = Info::new(keys::COLLECT_DATA, true).required();
        // Only a fence collects data.
        let expected = if place == "fence" { Ok(()) } else { refused };
        assert_eq!(status_of(vec![collect]), expected, "{place}");
    }
    client.finalize().unwrap();
}

#[test]
fn a_client_that_has_ended_refuses_jobs() {
    for is_driven in [false, true] {
        let client = match is_driven {
            true => Driver::init(settings()).unwrap().client().clone(),
            false => Client::init(settings()).unwrap(),
        };
        client.finalize().unwrap();
        client.later(|| {}).unwrap_err();
        client.later_at(Instant::now(), || {}).unwrap_err();
    }
}

#[test]
fn a_job_that_queues_itself_again_does_not_keep_the_loop_of_the_program() {
    fn again(client: Client, count: Arc<AtomicUsize>) {
        count.fetch_add(1, Ordering::Relaxed);
        let next = client.clone();
        let _ = client.later(move || again(next, count));
    }
    let driver = Driver::init(settings()).unwrap();
    let client = driver.client();
    let count = Arc::new(AtomicUsize::new(0));
    again(client.clone(), Arc::clone(&count));
    for turns in 1..5 {
        assert_eq!(count.load(Ordering::Relaxed), turns);
        let mut ready = [rustix::event::PollFd::from_borrowed_fd(
            driver.as_fd(),
            rustix::event::PollFlags::IN,
        )];
        let now = rustix::event::Timespec::default();
        assert_eq!(rustix::event::poll(&mut ready, Some(&now)), Ok(1));
        driver.drive(Instant::now());
    }
    client.finalize().unwrap();
}

#[test]
fn callbacks_of_a_singleton_are_called() {
    let client = Client::init(settings()).unwrap();
    assert!(client.is_singleton() && client.server().is_none());
    let (sender, answers) = mpsc::channel();
    let then = sender.clone();
    client
        .fence([client.job()], [])
        .start(move |done| then.send(done.map_err(|e| e.status())).unwrap())
        .unwrap();
    assert_eq!(answers.recv_timeout(LIMIT), Ok(Ok(())));
    let query = vec![Query {
        keys: vec![keys::QUERY_NAMESPACES.into()],
        qualifiers: Vec::new(),
    }];
    let asked = client.query(query).start(|_| panic!("it has not begun"));
    assert_eq!(asked.unwrap_err().status(), Status::ERR_UNREACH);
    client.put(Scope::LOCAL, "key", 7_u32).unwrap();
    client.commit().unwrap();
    assert_eq!(
        number(&client.get(client.proc(), "key", &[]).wait().unwrap()),
        7
    );
    client.listen().unwrap();
    client.finalize().unwrap();
}

#[test]
fn a_singleton_is_driven_by_the_loop_of_its_program() {
    let driver = Driver::init(settings()).unwrap();
    let client = driver.client();
    let (sender, answers) = mpsc::channel();
    client
        .fence([client.job()], [])
        .start(move |done| sender.send(done.is_ok()).unwrap())
        .unwrap();
    let mut ready = [rustix::event::PollFd::from_borrowed_fd(
        driver.as_fd(),
        rustix::event::PollFlags::IN,
    )];
    let limit = rustix::event::Timespec {
        tv_sec: 60,
        tv_nsec: 0,
    };
    assert_eq!(rustix::event::poll(&mut ready, Some(&limit)), Ok(1));
    driver.drive(Instant::now());
    assert_eq!(answers.try_recv(), Ok(true));
    // No callback is due, so the program's loop can sleep.
    let now = rustix::event::Timespec::default();
    assert_eq!(rustix::event::poll(&mut ready, Some(&now)), Ok(0));
    client.finalize().unwrap();
}

#[test]
fn the_core_of_a_singleton_has_begun_and_sends_nothing() {
    let mut core = Core::singleton(settings());
    assert_eq!(core.poll_completed(), Some((Core::INIT, Ok(Answer::Done))));
    let fence = core
        .call(Request::Fence(request::Fence::default()), None)
        .unwrap();
    assert_eq!(core.poll_completed(), Some((fence, Ok(Answer::Done))));
    assert_eq!(core.poll_transmit(), None);
    assert_eq!(core.stats().num_operations, 0);
    assert!(core.lost().is_none());
}
