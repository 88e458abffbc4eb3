// SPDX-License-Identifier: MIT OR Apache-2.0

mod callers;

use std::time::Duration;

use pmix_types::{GroupOperation, Rank, Value};

use super::call::procs_of;
use super::*;

/// A job of six processes: the ranks that have ended, and the number of processes at each server.
struct Job(Vec<u32>, u32);

impl Processes for Job {
    fn job_size(&self, nspace: &Nspace<'_>) -> Option<u32> {
        (*nspace == "job").then_some(6)
    }

    fn has_ended(&self, proc: &Proc<'_>) -> bool {
        self.0.contains(&proc.rank.as_raw())
    }

    fn server_of(&self, proc: &Proc<'_>) -> Option<usize> {
        usize::try_from(proc.rank.as_raw() / self.1).ok()
    }

    fn num_running(&self) -> Option<usize> {
        Some(6 - self.0.len())
    }
}

fn procs(ranks: &[u32]) -> Vec<Proc<'static>> {
    let ranks = ranks.iter();
    ranks
        .map(|rank| Proc::new("job", Rank::new(*rank)))
        .collect()
}

fn call(procs: Vec<Proc<'static>>, directives: Vec<Info<'static>>) -> Group {
    Group::new(GroupOperation::CONSTRUCT, "g".into(), procs, directives)
}

/// Returns a call of a leader that knows the number of leaders.
fn leader(rank: u32, count: u64, more: Vec<Info<'static>>) -> Group {
    let mut infos = vec![
        Info::new(keys::PROCID, procs(&[rank]).remove(0)),
        Info::new(keys::GROUP_BOOTSTRAP, Value::Size(count)),
    ];
    infos.extend(more);
    call(procs(&[rank]), infos)
}

/// Returns a call of a process that leaders add.
fn joins(rank: u32) -> Group {
    call(
        vec![],
        vec![Info::new(keys::PROCID, procs(&[rank]).remove(0))],
    )
}

fn adds(ranks: &[u32]) -> Info<'static> {
    Info::new(keys::GROUP_ADD_MEMBERS, procs(ranks))
}

/// Returns `true` if the assembler holds no state.
fn is_empty(all: &GroupAssembler<usize>) -> bool {
    let is_held = all.open.is_empty() && all.early.is_empty() && all.failed.is_empty();
    is_held && all.index.is_empty() && all.num_added == 0
}

#[test]
fn processes_added_to_constructs_are_bounded_for_each_and_in_all() {
    let now = Instant::now();
    let jobs = Job(vec![], 6);
    let mut all = GroupAssembler {
        limits: AddLimits {
            of_one: 3,
            of_all: 4,
        },
        ..GroupAssembler::default()
    };
    let named = |name: &'static str, rank, more: Vec<Info<'static>>| {
        let mut call = leader(rank, 2, more);
        call.id = name.into();
        call
    };
    let beyond = Err(Status::ERR_OUT_OF_RESOURCE);
    let whole = Info::new(
        keys::GROUP_ADD_MEMBERS,
        vec![Proc::new("job", Rank::WILDCARD)],
    );
    let mut take = |token, call: &Group| {
        let ended = all.take(token, 0, call, &jobs, now);
        let ended = ended.into_iter().map(|ended| ended.outcome.map(|_| ()));
        (ended.collect::<Vec<_>>(), all.num_added)
    };
    // A whole job of six is counted before any of its processes is added.
    assert_eq!(take(0, &named("a", 0, vec![whole])), (vec![beyond], 0));
    assert_eq!(take(1, &named("b", 0, vec![adds(&[1, 2, 3])])), (vec![], 3));
    // The same processes again, named by another leader, do not count twice.
    assert_eq!(take(2, &named("c", 0, vec![adds(&[5])])), (vec![], 4));
    assert_eq!(take(3, &named("d", 0, vec![adds(&[5])])), (vec![beyond], 4));
    assert_eq!(take(4, &named("b", 4, vec![adds(&[1, 2])])), (vec![], 4));
    assert_eq!(
        take(5, &named("b", 4, vec![])),
        (vec![Err(Status::ERR_BAD_PARAM)], 4)
    );
    for rank in 0..6 {
        all.proc_ended(&procs(&[rank])[0], &Job((0..=rank).collect(), 6));
    }
    assert!(all.open.is_empty());
    let failed = all.failed.values().map(GroupConstruct::num_added);
    assert_eq!(all.num_added, failed.sum());
}

#[test]
fn processes_that_a_construct_refuses_to_add_get_its_failure() {
    let (now, jobs) = (Instant::now(), Job(vec![], 6));
    let mut all = GroupAssembler {
        limits: AddLimits {
            of_one: 2,
            of_all: 2,
        },
        ..GroupAssembler::default()
    };
    let whole = Info::new(
        keys::GROUP_ADD_MEMBERS,
        vec![Proc::new("job", Rank::WILDCARD)],
    );
    for lists in [whole, adds(&[1, 2, 3])] {
        let mut take = |token, call: &Group| -> Vec<Told> {
            let ended = all.take(token, 0, call, &jobs, now);
            ended.into_iter().map(outcome).collect()
        };
        let beyond = || Err(Status::ERR_OUT_OF_RESOURCE);
        // Rank 1 calls before the leader, rank 2 after it.
        assert_eq!(take(1, &joins(1)), []);
        let led = call(procs(&[0]), vec![lists]);
        assert_eq!(take(0, &led), [(vec![0, 1], beyond())]);
        assert_eq!(take(2, &joins(2)), [(vec![2], beyond())]);
        // Their next calls are for the next construct of the name.
        assert_eq!(take(3, &joins(1)), []);
        assert_eq!(take(4, &joins(2)), []);
        let led = call(procs(&[0]), vec![adds(&[1, 2])]);
        assert_eq!(take(5, &led), [(vec![3, 4, 5], Ok(vec![0, 1, 2]))]);
    }
    assert!(all.open.is_empty() && all.early.is_empty());
}

/// The answered calls and the members.
type Told = (Vec<usize>, Result<Vec<u32>, Status>);

/// Returns the outcomes of successive calls.
fn outcomes(calls: &[Group]) -> Vec<Told> {
    let mut all = GroupAssembler::default();
    let now = Instant::now();
    let calls = calls.iter().enumerate();
    let ended = calls.flat_map(|(token, call)| all.take(token, 0, call, &Job(vec![], 6), now));
    ended.map(outcome).collect()
}

fn outcome(ended: EndedConstruct<usize>) -> Told {
    let mut tokens = ended.tokens;
    tokens.sort_unstable();
    let ranks = |infos: Vec<Info<'static>>| {
        let members = procs_of(&infos, keys::GROUP_MEMBERSHIP).unwrap();
        members.iter().map(|proc| proc.rank.as_raw()).collect()
    };
    (tokens, ended.outcome.map(ranks))
}

#[test]
fn leaders_add_a_member_that_calls_before_or_after() {
    let led = call(procs(&[3, 1]), vec![adds(&[0, 1])]);
    let expected = [(vec![0, 1], Ok(vec![3, 1, 0]))];
    assert_eq!(outcomes(&[led.clone(), joins(0)]), expected);
    assert_eq!(outcomes(&[joins(0), led]), expected);
}

#[test]
fn servers_that_name_a_job_as_a_whole_and_one_by_one_gather_the_same_group() {
    let whole = || vec![Proc::new("job", Rank::WILDCARD)];
    let (jobs, now) = (Job(vec![], 3), Instant::now());
    let said = |list| Info::new(keys::GROUP_MEMBERSHIP, list);
    let each = procs(&[0, 1, 2, 3, 4, 5]);
    for (list, expected) in [
        (each.clone(), vec![0, 1, 2, 3, 4, 5]),
        (procs(&[0, 1, 2, 4, 5]), vec![0, 1, 2, 4, 5]),
    ] {
        let mut all = GroupAssembler::default();
        let first = call(whole(), vec![said(whole())]);
        assert_eq!(all.take(0, 0, &first, &jobs, now), []);
        let second = call(each.clone(), vec![said(list)]);
        let ended = all.take(1, 1, &second, &jobs, now);
        let ended: Vec<_> = ended.into_iter().map(outcome).collect();
        assert_eq!(ended, [(vec![0, 1], Ok(expected))]);
        assert!(is_empty(&all));
    }
}

#[test]
fn a_construction_ends_with_a_server_that_has_not_called() {
    for leads in [false, true] {
        let jobs = Job(vec![], 3);
        let (mut all, now) = (GroupAssembler::default(), Instant::now());
        let info = Info::new(keys::GROUP_LEADER, leads);
        assert_eq!(
            all.take(0, 0, &call(procs(&[0, 3]), vec![info]), &jobs, now),
            []
        );
        assert_eq!(all.server_ended(2, &jobs), []);
        let ended = all.server_ended(1, &jobs).into_iter().map(outcome);
        let lost = Err(Status::ERR_LOST_CONNECTION);
        assert_eq!(ended.collect::<Vec<_>>(), [(vec![0], lost)]);
        assert!(is_empty(&all));
    }
}

#[test]
fn a_construct_with_a_leader_ends_with_its_listed_members() {
    let led = || {
        let infos = vec![Info::new(keys::GROUP_LEADER, true)];
        call(procs(&[0, 3]), infos)
    };
    let lost = Err(Status::ERR_LOST_CONNECTION);
    let (mut all, now) = (GroupAssembler::default(), Instant::now());
    assert_eq!(all.take(0, 1, &led(), &Job(vec![], 3), now), []);
    let three = Job(vec![3], 3);
    assert_eq!(all.proc_ended(&procs(&[3])[0], &three), []);
    let both = Job(vec![0, 3], 3);
    let ended = all.proc_ended(&procs(&[0])[0], &both);
    let told: Vec<_> = ended.into_iter().map(outcome).collect();
    assert_eq!(told, [(vec![0], lost.clone())]);
    // A later call gets the same status at once.
    let mut all = GroupAssembler::default();
    let told = all.take(1, 1, &led(), &both, now).into_iter().map(outcome);
    assert_eq!(told.collect::<Vec<_>>(), [(vec![1], lost)]);
}

#[test]
fn counted_leaders_form_a_group_with_all_added_members() {
    let calls = [
        joins(4),
        leader(3, 2, vec![adds(&[5])]),
        joins(5),
        leader(0, 2, vec![adds(&[4])]),
    ];
    let expected = [(vec![0, 1, 2, 3], Ok(vec![0, 3, 4, 5]))];
    assert_eq!(outcomes(&calls), expected);
    // A leader is not added, whichever leader adds it.
    let calls = [leader(3, 2, vec![adds(&[0])]), leader(0, 2, vec![])];
    assert_eq!(outcomes(&calls), [(vec![0, 1], Ok(vec![0, 3]))]);
}

#[test]
fn members_are_in_the_order_that_is_asked_for() {
    let order = |ranks: &[u32]| Info::new(keys::GROUP_FINAL_MEMBERSHIP_ORDER, procs(ranks));
    let calls = |orders: [Vec<Info<'static>>; 2]| {
        let [first, second] = orders;
        [leader(0, 2, first), leader(3, 2, second)]
    };
    let one = calls([vec![order(&[3, 0])], vec![]]);
    assert_eq!(outcomes(&one), [(vec![0, 1], Ok(vec![3, 0]))]);
    let other = calls([vec![order(&[3, 0])], vec![order(&[0, 3])]]);
    assert_eq!(outcomes(&other), [(vec![0, 1], Err(Status::ERR_BAD_PARAM))]);
    // Processes that are not listed follow; a whole job is in the order of its ranks.
    let whole = vec![Proc::new("job", Rank::WILDCARD)];
    let whole = Info::new(keys::GROUP_FINAL_MEMBERSHIP_ORDER, whole);
    let led = call(procs(&[4, 2, 3]), vec![whole]);
    assert_eq!(outcomes(&[led]), [(vec![0], Ok(vec![2, 3, 4]))]);
    let some = call(procs(&[4, 2, 3]), vec![order(&[9, 3])]);
    assert_eq!(outcomes(&[some]), [(vec![0], Ok(vec![3, 4, 2]))]);
}

#[test]
fn shared_infos_reach_all_members_and_one_context_id_is_requested() {
    let shared = Info::new(keys::GROUP_INFO, 7_u32);
    let wants = Info::new(keys::GROUP_ASSIGN_CONTEXT_ID, true);
    let mut all = GroupAssembler::default();
    let now = Instant::now();
    let mut added = joins(4);
    added.directives.push(shared.clone());
    let led = leader(0, 1, vec![adds(&[4]), wants, shared.clone()]);
    assert!(all.take(0, 0, &added, &Job(vec![], 6), now).is_empty());
    let [ended] = &all.take(1, 0, &led, &Job(vec![], 6), now)[..] else {
        panic!("it has not ended");
    };
    assert!(ended.wants_context_id);
    let told = ended.outcome.as_ref().unwrap();
    assert_eq!(told[1..], [shared.clone(), shared]);
}

#[test]
fn a_number_of_leaders_that_is_not_the_others_ends_it_for_all() {
    let bad = Err(Status::ERR_BAD_PARAM);
    let calls = [leader(0, 2, vec![adds(&[4])]), leader(3, 3, vec![])];
    assert_eq!(outcomes(&calls), [(vec![0, 1], bad.clone())]);
    // A late call gets the same status; the name is free then.
    let calls = [&calls[..], &[joins(4), leader(0, 1, vec![])]].concat();
    let expected = [
        (vec![0, 1], bad.clone()),
        (vec![2], bad),
        (vec![3], Ok(vec![0])),
    ];
    assert_eq!(outcomes(&calls), expected);
}

#[test]
fn a_job_that_does_not_exist_is_not_added() {
    let stranger = vec![Proc::new("other", Rank::new(0))];
    let led = leader(0, 1, vec![Info::new(keys::GROUP_ADD_MEMBERS, stranger)]);
    assert_eq!(outcomes(&[led]), [(vec![0], Err(Status::ERR_NOT_FOUND))]);
}

#[test]
fn a_failure_on_one_server_is_reported_on_all() {
    let failed = Info::new(keys::LOCAL_COLLECTIVE_STATUS, Status::ERR_TIMEOUT);
    let mut all = GroupAssembler::default();
    let (job, now) = (Job(vec![], 2), Instant::now());
    let leaders = procs(&[0, 2]);
    let (here, there) = (
        call(leaders.clone(), vec![adds(&[4]), failed]),
        call(leaders, vec![]),
    );
    assert!(all.take(0, 0, &joins(4), &job, now).is_empty());
    let late = Err(Status::ERR_TIMEOUT);
    let ended = all.take(1, 0, &here, &job, now);
    assert_eq!(
        ended.into_iter().map(outcome).collect::<Vec<_>>(),
        [(vec![0, 1], late.clone())]
    );
    let ended = all.take(2, 1, &there, &job, now);
    assert_eq!(
        ended.into_iter().map(outcome).collect::<Vec<_>>(),
        [(vec![2], late)]
    );
    assert!(is_empty(&all));
}

#[test]
fn one_that_ends_before_it_calls_ends_it_unless_it_may_be_missing() {
    let lost = Err(Status::ERR_LOST_CONNECTION);
    let optional = Info::new(keys::GROUP_OPTIONAL, true);
    let notifies = Info::new(keys::GROUP_NOTIFY_TERMINATION, true);
    let gone = procs(&[4]).remove(0);
    for (more, has_ended, expected) in [
        (vec![], true, lost.clone()),
        (vec![], false, lost),
        (vec![optional.clone()], true, Ok(vec![0])),
        (vec![optional], false, Ok(vec![0])),
        (vec![notifies.clone()], true, Ok(vec![0])),
        (vec![notifies], false, Ok(vec![0])),
    ] {
        let mut all = GroupAssembler::default();
        let job = Job(if has_ended { vec![4] } else { vec![] }, 6);
        let led = leader(0, 1, [vec![adds(&[4])], more].concat());
        let mut ended = all.take(0, 0, &led, &job, Instant::now());
        ended.extend(all.proc_ended(&gone, &Job(vec![4], 6)));
        let ended: Vec<_> = ended.into_iter().map(outcome).collect();
        assert_eq!(ended, [(vec![0], expected)]);
        assert!(is_empty(&all));
    }
    // A process that no leader has added is answered as well.
    let mut all = GroupAssembler::default();
    all.take(0, 0, &joins(4), &Job(vec![], 6), Instant::now());
    let ended = all.proc_ended(&gone, &Job(vec![4], 6));
    assert_eq!(
        ended.into_iter().map(outcome).collect::<Vec<_>>(),
        [(vec![0], Err(Status::ERR_LOST_CONNECTION))]
    );
}

#[test]
fn the_shortest_time_ends_it_for_all() {
    let time = |seconds: u32| Info::new(keys::TIMEOUT, seconds);
    let mut all = GroupAssembler::default();
    let (job, now) = (Job(vec![], 6), Instant::now());
    let mut early = joins(4);
    early.directives.push(time(3));
    all.take(0, 0, &early, &job, now);
    all.take(1, 0, &leader(0, 2, vec![adds(&[4]), time(5)]), &job, now);
    let after = |seconds| now + Duration::from_secs(seconds);
    assert_eq!(all.poll_timeout(), Some(after(3)));
    assert!(all.handle_timeout(after(2)).is_empty());
    let ended = all.handle_timeout(after(3));
    let late = Err(Status::ERR_TIMEOUT);
    assert_eq!(
        ended.into_iter().map(outcome).collect::<Vec<_>>(),
        [(vec![0, 1], late)]
    );
    assert_eq!(all.poll_timeout(), None);
}

#[test]
fn a_lookup_of_many_keys_is_found_by_each_key() {
    let mut all = GroupAssembler::default();
    let (job, now) = (Job(vec![], 6), Instant::now());
    let name = |number: usize| Text::from(format!("g{number}"));
    for number in 0..10 {
        let mut early = joins(4);
        early.id = name(number);
        assert!(all.take(number, 0, &early, &job, now).is_empty());
    }
    assert_eq!(all.index.waiting(&name(7), &procs(&[4])[0]).len(), 1);
    for number in 0..10 {
        let mut led = leader(0, 1, vec![adds(&[4])]);
        led.id = name(number);
        let ended = all.take(10 + number, 0, &led, &job, now);
        let ended: Vec<_> = ended.into_iter().map(outcome).collect();
        assert_eq!(ended, [(vec![number, 10 + number], Ok(vec![0, 4]))]);
    }
    assert!(is_empty(&all));
}

/// Returns the outcome for leaders 0 at server 0, and 2 and 3 at server 1, if some end; servers call before and after.
fn leaders_of_two_servers(
    more: &[Info<'static>],
    [before, ended, after]: [&[usize]; 3],
) -> (Vec<Told>, bool) {
    let mut all = GroupAssembler::default();
    let now = Instant::now();
    let led = call(procs(&[0, 2, 3]), more.to_vec());
    let mut told = Vec::new();
    let mut job = Job(vec![], 2);
    for server in before {
        told.extend(all.take(*server, *server, &led, &job, now));
    }
    for rank in ended {
        job.0.push(u32::try_from(*rank).unwrap());
        let proc = Proc::new("job", Rank::new(job.0[job.0.len() - 1]));
        told.extend(all.proc_ended(&proc, &job));
    }
    for server in after {
        told.extend(all.take(*server, *server, &led, &job, now));
    }
    (told.into_iter().map(outcome).collect(), is_empty(&all))
}

#[test]
fn an_ended_leader_on_a_node_without_calls_is_not_awaited() {
    let lost = || Err(Status::ERR_LOST_CONNECTION);
    let optional = [Info::new(keys::GROUP_OPTIONAL, true)];
    let run = leaders_of_two_servers;
    // Its server answers later calls itself.
    let expected = (vec![(vec![0], lost())], false);
    assert_eq!(run(&[], [&[0], &[2], &[]]), expected);
    assert_eq!(run(&[], [&[], &[2], &[0]]), expected);
    let expected = (vec![(vec![0], lost()), (vec![1], lost())], true);
    assert_eq!(run(&[], [&[0], &[3], &[1]]), expected);
    // No process of its server is left to call.
    assert_eq!(
        run(&[], [&[0], &[2, 3], &[]]),
        (vec![(vec![0], lost())], true)
    );
    // The other processes of its server are awaited if there are any.
    let without = |ranks: &[u32]| (vec![(vec![0], Ok(ranks.to_vec()))], true);
    assert_eq!(run(&optional, [&[0], &[2, 3], &[]]), without(&[0]));
    assert_eq!(run(&optional, [&[], &[3, 2], &[0]]), without(&[0]));
    assert_eq!(run(&optional, [&[0], &[2], &[]]), (vec![], false));
    let both = (vec![(vec![0, 1], Ok(vec![0, 3]))], true);
    assert_eq!(run(&optional, [&[0], &[2], &[1]]), both);
    // A process has called if its server has.
    let all = |tokens: &[usize]| (vec![(tokens.to_vec(), Ok(vec![0, 2, 3]))], true);
    assert_eq!(run(&[], [&[1], &[2, 3], &[0]]), all(&[0, 1]));
}

#[test]
fn a_whole_job_that_leads_is_waited_for_by_its_processes() {
    let mut all = GroupAssembler::default();
    let now = Instant::now();
    let led = call(vec![Proc::new("job", Rank::WILDCARD)], vec![]);
    let mut job = Job(vec![], 2);
    for server in [0, 1] {
        assert!(all.take(server, server, &led, &job, now).is_empty());
    }
    job.0.push(5);
    let ended = all.proc_ended(&procs(&[5])[0], &job);
    let ended: Vec<_> = ended.into_iter().map(outcome).collect();
    assert_eq!(ended, [(vec![0, 1], Err(Status::ERR_LOST_CONNECTION))]);
}

#[test]
fn one_that_waits_to_be_added_ends_with_the_last_that_could_add_it() {
    let now = Instant::now();
    let mut all = GroupAssembler::default();
    let mut gone = Vec::new();
    assert_eq!(all.take(0, 0, &joins(2), &Job(gone.clone(), 6), now), []);
    for rank in [0, 1, 3, 4, 5] {
        gone.push(rank);
        let ended = all.proc_ended(&procs(&[rank])[0], &Job(gone.clone(), 6));
        let ended: Vec<_> = ended.into_iter().map(outcome).collect();
        match rank {
            5 => assert_eq!(ended, [(vec![0], Err(Status::ERR_LOST_CONNECTION))]),
            _ => assert_eq!(ended, []),
        }
    }
    assert!(is_empty(&all));
    // A call after the end of the construct gets the same status at once.
    let late = all.take(1, 0, &joins(2), &Job(gone.clone(), 6), now);
    let late: Vec<_> = late.into_iter().map(outcome).collect();
    assert_eq!(late, [(vec![1], Err(Status::ERR_LOST_CONNECTION))]);
    assert!(is_empty(&all));
}

#[test]
fn leaders_that_count_themselves_end_with_the_last_that_could_be_one_of_them() {
    let now = Instant::now();
    let mut all = GroupAssembler::default();
    let job = Job(vec![1, 4], 6);
    for rank in [0, 2, 3] {
        let call = leader(rank, 4, vec![]);
        let token = usize::try_from(rank).unwrap();
        assert_eq!(all.take(token, 0, &call, &job, now), []);
    }
    let ended = all.proc_ended(&procs(&[5])[0], &Job(vec![1, 4, 5], 6));
    let ended: Vec<_> = ended.into_iter().map(outcome).collect();
    let lost = Err(Status::ERR_LOST_CONNECTION);
    assert_eq!(ended, [(vec![0, 2, 3], lost)]);
}

#[test]
fn a_member_added_by_a_late_leader_gets_the_result() {
    let now = Instant::now();
    let mut all = GroupAssembler::default();
    let job = Job(vec![5], 1);
    let leaders = |rank, added: &[u32]| {
        let listed = Info::new(keys::GROUP_MEMBERSHIP, procs(&[0, 1]));
        (rank, call(procs(&[0, 1]), vec![listed, adds(added)]))
    };
    assert_eq!(all.take(0, 2, &joins(2), &job, now), []);
    // An added process has ended.
    let lost = || Err(Status::ERR_LOST_CONNECTION);
    for ((server, call), told) in [
        (leaders(0, &[5]), vec![0]),
        (leaders(1, &[2, 3]), vec![0, 1]),
    ] {
        let ended = all.take(server, server, &call, &job, now);
        let ended: Vec<_> = ended.into_iter().map(outcome).collect();
        assert_eq!(ended, [(told, lost())]);
    }
    let late = all.take(3, 3, &joins(3), &job, now);
    let late: Vec<_> = late.into_iter().map(outcome).collect();
    assert_eq!(late, [(vec![3], lost())]);
    assert!(is_empty(&all));
}

#[test]
fn one_that_is_added_last_is_the_last_that_could_lead() {
    let now = Instant::now();
    let mut all = GroupAssembler::default();
    let first = leader(0, 2, vec![adds(&[2])]);
    assert_eq!(all.take(0, 0, &first, &Job(vec![], 6), now), []);
    let gone = Job(vec![0, 1, 3, 4, 5], 6);
    for rank in &gone.0 {
        assert_eq!(all.proc_ended(&procs(&[*rank])[0], &gone), []);
    }
    // The remaining process could have been the other leader, until it is added.
    let ended = all.take(2, 0, &joins(2), &gone, now);
    let ended: Vec<_> = ended.into_iter().map(outcome).collect();
    let lost = Err(Status::ERR_LOST_CONNECTION);
    assert_eq!(ended, [(vec![0, 2], lost)]);
}

#[test]
fn with_a_leader_the_servers_of_ended_members_are_awaited() {
    let leads = [Info::new(keys::GROUP_LEADER, true)];
    for [before, ended, after] in [
        [&[0][..], &[2][..], &[1][..]],
        [&[0], &[2, 3], &[1]],
        [&[], &[2, 3], &[0, 1]],
    ] {
        let led = leaders_of_two_servers(&leads, [before, ended, after]);
        // The server itself lists the members without the process that it leaves out.
        assert_eq!(led, (vec![(vec![0, 1], Ok(vec![0, 2, 3]))], true));
        let waits = leaders_of_two_servers(&leads, [before, ended, &after[..after.len() - 1]]);
        assert_eq!(waits, (vec![], false));
    }
}
