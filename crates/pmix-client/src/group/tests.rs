// SPDX-License-Identifier: MIT OR Apache-2.0
//! Event orders that are rare with a real server.

use std::time::{Duration, Instant};

use pmix_proto::{Event, request};
use pmix_types::{Info, Proc, Rank, Status, Text, Value, keys};

use super::Decision;
use super::events::notify;
use super::operations::{Operations, Step};

fn proc(rank: u32) -> Proc<'static> {
    Proc::new("job", Rank::new(rank))
}

fn name() -> Text<'static> {
    Text::from("g")
}

/// Returns an event of a process about the group, as other processes receive it.
fn heard(status: Status, source: u32, more: Vec<Info<'static>>) -> Event<'static> {
    let said = notify(status, &name(), vec![proc(1)], more);
    Event {
        status,
        source: proc(source),
        infos: said.infos,
        range: Some(said.range),
    }
}

fn complete(members: &[u32]) -> Event<'static> {
    let members: Vec<_> = members.iter().copied().map(proc).collect();
    let members = Info::new(keys::GROUP_MEMBERSHIP, Value::from(members));
    heard(Status::GROUP_CONSTRUCT_COMPLETE, 0, vec![members])
}

/// Returns the status of the completed operation, if there is one.
fn ended(operations: &mut Operations) -> Option<Status> {
    let mut ended = None;
    while let Some(step) = operations.poll() {
        match step {
            Step::End(_, outcome) => {
                let status = outcome.map(|_| Status::SUCCESS);
                ended = Some(status.unwrap_or_else(|error| error.status()));
            }
            Step::Notify(Some(op), _) => operations.sent(op, Ok(())),
            Step::Question(question, _) => operations.decide(&question, None),
            Step::Context(op, _) => operations.assigned(op, Ok(Some(7))),
            Step::Notify(None, _) | Step::Leave(_) | Step::Deliver(_) => {}
        }
    }
    ended
}

#[test]
fn questions_that_wait_for_the_server_are_bounded_by_the_size_of_their_events() {
    let mut operations = Operations::new(proc(0));
    let procs: Vec<_> = (0..10).map(proc).collect();
    operations.invite(&name(), procs, &[], None).unwrap();
    for rank in 1..10 {
        let long = Info::new("k", "x".repeat(10 << 20));
        operations.handle_event(&heard(Status::GROUP_INVITE_DECLINED, rank, vec![long]));
    }
    let mut asked = 0;
    while let Some(step) = operations.poll() {
        asked += usize::from(matches!(step, Step::Question(..)));
    }
    // The seventh event had no room, so the default applied: the invitation was aborted.
    assert_eq!(asked, 6);
    assert_eq!(operations.num_open(), 0);
}

/// Returns the event of a server about the selection of a new leader.
fn selected(old: u32, new: Option<u32>, members: &[u32]) -> Event<'static> {
    let mut more = vec![Info::new(keys::EVENT_AFFECTED_PROC, proc(old))];
    if let Some(new) = new {
        let members: Vec<_> = members.iter().copied().map(proc).collect();
        more.push(Info::new(keys::GROUP_LEADER, proc(new)));
        more.push(Info::new(keys::GROUP_MEMBERSHIP, Value::from(members)));
    }
    heard(Status::GROUP_LEADER_SELECTED, 9, more)
}

/// Returns the operations of a process that has accepted and whose leader is lost, and the report of its decision.
fn leaderless(decision: Option<Decision>) -> (Operations, Option<request::Notify<'static>>) {
    let mut operations = Operations::new(proc(1));
    operations.join(&name(), &proc(0), &[], None).unwrap();
    assert_eq!(ended(&mut operations), None);
    let failed = Info::new(keys::EVENT_AFFECTED_PROC, proc(0));
    let failed = heard(Status::GROUP_LEADER_FAILED, 9, vec![failed]);
    assert!(operations.handle_event(&failed));
    let Some(Step::Question(question, _)) = operations.poll() else {
        panic!("no decision is requested");
    };
    let invites = operations.check(&question, &Decision::Invite(vec![proc(5)]));
    assert_eq!(invites.unwrap_err().status(), Status::ERR_BAD_PARAM);
    operations.decide(&question, decision);
    let said = sent(&mut operations);
    (operations, said)
}

/// Returns the next event to send, which the server acknowledges.
fn sent(operations: &mut Operations) -> Option<request::Notify<'static>> {
    match next(operations) {
        Some(Step::Notify(op, said)) => {
            if let Some(op) = op {
                operations.sent(op, Ok(()));
            }
            Some(said)
        }
        _ => None,
    }
}

/// Returns the next step, after the questions before it, about which the program decides nothing.
fn next(operations: &mut Operations) -> Option<Step> {
    loop {
        match operations.poll()? {
            Step::Question(question, _) => operations.decide(&question, None),
            step => return Some(step),
        }
    }
}

fn to(said: &request::Notify<'static>) -> Option<Value<'static>> {
    let mut infos = said.infos.iter();
    let range = infos.find(|info| info.key.is(keys::EVENT_CUSTOM_RANGE));
    range.map(|info| info.value.clone())
}

fn leaves(operations: &mut Operations) -> bool {
    let mut steps = std::iter::from_fn(|| operations.poll());
    steps.any(|step| matches!(step, Step::Leave(_)))
}

#[test]
fn a_process_leaves_a_group_that_is_formed_after_its_join_failed() {
    let now = Instant::now();
    let failed = Info::new(keys::EVENT_AFFECTED_PROC, proc(0));
    let failed = heard(Status::GROUP_LEADER_FAILED, 9, vec![failed]);
    for is_late in [true, false] {
        let mut operations = Operations::new(proc(1));
        operations.join(&name(), &proc(0), &[], Some(now)).unwrap();
        assert_eq!(ended(&mut operations), None);
        let expected = match is_late {
            true => {
                operations.tick(now + Duration::from_secs(1));
                Status::ERR_TIMEOUT
            }
            false => {
                assert!(operations.handle_event(&failed));
                // The outcome is open until the server reports that there is no new leader.
                assert_eq!(ended(&mut operations), None);
                operations.handle_event(&selected(0, None, &[]));
                Status::GROUP_LEADER_FAILED
            }
        };
        assert_eq!(ended(&mut operations), Some(expected));
        // A group without this process does not concern it.
        assert!(!operations.needs(&complete(&[0, 2])));
        operations.handle_event(&complete(&[0, 1]));
        assert!(leaves(&mut operations));
        operations.handle_event(&complete(&[0, 1]));
        assert!(!leaves(&mut operations));
    }
}

#[test]
fn events_before_the_acceptance_belong_to_an_earlier_group() {
    let mut operations = Operations::new(proc(1));
    operations.join(&name(), &proc(0), &[], None).unwrap();
    assert!(!operations.needs(&complete(&[0, 1])));
    assert_eq!(ended(&mut operations), None);
    assert!(operations.needs(&complete(&[0, 1])));
    // An event of another process does not concern this invitation.
    let mut other = complete(&[0, 1]);
    other.source = proc(2);
    assert!(!operations.needs(&other));
    operations.handle_event(&complete(&[0, 2]));
    assert_eq!(ended(&mut operations), Some(Status::GROUP_CONSTRUCT_ABORT));
}

#[test]
fn a_selected_leader_invites_the_others_again_and_forms_the_group() {
    let (mut operations, said) = leaderless(Some(Decision::Lead));
    let said = said.unwrap();
    assert_eq!(said.status, Status::GROUP_LEADER_FAILED);
    assert_eq!(to(&said), Some(Value::from(vec![proc(0)])));
    let leads = Info::new(keys::GROUP_LEADER, true);
    assert!(said.infos.contains(&leads));
    operations.handle_event(&selected(0, Some(1), &[1, 2, 3]));
    let invited = sent(&mut operations).unwrap();
    assert_eq!(invited.status, Status::GROUP_INVITED);
    assert_eq!(to(&invited), Some(Value::from(vec![proc(2), proc(3)])));
    for rank in [2, 3] {
        operations.handle_event(&heard(Status::GROUP_INVITE_ACCEPTED, rank, vec![]));
    }
    let complete = sent(&mut operations).unwrap();
    assert_eq!(complete.status, Status::GROUP_CONSTRUCT_COMPLETE);
    assert_eq!(ended(&mut operations), Some(Status::SUCCESS));
}

#[test]
fn a_member_accepts_the_new_leader_whichever_event_arrives_first() {
    for is_overtaken in [false, true] {
        let (mut operations, _) = leaderless(None);
        let chosen = selected(0, Some(2), &[1, 2]);
        let in_place = Info::new(keys::EVENT_AFFECTED_PROC, proc(0));
        let invited = heard(Status::GROUP_INVITED, 2, vec![in_place]);
        let mut come = [&chosen, &invited];
        if is_overtaken {
            come.reverse();
        }
        for event in come {
            if operations.needs(event) {
                operations.handle_event(event);
            }
        }
        let accepted = sent(&mut operations).unwrap();
        assert_eq!(accepted.status, Status::GROUP_INVITE_ACCEPTED);
        assert_eq!(to(&accepted), Some(Value::from(vec![proc(2)])));
        assert_eq!(ended(&mut operations), None);
        let mut complete = complete(&[1, 2]);
        complete.source = proc(2);
        operations.handle_event(&complete);
        assert_eq!(ended(&mut operations), Some(Status::SUCCESS));
    }
}

#[test]
fn a_member_that_aborts_after_the_loss_of_the_leader_notifies_and_completes() {
    let (mut operations, said) = leaderless(Some(Decision::Abort));
    assert_eq!(said.unwrap().status, Status::GROUP_CONSTRUCT_ABORT);
    let aborted = Some(Status::GROUP_CONSTRUCT_ABORT);
    assert_eq!(ended(&mut operations), aborted);
    // The other processes are notified by the server of the leader.
    let (mut operations, _) = leaderless(None);
    let about = Info::new(keys::EVENT_AFFECTED_PROC, proc(0));
    operations.handle_event(&heard(Status::GROUP_CONSTRUCT_ABORT, 9, vec![about]));
    assert_eq!(ended(&mut operations), aborted);
}

#[test]
fn a_directive_that_is_required_and_not_served_is_refused() {
    let mut operations = Operations::new(proc(1));
    let mut info = Info::new(keys::GROUP_LOCAL_ONLY, true);
    for (is_required, expected) in [(false, Ok(())), (true, Err(Status::ERR_NOT_SUPPORTED))] {
        if is_required {
            info.set_required();
        }
        let infos = [Info::new(keys::TIMEOUT, 5), info.clone()];
        let joined = operations.join(&name(), &proc(0), &infos, None);
        let joined = joined.map(drop).map_err(|error| error.status());
        assert_eq!(joined, expected);
        let invited = operations.invite(&name(), vec![proc(1)], &infos, None);
        let invited = invited.map(drop).map_err(|error| error.status());
        assert_eq!(invited, expected);
    }
}

#[test]
fn a_join_ends_with_its_leader_if_the_server_selects_no_other() {
    let mut operations = Operations::new(proc(1));
    operations.join(&name(), &proc(0), &[], None).unwrap();
    operations.handle_exit(&heard(Status::ERR_PROC_ABORTED, 3, vec![]), true);
    assert_eq!(ended(&mut operations), None, "another process");
    let about = Info::new(keys::EVENT_AFFECTED_PROC, proc(0));
    let aborted = heard(Status::ERR_PROC_ABORTED, 9, vec![about.clone()]);
    operations.handle_exit(&aborted, true);
    let (mut delivered, mut end) = (Vec::new(), None);
    while let Some(step) = operations.poll() {
        match step {
            Step::Deliver(event) => delivered.push(event),
            Step::End(_, outcome) => end = outcome.err().map(|error| error.status()),
            _ => {}
        }
    }
    assert_eq!(end, Some(Status::GROUP_LEADER_FAILED));
    let [event] = &delivered[..] else {
        panic!("{delivered:?}");
    };
    assert_eq!(event.status, Status::GROUP_LEADER_FAILED);
    assert!(event.infos.contains(&about));
    // A server that selects leaders knows the invited processes.
    operations.record_invitation(&heard(Status::GROUP_INVITED, 0, vec![]));
    operations.join(&name(), &proc(0), &[], None).unwrap();
    operations.handle_exit(&aborted, true);
    assert_eq!(ended(&mut operations), None);
    operations.handle_exit(&aborted, false);
    assert_eq!(ended(&mut operations), Some(Status::GROUP_LEADER_FAILED));
}

#[test]
fn a_member_without_a_new_leader_fails_at_the_time_limit() {
    let now = Instant::now();
    let [at, later] = [30, 60].map(|seconds| now + Duration::from_secs(seconds));
    let (mut operations, _) = leaderless(None);
    assert_eq!(operations.next_choice(), None);
    operations.choose_by(Some(at));
    // The first time limit applies.
    operations.choose_by(Some(later));
    assert_eq!(operations.next_choice(), Some(at));
    operations.give_up_leaders(at.checked_sub(Duration::from_millis(1)).unwrap());
    assert_eq!(ended(&mut operations), None);
    operations.give_up_leaders(at);
    assert_eq!(ended(&mut operations), Some(Status::GROUP_LEADER_FAILED));
    // A process with a new leader waits for that one.
    let (mut operations, _) = leaderless(None);
    operations.choose_by(Some(at));
    operations.handle_event(&selected(0, Some(2), &[1, 2]));
    assert_eq!(operations.next_choice(), None);
    operations.give_up_leaders(later);
    assert_eq!(ended(&mut operations), None);
}

/// Returns an invitation by process 1 that process 0 has accepted.
fn answered(assign: Info<'static>) -> (Operations, u64) {
    let mut operations = Operations::new(proc(1));
    let procs = vec![proc(0), proc(1)];
    let op = operations.invite(&name(), procs, &[assign], None).unwrap();
    match operations.poll() {
        Some(Step::Notify(Some(of), invited)) => {
            let has_key = |info: &Info<'_>| info.key.is(keys::GROUP_ASSIGN_CONTEXT_ID);
            assert!(of == op && invited.infos.iter().any(has_key));
            operations.sent(of, Ok(()));
        }
        other => panic!("{other:?}"),
    }
    operations.handle_event(&heard(Status::GROUP_INVITE_ACCEPTED, 0, vec![]));
    assert!(matches!(next(&mut operations), Some(Step::Context(of, _)) if of == op));
    assert!(operations.poll().is_none());
    (operations, op)
}

#[test]
fn the_leader_waits_for_a_context_id_and_sends_it_to_all_members() {
    let assign = Info::new(keys::GROUP_ASSIGN_CONTEXT_ID, true);
    let (mut operations, op) = answered(assign.clone());
    operations.assigned(op, Ok(Some(7)));
    let Some(Step::Notify(Some(of), formed)) = operations.poll() else {
        panic!("nothing is said");
    };
    let id = Info::new(keys::GROUP_CONTEXT_ID, Value::Size(7));
    assert!(formed.infos.contains(&id));
    operations.sent(of, Ok(()));
    assert!(matches!(operations.poll(), Some(Step::Deliver(event)) if event.infos.contains(&id)));
    match operations.poll() {
        Some(Step::End(_, Ok(group))) => assert_eq!(group.context_id, Some(7)),
        other => panic!("{other:?}"),
    }
    // The invited process gets the same id.
    let mut operations = Operations::new(proc(1));
    operations.join(&name(), &proc(0), &[], None).unwrap();
    ended(&mut operations);
    let mut event = complete(&[0, 1]);
    event.infos.push(id);
    operations.handle_event(&event);
    match operations.poll() {
        Some(Step::End(_, Ok(group))) => assert_eq!(group.context_id, Some(7)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_host_without_context_ids_fails_constructs_that_require_one() {
    let assign = || Info::new(keys::GROUP_ASSIGN_CONTEXT_ID, true);
    let (mut operations, op) = answered(assign());
    operations.assigned(op, Ok(None));
    assert_eq!(ended(&mut operations), Some(Status::SUCCESS));
    let (mut operations, op) = answered(assign().required());
    operations.assigned(op, Ok(None));
    assert_eq!(ended(&mut operations), Some(Status::ERR_NOT_SUPPORTED));
    // If a host rejects the request, the group fails for all.
    let refused = crate::Error::new(Status::ERR_NOT_SUPPORTED, "no groups");
    let (mut operations, op) = answered(assign());
    operations.assigned(op, Err(refused));
    let aborts = matches!(operations.poll(), Some(Step::Notify(None, said)) if said.status == Status::GROUP_CONSTRUCT_ABORT);
    assert!(aborts);
    assert_eq!(ended(&mut operations), Some(Status::ERR_NOT_SUPPORTED));
}

#[test]
fn a_decline_during_the_context_id_request_fails_the_construct() {
    let assign = Info::new(keys::GROUP_ASSIGN_CONTEXT_ID, true);
    let (mut operations, op) = answered(assign);
    operations.handle_event(&heard(Status::GROUP_INVITE_DECLINED, 0, vec![]));
    let aborted = Some(Status::GROUP_CONSTRUCT_ABORT);
    assert_eq!(ended(&mut operations), aborted);
    // An id assigned after the end is ignored.
    operations.assigned(op, Ok(Some(7)));
    assert!(operations.poll().is_none());
}

#[test]
fn a_replacement_leader_requests_the_context_id_of_the_first_invitation() {
    let mut operations = Operations::new(proc(1));
    let assign = Info::new(keys::GROUP_ASSIGN_CONTEXT_ID, true);
    operations.record_invitation(&heard(Status::GROUP_INVITED, 0, vec![assign]));
    operations.join(&name(), &proc(0), &[], None).unwrap();
    ended(&mut operations);
    let lost = Info::new(keys::EVENT_AFFECTED_PROC, proc(0));
    operations.handle_event(&heard(Status::GROUP_LEADER_FAILED, 9, vec![lost]));
    operations.handle_event(&selected(0, Some(1), &[1]));
    let mut steps = std::iter::from_fn(|| operations.poll());
    assert!(steps.any(|step| matches!(step, Step::Context(..))));
}

#[test]
fn the_library_takes_acceptances_of_its_own_invitations_and_of_no_other() {
    let mut operations = Operations::new(proc(0));
    let procs = vec![proc(0), proc(1), proc(2)];
    operations.invite(&name(), procs, &[], None).unwrap();
    assert!(sent(&mut operations).is_some());
    let accepts = |source| heard(Status::GROUP_INVITE_ACCEPTED, source, vec![]);
    assert!(operations.handle_event(&accepts(1)));
    assert_eq!(ended(&mut operations), None);
    let mut other = accepts(2);
    for info in &mut other.infos {
        if info.key.is(keys::GROUP_ID) {
            info.value = Value::from("h");
        }
    }
    assert!(!operations.handle_event(&other));
    assert_eq!(ended(&mut operations), None);
    assert!(operations.handle_event(&accepts(2)));
    assert_eq!(ended(&mut operations), Some(Status::SUCCESS));
    // No operation waits for it now.
    assert!(!operations.handle_event(&accepts(2)));
}

#[test]
fn the_leader_is_the_latest_unanswered_inviter() {
    let mut operations = Operations::new(proc(1));
    let missing = operations.leader_of(&name()).unwrap_err();
    assert_eq!(missing.status(), Status::ERR_NOT_FOUND);
    for leader in [2, 3, 4, 5] {
        operations.record_invitation(&heard(Status::GROUP_INVITED, leader, vec![]));
    }
    // One leader aborted, one is lost, one was answered.
    operations.record_invitation(&heard(Status::GROUP_CONSTRUCT_ABORT, 5, vec![]));
    let lost = Info::new(keys::EVENT_AFFECTED_PROC, proc(4));
    operations.record_invitation(&heard(Status::GROUP_LEADER_FAILED, 9, vec![lost]));
    assert_eq!(operations.leader_of(&name()), Ok(proc(3)));
    operations.declined(&name(), &proc(3));
    assert_eq!(operations.leader_of(&name()), Ok(proc(2)));
    // A process added to a construct is not invited to join.
    let added = Info::new(keys::GROUP_ADD_MEMBERS, vec![proc(1)]);
    operations.record_invitation(&heard(Status::GROUP_INVITED, 6, vec![added]));
    assert_eq!(operations.leader_of(&name()), Ok(proc(2)));
    // The number of invitations that peers can leave here is bounded.
    for leader in 10..200 {
        operations.record_invitation(&heard(Status::GROUP_INVITED, leader, vec![]));
    }
    for leader in (136..200).rev() {
        assert_eq!(operations.leader_of(&name()), Ok(proc(leader)));
        operations.declined(&name(), &proc(leader));
    }
    assert!(operations.leader_of(&name()).is_err());
}

#[test]
fn the_next_leader_deadline_is_found_in_constant_time() {
    const MANY: usize = 50_000;
    let now = Instant::now();
    let mut operations = Operations::new(proc(0));
    for number in 0..MANY {
        let name = Text::from(format!("group{number}"));
        operations
            .invite(&name, vec![proc(0), proc(1)], &[], None)
            .unwrap();
        assert_eq!(operations.next_choice(), None);
    }
    operations.give_up_leaders(now);
    assert_eq!(operations.num_open(), MANY);
}

#[test]
fn a_program_that_sees_an_acceptance_may_abort_the_group() {
    for (decision, expected) in [
        (None, Status::SUCCESS),
        (Some(Decision::GoOnWithout), Status::SUCCESS),
        (Some(Decision::Abort), Status::GROUP_CONSTRUCT_ABORT),
    ] {
        let mut operations = Operations::new(proc(0)).asking(true);
        let procs = vec![proc(0), proc(1)];
        operations.invite(&name(), procs, &[], None).unwrap();
        assert!(sent(&mut operations).is_some());
        let accepted = heard(Status::GROUP_INVITE_ACCEPTED, 1, vec![]);
        assert!(operations.handle_event(&accepted));
        let Some(Step::Question(question, event)) = operations.poll() else {
            panic!("the program does not see the acceptance");
        };
        assert_eq!(event, accepted);
        assert!(
            operations.poll().is_none(),
            "the group waits for the program"
        );
        operations.decide(&question, decision);
        assert_eq!(ended(&mut operations), Some(expected));
    }
}

#[test]
fn all_invited_processes_and_the_own_program_learn_once_that_a_group_is_aborted() {
    for aborts in [Status::GROUP_INVITE_DECLINED, Status::GROUP_CONSTRUCT_ABORT] {
        let mut operations = Operations::new(proc(0));
        let procs = vec![proc(0), proc(1), proc(2)];
        operations.invite(&name(), procs, &[], None).unwrap();
        assert!(sent(&mut operations).is_some());
        // The program gets the abort of another process itself.
        let is_taken = operations.handle_event(&heard(aborts, 1, vec![]));
        let (mut delivered, mut notified) = (usize::from(!is_taken), Vec::new());
        let mut outcome = None;
        while let Some(step) = next(&mut operations) {
            match step {
                Step::Deliver(event) if event.status == Status::GROUP_INVITE_FAILED => {
                    assert_eq!(aborts, Status::GROUP_INVITE_DECLINED);
                }
                Step::Deliver(event) => {
                    assert_eq!(event.status, Status::GROUP_CONSTRUCT_ABORT);
                    delivered += 1;
                }
                Step::Notify(None, said) => {
                    assert_eq!(said.status, Status::GROUP_CONSTRUCT_ABORT);
                    notified.push(to(&said));
                }
                Step::End(_, ended) => outcome = ended.err().map(|error| error.status()),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(delivered, 1, "{aborts}");
        assert_eq!(
            notified,
            [Some(Value::from(vec![proc(1), proc(2)]))],
            "{aborts}"
        );
        assert_eq!(outcome, Some(Status::GROUP_CONSTRUCT_ABORT), "{aborts}");
    }
}

#[test]
fn a_leader_that_does_not_invite_itself_is_no_member() {
    let mut operations = Operations::new(proc(0));
    operations
        .invite(&name(), vec![proc(1)], &[], None)
        .unwrap();
    assert!(sent(&mut operations).is_some());
    operations.handle_event(&heard(Status::GROUP_INVITE_ACCEPTED, 1, vec![]));
    let complete = sent(&mut operations).unwrap();
    assert_eq!(complete.status, Status::GROUP_CONSTRUCT_COMPLETE);
    assert_eq!(to(&complete), Some(Value::from(vec![proc(1)])));
    assert_eq!(ended(&mut operations), Some(Status::SUCCESS));
    assert!(operations.invite(&name(), vec![], &[], None).is_err());
}

#[test]
fn an_optional_invitation_is_formed_without_silent_processes_after_its_time_limit() {
    let now = Instant::now();
    let optional = [Info::new(keys::GROUP_OPTIONAL, true)];
    for (infos, expected) in [(&optional[..], Status::SUCCESS), (&[], Status::ERR_TIMEOUT)] {
        let mut operations = Operations::new(proc(0));
        let procs = vec![proc(0), proc(1), proc(2)];
        operations.invite(&name(), procs, infos, Some(now)).unwrap();
        assert!(sent(&mut operations).is_some());
        operations.handle_event(&heard(Status::GROUP_INVITE_ACCEPTED, 1, vec![]));
        assert_eq!(ended(&mut operations), None);
        operations.tick(now);
        let mut failed = Vec::new();
        let mut members = None;
        let mut outcome = None;
        while let Some(step) = next(&mut operations) {
            match step {
                Step::Deliver(event) if event.status == Status::GROUP_INVITE_FAILED => {
                    failed.extend(event.infos.first().map(|info| info.value.clone()));
                }
                Step::Notify(Some(op), said) => {
                    members = to(&said);
                    operations.sent(op, Ok(()));
                }
                Step::End(_, ended) => {
                    outcome = Some(ended.map_or_else(|e| e.status(), |_| Status::SUCCESS));
                }
                _ => {}
            }
        }
        assert_eq!(outcome, Some(expected));
        if expected.is_success() {
            assert_eq!(failed, [Value::from(proc(2))]);
            assert_eq!(members, Some(Value::from(vec![proc(0), proc(1)])));
        }
    }
}
