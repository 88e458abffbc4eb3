// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pending operations of several nodes as one list.
//!
//! Each server describes the operations of its node. The descriptions of the same collective have the same operation and
//! participants (a group operation: the same group), and are merged. The k-th such collective of one node belongs to
//! the k-th of another.
//!
//! | node of participants | its participants |
//! | --- | --- |
//! | describes the collective | as it describes them |
//! | does not describe it | missing, unless they have ended |
//! | has not answered, and the controller awaits its call | missing, unless they have ended |
//! | has not answered, and has called the controller | callers |
//! | has not answered, and the controller knows nothing | not listed |
//! | describes only a part of its operations | not listed |

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pmix_server::RankRuns;
use pmix_types::{Nspace, Proc, Rank, Text};

use super::{MOST_SILENT, PendingOperation, PendingOperations, ProcRuns};

/// The largest number of merged collectives, and of merged gets.
const MOST_LISTED: usize = 64;

/// The largest number of processes from which all lists are made.
const MOST_VISITED: usize = 64 << 10;

/// The description of one node.
pub(crate) struct NodeWaits {
    /// The number of the node.
    pub(crate) node: usize,
    /// The name of the node.
    pub(crate) name: String,
    /// The description; `None` if the node has not answered in time.
    pub(crate) pending: Option<PendingOperations>,
}

/// A collective for which the controller awaits the calls of nodes.
pub(crate) struct GatheredWait {
    /// The word for the operation, as servers describe it.
    pub(crate) operation: String,
    /// The name of the group of a destruct.
    pub(crate) group: Option<Text<'static>>,
    /// The participants in one form.
    pub(crate) participants: ProcRuns,
    /// The time since the first call of a node.
    pub(crate) age: Duration,
    /// The nodes that have called.
    pub(crate) called: BTreeSet<usize>,
    /// The nodes that have not called.
    pub(crate) awaited: BTreeSet<usize>,
}

/// The nodes of processes.
pub(crate) trait ProcsOfNodes {
    /// Returns the numbers of the nodes of a job.
    fn nodes_of(&self, nspace: &Nspace<'_>) -> Vec<usize>;

    /// Returns the ranks of a job on a node.
    fn ranks_at(&self, nspace: &Nspace<'_>, node: usize) -> Box<dyn Iterator<Item = Rank> + '_>;

    /// Returns the number of the node of a process.
    fn node_of(&self, proc: &Proc<'_>) -> Option<usize>;

    /// Returns `true` if a process has ended.
    fn has_ended(&self, proc: &Proc<'_>) -> bool;
}

/// The identity of an operation on all nodes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Identity {
    Collective(String, ProcRuns),
    Group(String, Text<'static>),
    Get(Proc<'static>, Option<Text<'static>>),
}

/// An operation with the descriptions of all nodes.
#[derive(Default)]
struct Merged {
    operation: PendingOperation,
    described_by: BTreeSet<usize>,
    /// The nodes that await the call of a node and have not answered, and those that have called.
    silent_missing: BTreeSet<usize>,
    silent_callers: BTreeSet<usize>,
}

/// Merges the descriptions of nodes, and the collectives that the controller gathers.
pub(crate) fn merge(
    nodes: Vec<NodeWaits>,
    gathered: Vec<GatheredWait>,
    places: &impl ProcsOfNodes,
) -> PendingOperations {
    let mut all = PendingOperations::default();
    let mut merged = BTreeMap::<(Identity, usize), Merged>::new();
    let (mut silent, mut partial) = (BTreeSet::new(), BTreeSet::new());
    for NodeWaits {
        node,
        name,
        pending,
    } in nodes
    {
        let Some(pending) = pending else {
            silent.insert(node);
            all.num_silent += 1;
            if all.silent.len() < MOST_SILENT {
                all.silent.push(name);
            }
            continue;
        };
        if pending.num_more > 0 {
            partial.insert(node);
            all.num_more = all.num_more.saturating_add(pending.num_more);
        }
        let mut seen = BTreeMap::<Identity, usize>::new();
        for operation in pending.listed {
            let identity = Identity::of(&operation);
            let place = *seen
                .entry(identity.clone())
                .and_modify(|place| *place += 1)
                .or_insert(0);
            merged
                .entry((identity, place))
                .or_default()
                .add(node, operation);
        }
    }
    let mut seen = BTreeMap::<Identity, usize>::new();
    for one in gathered {
        let identity = match &one.group {
            Some(group) => Identity::Group(one.operation.clone(), group.clone()),
            None => Identity::Collective(one.operation.clone(), one.participants.clone()),
        };
        let place = *seen
            .entry(identity.clone())
            .and_modify(|place| *place += 1)
            .or_insert(0);
        let is_silent = one
            .called
            .union(&one.awaited)
            .any(|node| silent.contains(node));
        let key = (identity, place);
        // A collective that no server describes and no silent node knows has just ended.
        if is_silent || merged.contains_key(&key) {
            merged.entry(key).or_default().add_gathered(one, &silent);
        }
    }
    let (gets, collectives): (Vec<_>, Vec<_>) = merged
        .into_values()
        .partition(|one| one.operation.proc.is_some());
    let mut room = MOST_VISITED;
    for mut group in [collectives, gets] {
        // The oldest first, as servers list them.
        group.sort_by_key(|one| std::cmp::Reverse(one.operation.age));
        let num_more = group.len().saturating_sub(MOST_LISTED);
        all.num_more = (all.num_more).saturating_add(u64::try_from(num_more).unwrap_or(u64::MAX));
        group.truncate(MOST_LISTED);
        let complete = |one: Merged| one.complete(&silent, &partial, places, &mut room);
        all.listed.extend(group.into_iter().map(complete));
    }
    all
}

impl Identity {
    fn of(operation: &PendingOperation) -> Self {
        let word = operation.operation.clone();
        match (&operation.proc, &operation.group) {
            (Some(proc), _) => Self::Get(proc.clone(), operation.key.clone()),
            (None, Some(group)) => Self::Group(word, group.clone()),
            (None, None) => Self::Collective(word, operation.participants.clone()),
        }
    }
}

impl Merged {
    /// Adds the description of a node.
    fn add(&mut self, node: usize, operation: PendingOperation) {
        let known = &mut self.operation;
        if self.described_by.is_empty() {
            known.operation = operation.operation;
            known.group = operation.group;
            known.proc = operation.proc;
            known.key = operation.key;
        }
        self.described_by.insert(node);
        known.age = known.age.max(operation.age);
        // A notice needs a number that is not 0. The pairs tell operations apart.
        known.id = known.id.max(operation.id);
        known.ids.push((node, operation.id));
        known.participants.join(operation.participants);
        known.callers.join(operation.callers);
        known.missing.join(operation.missing);
    }

    /// Adds what the controller knows about nodes that have not answered.
    fn add_gathered(&mut self, gathered: GatheredWait, silent: &BTreeSet<usize>) {
        let known = &mut self.operation;
        if self.described_by.is_empty() {
            known.operation = gathered.operation;
            known.group = gathered.group;
            known.participants = gathered.participants;
        }
        known.age = known.age.max(gathered.age);
        self.silent_missing = &gathered.awaited & silent;
        self.silent_callers = &gathered.called & silent;
    }

    /// Adds the participants of the nodes that do not describe the operation. `room` is the number of processes that may
    /// be visited.
    fn complete(
        mut self,
        silent: &BTreeSet<usize>,
        partial: &BTreeSet<usize>,
        places: &impl ProcsOfNodes,
        room: &mut usize,
    ) -> PendingOperation {
        self.operation.is_of_all_nodes = true;
        if let Some(proc) = self.operation.proc.clone() {
            let awaits_node = |node: usize| {
                let is_described = self.described_by.contains(&node) || silent.contains(&node);
                !is_described && !places.has_ended(&proc)
            };
            // The server of that node answers as soon as the process has committed the data.
            if self.operation.missing.num_procs == 0
                && places.node_of(&proc).is_some_and(awaits_node)
            {
                self.operation.missing = ProcRuns::one(&proc);
            }
            return self.operation;
        }
        let (mut missing, mut callers) = (Fold::default(), Fold::default());
        let participants = std::mem::take(&mut self.operation.participants);
        for (first, last) in &participants.runs {
            let is_listed = |node: &usize| {
                self.described_by.contains(node)
                    || partial.contains(node)
                    || silent.contains(node)
                        && !self.silent_missing.contains(node)
                        && !self.silent_callers.contains(node)
            };
            if first.rank == Rank::WILDCARD {
                let nodes = places.nodes_of(&first.nspace);
                for node in nodes.into_iter().filter(|node| !is_listed(node)) {
                    let ranks = places.ranks_at(&first.nspace, node);
                    let procs = ranks.map(|rank| Proc::new(first.nspace.clone(), rank));
                    match self.silent_callers.contains(&node) {
                        true => callers.extend(procs, room, |_| false),
                        false => missing.extend(procs, room, |proc| places.has_ended(proc)),
                    }
                }
                continue;
            }
            for rank in first.rank.as_raw()..=last.as_raw() {
                if *room == 0 {
                    break;
                }
                *room -= 1;
                let proc = Proc::new(first.nspace.clone(), Rank::new(rank));
                let Some(node) = places.node_of(&proc).filter(|node| !is_listed(node)) else {
                    continue;
                };
                match self.silent_callers.contains(&node) {
                    true => callers.procs.push(proc),
                    false if places.has_ended(&proc) => {}
                    false => missing.procs.push(proc),
                }
            }
        }
        self.operation.participants = participants;
        self.operation.missing.join(missing.runs());
        self.operation.callers.join(callers.runs());
        self.operation
    }
}

/// Processes that become runs.
#[derive(Default)]
struct Fold {
    procs: Vec<Proc<'static>>,
    /// The number of processes that were not visited.
    num_more: u64,
}

impl Fold {
    fn extend(
        &mut self,
        mut procs: impl Iterator<Item = Proc<'static>>,
        room: &mut usize,
        is_left_out: impl Fn(&Proc<'_>) -> bool,
    ) {
        let before = *room;
        let visited = procs.by_ref().take(before).inspect(|_| *room -= 1);
        self.procs.extend(visited.filter(|proc| !is_left_out(proc)));
        let num_more = procs.map(|_| 1_u64).sum();
        self.num_more = self.num_more.saturating_add(num_more);
    }

    fn runs(self) -> ProcRuns {
        let mut runs = ProcRuns::of(&RankRuns::of(self.procs.iter().collect()));
        runs.num_procs = runs.num_procs.saturating_add(self.num_more);
        runs
    }
}

impl ProcRuns {
    /// Returns processes as runs of ranks.
    pub(crate) fn of_procs(procs: &[Proc<'static>]) -> Self {
        Self::of(&RankRuns::of(procs.iter().collect()))
    }

    /// Adds the runs of another node. Runs of the same processes are counted once.
    fn join(&mut self, other: Self) {
        if *self == other || other.num_procs == 0 {
            return;
        }
        let num_listed = |runs: &[(Proc<'_>, Rank)]| {
            let len = |(first, last): &(Proc<'_>, Rank)| {
                u64::from(last.as_raw().saturating_sub(first.rank.as_raw())) + 1
            };
            runs.iter().map(len).fold(0, u64::saturating_add)
        };
        let unlisted = |runs: &Self| runs.num_procs.saturating_sub(num_listed(&runs.runs));
        let num_more = unlisted(self).saturating_add(unlisted(&other));
        let mut all = std::mem::take(&mut self.runs);
        all.extend(other.runs);
        all.sort_unstable();
        for (first, last) in all {
            let follows = |known: &&mut (Proc<'static>, Rank)| {
                let next = known.1.as_raw().saturating_add(1);
                known.0.nspace == first.nspace
                    && first.rank.is_valid() == known.1.is_valid()
                    && first.rank.as_raw() <= next
            };
            match self.runs.last_mut().filter(|known| follows(known)) {
                Some(known) => known.1 = known.1.max(last),
                None => self.runs.push((first, last)),
            }
        }
        self.num_procs = num_listed(&self.runs).saturating_add(num_more);
        self.runs.truncate(super::MAX_RUNS_READ);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job with two processes on each of three nodes; some have ended.
    #[derive(Default)]
    struct Job {
        ended: Vec<u32>,
    }

    impl ProcsOfNodes for Job {
        fn nodes_of(&self, _: &Nspace<'_>) -> Vec<usize> {
            vec![0, 1, 2]
        }

        fn ranks_at(&self, _: &Nspace<'_>, node: usize) -> Box<dyn Iterator<Item = Rank> + '_> {
            let first = u32::try_from(2 * node).unwrap();
            Box::new([first, first + 1].into_iter().map(Rank::new))
        }

        fn node_of(&self, proc: &Proc<'_>) -> Option<usize> {
            let node = usize::try_from(proc.rank.as_raw() / 2).ok()?;
            (node < 3).then_some(node)
        }

        fn has_ended(&self, proc: &Proc<'_>) -> bool {
            self.ended.contains(&proc.rank.as_raw())
        }
    }

    fn procs(ranks: &[u32]) -> ProcRuns {
        let procs = ranks.iter().map(|rank| Proc::new("job", Rank::new(*rank)));
        ProcRuns::of_procs(&procs.collect::<Vec<_>>())
    }

    fn whole() -> ProcRuns {
        ProcRuns::one(&Proc::new("job", Rank::WILDCARD))
    }

    fn fence(id: u64, callers: &[u32], missing: &[u32]) -> PendingOperation {
        PendingOperation {
            id,
            operation: "fence".to_owned(),
            age: Duration::from_secs(id),
            participants: whole(),
            callers: procs(callers),
            missing: procs(missing),
            ..PendingOperation::default()
        }
    }

    fn node(node: usize, listed: Option<Vec<PendingOperation>>) -> NodeWaits {
        NodeWaits {
            node,
            name: format!("n{node}"),
            pending: listed.map(|listed| PendingOperations {
                listed,
                ..PendingOperations::default()
            }),
        }
    }

    fn gathered(called: &[usize], awaited: &[usize]) -> GatheredWait {
        GatheredWait {
            operation: "fence".to_owned(),
            group: None,
            participants: whole(),
            age: Duration::from_secs(1),
            called: called.iter().copied().collect(),
            awaited: awaited.iter().copied().collect(),
        }
    }

    fn lines(merged: &PendingOperations) -> Vec<String> {
        let lines = merged.listed.iter();
        lines.map(|one| one.to_line(b"job")).collect()
    }

    #[test]
    fn a_fence_waits_for_the_missing_ranks_of_all_nodes() {
        let nodes = || {
            vec![
                node(0, Some(vec![fence(4, &[0], &[1])])),
                node(1, Some(vec![fence(9, &[2, 3], &[])])),
                node(2, Some(vec![])),
            ]
        };
        let merged = merge(nodes(), vec![gathered(&[1], &[0, 2])], &Job::default());
        let expected = "fence, 9 s: waits for ranks 1, 4-5; called by ranks 0, 2-3";
        assert_eq!(lines(&merged), [expected]);
        assert_eq!(merged.listed[0].ids, [(0, 4), (1, 9)]);
        // A rank that has ended is not missing.
        let merged = merge(nodes(), Vec::new(), &Job { ended: vec![4] });
        let expected = "fence, 9 s: waits for ranks 1, 5; called by ranks 0, 2-3";
        assert_eq!(lines(&merged), [expected]);
    }

    #[test]
    fn a_silent_node_is_named_and_its_ranks_are_what_the_controller_knows() {
        let nodes = || {
            vec![
                node(0, Some(vec![fence(5, &[0, 1], &[])])),
                node(1, None),
                node(2, Some(vec![fence(5, &[4, 5], &[])])),
            ]
        };
        let line = |gathered| {
            let merged = merge(nodes(), gathered, &Job::default());
            assert!(merged.silent_line().unwrap().starts_with("node n1 has not"));
            lines(&merged).concat()
        };
        let head = "fence, 5 s: ";
        let awaited = line(vec![gathered(&[0, 2], &[1])]);
        let missing = "waits for ranks 2-3; called by ranks 0-1, 4-5";
        assert_eq!(awaited, format!("{head}{missing}"));
        let called = line(vec![gathered(&[0, 1, 2], &[])]);
        let none = "no rank is known to be missing; called by ranks";
        assert_eq!(called, format!("{head}{none} 0-5"));
        assert_eq!(line(Vec::new()), format!("{head}{none} 0-1, 4-5"));
        // No node that has called answers.
        let nodes = vec![node(0, Some(vec![])), node(1, None), node(2, Some(vec![]))];
        let merged = merge(nodes, vec![gathered(&[1], &[0, 2])], &Job::default());
        let expected = "fence, 1 s: waits for ranks 0-1, 4-5; called by ranks 2-3";
        assert_eq!(lines(&merged), [expected]);
    }

    #[test]
    fn a_partial_description_is_no_proof_that_ranks_are_missing() {
        let mut second = node(1, Some(vec![]));
        second.pending.as_mut().unwrap().num_more = 3;
        let nodes = vec![node(0, Some(vec![fence(5, &[0], &[1])])), second];
        let merged = merge(nodes, Vec::new(), &Job { ended: vec![4, 5] });
        let expected = "fence, 5 s: waits for rank 1; called by rank 0";
        assert_eq!(lines(&merged), [expected]);
        assert_eq!(merged.num_more, 3);
    }

    #[test]
    fn the_kth_collective_of_a_node_belongs_to_the_kth_of_another() {
        let nodes = vec![
            node(0, Some(vec![fence(7, &[0, 1], &[]), fence(3, &[0], &[1])])),
            node(1, Some(vec![fence(6, &[2, 3], &[])])),
        ];
        let merged = merge(nodes, Vec::new(), &Job { ended: vec![4, 5] });
        let first = "fence, 7 s: no rank is known to be missing; called by ranks 0-3";
        let second = "fence, 3 s: waits for ranks 1-3; called by rank 0";
        assert_eq!(lines(&merged), [first, second]);
    }

    #[test]
    fn a_get_waits_for_a_process_of_another_node() {
        let get = |caller: u32, of: u32| PendingOperation {
            operation: "get".to_owned(),
            proc: Some(Proc::new("job", Rank::new(of))),
            key: Some("k".into()),
            callers: procs(&[caller]),
            ..PendingOperation::default()
        };
        let nodes = vec![
            node(0, Some(vec![get(0, 5)])),
            node(1, Some(vec![get(2, 5), get(3, 1)])),
            node(2, Some(vec![])),
        ];
        let merged = merge(nodes, Vec::new(), &Job { ended: vec![1] });
        let known =
            "get of key k of rank 5, 0 s: waits for rank 5 to commit it; called by ranks 0, 2";
        let ended = "get of key k of rank 1, 0 s: waits for the registration of the process or for its node; called by rank 3";
        let mut found = lines(&merged);
        found.sort_unstable_by(|a, b| b.cmp(a));
        assert_eq!(found, [known, ended]);
    }
}
