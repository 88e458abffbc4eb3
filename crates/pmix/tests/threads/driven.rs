// SPDX-License-Identifier: MIT OR Apache-2.0
//! A client in a program with an event loop: it starts no thread, and the loop makes all calls.

use std::os::fd::AsFd;
use std::sync::mpsc;
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use pmix::client::ClientEvent;
use pmix::client::driver::Driver;
use pmix::prelude::*;
use pmix::types::{DataRange, Query};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::alone;
use crate::served::{JOB, Result, serve};

const SIZE: u32 = 2;
const OURS: Status = Status::from_raw(-3001);

/// Returns `true` if the descriptor of a driver becomes readable within a time.
fn is_ready(driver: &Driver, limit: Duration) -> Result<bool> {
    let mut fds = [PollFd::new(driver, PollFlags::IN)];
    let limit = Timespec::try_from(limit)?;
    Ok(poll(&mut fds, Some(&limit))? > 0)
}

/// Runs the loop of the program until a result arrives.
fn run<T>(driver: &Driver, results: &mpsc::Receiver<T>) -> Result<T> {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let next = driver.drive(Instant::now());
        if let Ok(result) = results.try_recv() {
            return Ok(result);
        }
        let left = end.saturating_duration_since(Instant::now());
        let next = next.map(|next| next.saturating_duration_since(Instant::now()));
        if !is_ready(driver, next.unwrap_or(left).min(left))? && Instant::now() >= end {
            return Err("no result has arrived".into());
        }
    }
}

/// Returns the names of all threads of this process that a client could have started.
fn threads() -> Result<Vec<String>> {
    let mut found = Vec::new();
    for task in std::fs::read_dir("/proc/self/task")? {
        let name = std::fs::read_to_string(task?.path().join("comm")).unwrap_or_default();
        if matches!(name.trim(), "pmix-client" | "pmix-callbacks") {
            found.push(name);
        }
    }
    Ok(found)
}

#[test]
fn a_loop_of_the_program_reads_and_calls_back() -> Result<()> {
    let _alone = alone();
    let folder = tempfile::tempdir()?;
    let (server, settings) = serve(folder.path(), SIZE)?;
    let (sender, events) = mpsc::channel::<(ThreadId, ClientEvent)>();
    let join = |settings: Settings| {
        let (driver, sender) = (Driver::init(settings)?, sender.clone());
        driver.client().set_listener(move |event| {
            let _ = sender.send((thread::current().id(), event));
        });
        Ok::<_, pmix::client::Error>(driver)
    };
    let drivers: Vec<_> = settings
        .into_iter()
        .map(join)
        .collect::<std::result::Result<_, _>>()?;
    let [first_driver, second_driver] = &drivers[..] else {
        return Err("not two clients".into());
    };
    let (first, second) = (first_driver.client(), second_driver.client());
    let own = thread::current().id();

    // A callback that itself sends a request to the server and waits for the reply.
    let (sender, answers) = mpsc::channel();
    let query = Query {
        keys: vec![keys::QUERY_NAMESPACES.into()],
        qualifiers: Vec::new(),
    };
    let asking = first.clone();
    first.query(vec![query]).start(move |answer| {
        let infos = [Info::new(keys::GET_REFRESH_CACHE, true)];
        let size = asking.get(&asking.job(), keys::JOB_SIZE, &infos).wait();
        let _ = sender.send((thread::current().id(), answer.is_ok(), size.ok()));
    })?;
    let size = Some(Value::Uint32(SIZE));
    assert_eq!(run(first_driver, &answers)?, (own, true, size));
    assert!(!is_ready(first_driver, Duration::ZERO)?);

    // A pending callback makes the descriptor readable as well.
    let (sender, later) = mpsc::channel();
    first.later(move || {
        let _ = sender.send(thread::current().id());
    })?;
    assert!(is_ready(first_driver, Duration::from_secs(60))?);
    assert_eq!(run(first_driver, &later)?, own);

    // Endless callbacks must not block the program: a drive makes 4,096 calls at most, and the descriptor stays
    // readable for the rest.
    let (sender, calls) = mpsc::channel();
    for _ in 0..10_000 {
        let sender = sender.clone();
        first.later(move || {
            let _ = sender.send(());
        })?;
    }
    for made in [4096, 4096, 1808] {
        assert!(is_ready(first_driver, Duration::ZERO)?);
        first_driver.drive(Instant::now());
        assert_eq!(calls.try_iter().count(), made);
    }

    // Events arrive while the program waits for another result, and while it does not.
    first.register_events(vec![OURS], Vec::new()).wait()?;
    second
        .notify(OURS, DataRange::NAMESPACE, Vec::new())
        .wait()?;
    let (by, event) = run(first_driver, &events)?;
    assert!(matches!(event, ClientEvent::Event(event) if event.status == OURS));
    assert_eq!(by, own);

    // An invitation without replies ends at its timeout, which the loop must know.
    let invited = [0, 1].map(|rank| Proc::new(JOB, Rank::new(rank)));
    let limit = [Info::new(keys::TIMEOUT, 1_i32)];
    let (sender, ended) = mpsc::channel();
    let invite = first.group_invite("group", &invited, &limit);
    invite.start(move |made| {
        let _ = sender.send(made.err().map(|error| error.status()));
    })?;
    assert_eq!(run(first_driver, &ended)?, Some(Status::ERR_TIMEOUT));
    let made = first.group_invite("again", &invited, &limit).wait();
    assert_eq!(
        made.err().map(|error| error.status()),
        Some(Status::ERR_TIMEOUT)
    );
    assert_eq!(threads()?, [""; 0]);

    // The loop is notified of a lost server once, and is not woken again.
    while events.try_recv().is_ok() {}
    server.finalize()?;
    let (by, event) = run(second_driver, &events)?;
    assert_eq!((by, event), (own, ClientEvent::Lost));
    second_driver.drive(Instant::now());
    assert!(!is_ready(second_driver, Duration::from_millis(10))?);
    assert!(second.fence(Vec::new(), Vec::new()).wait().is_err());
    for driver in &drivers {
        assert!(driver.client().finalize().is_err());
    }
    assert_eq!(threads()?, [""; 0]);
    assert!(first_driver.as_fd().try_clone_to_owned().is_ok());
    Ok(())
}
