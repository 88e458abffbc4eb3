// SPDX-License-Identifier: MIT OR Apache-2.0
//! Constructs with a leader, or with members that do not all know each other, in random orders. Processes call, are
//! lost, and decide or do not reply. A seed determines the run; `PMIX_SEED` runs one seed alone.
//!
//! - Every call ends, and all participants get the same result: the formation of the group, the members in order, and
//!   on each node the status.
//! - The members are the callers except those dropped by a decision. A process lost before its call is dropped only if
//!   the current leader, or its successor, decides so.
//! - Each failure has a reason: a loss, the loss of a leader, an abort.
//! - All participants receive the same successor of a lost leader.
//! - The counters and timers of a server match its contents.
//! - A server knows the group if it was formed and has members on its node, and holds nothing otherwise.

use std::collections::{BTreeMap, BTreeSet};

use pmix_engine::Config;
use pmix_proto::{Event, Request, Tag, reply, request};
use pmix_types::{DataRange, Info, Proc, Rank, Status, Value, keys};

use crate::group::{construct_of, listen, num_groups, world};
use crate::world::{Who, World};

const SEEDS: u64 = 1000;

/// Numbers determined by a seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let number = usize::try_from((mixed ^ (mixed >> 31)) >> 33).unwrap();
        number % most
    }

    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// Returns up to `count` of the given elements, in random order.
    fn some(&mut self, from: &[usize], count: usize) -> Vec<usize> {
        let mut left = from.to_vec();
        let picks = (0..count.min(from.len())).map(|_| left.swap_remove(self.below(left.len())));
        picks.collect()
    }
}

/// The behavior of the processes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// All list all members, and the first leads.
    Led,
    /// Leaders that list each other add the others.
    Listed,
    /// Leaders that know their number add the others.
    Counted,
}

struct Run {
    numbers: Numbers,
    kind: Kind,
    world: World,
    all: Vec<Who>,
    /// The intended members, and the leaders or the single leader among them.
    part: Vec<usize>,
    leaders: Vec<usize>,
    /// The processes that each leader adds.
    adds: BTreeMap<usize, Vec<usize>>,
    tags: BTreeMap<usize, Tag>,
    /// The lost processes, and those of them that had not called.
    lost: BTreeSet<usize>,
    never: BTreeSet<usize>,
    /// The processes dropped by a decision, and the other decisions.
    without: BTreeSet<usize>,
    /// The lost leaders with a successor; one whose server had called the host remains a member.
    replaced: BTreeSet<usize>,
    said: BTreeSet<Status>,
    read: BTreeMap<usize, usize>,
}

fn proc(rank: usize) -> Proc<'static> {
    Proc::new("job", Rank::new(u32::try_from(rank).unwrap()))
}

fn procs(ranks: &[usize]) -> Vec<Proc<'static>> {
    ranks.iter().map(|rank| proc(*rank)).collect()
}

fn rank_in(event: &Event<'_>, key: &str) -> Option<usize> {
    let info = event.infos.iter().find(|info| info.key.is(key))?;
    match &info.value {
        Value::Proc(proc) => usize::try_from(proc.rank.as_raw()).ok(),
        _ => None,
    }
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut numbers = Numbers(seed);
        let num_nodes = 1 + numbers.below(3);
        let per_node: Vec<_> = (0..num_nodes)
            .map(|_| 1 + u32::try_from(numbers.below(3)).unwrap())
            .collect();
        let (mut world, all) = world(&per_node);
        let everybody: Vec<_> = (0..all.len()).collect();
        let kind = [Kind::Led, Kind::Led, Kind::Listed, Kind::Counted][numbers.below(4)];
        let count = 2 + numbers.below(all.len());
        let part = numbers.some(&everybody, count);
        let num_leaders = match kind {
            Kind::Led => 1,
            _ => 1 + numbers.below(part.len()),
        };
        let leaders = part[..num_leaders].to_vec();
        let mut adds = BTreeMap::<_, Vec<_>>::new();
        if kind != Kind::Led {
            for rank in &part[num_leaders..] {
                let leader = leaders[numbers.below(leaders.len())];
                adds.entry(leader).or_default().push(*rank);
            }
        }
        let codes = [
            Status::GROUP_INVITE_FAILED,
            Status::GROUP_LEADER_FAILED,
            Status::GROUP_LEADER_SELECTED,
        ];
        for who in &all {
            if !numbers.once_in(8) {
                listen(&mut world, &[*who], &codes);
            }
        }
        Self {
            numbers,
            kind,
            world,
            all,
            part,
            leaders,
            adds,
            tags: BTreeMap::new(),
            lost: BTreeSet::new(),
            never: BTreeSet::new(),
            without: BTreeSet::new(),
            replaced: BTreeSet::new(),
            said: BTreeSet::new(),
            read: BTreeMap::new(),
        }
    }

    fn call(&mut self, rank: usize) {
        let leads = self.leaders.contains(&rank);
        let mut infos = Vec::new();
        if let Some(added) = self.adds.get(&rank) {
            infos.push(Info::new(keys::GROUP_ADD_MEMBERS, procs(added)));
        }
        let list = match self.kind {
            Kind::Led => {
                if leads {
                    infos.push(Info::new(keys::GROUP_LEADER, true));
                }
                procs(&self.part)
            }
            Kind::Listed if leads => procs(&self.leaders),
            Kind::Counted if leads => {
                let count = u64::try_from(self.leaders.len()).unwrap();
                infos.push(Info::new(keys::GROUP_BOOTSTRAP, Value::Size(count)));
                procs(&[rank])
            }
            Kind::Listed | Kind::Counted => Vec::new(),
        };
        let request = construct_of("g", list, infos);
        let tag = self.world.ask(self.all[rank], &request);
        self.tags.insert(rank, tag);
        if !self.numbers.once_in(3) {
            self.world.run();
        }
    }

    fn lose(&mut self, rank: usize) {
        if !self.lost.insert(rank) {
            return;
        }
        self.world.run();
        if !self.tags.contains_key(&rank) {
            self.never.insert(rank);
        }
        self.world.kill(self.all[rank]);
        self.world.end_proc("job", u32::try_from(rank).unwrap());
    }

    /// Lets the processes reply to their questions, or not reply.
    fn decide(&mut self) {
        self.world.run();
        for node in &self.world.nodes {
            assert_eq!(node.engine.recount(), []);
        }
        for rank in 0..self.all.len() {
            if self.lost.contains(&rank) || self.status(rank).is_some() {
                continue;
            }
            let client = &self.world.clients[self.all[rank]];
            let form = client.session.form();
            let read = self.read.entry(rank).or_default();
            let fresh = client.notices.iter().skip(*read);
            let asked: Vec<_> = fresh
                .filter_map(|notice| {
                    let event = Event::decode(form, None, &notice.payload).unwrap();
                    rank_in(&event, keys::GROUP_LEADER)?;
                    let about = rank_in(&event, keys::EVENT_AFFECTED_PROC)?;
                    Some((event.status, about))
                })
                .collect();
            *read = client.notices.len();
            for (status, about) in asked {
                // The library of a process that has not called has nothing to decide.
                if status != Status::GROUP_LEADER_SELECTED && self.tags.contains_key(&rank) {
                    self.answer(rank, status, about);
                }
            }
        }
    }

    fn answer(&mut self, rank: usize, status: Status, about: usize) {
        let key = match status {
            Status::GROUP_INVITE_FAILED => keys::GROUP_OPTIONAL,
            _ => keys::GROUP_LEADER,
        };
        let (status, more) = match self.numbers.below(8) {
            0 => return,
            1 => (Status::GROUP_CONSTRUCT_ABORT, None),
            2 => (status, None),
            _ => {
                self.without.insert(about);
                if status == Status::GROUP_LEADER_FAILED {
                    self.replaced.insert(about);
                }
                (status, Some(Info::new(key, true)))
            }
        };
        self.said.insert(status);
        let mut infos = vec![
            Info::new(keys::EVENT_CUSTOM_RANGE, procs(&[about])),
            Info::new(keys::EVENT_NON_DEFAULT, true),
            Info::new(keys::GROUP_ID, "g"),
            Info::new(keys::EVENT_AFFECTED_PROC, proc(about)),
        ];
        infos.extend(more);
        let notify = Request::Notify(request::Notify {
            status,
            range: DataRange::CUSTOM,
            infos,
        });
        self.world.ask(self.all[rank], &notify);
        self.world.run();
    }

    fn status(&self, rank: usize) -> Option<Status> {
        let tag = self.tags.get(&rank)?;
        self.world.clients[self.all[rank]].status(*tag)
    }

    fn members(&self, rank: usize) -> Vec<usize> {
        let client = &self.world.clients[self.all[rank]];
        let response = client.reply(self.tags[&rank]).expect("no reply");
        let form = client.session.form();
        let group = reply::Group::decode(form, None, &response.payload).unwrap();
        let members = group.members.iter();
        let members = members.map(|proc| usize::try_from(proc.rank.as_raw()).unwrap());
        members.collect()
    }

    /// Performs all calls and losses in random order.
    fn happen(&mut self) {
        let mut left = self.numbers.some(&self.part.clone(), self.part.len());
        let most_lost = [0, 1, 1, 2][self.numbers.below(4)];
        while let Some(next) = left.pop() {
            if self.lost.len() < most_lost && self.numbers.once_in(3) {
                let victim = self.part[self.numbers.below(self.part.len())];
                self.lose(victim);
            }
            if !self.lost.contains(&next) {
                self.call(next);
            }
            if !self.numbers.once_in(3) {
                self.decide();
            }
        }
        let time = Config::default().leader_time;
        for _ in 0..4 {
            self.decide();
            self.world.advance(time);
        }
    }

    /// Returns the remaining processes with their statuses.
    fn told(&self) -> Vec<(usize, Option<Status>)> {
        let left = self.part.iter().filter(|rank| !self.lost.contains(rank));
        left.map(|rank| (*rank, self.status(*rank))).collect()
    }

    fn check(&mut self) {
        let mut waiting = self.told();
        waiting.retain(|(_, status)| status.is_none());
        if let Some((last, _)) = waiting.first().copied() {
            // A process that no leader adds may wait as long as any other process is connected.
            assert_ne!(self.kind, Kind::Led, "{last} waits");
            let first_led = !self.lost.iter().any(|rank| self.leaders.contains(rank));
            assert!(!first_led, "{last} waits although all leaders have called");
            for rank in 0..self.all.len() {
                if rank != last {
                    self.lose(rank);
                }
            }
        }
        let told = self.told();
        let first = told.first().and_then(|(_, status)| *status);
        // If failures on two nodes coincide, each node may report its own.
        let node_of = |rank: &usize| self.world.clients[self.all[*rank]].node;
        let told_alike = |(rank, status): &(usize, Option<Status>)| {
            let own = told
                .iter()
                .find(|(other, _)| node_of(other) == node_of(rank));
            let is_formed = |status: Option<Status>| status == Some(Status::SUCCESS);
            own.is_some_and(|own| own.1 == *status) && is_formed(*status) == is_formed(first)
        };
        let same = told.iter().all(told_alike);
        assert!(same && (first.is_some() || told.is_empty()), "{told:?}");
        let Some(status) = first else { return };
        for (_, status) in &told {
            self.check_reason(status.unwrap());
        }
        let members = told.iter().map(|(rank, _)| match status {
            Status::SUCCESS => self.members(*rank),
            _ => Vec::new(),
        });
        let members: Vec<_> = members.collect();
        assert!(
            members.windows(2).all(|two| two[0] == two[1]),
            "{members:?}"
        );
        if status == Status::SUCCESS {
            self.check_members(&members[0]);
        } else {
            assert_eq!(num_groups(&self.world), 0);
        }
        self.check_leaders();
    }

    fn check_reason(&self, status: Status) {
        let leader_lost = self.leaders.iter().any(|rank| self.lost.contains(rank));
        match status {
            Status::SUCCESS => {}
            Status::ERR_LOST_CONNECTION => assert!(!self.lost.is_empty()),
            Status::GROUP_LEADER_FAILED => assert!(leader_lost),
            Status::GROUP_CONSTRUCT_ABORT => assert!(self.said.contains(&status)),
            other => panic!("{other}"),
        }
    }

    fn check_members(&self, members: &[usize]) {
        let undecided: Vec<_> = self.never.difference(&self.without).collect();
        assert!(
            undecided.is_empty(),
            "no leader decided about {undecided:?}"
        );
        let listed: BTreeSet<_> = members.iter().copied().collect();
        assert_eq!(listed.len(), members.len());
        let named: BTreeSet<_> = self.part.iter().copied().collect();
        assert!(listed.is_subset(&named) && listed.is_disjoint(&self.never));
        for rank in named.difference(&listed) {
            let is_out = self.lost.contains(rank) && self.without.contains(rank);
            assert!(is_out, "{rank} is not a member");
        }
        let is_out = |rank: &&usize| {
            let is_without = self.without.contains(rank) && !self.replaced.contains(rank);
            self.lost.contains(rank) && is_without
        };
        assert_eq!(
            members.iter().find(is_out),
            None,
            "a process that was dropped is a member"
        );
        let nodes = members.iter().filter(|rank| !self.lost.contains(rank));
        let nodes = nodes.map(|rank| self.world.clients[self.all[*rank]].node);
        let nodes: BTreeSet<_> = nodes.collect();
        assert_eq!(num_groups(&self.world), nodes.len());
    }

    /// Returns `true` if the group was formed without a process on another node than the leader's that never called.
    fn is_formed_without_one_of_another_node(&self) -> bool {
        let node_of = |rank: &usize| self.world.clients[self.all[*rank]].node;
        let is_elsewhere = |rank: &usize| node_of(rank) != node_of(&self.leaders[0]);
        let is_formed = self.told().first().and_then(|told| told.1) == Some(Status::SUCCESS);
        self.kind == Kind::Led && is_formed && self.never.iter().any(is_elsewhere)
    }

    /// Checks that all events name the same successor of each lost leader.
    fn check_leaders(&self) {
        let mut chosen = BTreeMap::new();
        for who in &self.all {
            let client = &self.world.clients[*who];
            let form = client.session.form();
            for notice in &client.notices {
                let event = Event::decode(form, None, &notice.payload).unwrap();
                if event.status == Status::GROUP_LEADER_SELECTED {
                    let old = rank_in(&event, keys::EVENT_AFFECTED_PROC);
                    let new = rank_in(&event, keys::GROUP_LEADER);
                    assert_eq!(*chosen.entry(old).or_insert(new), new);
                }
            }
        }
    }
}

#[test]
fn constructs_end_equally_for_all_in_any_order() {
    let one = std::env::var("PMIX_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seeds = one.map_or(0..SEEDS, |seed| seed..seed + 1);
    let mut outcomes = BTreeMap::<_, u32>::new();
    let mut num_across = 0;
    for seed in seeds {
        let run = std::panic::AssertUnwindSafe(|| {
            let mut run = Run::new(seed);
            run.happen();
            run.check();
            let outcome = (run.kind as u8, run.told().first().and_then(|told| told.1));
            (outcome, run.is_formed_without_one_of_another_node())
        });
        match std::panic::catch_unwind(run) {
            Ok((outcome, is_across)) => {
                *outcomes.entry(outcome).or_default() += 1;
                num_across += u32::from(is_across);
            }
            Err(fault) => {
                eprintln!("PMIX_SEED={seed}");
                std::panic::resume_unwind(fault);
            }
        }
    }
    let num_outcomes = outcomes.len();
    assert!(one.is_some() || num_outcomes >= 8, "{outcomes:?}");
    assert!(
        one.is_some() || num_across >= 20,
        "{num_across} decisions for other nodes"
    );
}
