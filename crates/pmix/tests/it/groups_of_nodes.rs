// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups of processes on two nodes: two servers in one process, whose host relays between them.

use std::sync::Mutex;
use std::sync::mpsc::channel;

use pmix::client::{Client, ClientEvent, Decision, Group};
use pmix::prelude::*;

use crate::nodes::{LIMIT, Result, procs, run, run_with};

const NAME: &str = "ocean";

fn whole_group() -> Proc<'static> {
    Proc::new(NAME, Rank::WILDCARD)
}

/// Waits for the next event, which must have this status, and returns its source.
fn expect(client: &mut Client, status: Status) -> Result<Proc<'static>> {
    let event = client.next_event(LIMIT)?.ok_or("no event")?;
    assert_eq!(event.status, status);
    Ok(event.source)
}

fn status_of<T>(outcome: std::result::Result<T, pmix::client::Error>) -> Status {
    outcome.map_or_else(|error| error.status(), |_| Status::SUCCESS)
}

#[test]
fn a_group_of_two_nodes_is_constructed_left_and_destructed() -> Result<()> {
    let outcomes = run(|rank, mut client| {
        client.register_events([Status::GROUP_LEFT], &[]).wait()?;
        client.fence([], []).wait()?;
        let assign = [Info::new(keys::GROUP_ASSIGN_CONTEXT_ID, true)];
        let made = client
            .group_construct(NAME, &procs(&[3, 0, 2, 1])[..], &assign)
            .wait()?;
        client.fence([whole_group()], []).wait()?;
        if rank == 3 {
            client.group_leave(NAME, &[]).wait()?;
        } else {
            assert_eq!(
                expect(&mut client, Status::GROUP_LEFT)?,
                procs(&[3])[0].clone()
            );
            // The name selects the remaining members.
            client.fence([whole_group()], []).wait()?;
            client.group_destruct(NAME, &[]).wait()?;
        }
        client.fence([], []).wait()?;
        let after = status_of(client.group_destruct(NAME, &[]).wait());
        client.finalize()?;
        Ok((made, after))
    });
    for outcome in outcomes? {
        let (made, after) = outcome?;
        assert_eq!(made.members, procs(&[3, 0, 2, 1]));
        assert_eq!(made.context_id, Some(1));
        assert_eq!(after, Status::ERR_NOT_FOUND);
    }
    Ok(())
}

#[test]
fn a_member_that_is_lost_ends_the_construction_on_both_nodes() -> Result<()> {
    let outcomes = run(|rank, client| {
        client.fence([], []).wait()?;
        if rank == 3 {
            drop(client);
            return Ok(Status::SUCCESS);
        }
        let made = status_of(
            client
                .group_construct(NAME, &procs(&[0, 1, 2, 3])[..], &[])
                .wait(),
        );
        client.finalize()?;
        Ok(made)
    })?;
    let outcomes = outcomes.into_iter().collect::<Result<Vec<_>>>()?;
    let lost = Status::GROUP_CONSTRUCT_ABORT;
    assert_eq!(outcomes, [lost, lost, lost, Status::SUCCESS]);
    Ok(())
}

/// Invites all from the first process; the participants join, use the group and destruct it.
fn invite_and_use(rank: u32, mut client: Client, infos: &[Info<'_>]) -> Result<Group> {
    let group = match rank {
        0 => client
            .group_invite(NAME, &procs(&[0, 1, 2, 3])[..], infos)
            .wait()?,
        _ => {
            let leader = expect(&mut client, Status::GROUP_INVITED)?;
            client.group_join(NAME, &leader, &[]).wait()?
        }
    };
    client.fence([whole_group()], []).wait()?;
    client.group_destruct(NAME, &[]).wait()?;
    client.finalize()?;
    Ok(group)
}

#[test]
fn processes_invited_from_another_node_join() -> Result<()> {
    let outcomes = run(|rank, client| {
        client
            .register_events([Status::GROUP_INVITED], &[])
            .wait()?;
        client.fence([], []).wait()?;
        invite_and_use(rank, client, &[])
    });
    for group in outcomes? {
        assert_eq!(group?.members, procs(&[0, 1, 2, 3]));
    }
    Ok(())
}

#[test]
fn a_group_that_is_formed_by_invitation_has_the_context_id_that_its_leader_asks_for() -> Result<()>
{
    let outcomes = run(|rank, client| {
        client
            .register_events([Status::GROUP_INVITED], &[])
            .wait()?;
        client.fence([], []).wait()?;
        let assign = Info::new(keys::GROUP_ASSIGN_CONTEXT_ID, true).required();
        invite_and_use(rank, client, &[assign])
    });
    for group in outcomes? {
        let group = group?;
        assert_eq!(group.members, procs(&[0, 1, 2, 3]));
        assert_eq!(group.context_id, Some(1));
    }
    Ok(())
}

#[test]
fn a_join_need_not_name_the_leader() -> Result<()> {
    let outcomes = run(|rank, mut client| {
        let nobody = None;
        client
            .register_events([Status::GROUP_INVITED], &[])
            .wait()?;
        let early = status_of(client.group_join(NAME, nobody, &[]).wait());
        client.fence([], []).wait()?;
        let made = match rank {
            0 => client
                .group_invite(NAME, &procs(&[0, 1, 2])[..], &[])
                .wait()
                .map(drop),
            3 => Ok(()),
            _ => {
                expect(&mut client, Status::GROUP_INVITED)?;
                client.group_join(NAME, nobody, &[]).wait().map(drop)
            }
        };
        let made = status_of(made);
        // An accepted invitation is not pending any more.
        let late = status_of(client.group_decline(NAME, nobody).wait());
        client.finalize()?;
        Ok((early, made, late))
    });
    for outcome in outcomes? {
        let not_found = Status::ERR_NOT_FOUND;
        assert_eq!(outcome?, (not_found, Status::SUCCESS, not_found));
    }
    Ok(())
}

#[test]
fn an_optional_group_drops_a_process_lost_before_it_answers_another_node() -> Result<()> {
    let outcomes = run(|rank, mut client| {
        client
            .register_events([Status::GROUP_INVITED], &[])
            .wait()?;
        client.fence([], []).wait()?;
        if rank == 3 {
            expect(&mut client, Status::GROUP_INVITED)?;
            drop(client);
            return Ok(None);
        }
        let optional = [Info::new(keys::GROUP_OPTIONAL, true)];
        invite_and_use(rank, client, &optional).map(Some)
    })?;
    let outcomes = outcomes.into_iter().collect::<Result<Vec<_>>>()?;
    let members = outcomes.into_iter().flatten();
    let members: Vec<_> = members.map(|group| group.members).collect();
    assert_eq!(
        members,
        [procs(&[0, 1, 2]), procs(&[0, 1, 2]), procs(&[0, 1, 2])]
    );
    Ok(())
}

/// Constructs a group of all, whose leader decides about a lost member.
fn lead_one_that_is_lost(decision: Option<Decision>) -> Result<Vec<Result<Option<Group>>>> {
    let (announced, is_announced) = channel();
    let (announced, is_announced) = (Mutex::new(announced), Mutex::new(is_announced));
    run_with(
        |rank, own| {
            if rank == 3 {
                let client = Client::init(own)?;
                client.fence([], []).wait()?;
                // Both servers know the leader from here on.
                is_announced.lock().unwrap().recv_timeout(LIMIT)?;
                drop(client);
                return Ok(None);
            }
            let decision = decision.clone();
            let client = Client::init(own)?;
            client.set_listener(move |event| {
                if let ClientEvent::Group(event, asked) = event
                    && let Some(decision) = &decision
                {
                    assert_eq!(event.status, Status::GROUP_INVITE_FAILED);
                    asked.decide(decision.clone()).unwrap();
                }
            });
            let codes = vec![Status::GROUP_INVITE_FAILED];
            client.register_events(codes, Vec::new()).wait()?;
            client.fence(Vec::new(), Vec::new()).wait()?;
            let infos = match rank {
                0 => vec![Info::new(keys::GROUP_LEADER, true)],
                _ => Vec::new(),
            };
            let all = procs(&[3, 0, 2, 1]);
            let made = client.group_construct(NAME, all, infos).wait();
            client.finalize()?;
            Ok(Some(made?))
        },
        |event| {
            if event.status == Status::GROUP_LEADER_SELECTED {
                announced.lock().unwrap().send(()).unwrap();
            }
        },
    )
}

#[test]
fn the_leader_continues_without_a_process_lost_on_another_node() -> Result<()> {
    let outcomes = lead_one_that_is_lost(Some(Decision::GoOnWithout))?;
    let outcomes = outcomes.into_iter().collect::<Result<Vec<_>>>()?;
    let members = outcomes.into_iter().flatten();
    let members: Vec<_> = members.map(|group| group.members).collect();
    let left = procs(&[0, 2, 1]);
    assert_eq!(members, [left.clone(), left.clone(), left]);
    Ok(())
}

#[test]
fn an_abort_by_the_leader_ends_the_construct_on_both_nodes() -> Result<()> {
    let outcomes = lead_one_that_is_lost(Some(Decision::Abort))?;
    let statuses = outcomes.into_iter().filter_map(|made| match made {
        Ok(None) => None,
        Ok(Some(_)) => Some(Status::SUCCESS),
        Err(error) => Some(error.downcast::<pmix::client::Error>().unwrap().status()),
    });
    let statuses: Vec<_> = statuses.collect();
    assert_eq!(statuses, [Status::GROUP_CONSTRUCT_ABORT; 3]);
    Ok(())
}
