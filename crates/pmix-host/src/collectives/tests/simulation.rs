// SPDX-License-Identifier: MIT OR Apache-2.0
//! Trees of nodes with random collectives, orders, failures, losses and time limits, each from a seed.
//!
//! Every node lists the participants in an order of its own. Messages of a link stay in order, while links are
//! independent. After each run, the oracle checks that every call got one answer, that all nodes with running
//! participants got the same, and that the data of a success are those of the callers in the order of the tree.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::num::NonZero;
use std::time::{Duration, Instant};

use pmix_server::upcall::HostReply;
use pmix_types::{Info, Nspace, Proc, Rank, Status, keys};

use super::super::*;
use crate::groups::Processes;
use crate::tree::Tree;

/// The number of seeds. An optimized build runs ten times as many in less time.
const NUM_SEEDS: u64 = if cfg!(debug_assertions) { 1000 } else { 10_000 };

/// A generator of numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(limit).unwrap()).unwrap()
    }

    fn strikes(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            list.swap(last, self.below(last + 1));
        }
    }
}

/// The knowledge of one node of the tree.
struct View<'a> {
    world: &'a Layout,
    node: usize,
    ended: &'a HashSet<Proc<'static>>,
    lost: &'a BTreeSet<usize>,
}

/// The node of each process, by job.
struct Layout {
    tree: Tree,
    jobs: Vec<Vec<usize>>,
}

fn job_name(job: usize) -> Nspace<'static> {
    Nspace::from(format!("job{job}"))
}

impl Layout {
    fn job(&self, nspace: &Nspace<'_>) -> Option<&Vec<usize>> {
        let found = (0..self.jobs.len()).find(|job| job_name(*job) == *nspace);
        found.map(|job| &self.jobs[job])
    }

    fn node_of(&self, proc: &Proc<'_>) -> Option<usize> {
        let rank = usize::try_from(proc.rank.as_raw()).ok()?;
        self.job(&proc.nspace)?.get(rank).copied()
    }
}

impl Processes for View<'_> {
    fn job_size(&self, nspace: &Nspace<'_>) -> Option<u32> {
        self.world
            .job(nspace)
            .map(|nodes| u32::try_from(nodes.len()).unwrap())
    }

    fn has_ended(&self, proc: &Proc<'_>) -> bool {
        self.ended.iter().any(|ended| ended == proc)
    }

    fn server_of(&self, proc: &Proc<'_>) -> Option<usize> {
        self.world.tree.branch(self.node, self.world.node_of(proc)?)
    }
}

impl Nodes for View<'_> {
    fn nodes_of_job(&self, nspace: &Nspace<'_>) -> Vec<NodeShare> {
        let size = self.job_size(nspace).unwrap_or(0);
        let procs = (0..size).map(|rank| Proc::new(nspace.clone(), Rank::new(rank)));
        let shares = procs.filter_map(|proc| {
            let branch = self.server_of(&proc)?;
            Some(NodeShare::new(branch, usize::from(!self.has_ended(&proc))))
        });
        shares.collect()
    }

    fn is_lost(&self, node: usize) -> bool {
        self.lost.contains(&node)
    }
}

/// The origin of a call at a node of the tree.
#[derive(Clone, Copy, Debug)]
enum Token {
    /// A call of a server, by its number.
    Call(usize),
    /// The contribution of a branch.
    Branch(usize, CollectiveId),
}

#[derive(Debug)]
enum Message {
    Call(Token, Box<Contribution>),
    Answer(CollectiveId, Box<HostReply>),
    Ended(Proc<'static>),
}

/// A call of a server.
struct Made {
    node: usize,
    collective: (usize, usize),
    answers: Vec<HostReply>,
}

struct Node {
    collectives: Collectives<Token>,
    ended: HashSet<Proc<'static>>,
    lost: BTreeSet<usize>,
    /// The calls that its server will make: the list of participants, and the number among its calls.
    plan: VecDeque<(usize, usize)>,
    is_gone: bool,
}

struct World {
    random: Random,
    layout: Layout,
    nodes: Vec<Node>,
    /// The participants of each list, as job and rank.
    lists: Vec<(CollectiveKind, BTreeSet<(usize, usize)>)>,
    links: BTreeMap<(usize, usize), VecDeque<Message>>,
    made: Vec<Made>,
    now: Instant,
}

impl World {
    fn new(seed: u64, start: Instant) -> Self {
        let mut random = Random(seed);
        let num_nodes = 1 + random.below(9);
        let fanout = NonZero::new(1 + random.below(num_nodes)).unwrap();
        let jobs = (0..1 + random.below(3)).map(|_| {
            let size = 1 + random.below(8);
            (0..size).map(|_| random.below(num_nodes)).collect()
        });
        let jobs: Vec<Vec<usize>> = jobs.collect();
        let layout = Layout {
            tree: Tree::new(num_nodes, fanout),
            jobs,
        };
        let mut lists = Vec::new();
        for list in 0..1 + random.below(3) {
            let kind = match random.below(3) {
                0 => CollectiveKind::Connect,
                1 => CollectiveKind::Disconnect,
                _ => CollectiveKind::Fence,
            };
            // Every list is another one, so that the oracle knows which calls belong together.
            let mut procs = BTreeSet::from([(list % layout.jobs.len(), 0)]);
            for (job, nodes) in layout.jobs.iter().enumerate() {
                let takes_all = random.strikes(2);
                let ranks = 0..nodes.len();
                let chosen = ranks.filter(|_| takes_all || random.strikes(2));
                procs.extend(chosen.map(|rank| (job, rank)));
            }
            if !lists.contains(&(kind.clone(), procs.clone())) {
                lists.push((kind, procs));
            }
        }
        let mut nodes = Vec::new();
        for node in 0..num_nodes {
            let collectives = match node {
                0 => Collectives::default(),
                _ => Collectives::below_parent(),
            };
            let mut plan = Vec::new();
            for (list, (_, procs)) in lists.iter().enumerate() {
                let has_any = procs
                    .iter()
                    .any(|(job, rank)| layout.jobs[*job][*rank] == node);
                plan.extend((0..3).filter(|_| has_any).map(|_| list));
            }
            random.shuffle(&mut plan);
            let mut counts = vec![0; lists.len()];
            let plan = plan.into_iter().map(|list| {
                counts[list] += 1;
                (list, counts[list])
            });
            nodes.push(Node {
                collectives,
                ended: HashSet::new(),
                lost: BTreeSet::new(),
                plan: plan.collect(),
                is_gone: false,
            });
        }
        Self {
            random,
            layout,
            nodes,
            lists,
            links: BTreeMap::new(),
            made: Vec::new(),
            now: start,
        }
    }

    fn send(&mut self, from: usize, to: usize, message: Message) {
        if !self.nodes[from].is_gone && !self.nodes[to].is_gone {
            self.links.entry((from, to)).or_default().push_back(message);
        }
    }

    /// Runs code with the collectives of a node and its knowledge, and passes on the results.
    fn at(
        &mut self,
        node: usize,
        code: impl FnOnce(&mut Collectives<Token>, &View<'_>, Instant) -> Vec<EndedCollective<Token>>,
    ) {
        let own = &mut self.nodes[node];
        let view = View {
            world: &self.layout,
            node,
            ended: &own.ended,
            lost: &own.lost,
        };
        let ended = code(&mut own.collectives, &view, self.now);
        let mut forwards = Vec::new();
        while let Some(forward) = own.collectives.next_forward(self.now) {
            forwards.push(forward);
        }
        for ended in ended {
            let reply = ended.reply();
            for token in ended.tokens {
                match token {
                    Token::Call(call) => self.made[call].answers.push(reply.clone()),
                    Token::Branch(branch, id) => {
                        self.send(node, branch, Message::Answer(id, Box::new(reply.clone())));
                    }
                }
            }
        }
        for Forward { id, contribution } in forwards {
            let parent = self.layout.tree.parent(node).expect("a parent");
            // The contribution takes the form of the link.
            let upcall = contribution.into_upcall();
            let contribution = Contribution::from_upcall(upcall).expect("a collective");
            let message = Message::Call(Token::Branch(node, id), Box::new(contribution));
            self.send(node, parent, message);
        }
    }

    /// Returns `true` if a node has a running participant of a list.
    fn has_running(&self, node: usize, list: usize) -> bool {
        self.lists[list].1.iter().any(|(job, rank)| {
            let proc = Proc::new(job_name(*job), Rank::new(u32::try_from(*rank).unwrap()));
            self.layout.jobs[*job][*rank] == node && !self.nodes[node].ended.contains(&proc)
        })
    }

    /// Makes the next call of the server of a node.
    fn call(&mut self, node: usize) {
        let Some((list, count)) = self.nodes[node].plan.pop_front() else {
            return;
        };
        if !self.has_running(node, list) {
            return;
        }
        let (kind, procs) = self.lists[list].clone();
        let mut listed = Vec::new();
        for (job, nodes) in self.layout.jobs.iter().enumerate() {
            let of_job = procs.iter().filter(|(of, _)| *of == job);
            let ranks: Vec<_> = of_job.map(|(_, rank)| *rank).collect();
            if ranks.len() == nodes.len() && self.random.strikes(2) {
                listed.push(Proc::new(job_name(job), Rank::WILDCARD));
            } else {
                let ranks = ranks.into_iter().map(|rank| u32::try_from(rank).unwrap());
                listed.extend(ranks.map(|rank| Proc::new(job_name(job), Rank::new(rank))));
            }
        }
        self.random.shuffle(&mut listed);
        let mut call = Contribution::new(kind, listed);
        call.data = format!("<{node} {list} {count}>").into_bytes();
        if self.random.strikes(12) {
            call.infos.push(Info::new(keys::GROUP_FT_COLLECTIVE, true));
        }
        if self.random.strikes(12) {
            let seconds = u32::try_from(1 + self.random.below(3)).unwrap();
            call.infos.push(Info::new(keys::TIMEOUT, seconds));
        }
        if self.random.strikes(20) {
            let statuses = [Status::ERR_NOT_FOUND, Status::ERR_BAD_PARAM];
            call.failed = Some(statuses[self.random.below(2)]);
        }
        let number = self.made.len();
        self.made.push(Made {
            node,
            collective: (list, count),
            answers: Vec::new(),
        });
        self.take(node, Token::Call(number), node, call);
    }

    fn take(&mut self, node: usize, token: Token, branch: usize, call: Contribution) {
        self.at(node, |collectives, view, now| {
            let taken = collectives.take(token, branch, call, view, now);
            taken.unwrap_or_else(|refused| panic!("{refused}"))
        });
    }

    /// Ends a process, which its node and all above it learn in turn.
    fn end(&mut self, node: usize, proc: Proc<'static>) {
        if !self.nodes[node].ended.insert(proc.clone()) {
            return;
        }
        self.at(node, |collectives, view, _| {
            collectives.proc_ended(&proc, view)
        });
        if let Some(parent) = self.layout.tree.parent(node) {
            self.send(node, parent, Message::Ended(proc));
        }
    }

    /// Loses a node and the subtree below it.
    fn lose(&mut self, node: usize) {
        let Some(parent) = self.layout.tree.parent(node) else {
            return;
        };
        if self.nodes[node].is_gone || self.nodes[parent].is_gone {
            return;
        }
        let all = 0..self.nodes.len();
        let below: Vec<_> = all
            .filter(|of| self.layout.tree.branch(node, *of).is_some())
            .collect();
        for of in &below {
            self.nodes[*of].is_gone = true;
            self.nodes[*of].plan.clear();
        }
        self.links
            .retain(|(from, to), _| !below.contains(from) && !below.contains(to));
        let procs = self.procs().into_iter();
        let procs: Vec<_> = procs
            .filter(|proc| {
                self.layout
                    .node_of(proc)
                    .is_some_and(|of| below.contains(&of))
            })
            .collect();
        let own = &mut self.nodes[parent];
        own.lost.insert(node);
        // The loss comes first at some hosts, and the ends of the processes at others.
        let news: Vec<_> = procs
            .into_iter()
            .filter(|proc| !own.ended.contains(proc))
            .collect();
        if self.random.strikes(2) {
            self.at(parent, |collectives, _, _| collectives.node_lost(node));
            news.into_iter().for_each(|proc| self.end(parent, proc));
        } else {
            news.into_iter().for_each(|proc| self.end(parent, proc));
            self.at(parent, |collectives, _, _| collectives.node_lost(node));
        }
    }

    fn procs(&self) -> Vec<Proc<'static>> {
        let jobs = self.layout.jobs.iter().enumerate();
        let procs = jobs.flat_map(|(job, nodes)| {
            let ranks = 0..u32::try_from(nodes.len()).unwrap();
            ranks.map(move |rank| Proc::new(job_name(job), Rank::new(rank)))
        });
        procs.collect()
    }

    fn deliver(&mut self, from: usize, to: usize) {
        let queue = self.links.get_mut(&(from, to)).expect("a link");
        let message = queue.pop_front();
        if queue.is_empty() {
            self.links.remove(&(from, to));
        }
        match message {
            None => {}
            Some(Message::Call(token, call)) => self.take(to, token, from, *call),
            Some(Message::Answer(id, reply)) => {
                self.at(to, |collectives, _, _| collectives.answered(id, *reply));
            }
            Some(Message::Ended(proc)) => self.end(to, proc),
        }
    }

    fn step(&mut self) -> bool {
        let links: Vec<_> = self.links.keys().copied().collect();
        let callers = 0..self.nodes.len();
        let callers: Vec<_> = callers
            .filter(|node| !self.nodes[*node].plan.is_empty())
            .collect();
        let num = links.len() + callers.len();
        if num == 0 {
            return false;
        }
        if self.random.strikes(60) {
            let node = self.random.below(self.nodes.len());
            self.lose(node);
        } else if self.random.strikes(40) {
            let procs = self.procs();
            let proc = procs[self.random.below(procs.len())].clone();
            let node = self.layout.node_of(&proc).expect("a node");
            if !self.nodes[node].is_gone {
                self.end(node, proc);
            }
        } else if self.random.strikes(30) {
            self.now += Duration::from_millis(700);
            for node in 0..self.nodes.len() {
                self.at(node, |collectives, _, now| collectives.tick(now));
            }
        } else {
            match self.random.below(num) {
                one if one < links.len() => self.deliver(links[one].0, links[one].1),
                one => self.call(callers[one - links.len()]),
            }
        }
        true
    }

    /// Checks the answers of a run.
    fn check(&self) {
        let mut ends: BTreeMap<(usize, usize), (usize, HostReply)> = BTreeMap::new();
        // Nodes in the order of the tree: a node before its children, a branch before the next.
        let path = |node: usize| {
            let above: Vec<_> = self.layout.tree.ancestors(node).collect();
            let mut path: Vec<_> = above.into_iter().rev().collect();
            path.push(node);
            path
        };
        for made in &self.made {
            let node = made.node;
            if self.nodes[node].is_gone {
                continue;
            }
            let [answer] = &*made.answers else {
                panic!(
                    "{:?} of node {node} got {:?}",
                    made.collective, made.answers
                );
            };
            let list = made.collective.0;
            if !self.has_running(node, list) {
                continue;
            }
            let first = ends
                .entry(made.collective)
                .or_insert_with(|| (node, answer.clone()));
            assert_eq!(
                first.1, *answer,
                "nodes {} and {node}: {:?}",
                first.0, made.collective
            );
        }
        for (collective, (_, answer)) in &ends {
            let HostReply::Data(Ok(data)) = answer else {
                continue;
            };
            let calls = self
                .made
                .iter()
                .filter(|made| made.collective == *collective);
            let mut callers: Vec<_> = calls.map(|made| made.node).collect();
            callers.sort_by_key(|node| path(*node));
            let text = |node: usize| format!("<{node} {} {}>", collective.0, collective.1);
            let data = String::from_utf8(data.clone()).unwrap();
            // The call of a lost node may not have arrived.
            let is_gone =
                |node: usize| !self.has_running(node, collective.0) || self.nodes[node].is_gone;
            let listed = callers
                .into_iter()
                .filter(|node| !is_gone(*node) || data.contains(&text(*node)));
            let expected: String = listed.map(text).collect();
            assert_eq!(data, expected, "{collective:?}");
            for node in 0..self.nodes.len() {
                let takes_part = !is_gone(node) && self.has_running(node, collective.0);
                assert!(
                    !takes_part || data.contains(&text(node)),
                    "{collective:?} lacks {node}"
                );
            }
        }
        for node in self.nodes.iter().filter(|node| !node.is_gone) {
            let all = &node.collectives;
            assert!(all.held.is_empty() && all.deadlines.is_empty() && all.forwards.is_empty());
            let has_failed = |open: &Collective<Token>| matches!(open.phase, Phase::Failed(_));
            assert!(
                all.all.values().all(has_failed),
                "an open collective is left"
            );
            let num_failed: usize = all.failed.values().map(|(ids, _)| ids.len()).sum();
            assert_eq!(num_failed, all.all.len());
        }
    }
}

thread_local! {
    static COUNTS: RefCell<BTreeMap<String, usize>> = const { RefCell::new(BTreeMap::new()) };
}

#[test]
fn every_call_gets_one_answer_and_all_nodes_of_a_collective_the_same() {
    let start = Instant::now();
    for seed in 0..NUM_SEEDS {
        let run = std::panic::catch_unwind(|| {
            let mut world = World::new(seed, start);
            while world.step() {}
            // Time limits that are left.
            world.now += Duration::from_secs(10);
            for node in 0..world.nodes.len() {
                world.at(node, |collectives, _, now| collectives.tick(now));
            }
            while world.step() {}
            world.check();
            for made in &world.made {
                let answer = made.answers.first().map(HostReply::status);
                let name = answer.map_or_else(|| "none".to_owned(), |status| status.to_string());
                COUNTS.with_borrow_mut(|counts| *counts.entry(name).or_default() += 1);
            }
        });
        assert!(run.is_ok(), "seed {seed} failed");
    }
    // The runs must reach every kind of end, or they prove nothing about it.
    COUNTS.with_borrow(|counts| {
        for status in [
            Status::SUCCESS,
            Status::ERR_LOST_CONNECTION,
            Status::ERR_TIMEOUT,
            Status::ERR_BAD_PARAM,
        ] {
            let count = counts.get(&status.to_string()).copied().unwrap_or(0);
            assert!(count > 100, "{status}: {counts:?}");
        }
    });
}
