// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data of processes that a reply has without a request of the client.

use gds_hash::{Codec, ModexStore};
use pmix_engine::Config;
use pmix_proto::{Request, request};
use pmix_types::{DataRange, Info, IntoOwned, Proc, Rank, Scope, Status, Value, keys};

use crate::exchange::{commit, get, get_with, told};
use crate::world::{Who, World, hello};

/// Commits a text of `len` bytes of a process.
fn commit_text(world: &mut World, who: Who, rank: u32, scope: Scope, len: usize) {
    let (mut puts, rank) = (ModexStore::default(), Rank::new(rank));
    let text = "x".repeat(len);
    puts.put(rank, scope, Info::new("card", text.as_str()))
        .unwrap();
    let layout = world.clients[who].session.form().layout;
    let blocks = puts.commit_message(&Codec::new(layout), rank).unwrap();
    let commit = Request::Commit(request::Commit { blocks: &blocks });
    assert_eq!(world.status_of(who, &commit), Some(Status::SUCCESS));
}

/// Creates nodes whose processes have all put `len` bytes; the first node has those of other nodes.
fn exchanged(per_node: &[u32], len: usize, config: &Config) -> (World, Vec<Who>) {
    let mut world = World::with(per_node.len(), config);
    world.job("job", per_node);
    let all = world.join_all("job", per_node);
    for (who, rank) in all.iter().zip(0..) {
        commit_text(&mut world, *who, rank, Scope::GLOBAL, len);
    }
    let collect = vec![Info::new(keys::COLLECT_DATA, true)];
    let fence = crate::collective::fence(collect);
    let tags: Vec<_> = all.iter().map(|who| world.ask(*who, &fence)).collect();
    world.run();
    for (who, tag) in all.iter().zip(tags) {
        assert_eq!(world.clients[*who].status(tag), Some(Status::SUCCESS));
    }
    (world, all)
}

fn card(rank: u32) -> Request<'static> {
    get("job", rank, "card")
}

#[test]
fn one_reply_has_all_local_processes_only() {
    let (mut world, all) = exchanged(&[5, 3], 10, &Config::default());
    assert_eq!(told(&mut world, all[1], &card(3)), [3, 4, 0, 2]);
    // The reply for a process of another node has data of other nodes.
    assert_eq!(told(&mut world, all[1], &card(6)), [6, 7, 5]);
    // A client that first reads a process of another node gets all.
    assert_eq!(told(&mut world, all[6], &card(2)), [2, 5, 7, 3, 4, 0, 1]);
}

#[test]
fn portions_grow_without_duplicates() {
    let (mut world, all) = exchanged(&[300], 1000, &Config::default());
    let mut seen = vec![false; 300];
    let mut lens = Vec::new();
    for rank in 1..300 {
        if seen[rank] {
            continue;
        }
        let ranks = told(&mut world, all[0], &card(u32::try_from(rank).unwrap()));
        assert_eq!(usize::try_from(ranks[0]), Ok(rank));
        for rank in &ranks {
            let place = &mut seen[usize::try_from(*rank).unwrap()];
            assert!(!std::mem::replace(place, true), "rank {rank} is sent twice");
        }
        lens.push(ranks.len() - 1);
    }
    // 16 KiB, 64 KiB, and the rest.
    assert_eq!(lens, [16, 64, 216]);
    assert!(seen[1..].iter().all(|seen| *seen));
    // A repeated request returns that process only.
    assert_eq!(told(&mut world, all[0], &card(7)), [7]);
}

#[test]
fn limits_apply_per_reply_and_client_and_disable_prefetch() {
    let mut config = Config::default();
    config.unasked.bytes_per_answer = 3000;
    config.unasked.bytes_per_client = 4500;
    let (mut world, all) = exchanged(&[10], 1000, &config);
    assert_eq!(told(&mut world, all[0], &card(1)), [1, 2, 3]);
    assert_eq!(told(&mut world, all[0], &card(4)), [4, 5, 6]);
    assert_eq!(told(&mut world, all[0], &card(7)), [7]);
    config.unasked.bytes_per_client = 0;
    let (mut world, all) = exchanged(&[10], 1000, &config);
    assert_eq!(told(&mut world, all[0], &card(1)), [1]);
}

#[test]
fn prefetch_has_only_committed_data_of_the_scope() {
    let mut world = World::new(1);
    world.job("job", &[6]);
    let all = world.join_all("job", &[6]);
    commit(&mut world, all[1], 1, &[(Scope::GLOBAL, "card", 1)]);
    let of_nodes = [(Scope::REMOTE, "nic", 2), (Scope::LOCAL, "shm", 3)];
    commit(&mut world, all[2], 2, &of_nodes);
    commit(&mut world, all[3], 3, &[(Scope::REMOTE, "nic", 2)]);
    // Ranks 4 and 5 have not committed.
    let tag = world.ask(all[0], &card(1));
    world.run();
    let objects = world.clients[all[0]].objects(tag);
    let found: Vec<_> = objects
        .iter()
        .map(|(rank, kvals)| (rank.as_raw(), kvals.len(), kvals[0].value.clone()))
        .collect();
    assert_eq!(found, [(1, 1, Value::Uint32(1)), (2, 1, Value::Uint32(3))]);
    commit(&mut world, all[4], 4, &[(Scope::LOCAL, "card", 4)]);
    commit(&mut world, all[5], 5, &[(Scope::LOCAL, "card", 5)]);
    assert_eq!(told(&mut world, all[0], &card(4)), [4, 5]);
}

#[test]
fn other_requests_get_no_prefetch() {
    let (mut world, all) = exchanged(&[4], 10, &Config::default());
    world.job("other", &[2]);
    let other = world.join_all("other", &[2]);
    commit(&mut world, other[1], 1, &[(Scope::GLOBAL, "card", 1)]);
    commit(&mut world, other[0], 0, &[(Scope::GLOBAL, "card", 0)]);
    let qualified = |info| get_with("job", Rank::new(1), "card", vec![info]);
    let local = Info::new(keys::DATA_SCOPE, Value::Scope(Scope::LOCAL));
    let none = Info::new(request::PREFETCH, 0_u32);
    for get in [qualified(local), qualified(none)] {
        assert_eq!(told(&mut world, all[0], &get), [1]);
    }
    let foreign = told(&mut world, all[0], &get("other", 1, "card"));
    assert_eq!(foreign.iter().filter(|rank| **rank < 2).count(), 1);
    let reserved = get("job", 1, keys::LOCAL_RANK);
    assert_eq!(told(&mut world, all[0], &reserved), [1]);
    assert_eq!(told(&mut world, all[0], &card(1)), [1, 2, 3]);
}

#[test]
fn concurrent_gets_return_each_process_once() {
    let (mut world, all) = exchanged(&[6], 10, &Config::default());
    let tags = [1, 2, 3, 4].map(|rank| world.ask(all[0], &card(rank)));
    let client = &mut world.clients[all[0]];
    let requests: Vec<_> = std::iter::from_fn(|| client.session.poll_transmit()).collect();
    let peer = client.peer.unwrap();
    let engine = &mut world.nodes[0].engine;
    engine.handle_input(peer, &requests.concat(), world.now);
    world.run();
    let client = &world.clients[all[0]];
    let ranks = tags.map(|tag| client.objects(tag)[0].0.as_raw());
    assert_eq!(ranks, [1, 2, 3, 4]);
    let num_told: usize = tags.iter().map(|tag| client.objects(*tag).len()).sum();
    // The reply to the last open request has the remaining one.
    assert_eq!(num_told, 5);
}

#[test]
fn clients_that_may_not_cache_get_no_prefetch() {
    for (version, keeps) in [
        ("3.1.5", false),
        ("3.2.5", true),
        ("4.2.2rc2", true),
        ("5.0.11", true),
        ("6.0.0", false),
    ] {
        let mut world = World::new(1);
        world.job("job", &[4]);
        let others = world.join_all("job", &[3]);
        for (who, rank) in others.iter().zip(0..) {
            commit_text(&mut world, *who, rank, Scope::GLOBAL, 5);
        }
        let mut hello = hello("job", 3);
        hello.version = version.into();
        let who = world.connect(0, &hello);
        world.run();
        let expected: &[u32] = if keeps { &[1, 2, 0] } else { &[1] };
        assert_eq!(told(&mut world, who, &card(1)), expected, "{version}");
    }
}

/// Returns the value of a key in the last of the replies that a client got about a process.
fn kept(world: &World, who: Who, answers: &[pmix_proto::Tag], rank: u32) -> Option<Value<'static>> {
    let mut kept = None;
    for tag in answers {
        for (of, kvals) in world.clients[who].objects(*tag) {
            if of == Rank::new(rank) {
                let found = kvals.into_iter().find(|kval| kval.key.is("card"));
                kept = found.map(|kval| kval.value.into_owned()).or(kept);
            }
        }
    }
    kept
}

#[test]
fn replaced_data_stays_old_in_a_client_that_prefetched_it() {
    let mut world = World::new(1);
    world.job("job", &[4]);
    let all = world.join_all("job", &[4]);
    for rank in 1..4 {
        let who = all[rank as usize];
        commit(&mut world, who, rank, &[(Scope::GLOBAL, "card", rank)]);
    }
    let ask = |world: &mut World, who, request: &Request<'_>| {
        let tag = world.ask(who, request);
        world.run();
        tag
    };
    let first = ask(&mut world, all[0], &card(1));
    commit(&mut world, all[2], 2, &[(Scope::GLOBAL, "card", 20)]);
    // The client finds the old value in its cache and sends no request.
    assert_eq!(kept(&world, all[0], &[first], 2), Some(Value::Uint32(2)));
    // A program can request the new value.
    let refresh = vec![Info::new(keys::GET_REFRESH_CACHE, true)];
    let again = get_with("job", Rank::new(2), "card", refresh);
    let again = ask(&mut world, all[0], &again);
    assert_eq!(
        kept(&world, all[0], &[first, again], 2),
        Some(Value::Uint32(20))
    );
    // From now on no client gets data without a request, so no further client reads an old value.
    for (who, rank) in [(0, 3), (1, 2), (1, 3), (3, 1)] {
        assert_eq!(told(&mut world, all[who], &card(rank)), [rank]);
    }
}

#[test]
fn added_or_equal_data_does_not_end_prefetch() {
    let mut world = World::new(1);
    world.job("job", &[4]);
    let all = world.join_all("job", &[4]);
    for rank in 1..4 {
        let who = all[rank as usize];
        commit(&mut world, who, rank, &[(Scope::GLOBAL, "card", rank)]);
        let both = [(Scope::GLOBAL, "card", rank), (Scope::LOCAL, "shm", rank)];
        commit(&mut world, who, rank, &both);
    }
    assert_eq!(told(&mut world, all[0], &card(1)), [1, 2, 3]);
}

#[test]
fn prefetch_has_no_data_of_lost_processes() {
    let (mut world, all) = exchanged(&[4], 10, &Config::default());
    world.kill(all[2]);
    assert_eq!(told(&mut world, all[0], &card(1)), [1, 3]);
    // The next incarnation has committed nothing, and clients with the old data cannot be notified.
    world.join(0, "job", 2);
    assert_eq!(told(&mut world, all[1], &card(3)), [3]);
}

#[test]
fn a_loss_on_another_node_ends_prefetch() {
    let (mut world, all) = exchanged(&[3, 3], 10, &Config::default());
    let lost = Proc::new("job", Rank::new(5));
    let source = Proc::new("far", Rank::new(0));
    let infos = [Info::new(keys::EVENT_AFFECTED_PROC, lost)];
    let (status, range, now) = (Status::ERR_PROC_ABORTED, DataRange::NAMESPACE, world.now);
    let engine = &mut world.nodes[0].engine;
    engine.notify(status, &source, range, &infos, now).unwrap();
    world.run();
    assert_eq!(told(&mut world, all[0], &card(4)), [4]);
}
