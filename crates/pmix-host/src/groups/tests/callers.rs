// SPDX-License-Identifier: MIT OR Apache-2.0
//! The possible participants: processes of one user, each once.

use pmix_types::DataArray;

use super::*;

/// Sets the user of a call.
fn by(user: u32, mut call: Group) -> Group {
    call.directives.push(Info::new(keys::USERID, user));
    call
}

/// Moves a call to a process of another job.
fn of_other_job(mut call: Group) -> Group {
    let other = |proc: &mut Proc<'static>| proc.nspace = "other".into();
    call.procs.iter_mut().for_each(other);
    for info in &mut call.directives {
        match &mut info.value {
            Value::Proc(proc) => proc.nspace = "other".into(),
            Value::DataArray(DataArray::Proc(procs)) => procs.iter_mut().for_each(other),
            _ => {}
        }
    }
    call
}

#[test]
fn one_of_a_number_of_leaders_may_decide_about_losses() {
    let leads = Info::new(keys::GROUP_LEADER, true);
    let calls = [
        leader(0, 2, vec![leads, adds(&[4])]),
        joins(4),
        leader(3, 2, vec![]),
    ];
    assert_eq!(outcomes(&calls), [(vec![0, 1, 2], Ok(vec![0, 3, 4]))]);
}

#[test]
fn a_second_call_of_a_process_is_refused_until_the_first_is_answered() {
    let bad = |token| (vec![token], Err(Status::ERR_BAD_PARAM));
    let calls = [
        leader(0, 2, vec![adds(&[4])]),
        leader(0, 2, vec![adds(&[4])]),
        leader(0, 3, vec![]),
        joins(0),
        joins(4),
        joins(4),
        leader(4, 1, vec![]),
        leader(3, 2, vec![]),
        // The name is free after the failure.
        leader(0, 1, vec![]),
    ];
    let expected = [
        bad(1),
        bad(2),
        bad(3),
        bad(5),
        bad(6),
        (vec![0, 4, 7], Ok(vec![0, 3, 4])),
        (vec![8], Ok(vec![0])),
    ];
    assert_eq!(outcomes(&calls), expected);
    // A call that no leader has added counts as well; the process may call for groups of other names.
    let mut other = joins(4);
    other.id = "h".into();
    let calls = [joins(4), joins(4), other, leader(0, 1, vec![adds(&[4])])];
    let expected = [bad(1), (vec![0, 3], Ok(vec![0, 4]))];
    assert_eq!(outcomes(&calls), expected);
    // A failed construct behaves in the same way.
    let mut all = GroupAssembler::default();
    let (job, now) = (Job(vec![], 6), Instant::now());
    assert_eq!(all.take(0, 0, &joins(4), &job, now), []);
    let led = leader(0, 1, vec![adds(&[4, 5])]);
    assert_eq!(all.take(1, 0, &led, &job, now), []);
    let gone = Job(vec![5], 6);
    assert_eq!(all.proc_ended(&procs(&[5])[0], &gone).len(), 1);
    let again = all.take(2, 0, &leader(0, 1, vec![]), &gone, now);
    let again: Vec<_> = again.into_iter().map(outcome).collect();
    assert_eq!(again, [(vec![2], Ok(vec![0]))]);
    assert!(is_empty(&all));
}

#[test]
fn a_process_of_another_user_does_not_count() {
    let call = |user, rank, more| by(user, leader(rank, 2, more));
    let calls = [
        call(1, 0, vec![adds(&[4])]),
        // Another user calls with the same number of leaders, and with another one.
        call(2, 1, vec![]),
        by(2, leader(5, 3, vec![])),
        by(1, joins(4)),
        call(2, 2, vec![]),
        call(1, 3, vec![]),
    ];
    let mut all = GroupAssembler::default();
    let now = Instant::now();
    let told: Vec<_> = { calls.iter().enumerate() }
        .flat_map(|(token, call)| all.take(token, 0, call, &Job(vec![], 6), now))
        .map(outcome)
        .collect();
    let bad = Err(Status::ERR_BAD_PARAM);
    assert_eq!(
        told,
        [(vec![1, 2], bad), (vec![0, 3, 5], Ok(vec![0, 3, 4]))]
    );
    // A failed construct belongs to its user, too.
    let calls = [
        call(1, 0, vec![]),
        by(1, leader(1, 3, vec![])),
        by(2, leader(2, 1, vec![])),
    ];
    let bad = Err(Status::ERR_BAD_PARAM);
    assert_eq!(
        outcomes(&calls),
        [(vec![0, 1], bad), (vec![2], Ok(vec![2]))]
    );
}

#[test]
fn a_process_of_another_user_is_not_added() {
    let denied = Err(Status::ERR_NO_PERMISSIONS);
    let own = by(2, leader(5, 1, vec![adds(&[4])]));
    let other = by(1, leader(0, 2, vec![adds(&[4])]));
    for calls in [
        [other.clone(), by(2, joins(4)), own.clone()],
        [by(2, joins(4)), other, own],
    ] {
        let told = outcomes(&calls);
        let (waits, refused) = match calls[0].procs.is_empty() {
            true => (0, 1),
            false => (1, 0),
        };
        let expected = [
            (vec![refused], denied.clone()),
            (vec![waits, 2], Ok(vec![5, 4])),
        ];
        assert_eq!(told, expected);
    }
}

#[test]
fn members_of_several_users_are_rejected() {
    let led = call(procs(&[0, 3]), vec![adds(&[4])]);
    let mut all = GroupAssembler::default();
    let (job, now) = (Job(vec![], 3), Instant::now());
    assert_eq!(all.take(0, 0, &by(1, led.clone()), &job, now), []);
    let ended = all.take(1, 1, &by(2, led), &job, now);
    let told: Vec<_> = ended.into_iter().map(outcome).collect();
    assert_eq!(told, [(vec![0, 1], Err(Status::ERR_NO_PERMISSIONS))]);
}

#[test]
fn another_job_that_counts_otherwise_has_a_construct_of_its_own() {
    let calls = [
        leader(0, 2, vec![]),
        of_other_job(leader(1, 3, vec![])),
        // A process of this job belongs to the construct of its job.
        of_other_job(leader(2, 3, vec![])),
        leader(3, 2, vec![]),
        of_other_job(leader(4, 3, vec![])),
    ];
    let expected = [
        (vec![0, 3], Ok(vec![0, 3])),
        (vec![1, 2, 4], Ok(vec![1, 2, 4])),
    ];
    assert_eq!(outcomes(&calls), expected);
    // Leaders of several jobs of one user with the same number join one construct.
    let calls = [leader(3, 2, vec![]), of_other_job(leader(4, 2, vec![]))];
    assert_eq!(outcomes(&calls), [(vec![0, 1], Ok(vec![3, 4]))]);
}

#[test]
fn a_job_that_is_only_added_counts_leaders_of_its_own() {
    // A leader of one job adds a process of another, whose own leaders use the same name and another number.
    let added = Info::new(
        keys::GROUP_ADD_MEMBERS,
        vec![Proc::new("other", Rank::new(1))],
    );
    let other = |rank| of_other_job(leader(rank, 3, vec![]));
    for calls_before in [false, true] {
        let mut calls = vec![leader(0, 2, vec![added.clone()])];
        calls.extend(calls_before.then(|| of_other_job(joins(1))));
        let first = calls.len();
        calls.extend([other(0), other(2), other(3), leader(3, 2, vec![])]);
        calls.extend((!calls_before).then(|| of_other_job(joins(1))));
        let mut all = GroupAssembler::default();
        let (jobs, now) = (TwoJobs, Instant::now());
        let told: Vec<_> = { calls.iter().enumerate() }
            .flat_map(|(token, call)| all.take(token, 0, call, &jobs, now))
            .map(outcome)
            .collect();
        let own = (vec![first, first + 1, first + 2], Ok(vec![0, 2, 3]));
        let tokens = match calls_before {
            true => vec![0, 1, 5],
            false => vec![0, 4, 5],
        };
        assert_eq!(told, [own, (tokens, Ok(vec![0, 3, 1]))]);
        assert!(is_empty(&all));
    }
}

/// Two jobs of six processes each, on one server.
struct TwoJobs;

impl Processes for TwoJobs {
    fn job_size(&self, nspace: &Nspace<'_>) -> Option<u32> {
        ["job", "other"]
            .iter()
            .any(|job| *nspace == *job)
            .then_some(6)
    }

    fn has_ended(&self, _: &Proc<'_>) -> bool {
        false
    }

    fn server_of(&self, _: &Proc<'_>) -> Option<usize> {
        Some(0)
    }
}

#[test]
fn one_that_has_called_and_ends_is_a_member_and_may_call_again_in_its_place() {
    let shares = |text: &'static str| Info::new(keys::GROUP_INFO, text);
    let all_run = Job(vec![], 6);
    for back in [false, true] {
        let mut all = GroupAssembler::default();
        let now = Instant::now();
        let mut take = |token, call: &Group| all.take(token, 0, call, &all_run, now);
        let first = leader(0, 2, vec![adds(&[4]), shares("old")]);
        assert_eq!(take(0, &first), []);
        assert_eq!(take(1, &joins(4)), []);
        for rank in [0, 4] {
            let ended = all.proc_ended(&procs(&[rank])[0], &Job(vec![rank], 6));
            assert_eq!(ended, []);
        }
        let mut take = |token, call: &Group| all.take(token, 0, call, &all_run, now);
        let mut tokens = vec![0, 1];
        if back {
            // The process waits again, and its second call is rejected again.
            assert_eq!(take(2, &leader(0, 2, vec![shares("new")])), []);
            assert_eq!(take(3, &joins(4)), []);
            for (token, call) in [(4, leader(0, 2, vec![])), (5, joins(4))] {
                let refused = take(token, &call).into_iter().map(outcome);
                let bad = Err(Status::ERR_BAD_PARAM);
                assert_eq!(refused.collect::<Vec<_>>(), [(vec![token], bad)]);
            }
            tokens.extend([2, 3]);
        }
        let ended = take(6, &leader(3, 2, vec![shares("other")]));
        tokens.push(6);
        let shared: Vec<_> = { ended.iter().flat_map(|one| one.outcome.iter().flatten()) }
            .filter(|info| info.key.is(keys::GROUP_INFO))
            .cloned()
            .collect();
        let own = if back { "new" } else { "old" };
        assert_eq!(shared.len(), 2);
        assert!(
            [shares(own), shares("other")]
                .iter()
                .all(|info| shared.contains(info))
        );
        let told: Vec<_> = ended.into_iter().map(outcome).collect();
        assert_eq!(told, [(tokens, Ok(vec![0, 3, 4]))]);
        assert!(is_empty(&all));
    }
}

#[test]
fn one_that_ends_and_comes_back_may_call_otherwise() {
    let all_run = Job(vec![], 6);
    let ends = |all: &mut GroupAssembler<usize>, rank| {
        assert_eq!(all.proc_ended(&procs(&[rank])[0], &Job(vec![rank], 6)), []);
    };
    let now = Instant::now();
    // An added process leads.
    let mut all = GroupAssembler::default();
    assert_eq!(
        all.take(0, 0, &leader(0, 2, vec![adds(&[4, 5])]), &all_run, now),
        []
    );
    assert_eq!(all.take(1, 0, &joins(4), &all_run, now), []);
    ends(&mut all, 4);
    assert_eq!(all.take(2, 0, &leader(4, 2, vec![]), &all_run, now), []);
    let ended = all.take(3, 0, &joins(5), &all_run, now);
    let told: Vec<_> = ended.into_iter().map(outcome).collect();
    assert_eq!(told, [(vec![0, 1, 2, 3], Ok(vec![0, 4, 5]))]);
    assert!(is_empty(&all));
    // A process that led and waits to be added is still a leader. It gets that outcome when its time has passed.
    assert_eq!(all.take(0, 0, &leader(0, 2, vec![]), &all_run, now), []);
    ends(&mut all, 0);
    let limit = Info::new(keys::TIMEOUT, 1u32);
    let mut waits = joins(0);
    waits.directives.push(limit);
    assert_eq!(all.take(1, 0, &waits, &all_run, now), []);
    let ended = all.take(2, 0, &leader(1, 2, vec![]), &all_run, now);
    let told: Vec<_> = ended.into_iter().map(outcome).collect();
    assert_eq!(told, [(vec![0, 2], Ok(vec![0, 1]))]);
    let late = all.handle_timeout(now + std::time::Duration::from_secs(2));
    let late: Vec<_> = late.into_iter().map(outcome).collect();
    assert_eq!(late, [(vec![1], Err(Status::ERR_TIMEOUT))]);
    assert!(is_empty(&all));
    // A failed construct does not concern a process that is started again.
    assert_eq!(
        all.take(0, 0, &leader(0, 2, vec![adds(&[5])]), &all_run, now),
        []
    );
    let ended = all.proc_ended(&procs(&[5])[0], &Job(vec![5], 6));
    assert_eq!(ended.len(), 1);
    ends(&mut all, 0);
    let ended = all.take(1, 0, &leader(0, 1, vec![]), &all_run, now);
    let told: Vec<_> = ended.into_iter().map(outcome).collect();
    assert_eq!(told, [(vec![1], Ok(vec![0]))]);
}
