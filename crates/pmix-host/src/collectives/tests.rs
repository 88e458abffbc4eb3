// SPDX-License-Identifier: MIT OR Apache-2.0

mod simulation;

use std::cell::Cell;
use std::time::Duration;

use pmix_server::upcall::{Connect, Disconnect, Fence, Group, HostReply, Upcall};
use pmix_types::{GroupOperation, Info, Nspace, Rank, Value, keys};

use super::end::MAX_FAILED;
use super::*;
use crate::groups::Processes;

/// A job with two processes on each node, of which some have ended; and the lost nodes.
#[derive(Default)]
struct Job {
    num_nodes: u32,
    ended: Vec<u32>,
    lost: Vec<usize>,
    /// The number of questions about the job.
    asked: Cell<usize>,
}

impl Job {
    fn of(num_nodes: u32) -> Self {
        Self {
            num_nodes,
            ..Self::default()
        }
    }
}

impl Processes for Job {
    fn job_size(&self, nspace: &Nspace<'_>) -> Option<u32> {
        self.asked.set(self.asked.get() + 1);
        (*nspace == "job").then_some(2 * self.num_nodes)
    }

    fn has_ended(&self, proc: &Proc<'_>) -> bool {
        self.asked.set(self.asked.get() + 1);
        self.ended.contains(&proc.rank.as_raw())
    }

    fn server_of(&self, proc: &Proc<'_>) -> Option<usize> {
        self.asked.set(self.asked.get() + 1);
        let node = (proc.rank.as_raw() / 2).try_into().ok()?;
        (proc.nspace == "job" && node < self.num_nodes as usize).then_some(node)
    }
}

impl Nodes for Job {
    fn nodes_of_job(&self, _: &Nspace<'_>) -> Vec<NodeShare> {
        let running = |node: u32| {
            let ranks = [2 * node, 2 * node + 1];
            ranks
                .iter()
                .filter(|rank| !self.ended.contains(rank))
                .count()
        };
        let nodes = 0..self.num_nodes;
        let shares = nodes.map(|node| NodeShare::new(node as usize, running(node)));
        shares.collect()
    }

    fn is_lost(&self, node: usize) -> bool {
        self.lost.contains(&node)
    }
}

fn procs(ranks: &[u32]) -> Vec<Proc<'static>> {
    let ranks = ranks.iter();
    ranks
        .map(|rank| Proc::new("job", Rank::new(*rank)))
        .collect()
}

fn whole_job() -> Vec<Proc<'static>> {
    vec![Proc::new("job", Rank::WILDCARD)]
}

fn fence(procs: Vec<Proc<'static>>, data: &str) -> Fence {
    Fence::new(procs, Vec::new(), data.as_bytes().to_vec())
}

fn failed(procs: Vec<Proc<'static>>, status: Status) -> Connect {
    Connect::new(procs, Vec::new(), Some(status))
}

/// Returns the tokens and the reply of each end.
fn replies<T: Clone>(ended: &[EndedCollective<T>]) -> Vec<(Vec<T>, HostReply)> {
    let ended = ended.iter();
    ended
        .map(|ended| (ended.tokens.clone(), ended.reply()))
        .collect()
}

fn data(data: &str) -> HostReply {
    HostReply::Data(Ok(data.as_bytes().to_vec()))
}

#[test]
fn open_collectives_are_listed_with_their_nodes_until_they_end_or_fail() {
    let (job, now) = (Job::of(3), Instant::now());
    let mut all = Collectives::default();
    all.take("c", 2, fence(whole_job(), ""), &job, now).unwrap();
    all.take(
        "a",
        0,
        fence(whole_job(), ""),
        &job,
        now + Duration::from_secs(1),
    )
    .unwrap();
    {
        let open: Vec<_> = all.open().collect();
        assert_eq!((open.len(), open[0].kind), (1, &CollectiveKind::Fence));
        assert_eq!((open[0].procs, open[0].began), (&whole_job()[..], now));
        assert_eq!(
            (&open[0].called[..], &open[0].awaited[..]),
            (&[0, 2][..], &[1][..])
        );
    }
    assert_eq!(all.node_lost(1).len(), 1);
    assert_eq!(all.open().count(), 0);
}

#[test]
fn the_kth_call_of_a_node_belongs_to_the_kth_collective_in_any_form_of_its_participants() {
    let (job, now) = (Job::of(2), Instant::now());
    let mut all = Collectives::default();
    let mut take = |token, node, call| {
        let ended = all.take(token, node, call, &job, now).expect("a call");
        replies(&ended)
    };
    assert_eq!(take("b1", 1, fence(procs(&[3, 1, 0, 2]), "b1")), []);
    assert_eq!(take("b2", 1, fence(whole_job(), "b2")), []);
    // Other participants form another collective.
    assert_eq!(take("c", 1, fence(procs(&[2, 0]), "c")), []);
    let first = vec![(vec!["a1", "b1"], data("a1b1"))];
    assert_eq!(take("a1", 0, fence(whole_job(), "a1")), first);
    let second = vec![(vec!["a2", "b2"], data("a2b2"))];
    assert_eq!(take("a2", 0, fence(procs(&[0, 0, 1, 2, 3]), "a2")), second);
    let third = vec![(vec!["d", "c"], data("dc"))];
    assert_eq!(take("d", 0, fence(procs(&[0, 2]), "d")), third);
    assert!(all.all.is_empty() && all.queues.is_empty() && all.held.is_empty());
    assert!(all.awaiting.is_empty());
}

#[test]
fn calls_that_belong_to_no_collective_are_refused_with_the_reason() {
    let (job, now) = (Job::of(2), Instant::now());
    let mut all = Collectives::default();
    let local = Proc::new("job", Rank::LOCAL_NODE);
    let cases = [
        (0, vec![], Status::ERR_BAD_PARAM, "without participants"),
        (0, procs(&[0, 4]), Status::ERR_NOT_FOUND, "rank 4 of job"),
        (0, procs(&[2]), Status::ERR_BAD_PARAM, "no participant"),
        (7, whole_job(), Status::ERR_BAD_PARAM, "node 7"),
        (7, vec![local.clone()], Status::ERR_BAD_PARAM, "node 7"),
        (
            0,
            vec![Proc::new("far", Rank::WILDCARD)],
            Status::ERR_NOT_FOUND,
            "unknown job far",
        ),
        (
            0,
            vec![Proc::new("job", Rank::UNDEF)],
            Status::ERR_BAD_PARAM,
            "of job",
        ),
        (
            0,
            [procs(&[0]), vec![local]].concat(),
            Status::ERR_BAD_PARAM,
            "of job",
        ),
    ];
    for (token, (node, procs, status, text)) in cases.into_iter().enumerate() {
        let refused = all
            .take(token, node, fence(procs, ""), &job, now)
            .unwrap_err();
        assert_eq!((refused.token, refused.error.status()), (token, status));
        assert!(refused.to_string().contains(text), "{refused}");
    }
    assert!(all.all.is_empty() && all.held.is_empty());
}

#[test]
fn the_processes_of_one_node_need_no_other() {
    let (job, now) = (Job::of(2), Instant::now());
    let mut all = Collectives::default();
    let local = vec![Proc::new("job", Rank::LOCAL_NODE)];
    let ended = all
        .take(1, 1, fence(local, "x"), &job, now)
        .expect("a call");
    assert_eq!(replies(&ended), [(vec![1], data("x"))]);
    // A server completes these itself, but a host may pass them on.
    let ended = all
        .take(2, 0, fence(procs(&[1]), "y"), &job, now)
        .expect("a call");
    assert_eq!(replies(&ended), [(vec![2], data("y"))]);
}

#[test]
fn a_failure_is_the_answer_of_every_node_once() {
    let (job, now) = (Job::of(3), Instant::now());
    let mut all = Collectives::default();
    let connect = || Connect::new(whole_job(), Vec::new(), None);
    assert!(
        all.take(0, 0, connect(), &job, now)
            .expect("a call")
            .is_empty()
    );
    let call = failed(whole_job(), Status::ERR_TIMEOUT);
    let ended = all.take(1, 1, call, &job, now).expect("a call");
    let timeout = HostReply::Done(Status::ERR_TIMEOUT);
    assert_eq!(replies(&ended), [(vec![0, 1], timeout.clone())]);
    // Node 0 is not late: its call is for the next connect.
    assert!(
        all.take(3, 0, connect(), &job, now)
            .expect("a call")
            .is_empty()
    );
    let ended = all.take(2, 2, connect(), &job, now).expect("a call");
    assert_eq!(replies(&ended), [(vec![2], timeout)]);
    assert!(
        all.take(4, 2, connect(), &job, now)
            .expect("a call")
            .is_empty()
    );
    let ended = all.take(5, 1, connect(), &job, now).expect("a call");
    assert_eq!(
        replies(&ended),
        [(vec![3, 5, 4], HostReply::Done(Status::SUCCESS))]
    );
    assert!(all.all.is_empty() && all.failed.is_empty() && all.awaiting.is_empty());
}

#[test]
fn a_node_without_running_participants_is_not_awaited_and_begins_nothing() {
    let now = Instant::now();
    let mut job = Job::of(2);
    let mut all = Collectives::default();
    assert!(
        all.take(0, 0, fence(whole_job(), ""), &job, now)
            .expect("a call")
            .is_empty()
    );
    job.ended = vec![2];
    assert!(
        all.proc_ended(&procs(&[2])[0], &job).is_empty(),
        "rank 3 runs"
    );
    job.ended = vec![2, 3];
    let ended = all.proc_ended(&procs(&[3])[0], &job);
    let lost = HostReply::Data(Err(Status::ERR_LOST_CONNECTION));
    assert_eq!(replies(&ended), [(vec![0], lost.clone())]);
    // The server of node 1 reports the failure late. No other node waits for it.
    let ended = all.take(1, 1, failed(whole_job(), Status::ERR_TIMEOUT), &job, now);
    let timeout = HostReply::Done(Status::ERR_TIMEOUT);
    assert_eq!(replies(&ended.expect("a call")), [(vec![1], timeout)]);
    let ended = all
        .take(2, 1, fence(whole_job(), ""), &job, now)
        .expect("a call");
    assert_eq!(replies(&ended), [(vec![2], lost.clone())]);
    let ended = all
        .take(3, 0, fence(whole_job(), ""), &job, now)
        .expect("a call");
    assert_eq!(replies(&ended), [(vec![3], lost)]);
    let tolerant = Info::new(keys::GROUP_FT_COLLECTIVE, true);
    let call = Fence::new(whole_job(), vec![tolerant], b"a".to_vec());
    let ended = all.take(4, 0, call, &job, now).expect("a call");
    assert_eq!(replies(&ended), [(vec![4], data("a"))]);
    assert!(all.all.is_empty() && all.failed.is_empty() && all.awaiting.is_empty());
}

#[test]
fn a_lost_node_ends_the_collectives_that_await_it_but_not_those_it_has_called_for() {
    let now = Instant::now();
    let mut job = Job::of(3);
    let mut all = Collectives::default();
    let take = |all: &mut Collectives<u32>, token, node, call: Fence| {
        replies(&all.take(token, node, call, &job, now).expect("a call"))
    };
    assert_eq!(take(&mut all, 0, 2, fence(whole_job(), "c")), []);
    assert_eq!(take(&mut all, 1, 0, fence(whole_job(), "a")), []);
    assert_eq!(take(&mut all, 2, 0, fence(procs(&[0, 4]), "")), []);
    job.lost = vec![2];
    let lost = HostReply::Data(Err(Status::ERR_LOST_CONNECTION));
    assert_eq!(replies(&all.node_lost(2)), [(vec![2], lost.clone())]);
    let ended = all
        .take(3, 1, fence(whole_job(), "b"), &job, now)
        .expect("a call");
    assert_eq!(replies(&ended), [(vec![1, 3, 0], data("abc"))]);
    let ended = all
        .take(4, 1, fence(whole_job(), "b"), &job, now)
        .expect("a call");
    assert_eq!(replies(&ended), [(vec![4], lost.clone())]);
    let ended = all
        .take(5, 0, fence(whole_job(), "a"), &job, now)
        .expect("a call");
    assert_eq!(replies(&ended), [(vec![5], lost)]);
    assert!(all.all.is_empty() && all.failed.is_empty());
}

#[test]
fn the_shortest_time_limit_ends_a_collective() {
    let (job, now) = (Job::of(3), Instant::now());
    let mut all = Collectives::default();
    let limited = |seconds: u32| {
        let infos = vec![Info::new(keys::TIMEOUT, seconds)];
        Disconnect::new(whole_job(), infos, None)
    };
    let calls = [(0, limited(0)), (1, limited(9))];
    for (node, call) in calls {
        assert!(
            all.take(node, node, call, &job, now)
                .expect("a call")
                .is_empty()
        );
    }
    let end = now + Duration::from_secs(9);
    assert_eq!(all.deadline(), Some(end));
    assert!(all.tick(end - Duration::from_millis(1)).is_empty());
    let timeout = HostReply::Done(Status::ERR_TIMEOUT);
    assert_eq!(replies(&all.tick(end)), [(vec![0, 1], timeout.clone())]);
    let ended = all.take(2, 2, limited(3), &job, end).expect("a call");
    assert_eq!(replies(&ended), [(vec![2], timeout)]);
    assert_eq!(all.deadline(), None);
}

#[test]
fn a_connect_gathers_the_infos_that_its_nodes_share() {
    let (job, now) = (Job::of(2), Instant::now());
    let mut all = Collectives::default();
    let shared = |name: &'static str| Info::new(keys::PROC_INFO_ARRAY, name);
    let own = Info::new("own", 1_u32).required();
    let call = |infos| Connect::new(whole_job(), infos, None);
    let second = vec![
        Info::new("first", 2_u32),
        own.clone(),
        shared("b"),
        shared("c"),
    ];
    all.take(1, 1, call(second), &job, now).expect("a call");
    let first = vec![
        shared("a"),
        Info::new("first", 1_u32),
        Info::new(keys::TIMEOUT, 5_u32),
    ];
    let ended = all.take(0, 0, call(first), &job, now).expect("a call");
    let gathered = ended[0].outcome.as_ref().expect("a success");
    let expected = [
        Info::new("first", 1_u32),
        own,
        shared("a"),
        shared("b"),
        shared("c"),
    ];
    assert_eq!(gathered.infos, expected);
}

#[test]
fn a_destruct_awaits_the_servers_of_lost_members_and_no_lost_server() {
    let now = Instant::now();
    let mut job = Job::of(3);
    job.ended = vec![2, 3];
    job.lost = vec![2];
    let mut all = Collectives::default();
    let call = |name: &'static str| {
        let call = Group::new(
            GroupOperation::DESTRUCT,
            name.into(),
            whole_job(),
            Vec::new(),
        );
        Contribution::from_upcall(call.into()).expect("a destruct")
    };
    assert!(
        all.take(0, 0, call("g"), &job, now)
            .expect("a call")
            .is_empty()
    );
    assert!(
        all.take(1, 1, call("h"), &job, now)
            .expect("a call")
            .is_empty()
    );
    let ended = all.take(2, 1, call("g"), &job, now).expect("a call");
    let success = HostReply::Infos(Status::SUCCESS, Vec::new());
    assert_eq!(replies(&ended), [(vec![0, 2], success)]);
    let made = Group::new(
        GroupOperation::CONSTRUCT,
        "g".into(),
        whole_job(),
        Vec::new(),
    );
    assert!(
        Contribution::from_upcall(made.into()).is_err(),
        "the assembler takes it"
    );
}

#[test]
fn contributions_keep_their_failure_as_upcalls() {
    let kinds = [
        CollectiveKind::Fence,
        CollectiveKind::Connect,
        CollectiveKind::Disconnect,
        CollectiveKind::GroupDestruct("g".into()),
    ];
    for kind in kinds {
        for failed in [None, Some(Status::ERR_TIMEOUT)] {
            let mut part = Contribution::new(kind.clone(), procs(&[1, 0]));
            part.failed = failed;
            part.infos = vec![Info::new("k", true)];
            let packed = part.clone().into_upcall().pack().expect("a frame");
            let upcall = Upcall::unpack(&packed).expect("an upcall");
            assert_eq!(Contribution::from_upcall(upcall), Ok(part));
        }
    }
}

#[test]
fn a_tree_node_forwards_one_contribution_and_the_answer_of_its_parent() {
    let (job, now) = (Job::of(2), Instant::now());
    let mut all = Collectives::below_parent();
    let limited = vec![Info::new(keys::TIMEOUT, 5_u32)];
    let call = Fence::new(whole_job(), limited, b"b".to_vec());
    all.take("b", 1, call, &job, now).expect("a call");
    assert_eq!(all.next_forward(now), None);
    assert!(
        all.take("a", 0, fence(whole_job(), "a"), &job, now)
            .expect("a call")
            .is_empty()
    );
    let later = now + Duration::from_millis(1500);
    let forward = all.next_forward(later).expect("a contribution");
    let Contribution {
        procs,
        infos,
        data: gathered,
        failed,
        ..
    } = forward.contribution;
    assert_eq!(
        (procs, gathered, failed),
        (whole_job(), b"ab".to_vec(), None)
    );
    // The rest is rounded up to whole seconds.
    let seconds = infos.iter().find(|info| info.key.is(keys::TIMEOUT));
    assert_eq!(seconds.map(|info| &info.value), Some(&Value::Uint32(4)));
    assert_eq!(all.deadline(), None, "the parent limits the time now");
    let ended = all.answered(forward.id, data("abcd"));
    assert_eq!(replies(&ended), [(vec!["a", "b"], data("abcd"))]);
    assert!(
        all.answered(forward.id, data("abcd")).is_empty(),
        "answered twice"
    );
}

#[test]
fn a_failure_below_a_parent_is_no_success_even_if_the_parent_says_so() {
    let (job, now) = (Job::of(2), Instant::now());
    let mut all = Collectives::below_parent();
    let call = failed(whole_job(), Status::ERR_TIMEOUT);
    assert!(
        all.take("a", 0, call, &job, now)
            .expect("a call")
            .is_empty()
    );
    let forward = all.next_forward(now).expect("a contribution");
    assert_eq!(forward.contribution.failed, Some(Status::ERR_TIMEOUT));
    let ended = all.answered(forward.id, HostReply::Done(Status::SUCCESS));
    let timeout = HostReply::Done(Status::ERR_TIMEOUT);
    assert_eq!(replies(&ended), [(vec!["a"], timeout.clone())]);
    let late = Connect::new(whole_job(), Vec::new(), None);
    let ended = all.take("b", 1, late, &job, now).expect("a call");
    assert_eq!(replies(&ended), [(vec!["b"], timeout)]);
    assert_eq!(all.next_forward(now), None);
}

#[test]
fn without_its_parent_a_tree_node_fails_all_calls() {
    let (job, now) = (Job::of(2), Instant::now());
    let mut all = Collectives::below_parent();
    all.take(0, 0, fence(whole_job(), ""), &job, now)
        .expect("a call");
    all.take(1, 0, fence(procs(&[0]), ""), &job, now)
        .expect("a call");
    let lost = HostReply::Data(Err(Status::ERR_LOST_CONNECTION));
    let ended = all.parent_lost();
    assert_eq!(replies(&ended), [(vec![0], lost.clone()), (vec![1], lost)]);
    assert_eq!(all.next_forward(now), None);
    let refused = all
        .take(2, 1, fence(whole_job(), ""), &job, now)
        .unwrap_err();
    assert_eq!(refused.error.status(), Status::ERR_LOST_CONNECTION);
    assert!(all.all.is_empty() && all.held.is_empty() && all.failed.is_empty());
}

#[test]
fn a_node_cannot_hold_more_than_its_limits() {
    let (job, now) = (Job::of(2), Instant::now());
    let limits = CollectiveLimits {
        calls: 2,
        ..CollectiveLimits::default()
    };
    let mut all = Collectives::default().with_limits(limits);
    for token in 0..2 {
        all.take(token, 0, fence(whole_job(), ""), &job, now)
            .expect("a call");
    }
    let refused = all
        .take(2, 0, fence(whole_job(), ""), &job, now)
        .unwrap_err();
    assert_eq!(refused.error.status(), Status::ERR_OUT_OF_RESOURCE);
    // Node 1 waits for this fence, so it fails for both.
    all.take(3, 1, fence(procs(&[0, 2]), ""), &job, now)
        .expect("a call");
    let ended = all
        .take(4, 0, fence(procs(&[0, 2]), ""), &job, now)
        .expect("a call");
    let full = HostReply::Data(Err(Status::ERR_OUT_OF_RESOURCE));
    assert_eq!(replies(&ended), [(vec![4, 3], full)]);
    let limits = CollectiveLimits {
        bytes: 1000,
        ..CollectiveLimits::default()
    };
    let mut all = Collectives::default().with_limits(limits);
    let call = fence(whole_job(), &"x".repeat(1000));
    let refused = all.take(0, 0, call, &job, now).unwrap_err();
    assert_eq!(refused.error.status(), Status::ERR_OUT_OF_RESOURCE);
    assert!(refused.to_string().contains("1000 bytes"), "{refused}");
}

#[test]
fn a_node_drops_only_failures_of_collectives_that_it_began() {
    let (job, now) = (Job::of(200), Instant::now());
    let mut all = Collectives::default();
    let status = Status::ERR_TIMEOUT;
    all.take(0, 1, failed(procs(&[2, 4]), status), &job, now)
        .expect("a call");
    for rank in 0..MAX_FAILED + 40 {
        let other = u32::try_from(rank).unwrap() + 6;
        let call = failed(procs(&[0, other]), status);
        all.take(0, 0, call, &job, now).expect("a call");
        assert!(all.all.len() <= MAX_FAILED + 1);
    }
    let late = Connect::new(procs(&[2, 4]), Vec::new(), None);
    let ended = all.take(9, 2, late, &job, now).expect("a call");
    assert_eq!(replies(&ended), [(vec![9], HostReply::Done(status))]);
}

/// Returns the steps of a collective of the whole job, listed by rank, by wildcard, and of one that a node calls for
/// many times, for each participant, node or call.
fn steps(num_nodes: u32) -> [usize; 3] {
    let (job, now) = (Job::of(num_nodes), Instant::now());
    let num_procs = 2 * num_nodes as usize;
    // All but the last rank, so that the list has no short form.
    let listed: Vec<_> = (0..2 * num_nodes - 1).collect();
    let run = |ranks: Vec<Proc<'static>>, num_calls: usize| {
        let mut all = Collectives::default();
        job.asked.set(0);
        for call in 0..num_calls {
            let ended = all
                .take(0, call, fence(ranks.clone(), ""), &job, now)
                .expect("a call");
            assert_eq!(ended.len(), usize::from(call + 1 == num_nodes as usize));
        }
        all.steps + job.asked.get()
    };
    let nodes = num_nodes as usize;
    let by_list = run(procs(&listed), 2) / num_procs;
    let by_wildcard = run(whole_job(), nodes) / nodes;
    // One node calls many times, and the other never does.
    let mut all = Collectives::default();
    job.asked.set(0);
    for _ in 0..nodes {
        all.take(0, 0, fence(procs(&[0, 2]), ""), &job, now)
            .expect("a call");
    }
    [by_list, by_wildcard, (all.steps + job.asked.get()) / nodes]
}

#[test]
fn the_steps_of_a_collective_grow_with_participants_nodes_and_calls_alone() {
    let sizes = [64, 512, 4096].map(steps);
    let [first, ..] = sizes;
    for of_size in sizes {
        for (steps, first) in of_size.into_iter().zip(first) {
            assert!(steps <= first + 2, "{sizes:?}");
        }
    }
}
