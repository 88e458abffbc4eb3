// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients of a server that adds data of other processes to the reply to a get.

use std::thread;
use std::time::Duration;

use pmix::client::Client;
use pmix::prelude::*;
use pmix::types::DataRange;

use crate::served::{JOB, Result, serve};

const SIZE: u32 = 3;

/// Puts a number in every process, and fences all.
fn exchange(clients: &[Client], number: u32) -> Result<()> {
    for client in clients {
        client.put(Scope::GLOBAL, "card", number)?;
        client.commit()?;
    }
    thread::scope(|scope| {
        let fence = |client: &Client| client.fence(Vec::new(), Vec::new()).wait();
        let fences: Vec<_> = clients
            .iter()
            .map(|client| scope.spawn(move || fence(client)))
            .collect();
        for fence in fences {
            fence.join().map_err(|_| "a fence panicked")??;
        }
        Ok(())
    })
}

fn card(client: &Client, rank: u32, infos: &[Info<'_>]) -> Option<Value<'static>> {
    let of = Proc::new(JOB, Rank::new(rank));
    client.get(&of, "card", infos).wait().ok()
}

#[test]
fn what_came_with_an_answer_is_there_until_the_next_fence() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (server, settings) = serve(folder.path(), SIZE)?;
    let join = |settings: Settings| Client::init(settings);
    let clients: Vec<_> = settings
        .into_iter()
        .map(join)
        .collect::<std::result::Result<_, _>>()?;
    let ask_nobody = [Info::new(keys::OPTIONAL, true)];

    exchange(&clients, 7)?;
    assert_eq!(card(&clients[0], 2, &ask_nobody), None);
    assert_eq!(card(&clients[0], 1, &[]), Some(Value::Uint32(7)));
    assert_eq!(card(&clients[0], 2, &ask_nobody), Some(Value::Uint32(7)));

    // Client 1 requests data of rank 0 and gets those of rank 2 with the reply; the next fence drops them.
    assert_eq!(card(&clients[1], 0, &[]), Some(Value::Uint32(7)));
    exchange(&clients, 8)?;
    assert_eq!(card(&clients[1], 2, &ask_nobody), None);
    assert_eq!(card(&clients[1], 2, &[]), Some(Value::Uint32(8)));

    for client in &clients {
        client.finalize()?;
    }
    Ok(server.finalize()?)
}

#[test]
fn a_blocking_client_keeps_what_came_until_the_next_event() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (server, settings) = serve(folder.path(), SIZE)?;
    let join = |settings: Settings| Client::init(settings);
    let mut clients: Vec<_> = settings
        .into_iter()
        .map(join)
        .collect::<std::result::Result<_, _>>()?;
    for client in &mut clients {
        client.put(Scope::GLOBAL, "card", 7_u32)?;
        client.commit()?;
    }
    let reader = clients.remove(0);
    reader.register_events([], &[]).wait()?;
    let ask_nobody = [Info::new(keys::OPTIONAL, true)];
    let of = |rank| Proc::new(JOB, Rank::new(rank));
    assert_eq!(reader.get(&of(1), "card", &[]).wait()?, Value::Uint32(7));
    assert_eq!(
        reader.get(&of(2), "card", &ask_nobody).wait()?,
        Value::Uint32(7)
    );

    // The reply about rank 1 also includes the current data of rank 2, which puts again afterwards.
    let [of_1, of_2] = &mut clients[..] else {
        return Err("not two clients".into());
    };
    for (number, client) in [(8_u32, &mut *of_1), (8, &mut *of_2)] {
        client.put(Scope::GLOBAL, "next", number)?;
        client.commit()?;
    }
    assert_eq!(reader.get(&of(1), "next", &[]).wait()?, Value::Uint32(8));
    of_2.put(Scope::GLOBAL, "next", 9_u32)?;
    of_2.commit()?;
    of_2.notify(Status::from_raw(-3001), DataRange::NAMESPACE, &[])
        .wait()?;
    assert!(reader.next_event(Duration::from_secs(60))?.is_some());
    assert_eq!(reader.get(&of(2), "next", &[]).wait()?, Value::Uint32(9));

    clients.push(reader);
    for client in clients {
        client.finalize()?;
    }
    Ok(server.finalize()?)
}

#[test]
fn a_client_that_asks_for_nothing_more_keeps_nothing_more() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (server, settings) = serve(folder.path(), SIZE)?;
    let join = |mut settings: Settings| {
        settings.max_prefetch_bytes = 0;
        settings.shared_data = None;
        Client::init(settings)
    };
    let clients: Vec<_> = settings
        .into_iter()
        .map(join)
        .collect::<std::result::Result<_, _>>()?;
    let ask_nobody = [Info::new(keys::OPTIONAL, true)];
    for number in [7, 8] {
        exchange(&clients, number)?;
        let refresh = [Info::new(keys::GET_REFRESH_CACHE, true)];
        assert_eq!(card(&clients[0], 1, &refresh), Some(Value::Uint32(number)));
        assert_eq!(card(&clients[0], 2, &ask_nobody), None);
    }
    for client in &clients {
        client.finalize()?;
    }
    Ok(server.finalize()?)
}
