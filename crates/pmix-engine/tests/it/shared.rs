// SPDX-License-Identifier: MIT OR Apache-2.0
//! The contents and times of changes of shared data.

use std::collections::BTreeMap;

use gds_hash::{Codec, ModexStore};
use pmix_engine::SharedChange;
use pmix_proto::shared::{self, SharedKey, find_put, read_info};
use pmix_proto::{Request, request};
use pmix_types::{Info, IntoOwned as _, Proc, Rank, Scope, Value, keys};

use crate::exchange::commit;
use crate::world::{Who, World, hello};

/// The shared memory of a node.
#[derive(Default)]
struct Table(BTreeMap<Vec<u8>, Vec<u8>>);

impl Table {
    /// Applies the changes of a node's engine and returns their number.
    fn change(&mut self, world: &mut World, node: usize) -> usize {
        let mut count = 0;
        while let Some(change) = world.nodes[node].engine.poll_shared() {
            count += 1;
            match change {
                SharedChange::Put { nspace, key, value } => {
                    assert_eq!(nspace, "job");
                    self.0.insert(key, value);
                }
                SharedChange::Remove { key, .. } => assert!(self.0.remove(&key).is_some()),
                other => panic!("{other:?}"),
            }
        }
        count
    }

    fn put(&self, rank: u32, key: &str) -> Option<Value<'static>> {
        let bytes = self.0.get(&SharedKey::Puts(Rank::new(rank)).to_bytes())?;
        let found = find_put(&shared::form(), bytes, key).unwrap();
        found.map(Value::into_owned)
    }

    fn has(&self, rank: u32) -> bool {
        (self.0).contains_key(&SharedKey::Puts(Rank::new(rank)).to_bytes())
    }

    fn info(&self, rank: Rank, key: &str) -> Option<Value<'static>> {
        let bytes = self
            .0
            .get(&SharedKey::Info(rank, key.as_bytes()).to_bytes())?;
        Some(read_info(&shared::form(), bytes).unwrap().0.into_owned())
    }
}

/// Creates two nodes with two processes each; those on the first read shared data.
fn world() -> (World, Vec<Who>) {
    let mut world = World::new(2);
    world.job("job", &[2, 2]);
    let all = (0..4_u32).map(|rank| {
        let mut hello = hello("job", rank);
        if rank < 2 {
            hello.gds = "pmixrs,hash".into();
        }
        let who = world.connect(usize::from(rank >= 2), &hello);
        world.run();
        who
    });
    let all = all.collect();
    (world, all)
}

fn fence(world: &mut World, all: &[Who], collects: bool) {
    let fence = Request::Fence(request::Fence {
        procs: vec![Proc::new("job", Rank::WILDCARD)],
        infos: vec![Info::new(keys::COLLECT_DATA, collects)],
    });
    for who in all {
        world.ask(*who, &fence);
    }
    world.run();
}

#[test]
fn no_data_is_shared_without_readers() {
    let (mut world, all) = world();
    let (mut first, mut second) = (Table::default(), Table::default());
    assert!(first.change(&mut world, 0) > 10);
    for (rank, who) in (0..).zip(&all) {
        commit(&mut world, *who, rank, &[(Scope::GLOBAL, "card", rank)]);
    }
    fence(&mut world, &all, true);
    assert_eq!(first.change(&mut world, 0), 4);
    assert_eq!(second.change(&mut world, 1), 0);
}

#[test]
fn a_collecting_fence_shares_data_by_scope() {
    let (mut world, all) = world();
    let mut table = Table::default();
    for (rank, who) in (0..).zip(&all) {
        let data = [
            (Scope::GLOBAL, "card", rank),
            (Scope::LOCAL, "near", rank),
            (Scope::REMOTE, "far", rank),
        ];
        commit(&mut world, *who, rank, &data);
    }
    fence(&mut world, &all, false);
    table.change(&mut world, 0);
    assert!((0..4).all(|rank| !table.has(rank)));
    fence(&mut world, &all, true);
    table.change(&mut world, 0);
    for rank in 0..4 {
        let number = Some(Value::Uint32(rank));
        let (near, far) = match rank < 2 {
            true => (number.clone(), None),
            false => (None, number.clone()),
        };
        assert_eq!(table.put(rank, "card"), number);
        assert_eq!(table.put(rank, "near"), near, "{rank}");
        assert_eq!(table.put(rank, "far"), far, "{rank}");
    }
}

#[test]
fn replaced_data_is_removed_before_the_reply() {
    let (mut world, all) = world();
    let mut table = Table::default();
    for (rank, who) in (0..).zip(&all) {
        commit(&mut world, *who, rank, &[(Scope::GLOBAL, "card", rank)]);
    }
    fence(&mut world, &all, true);
    table.change(&mut world, 0);
    let client = &mut world.clients[all[1]];
    let mut puts = ModexStore::default();
    let (rank, info) = (Rank::new(1), Info::new("card", 7_u32));
    puts.put(rank, Scope::GLOBAL, info).unwrap();
    let wire = Codec::new(client.session.form().layout);
    let blocks = puts.commit_message(&wire, rank).unwrap();
    let commit = Request::Commit(request::Commit { blocks: &blocks });
    client.session.request(&commit, None).unwrap();
    let bytes = client.session.poll_transmit().unwrap();
    let (peer, now) = (client.peer.unwrap(), world.now);
    let engine = &mut world.nodes[0].engine;
    engine.handle_input(peer, &bytes, now);
    // The change precedes the reply, which is still queued.
    assert_eq!(table.change(&mut world, 0), 1);
    assert!(!table.has(1) && table.has(0));
    assert!(world.nodes[0].engine.poll_transmit().is_some());
    // The data return with the next collecting fence; data of others are unchanged.
    fence(&mut world, &all, false);
    assert_eq!(table.change(&mut world, 0), 0);
}

#[test]
fn data_of_a_lost_process_is_replaced_by_that_of_its_restart() {
    let (mut world, all) = world();
    let mut table = Table::default();
    for (rank, who) in (0..).zip(&all) {
        commit(&mut world, *who, rank, &[(Scope::GLOBAL, "card", rank)]);
    }
    fence(&mut world, &all, true);
    table.change(&mut world, 0);
    assert!(table.has(1));
    world.kill(all[1]);
    world.run();
    table.change(&mut world, 0);
    assert!(!table.has(1));
    let again = world.join(0, "job", 1);
    let all = [all[0], again, all[2], all[3]];
    commit(&mut world, again, 1, &[(Scope::GLOBAL, "card", 9)]);
    fence(&mut world, &all, true);
    table.change(&mut world, 0);
    assert_eq!(table.put(1, "card"), Some(Value::Uint32(9)));
    assert_eq!(table.put(3, "card"), Some(Value::Uint32(3)));
}

#[test]
fn job_info_is_shared_as_it_changes() {
    let (mut world, _) = world();
    let mut table = Table::default();
    table.change(&mut world, 0);
    let job = |table: &Table, key| table.info(Rank::WILDCARD, key);
    assert_eq!(job(&table, keys::JOB_SIZE), Some(Value::Uint32(4)));
    assert_eq!(job(&table, keys::LOCAL_PEERS), Some(Value::from("0,1")));
    assert_eq!(job(&table, keys::JOBID), None);
    let of_rank = table.info(Rank::new(1), keys::LOCAL_RANK);
    assert_eq!(of_rank, Some(Value::Uint16(1)));
    assert_eq!(table.info(Rank::new(2), keys::LOCAL_RANK), None);
    let more = [Info::new(keys::JOBID, "17")];
    let engine = &mut world.nodes[0].engine;
    engine.register_nspace(&"job".into(), 2, &more).unwrap();
    table.change(&mut world, 0);
    assert_eq!(job(&table, keys::JOBID), Some(Value::from("17")));
    assert_eq!(job(&table, keys::JOB_SIZE), Some(Value::Uint32(4)));
    let engine = &mut world.nodes[0].engine;
    engine.deregister_nspace(&"job".into()).unwrap();
    assert_eq!(world.nodes[0].engine.stats().num_shared_jobs, 0);
}

/// Reports that there was no room for data of processes, and returns the processes whose data were packed.
fn leave_out_puts(world: &mut World, table: &mut Table) -> Vec<Rank> {
    let engine = &mut world.nodes[0].engine;
    let mut left_out = Vec::new();
    while let Some(change) = engine.poll_shared() {
        match change {
            SharedChange::Put { nspace, key, value } => match SharedKey::rank_of_puts(&key) {
                Some(rank) if rank != Rank::new(0) => {
                    table.0.remove(&key);
                    left_out.push(rank);
                    engine.shared_left_out(&nspace, &key);
                }
                _ => drop(table.0.insert(key, value)),
            },
            SharedChange::Remove { key, .. } => drop(table.0.remove(&key)),
            other => panic!("{other:?}"),
        }
    }
    left_out
}

#[test]
fn data_without_space_is_not_packed_again() {
    let (mut world, all) = world();
    let mut table = Table::default();
    let others: Vec<_> = (1..4).map(Rank::new).collect();
    for round in 0..5 {
        for (rank, who) in (0..).zip(&all) {
            commit(
                &mut world,
                *who,
                rank,
                &[(Scope::GLOBAL, "card", 10 * round + rank)],
            );
        }
        fence(&mut world, &all, true);
        let left_out = leave_out_puts(&mut world, &mut table);
        // The data are packed once; a process with reserved room keeps it.
        assert_eq!(
            left_out,
            if round == 0 {
                others.clone()
            } else {
                Vec::new()
            }
        );
        assert_eq!(table.put(0, "card"), Some(Value::Uint32(10 * round)));
        assert!((1..4).all(|rank| !table.has(rank)));
    }
}

#[test]
fn a_job_without_space_for_its_info_shares_no_data() {
    let (mut world, all) = world();
    while let Some(change) = world.nodes[0].engine.poll_shared() {
        let SharedChange::Put { nspace, key, .. } = change else {
            panic!("{change:?}");
        };
        world.nodes[0].engine.shared_left_out(&nspace, &key);
    }
    for (rank, who) in (0..).zip(&all) {
        commit(&mut world, *who, rank, &[(Scope::GLOBAL, "card", rank)]);
    }
    fence(&mut world, &all, true);
    let more = [Info::new(keys::JOBID, "17")];
    let engine = &mut world.nodes[0].engine;
    engine.register_nspace(&"job".into(), 2, &more).unwrap();
    assert_eq!(Table::default().change(&mut world, 0), 0);
    // The next reader of the job does not change this.
    world.kill(all[1]);
    world.run();
    let mut again = hello("job", 1);
    again.gds = "pmixrs,hash".into();
    world.connect(0, &again);
    world.run();
    assert_eq!(Table::default().change(&mut world, 0), 0);
}

/// Commits bytes of one process for all others.
fn commit_bytes(world: &mut World, who: Who, rank: u32, len: usize) {
    let client = &mut world.clients[who];
    let mut puts = ModexStore::default();
    let rank = Rank::new(rank);
    puts.put(rank, Scope::GLOBAL, Info::new("long", vec![7_u8; len]))
        .unwrap();
    let wire = Codec::new(client.session.form().layout);
    let blocks = puts.commit_message(&wire, rank).unwrap();
    world.ask(who, &Request::Commit(request::Commit { blocks: &blocks }));
    world.run();
}

#[test]
fn oversized_data_is_not_shared_until_it_is_shorter() {
    let (mut world, all) = world();
    let mut table = Table::default();
    for (len, is_shared) in [
        (60_000, true),
        (70_000, false),
        (1_000_000, false),
        (5, true),
    ] {
        for (rank, who) in (0..).zip(&all) {
            commit_bytes(&mut world, *who, rank, len);
        }
        fence(&mut world, &all, true);
        table.change(&mut world, 0);
        for rank in 0..4 {
            assert_eq!(table.has(rank), is_shared, "{len} bytes of rank {rank}");
        }
    }
}
