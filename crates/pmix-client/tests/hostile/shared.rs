// SPDX-License-Identifier: MIT OR Apache-2.0
//! The client for many threads: every waiting call completes, whatever the server and the callbacks do.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::{Duration, Instant};

use pmix_client::driver::Driver;
use pmix_client::{Call, Client, Settings};
use pmix_proto::{Event, Tag, reply};
use pmix_types::{Info, Proc, Rank, Scope, Status, keys};

use super::{LIMIT, Peer, server};

fn event() -> Event<'static> {
    Event {
        status: Status::ERR_PROC_ABORTED,
        source: Proc::new("job", Rank::new(1)),
        infos: Vec::new(),
        range: None,
    }
}

/// Sends `number` events.
fn raise(peer: &mut Peer, number: usize) {
    let event = event().encode(&peer.form, None).unwrap();
    for _ in 0..number {
        peer.send(Tag::EVENT, &event);
    }
}

/// Replies only to the last request, that of finalize.
fn answer_the_last(mut peer: Peer, number: usize) {
    for _ in 0..number {
        peer.next().unwrap();
    }
    let farewell = peer.next().unwrap();
    peer.succeed(farewell.header.tag);
    while peer.next().is_some() {}
}

/// Fails if the function does not return in time, since an endless wait would block the test.
fn in_time<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, done) = mpsc::channel();
    std::thread::spawn(move || sender.send(what()));
    done.recv_timeout(LIMIT).expect("it ends")
}

#[test]
fn finalize_completes_the_callbacks_that_got_no_reply() {
    const CALLS: usize = 20;
    for is_driven in [false, true] {
        let (settings, server) = server(|peer| answer_the_last(peer, CALLS));
        let told = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&told);
        in_time(move || {
            let client = begin(settings, is_driven);
            for _ in 0..CALLS {
                let count = Arc::clone(&count);
                let then = move |outcome: Result<(), _>| {
                    assert!(outcome.is_err());
                    count.fetch_add(1, Ordering::Relaxed);
                };
                client.fence([], []).start(then).unwrap();
            }
            client.finalize().unwrap();
        });
        assert_eq!(told.load(Ordering::Relaxed), CALLS, "driven: {is_driven}");
        server.join().unwrap();
    }
}

#[test]
fn a_listener_can_finalize_and_still_receives_the_queued_events() {
    for is_driven in [false, true] {
        let (settings, server) = server(|mut peer| {
            let asked = peer.next().unwrap();
            peer.succeed(asked.header.tag);
            raise(&mut peer, 50);
            answer_the_last(peer, 0);
        });
        let heard = in_time(move || {
            let heard = Arc::new(AtomicUsize::new(0));
            let own = Arc::new(OnceLock::<Client>::new());
            let (count, finalized) = (Arc::clone(&heard), Arc::clone(&own));
            let listener = move |_| {
                if count.fetch_add(1, Ordering::Relaxed) == 0 {
                    finalized.wait().finalize().unwrap();
                }
            };
            let client = begin(settings, is_driven);
            client.set_listener(listener);
            let _ = own.set(client.clone());
            client.fence([], []).wait().unwrap();
            client.listen().unwrap();
            // All events precede the reply to finalize.
            let end = Instant::now() + LIMIT;
            while heard.load(Ordering::Relaxed) < 50 && Instant::now() < end {
                drive(&client);
                std::thread::sleep(Duration::from_millis(1));
            }
            heard.load(Ordering::Relaxed)
        });
        assert_eq!(heard, 50, "driven: {is_driven}");
        server.join().unwrap();
    }
}

#[test]
fn finalize_in_another_thread_completes_a_waiting_group_join() {
    for is_driven in [false, true] {
        let (settings, server) = server(|mut peer| {
            // The server acknowledges everything, and no process answers the invitation.
            while let Some(asked) = peer.next() {
                peer.succeed(asked.header.tag);
            }
        });
        in_time(move || {
            let client = begin(settings, is_driven);
            let waiting = client.clone();
            let waits = std::thread::spawn(move || {
                let leader = Proc::new("job", Rank::new(1));
                waiting.group_join("g", &leader, &[]).wait()
            });
            std::thread::sleep(Duration::from_millis(200));
            client.finalize().unwrap();
            assert!(waits.join().unwrap().is_err());
        });
        server.join().unwrap();
    }
}

#[test]
fn a_concurrent_commit_does_not_report_refused_puts_as_stored() {
    for stored_at_last in [true, false] {
        let (sent, is_sent) = mpsc::channel();
        let (refuse, refused) = mpsc::channel::<()>();
        let (settings, server) = server(move |mut peer| {
            let refusal = reply::status(&peer.form, Status::ERR_OUT_OF_RESOURCE).unwrap();
            let first = peer.next().unwrap();
            sent.send(()).unwrap();
            refused.recv().unwrap();
            peer.send(first.header.tag, &refusal);
            let second = peer.next().unwrap();
            assert_eq!(second.payload, first.payload);
            match stored_at_last {
                true => peer.succeed(second.header.tag),
                false => peer.send(second.header.tag, &refusal),
            }
            while peer.next().is_some() {}
        });
        in_time(move || {
            let client = Client::init(settings).unwrap();
            client.put(Scope::GLOBAL, "of both", 1_u32).unwrap();
            let commit = || {
                let (own, (done, is_done)) = (client.clone(), mpsc::channel());
                std::thread::spawn(move || {
                    let committed = own.commit();
                    done.send(committed.map_err(|error| error.status()))
                });
                is_done
            };
            let first = commit();
            is_sent.recv().unwrap();
            let second = commit();
            // The second commit waits for the reply to the first.
            assert!(second.recv_timeout(Duration::from_millis(100)).is_err());
            refuse.send(()).unwrap();
            let refusal = Err(Status::ERR_OUT_OF_RESOURCE);
            assert_eq!(first.recv().unwrap(), refusal);
            let told = if stored_at_last { Ok(()) } else { refusal };
            assert_eq!(second.recv().unwrap(), told);
        });
        server.join().unwrap();
    }
}

#[test]
fn two_threads_that_drove_at_once_can_both_wait_afterwards() {
    let (settings, server) = server(|mut peer| {
        while let Some(asked) = peer.next() {
            peer.succeed(asked.header.tag);
        }
    });
    in_time(move || {
        let client = begin(settings, true);
        // Each thread is in a callback until it is released; the first is released first.
        let drive = || {
            let (entered, is_in) = mpsc::channel();
            let (leave, leaves) = mpsc::channel::<()>();
            let (end, ends) = mpsc::channel::<()>();
            let own = client.clone();
            let then = move |_: Result<(), _>| {
                entered.send(()).unwrap();
                leaves.recv().unwrap();
            };
            client.fence([], []).start(then).unwrap();
            let thread = std::thread::spawn(move || {
                let mut is_out = false;
                while !is_out {
                    drive(&own);
                    is_out = is_in.try_recv().is_ok();
                }
                ends.recv().unwrap();
                let limit = Info::new(keys::TIMEOUT, 1_u32);
                let leader = Proc::new("job", Rank::new(1));
                own.group_join("g", &leader, &[limit]).wait()
            });
            (thread, leave, end)
        };
        let (first, leave_first, end_first) = drive();
        std::thread::sleep(Duration::from_millis(200));
        let (second, leave_second, end_second) = drive();
        std::thread::sleep(Duration::from_millis(200));
        leave_first.send(()).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        leave_second.send(()).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        for (thread, end) in [(first, end_first), (second, end_second)] {
            end.send(()).unwrap();
            let error = thread.join().unwrap().unwrap_err();
            assert_eq!(error.status(), Status::ERR_TIMEOUT, "{error}");
        }
        client.finalize().unwrap();
    });
    server.join().unwrap();
}

/// Connects with threads, or for a loop of the program.
fn begin(settings: Settings, is_driven: bool) -> Client {
    match is_driven {
        true => Driver::init(settings).unwrap().client().clone(),
        false => Client::init(settings).unwrap(),
    }
}

/// Does the work of the program's loop, if the client has one.
fn drive(client: &Client) {
    Driver::of(client).map(|driver| driver.drive(Instant::now()));
}

/// Returns an event that is long on the wire.
fn long_event() -> Event<'static> {
    Event {
        infos: vec![Info::new("text", "x".repeat(1 << 20))],
        ..event()
    }
}

#[test]
fn a_server_that_waits_for_its_answers_to_be_read_gets_a_long_request() {
    const LONG: usize = 16;
    for is_driven in [false, true] {
        let (settings, server) = server(|mut peer| {
            let first = peer.next().unwrap();
            // The server reads nothing until the client has received all events.
            let event = long_event().encode(&peer.form, None).unwrap();
            for _ in 0..LONG {
                peer.send(Tag::EVENT, &event);
            }
            let long = peer.next().unwrap();
            assert!(long.payload.len() > LONG << 20);
            peer.succeed(long.header.tag);
            peer.succeed(first.header.tag);
            answer_the_last(peer, 0);
        });
        let heard = in_time(move || {
            let heard = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&heard);
            let listener = move |_| {
                count.fetch_add(1, Ordering::Relaxed);
            };
            let client = begin(settings, is_driven);
            client.set_listener(listener);
            let (sender, fenced) = mpsc::channel();
            let waits = match is_driven {
                // Only the request itself can read.
                true => {
                    client
                        .fence([], [])
                        .start(move |ended| sender.send(ended).unwrap())
                        .unwrap();
                    None
                }
                false => {
                    let waiting = client.clone();
                    let waits = move || sender.send(waiting.fence([], []).wait()).unwrap();
                    Some(std::thread::spawn(waits))
                }
            };
            std::thread::sleep(Duration::from_millis(200));
            let data = Info::new("data", "y".repeat(LONG << 20));
            client.publish(vec![data]).wait().unwrap();
            let end = Instant::now() + LIMIT;
            while heard.load(Ordering::Relaxed) < LONG && Instant::now() < end {
                drive(&client);
                std::thread::sleep(Duration::from_millis(1));
            }
            let ended = loop {
                drive(&client);
                if let Ok(ended) = fenced.try_recv() {
                    break ended;
                }
            };
            ended.unwrap();
            waits.map(std::thread::JoinHandle::join);
            client.finalize().unwrap();
            heard.load(Ordering::Relaxed)
        });
        assert_eq!(heard, LONG, "driven: {is_driven}");
        server.join().unwrap();
    }
}

#[test]
fn events_dropped_for_a_slow_listener_are_counted() {
    const EVENTS: usize = 20_000;
    let (settings, server) = server(|mut peer| {
        let first = peer.next().unwrap();
        raise(&mut peer, EVENTS);
        peer.succeed(first.header.tag);
        answer_the_last(peer, 0);
    });
    let (heard, lost) = in_time(move || {
        let heard = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&heard);
        let (release, released) = mpsc::channel::<()>();
        let client = Client::init(settings).unwrap();
        client.set_listener(move |_| {
            if count.fetch_add(1, Ordering::Relaxed) == 0 {
                released.recv().unwrap();
            }
        });
        client.fence([], []).wait().unwrap();
        let lost = client.num_lost_events();
        release.send(()).unwrap();
        client.finalize().unwrap();
        (heard.load(Ordering::Relaxed), lost)
    });
    assert_eq!(heard + usize::try_from(lost).unwrap(), EVENTS);
    assert!((4096..4100).contains(&heard), "{heard} heard");
    server.join().unwrap();
}

/// An object that calls the client when it is dropped, as the objects of a program in a callback may.
struct Caller(Client);

impl Drop for Caller {
    fn drop(&mut self) {
        assert_eq!(self.0.num_lost_events(), 0);
    }
}

#[test]
fn a_callback_that_is_never_called_is_dropped_without_a_lock() {
    for is_driven in [false, true] {
        let (settings, server) = server(|peer| answer_the_last(peer, 0));
        in_time(move || {
            let client = begin(settings, is_driven);
            let start = |call: Call<'_>| {
                let caller = Caller(client.clone());
                call.start(move |_| drop(caller))
            };
            let long = Info::new("x".repeat(1 << 10), true);
            assert!(start(client.publish([long])).is_err(), "too long a key");
            client.finalize().unwrap();
            assert!(start(client.fence([], [])).is_err());
        });
        server.join().unwrap();
    }
}
