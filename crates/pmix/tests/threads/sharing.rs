// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads of a process that share a client: messages of the server reach the right thread, and no thread
//! blocks another one.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use pmix::client::{Client, ClientEvent};
use pmix::prelude::*;
use pmix::types::Query;

use crate::alone;
use crate::served::{Result, serve};

const SIZE: u32 = 2;

/// Returns the number of threads that a client has started in this process.
fn num_threads() -> Result<usize> {
    let mut count = 0;
    for task in std::fs::read_dir("/proc/self/task")? {
        let name = std::fs::read_to_string(task?.path().join("comm")).unwrap_or_default();
        count += usize::from(matches!(name.trim(), "pmix-client" | "pmix-callbacks"));
    }
    Ok(count)
}

/// Requests a value from the server, regardless of the cache.
fn ask(client: &Client, key: &'static str) -> Result<Value<'static>> {
    let infos = [Info::new(keys::GET_REFRESH_CACHE, true)];
    Ok(client.get(&client.job(), key, &infos).wait()?)
}

fn fence(client: &Client) -> std::result::Result<(), pmix::client::Error> {
    client.fence(Vec::new(), Vec::new()).wait()
}

#[test]
fn gets_do_not_wait_for_a_thread_in_a_fence() -> Result<()> {
    let _alone = alone();
    let folder = tempfile::tempdir()?;
    let (server, settings) = serve(folder.path(), SIZE)?;
    let join = |settings: Settings| Client::init(settings);
    let clients: Vec<_> = settings
        .into_iter()
        .map(join)
        .collect::<std::result::Result<_, _>>()?;
    let [first, second] = &clients[..] else {
        return Err("not two clients".into());
    };
    thread::scope(|scope| -> Result<()> {
        for _ in 0..20 {
            let waits = scope.spawn(|| fence(first));
            // The requests start before, while and after the other thread reads, and the threads take turns in reading.
            let others: Vec<_> = (0..8)
                .map(|number| {
                    scope.spawn(move || -> Result<()> {
                        for _ in 0..25 {
                            let (key, expected) = match number % 2 {
                                0 => (keys::JOB_SIZE, Value::Uint32(SIZE)),
                                _ => (keys::NUM_NODES, Value::Uint32(1)),
                            };
                            assert_eq!(ask(first, key)?, expected);
                        }
                        Ok(())
                    })
                })
                .collect();
            for other in others {
                other.join().map_err(|_| "a get panicked")??;
            }
            assert!(!waits.is_finished());
            fence(second)?;
            waits.join().map_err(|_| "the fence panicked")??;
        }
        Ok(())
    })?;
    assert_eq!(num_threads()?, 0, "none was needed");

    // A callback needs a reading thread, which takes over while another thread waits.
    let query = Query {
        keys: vec![keys::QUERY_NAMESPACES.into()],
        qualifiers: Vec::new(),
    };
    let (sender, answers) = mpsc::channel();
    thread::scope(|scope| -> Result<()> {
        let waits = scope.spawn(|| fence(first));
        for _ in 0..10 {
            let sender = sender.clone();
            first.query([query.clone()]).start(move |answer| {
                let _ = sender.send(answer.is_ok());
            })?;
            assert_eq!(answers.recv_timeout(Duration::from_secs(60)), Ok(true));
            assert_eq!(ask(first, keys::JOB_SIZE)?, Value::Uint32(SIZE));
        }
        fence(second)?;
        waits.join().map_err(|_| "the fence panicked")??;
        Ok(())
    })?;
    let job = first.job().nspace;
    let ranks = |node| -> Result<Vec<u32>> {
        let procs = first.resolve_peers(&job, node)?;
        Ok(procs.iter().map(|proc| proc.rank.as_raw()).collect())
    };
    let all: Vec<_> = (0..SIZE).collect();
    assert_eq!((ranks(None)?, ranks(Some("n00"))?), (all.clone(), all));
    assert!(ranks(Some("elsewhere")).is_err());
    assert_eq!(first.resolve_nodes(&job)?, ["n00"]);
    assert!(first.resolve_nodes(&Nspace::new("another")).is_err());
    assert_eq!(num_threads()?, 2);
    for client in &clients {
        client.finalize()?;
        assert!(ask(client, keys::JOB_SIZE).is_err());
    }
    assert_eq!(num_threads()?, 0);
    Ok(server.finalize()?)
}

#[test]
fn all_waiting_threads_get_the_lost_connection() -> Result<()> {
    let _alone = alone();
    let folder = tempfile::tempdir()?;
    let (server, settings) = serve(folder.path(), SIZE)?;
    let (sender, lost) = mpsc::channel();
    let join = |settings: Settings| {
        let (client, sender) = (Client::init(settings)?, sender.clone());
        client.set_listener(move |event| {
            if event == ClientEvent::Lost {
                let _ = sender.send(());
            }
        });
        Ok::<_, pmix::client::Error>(client)
    };
    let clients: Vec<_> = settings
        .into_iter()
        .map(join)
        .collect::<std::result::Result<_, _>>()?;
    let [first, second] = &clients[..] else {
        return Err("not two clients".into());
    };
    second.listen()?;
    thread::scope(|scope| -> Result<()> {
        let waiting: Vec<_> = (0..4).map(|_| scope.spawn(|| fence(first))).collect();
        ask(first, keys::JOB_SIZE)?;
        server.finalize()?;
        for waits in waiting {
            let ended = waits.join().map_err(|_| "a fence panicked")?;
            assert!(ended.is_err());
        }
        Ok(())
    })?;
    // One of the waiting threads and the client's own thread have noticed the loss.
    for _ in 0..2 {
        lost.recv_timeout(Duration::from_secs(60))?;
    }
    for client in &clients {
        let error = fence(client).err().ok_or("the server is lost")?;
        assert_eq!(error.status(), Status::ERR_UNREACH);
        assert!(client.finalize().is_err());
    }
    assert_eq!(num_threads()?, 0);
    assert!(lost.try_recv().is_err(), "each client is notified once");
    Ok(())
}

#[test]
fn a_client_whose_handles_are_dropped_leaves_its_server_and_its_threads_end() -> Result<()> {
    let _alone = alone();
    let folder = tempfile::tempdir()?;
    let (server, settings) = serve(folder.path(), SIZE)?;
    let (sender, heard) = mpsc::channel::<()>();
    let join = |settings: Settings| {
        let (client, sender) = (Client::init(settings)?, sender.clone());
        client.set_listener(move |_| {
            let _ = sender.send(());
        });
        Ok::<_, pmix::client::Error>(client)
    };
    let mut clients: Vec<_> = settings
        .into_iter()
        .map(join)
        .collect::<std::result::Result<_, _>>()?;
    drop(sender);
    let (Some(second), Some(first)) = (clients.pop(), clients.pop()) else {
        return Err("not two clients".into());
    };
    let (ended, end) = mpsc::channel();
    second.fence(Vec::new(), Vec::new()).start(move |outcome| {
        let _ = ended.send(outcome.is_err());
    })?;
    let other = second.clone();
    drop(second);
    assert_eq!(ask(&other, keys::JOB_SIZE)?, Value::Uint32(SIZE));
    drop(other);
    // The callback is called, and the captures of callback and listener are dropped.
    assert_eq!(end.recv_timeout(Duration::from_secs(60)), Ok(true));
    assert!(end.recv_timeout(Duration::from_secs(60)).is_err());
    // The server has noticed the disconnect.
    let lost = fence(&first).err().ok_or("the other is lost")?;
    assert_eq!(lost.status(), Status::ERR_LOST_CONNECTION);
    drop(first);
    while heard.recv_timeout(Duration::from_secs(60)).is_ok() {}
    assert_eq!(
        heard.try_recv(),
        Err(mpsc::TryRecvError::Disconnected),
        "a listener is held"
    );
    while num_threads()? > 0 {
        thread::yield_now();
    }
    Ok(server.finalize()?)
}
