// SPDX-License-Identifier: MIT OR Apache-2.0
//! Orders of events that a server rarely brings.

use std::time::{Duration, Instant};

use pmix_proto::Event;
use pmix_types::{Info, Proc, Rank, Status, Text, Value, keys};

use super::operations::{Operations, Step};
use super::said::notify;

fn proc(rank: u32) -> Proc<'static> {
    Proc::new("job", Rank::new(rank))
}

fn name() -> Text<'static> {
    Text::from("g")
}

/// What a process reports about the group, as others hear it.
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

/// The status that the operation ended with, if it has.
fn ended(operations: &mut Operations) -> Option<Status> {
    let mut ended = None;
    while let Some(step) = operations.poll() {
        match step {
            Step::End(_, outcome) => {
                let status = outcome.map(|_| Status::SUCCESS);
                ended = Some(status.unwrap_or_else(|error| error.status()));
            }
            Step::Notify(Some(op), _) => operations.sent(op, Ok(())),
            Step::Ask(question, _) => operations.decide(&question, None),
            Step::Notify(None, _) | Step::Leave(_) | Step::Tell(_) => {}
        }
    }
    ended
}

fn leaves(operations: &mut Operations) -> bool {
    let mut steps = std::iter::from_fn(|| operations.poll());
    steps.any(|step| matches!(step, Step::Leave(_)))
}

#[test]
fn a_group_that_was_given_up_is_left_when_it_is_formed() {
    let now = Instant::now();
    let failed = Info::new(keys::EVENT_AFFECTED_PROC, proc(0));
    let failed = heard(Status::GROUP_LEADER_FAILED, 9, vec![failed]);
    for is_late in [true, false] {
        let mut operations = Operations::new(proc(1));
        operations.join(&name(), &proc(0), Some(now)).unwrap();
        assert_eq!(ended(&mut operations), None);
        let expected = match is_late {
            true => {
                operations.tick(now + Duration::from_secs(1));
                Status::ERR_TIMEOUT
            }
            false => {
                assert!(operations.hear(&failed));
                Status::GROUP_LEADER_FAILED
            }
        };
        assert_eq!(ended(&mut operations), Some(expected));
        // A group without this process is none of its business.
        assert!(!operations.wants(&complete(&[0, 2])));
        operations.hear(&complete(&[0, 1]));
        assert!(leaves(&mut operations));
        operations.hear(&complete(&[0, 1]));
        assert!(!leaves(&mut operations));
    }
}

#[test]
fn what_is_heard_before_the_answer_is_about_an_earlier_group() {
    let mut operations = Operations::new(proc(1));
    operations.join(&name(), &proc(0), None).unwrap();
    assert!(!operations.wants(&complete(&[0, 1])));
    assert_eq!(ended(&mut operations), None);
    assert!(operations.wants(&complete(&[0, 1])));
    // Another process says nothing about this invitation.
    let mut other = complete(&[0, 1]);
    other.source = proc(2);
    assert!(!operations.wants(&other));
    operations.hear(&complete(&[0, 2]));
    assert_eq!(ended(&mut operations), Some(Status::GROUP_CONSTRUCT_ABORT));
}
