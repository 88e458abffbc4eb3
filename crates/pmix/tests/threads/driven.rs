// SPDX-License-Identifier: MIT OR Apache-2.0
//! A client in a program with an event loop: it starts no thread, and the loop makes all calls.

use std::os::fd::AsFd;
use std::sync::mpsc;
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use pmix::client::{Ask, ClientEvent, SharedClient};
use pmix::prelude::*;
use pmix::types::{DataRange, Query};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::alone;
use crate::served::{JOB, Result, serve};

const SIZE: u32 = 2;
const OURS: Status = Status::from_raw(-3001);

/// Returns `true` if the descriptor of a client becomes readable within a time.
fn is_ready(client: &SharedClient, limit: Duration) -> Result<bool> {
    let mut fds = [PollFd::new(client, PollFlags::IN)];
    let limit = Timespec::try_from(limit)?;
    Ok(poll(&mut fds, Some(&limit))? > 0)
}

/// Runs the loop of the program until a result arrives.
fn run<T>(client: &SharedClient, come: &mpsc::Receiver<T>) -> Result<T> {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let next = client.drive(Instant::now());
        if let Ok(come) = come.try_recv() {
            return Ok(come);
        }
        let left = end.saturating_duration_since(Instant::now());
        let next = next.map(|next| next.saturating_duration_since(Instant::now()));
        if !is_ready(client, next.unwrap_or(left).min(left))? && Instant::now() >= end {
            return Err("nothing has come".into());
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
        let sender = sender.clone();
        SharedClient::init_driven(settings, move |event| {
            let _ = sender.send((thread::current().id(), event));
        })
    };
    let clients: Vec<_> = settings
        .into_iter()
        .map(join)
        .collect::<std::result::Result<_, _>>()?;
    let [first, second] = &clients[..] else {
        return Err("not two clients".into());
    };
    let own = thread::current().id();

    // A callback that itself sends a request to the server and waits for the reply.
    let (sender, answers) = mpsc::channel();
    let query = Query {
        keys: vec![keys::QUERY_NAMESPACES.into()],
        qualifiers: Vec::new(),
    };
    let asking = first.clone();
    first.start(Ask::query(vec![query]), move |answer| {
        let infos = [Info::new(keys::GET_REFRESH_CACHE, true)];
        let size = asking.get(&asking.job(), &keys::JOB_SIZE.into(), &infos);
        let _ = sender.send((thread::current().id(), answer.is_ok(), size.ok()));
    })?;
    let size = Some(Value::Uint32(SIZE));
    assert_eq!(run(first, &answers)?, (own, true, size));
    assert!(!is_ready(first, Duration::ZERO)?);

    // A pending callback makes the descriptor readable as well.
    let (sender, later) = mpsc::channel();
    first.later(move || {
        let _ = sender.send(thread::current().id());
    })?;
    assert!(is_ready(first, Duration::from_secs(60))?);
    assert_eq!(run(first, &later)?, own);

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
        assert!(is_ready(first, Duration::ZERO)?);
        first.drive(Instant::now());
        assert_eq!(calls.try_iter().count(), made);
    }

    // Events arrive while the program waits for another result, and while it does not.
    first.wait(Ask::register_events(vec![OURS], Vec::new()))?;
    second.wait(Ask::notify(OURS, DataRange::NAMESPACE, Vec::new()))?;
    let (by, event) = run(first, &events)?;
    assert!(matches!(event, ClientEvent::Event(event) if event.status == OURS));
    assert_eq!(by, own);

    // An invitation without replies ends at its timeout, which the loop must know.
    let invited = [0, 1].map(|rank| Proc::new(JOB, Rank::new(rank)));
    let limit = [Info::new(keys::TIMEOUT, 1_i32)];
    let (sender, ended) = mpsc::channel();
    first.start_group_invite(&"group".into(), &invited, &limit, move |made| {
        let _ = sender.send(made.err().map(|error| error.status()));
    })?;
    assert_eq!(run(first, &ended)?, Some(Status::ERR_TIMEOUT));
    let made = first.group_invite(&"again".into(), &invited, &limit);
    assert_eq!(
        made.err().map(|error| error.status()),
        Some(Status::ERR_TIMEOUT)
    );
    assert_eq!(threads()?, [""; 0]);

    // The loop is notified of a lost server once, and is not woken again.
    while events.try_recv().is_ok() {}
    server.finalize()?;
    let (by, event) = run(second, &events)?;
    assert_eq!((by, event), (own, ClientEvent::Lost));
    second.drive(Instant::now());
    assert!(!is_ready(second, Duration::from_millis(10))?);
    assert!(second.wait(Ask::fence(Vec::new(), Vec::new())).is_err());
    for client in &clients {
        assert!(client.finalize().is_err());
    }
    assert_eq!(threads()?, [""; 0]);
    assert!(first.as_fd().try_clone_to_owned().is_ok());
    Ok(())
}
