// SPDX-License-Identifier: MIT OR Apache-2.0
//! Everything at once, in an order that a seed decides.

use std::time::Duration;

use pmix_engine::{Config, HostObject, Origin, Stats};
use pmix_proto::{Request, Tag, request};
use pmix_types::{Info, Key, Proc, Rank, Scope, Status, keys};

use crate::dice::Dice;
use crate::exchange::commit;
use crate::world::{UID, Who, World};

const PER_NODE: [u32; 2] = [3, 2];
const NUM_PROCS: usize = 5;
const KEYS: [&str; 3] = ["card", "nic", keys::LOCAL_RANK];
const JOB: &str = "job";

/// A world in which things happen, and what was asked.
struct Storm {
    world: World,
    dice: Dice,
    /// The connection of each rank.
    live: [Option<Who>; NUM_PROCS],
    asked: Vec<(Who, Tag)>,
}

fn node_of(rank: usize) -> usize {
    usize::from(rank >= 3)
}

fn number(rank: usize) -> u32 {
    u32::try_from(rank).unwrap()
}

fn proc(rank: usize) -> Proc<'static> {
    Proc::new(JOB, Rank::new(number(rank)))
}

impl Storm {
    fn new(seed: u64, config: &Config) -> Self {
        let mut world = World::with(2, config);
        world.job(JOB, &PER_NODE);
        world.slow_host(true);
        Self {
            world,
            dice: Dice::new(seed),
            live: [None; NUM_PROCS],
            asked: Vec::new(),
        }
    }

    /// How long something may take: every request of a storm has an end.
    fn limit(&mut self) -> Info<'static> {
        let seconds = i32::try_from(1 + self.dice.below(5)).unwrap();
        Info::new(keys::TIMEOUT, seconds)
    }

    fn ask(&mut self, rank: usize, request: &Request<'_>) {
        if let Some(who) = self.live[rank] {
            let tag = self.world.ask(who, request);
            self.asked.push((who, tag));
            if self.dice.below(2) == 0 {
                self.world.run();
            }
        }
    }

    /// Some processes, the caller among them; now and then all.
    fn some(&mut self, rank: usize) -> Vec<Proc<'static>> {
        if self.dice.below(2) == 0 {
            return vec![Proc::new(JOB, Rank::WILDCARD)];
        }
        let mut ranks: Vec<_> = (0..NUM_PROCS).collect();
        ranks.retain(|other| *other == rank || self.dice.below(2) == 0);
        ranks.into_iter().map(proc).collect()
    }

    fn step(&mut self) {
        let rank = self.dice.below(NUM_PROCS);
        match self.dice.below(14) {
            0..=2 => self.begin(rank),
            3..=4 => self.put(rank),
            5..=6 => self.together(rank),
            7..=8 => self.get(rank),
            9 => self.leave(rank),
            10 => self.crash(rank),
            11 => self.pass_time(),
            12 => self.noise(rank),
            _ => {
                let any = self.dice.below(100);
                self.world.release(any);
            }
        }
    }

    fn begin(&mut self, rank: usize) {
        if self.live[rank].is_none() {
            let who = self.world.join(node_of(rank), JOB, number(rank));
            self.live[rank] = Some(who);
        }
    }

    fn put(&mut self, rank: usize) {
        if let Some(who) = self.live[rank] {
            let scope = *self.dice.of(&[Scope::LOCAL, Scope::REMOTE, Scope::GLOBAL]);
            let key = *self.dice.of(&KEYS[..2]);
            commit(&mut self.world, who, number(rank), &[(scope, key, 7)]);
        }
    }

    fn together(&mut self, rank: usize) {
        let procs = self.some(rank);
        let mut infos = vec![self.limit()];
        let request = match self.dice.below(4) {
            0 => Request::Connect(request::Connect { procs, infos }),
            1 => Request::Disconnect(request::Disconnect { procs, infos }),
            collects => {
                infos.push(Info::new(keys::COLLECT_DATA, collects == 2));
                Request::Fence(request::Fence { procs, infos })
            }
        };
        self.ask(rank, &request);
    }

    fn get(&mut self, rank: usize) {
        let of = self.dice.below(NUM_PROCS);
        let key = Key::new(*self.dice.of(&KEYS));
        let infos = vec![self.limit()];
        let nspace = (*self.dice.of(&[JOB, JOB, "unknown"])).into();
        let get = request::Get {
            nspace,
            rank: Rank::new(number(of)),
            infos,
            key: Some(key),
        };
        self.ask(rank, &Request::Get(get));
    }

    fn leave(&mut self, rank: usize) {
        self.ask(rank, &Request::Finalize);
        self.crash(rank);
    }

    fn crash(&mut self, rank: usize) {
        if let Some(who) = self.live[rank].take() {
            self.world.kill(who);
        }
    }

    fn pass_time(&mut self) {
        let time = u64::try_from(self.dice.below(1500)).unwrap();
        self.world.advance(Duration::from_millis(time));
    }

    /// A stranger connects, or the host takes a process back and registers it again.
    fn noise(&mut self, rank: usize) {
        let engine = &mut self.world.nodes[node_of(rank)].engine;
        if self.dice.below(2) == 0 {
            let peer = engine.open(Origin::default(), self.world.now);
            let bytes: Vec<_> = (0..40).map(|_| self.dice.byte()).collect();
            engine.handle_input(peer, &bytes, self.world.now);
        } else {
            let object = HostObject(rank as u64);
            engine.deregister_client(&proc(rank)).unwrap();
            let proc = proc(rank);
            engine
                .register_client(&proc, pmix_engine::Credentials::new(UID, UID), object)
                .unwrap();
            self.live[rank] = None;
        }
        self.world.run();
    }

    /// All that was asked by who is still there.
    fn unanswered(&self) -> usize {
        let clients = &self.world.clients;
        let asked = self.asked.iter();
        let open = asked.filter(|(who, tag)| {
            clients[*who].peer.is_some() && clients[*who].status(*tag).is_none()
        });
        open.count()
    }

    /// Every node without its job.
    fn empty(&mut self) -> Vec<Stats> {
        for node in &mut self.world.nodes {
            node.engine.deregister_nspace(&JOB.into()).unwrap();
        }
        self.world.run();
        let nodes = self.world.nodes.iter();
        nodes.map(|node| node.engine.stats()).collect()
    }
}

#[test]
fn every_request_has_an_end_and_nothing_is_left() {
    for seed in 0..200 {
        let mut storm = Storm::new(seed, &Config::default());
        for _ in 0..200 {
            storm.step();
        }
        storm.world.slow_host(false);
        storm.world.advance(Duration::from_secs(100));
        assert_eq!(storm.unanswered(), 0, "seed {seed}");
        assert!(
            storm
                .world
                .clients
                .iter()
                .all(|client| client.fault.is_none())
        );
        for stats in storm.empty() {
            // What the host still has to answer is its own business.
            let Stats { num_host_calls, .. } = stats;
            let nothing = Stats {
                num_host_calls,
                ..Stats::default()
            };
            assert_eq!(stats, nothing, "seed {seed}");
        }
    }
}

#[test]
fn all_participants_of_a_fence_agree() {
    // The host ends fences for all nodes alike, however long it takes.
    let config = Config {
        host_grace: Duration::from_secs(1 << 20),
        ..Config::default()
    };
    let (mut failed, mut succeeded) = (0, 0);
    for seed in 0..200 {
        let mut storm = Storm::new(seed, &config);
        for rank in 0..NUM_PROCS {
            storm.begin(rank);
        }
        let rounds = 10;
        let mut tags = vec![Vec::new(); NUM_PROCS];
        while tags.iter().any(|tags| tags.len() < rounds) {
            let rank = storm.dice.below(NUM_PROCS);
            match storm.dice.below(4) {
                0 => storm.pass_time(),
                1 => {
                    let any = storm.dice.below(100);
                    storm.world.release(any);
                }
                _ if tags[rank].len() == rounds => {}
                _ => {
                    let fence = Request::Fence(request::Fence {
                        procs: vec![Proc::new(JOB, Rank::WILDCARD)],
                        infos: vec![storm.limit()],
                    });
                    let who = storm.live[rank].unwrap();
                    tags[rank].push(storm.world.ask(who, &fence));
                    storm.world.run();
                }
            }
        }
        storm.world.slow_host(false);
        storm.world.advance(Duration::from_secs(100));
        for round in 0..rounds {
            let ends = tags.iter().zip(storm.live).map(|(tags, who)| {
                let client = &storm.world.clients[who.unwrap()];
                let status = client.status(tags[round]);
                status.expect("a fence without an end") == Status::SUCCESS
            });
            let ends: Vec<_> = ends.collect();
            assert!(
                ends.iter().all(|end| *end == ends[0]),
                "seed {seed} round {round} {ends:?}"
            );
            match ends[0] {
                true => succeeded += 1,
                false => failed += 1,
            }
        }
    }
    assert!(
        failed > 100 && succeeded > 100,
        "{failed} failed, {succeeded} succeeded"
    );
}
