// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients of one server that form groups by construct and by invitation.

use std::sync::mpsc::{self, Receiver};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use pmix::client::{Client, ClientEvent, Decision, Group};
use pmix::prelude::*;
use pmix::types::DataRange;

use crate::served::{JOB, Result, serve};

const NAME: &str = "ocean";
/// The time limit of each step, which only a fault reaches.
const LIMIT: Duration = Duration::from_secs(60);

fn proc(rank: u32) -> Proc<'static> {
    Proc::new(JOB, Rank::new(rank))
}

fn procs(ranks: &[u32]) -> Vec<Proc<'static>> {
    ranks.iter().copied().map(proc).collect()
}

fn whole_group() -> Proc<'static> {
    Proc::new(NAME, Rank::WILDCARD)
}

/// A process that records events about groups.
struct Process {
    client: Client,
    heard: Mutex<Receiver<ClientEvent>>,
}

impl Process {
    fn new(settings: Settings, decides: bool) -> Result<Self> {
        let (sender, heard) = mpsc::channel();
        let client = Client::init(settings)?;
        client.set_listener(move |event| {
            // A process that does not decide leaves the default result.
            if decides || !matches!(event, ClientEvent::Group(..)) {
                drop(sender.send(event));
            }
        });
        let codes = vec![Status::GROUP_INVITED];
        client.register_events(codes, Vec::new()).wait()?;
        let heard = Mutex::new(heard);
        Ok(Self { client, heard })
    }

    fn heard(&self) -> Result<ClientEvent> {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(heard.recv_timeout(LIMIT)?)
    }

    /// Waits for an invitation and accepts it.
    fn join(&self, infos: &[Info<'_>]) -> Result<Group> {
        let leader = self.invited()?;
        Ok(self.client.group_join(NAME, &leader, infos).wait()?)
    }

    fn decline(&self) -> Result<()> {
        let leader = self.invited()?;
        Ok(self.client.group_decline(NAME, &leader).wait()?)
    }

    /// Waits for an invitation and returns its sender, the leader.
    fn invited(&self) -> Result<Proc<'static>> {
        match self.heard()? {
            ClientEvent::Event(event) if event.status == Status::GROUP_INVITED => Ok(event.source),
            other => Err(format!("{other:?} instead of an invitation").into()),
        }
    }

    fn invite(&self, ranks: &[u32], infos: &[Info<'_>]) -> Result<Group> {
        let procs = procs(ranks);
        let mut infos = infos.to_vec();
        infos.push(Info::new(keys::TIMEOUT, 60));
        Ok(self
            .client
            .group_invite(NAME, &procs[..], &infos[..])
            .wait()?)
    }
}

/// Starts a server with a job, and returns its processes. The server stops on drop.
fn job(size: u32, decides: bool) -> Result<(tempfile::TempDir, Server, Vec<Process>)> {
    let folder = tempfile::tempdir()?;
    let (server, settings) = serve(folder.path(), size)?;
    let processes = settings
        .into_iter()
        .map(|settings| Process::new(settings, decides));
    let processes = processes.collect::<Result<_>>()?;
    Ok((folder, server, processes))
}

type Task<'t, T> = Box<dyn FnOnce() -> T + Send + 't>;

/// Runs tasks in threads and returns their results.
fn all<T: Send>(tasks: Vec<Task<'_, T>>) -> Result<Vec<T>> {
    thread::scope(|scope| {
        let threads: Vec<_> = tasks.into_iter().map(|task| scope.spawn(task)).collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        ended
            .map(|ended| ended.map_err(|_| "a thread panicked".into()))
            .collect()
    })
}

fn status<T: std::fmt::Debug>(outcome: &Result<T>) -> Status {
    match outcome {
        Ok(_) => Status::SUCCESS,
        Err(error) => error
            .downcast_ref::<pmix::client::Error>()
            .map_or(Status::ERROR, pmix::client::Error::status),
    }
}

#[test]
fn a_group_is_constructed_left_and_destructed() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (server, settings) = serve(folder.path(), 3)?;
    let act = |settings: Settings| -> Result<()> {
        let client = Client::init(settings)?;
        let local = [Info::new(keys::GROUP_LOCAL_ONLY, true)];
        let made = client
            .group_construct(NAME, &procs(&[2, 0, 1])[..], &local)
            .wait()?;
        assert_eq!(made.members, procs(&[2, 0, 1]));
        let again = client
            .group_construct(NAME, &procs(&[2, 0, 1])[..], &local)
            .wait();
        assert_eq!(again.unwrap_err().status(), Status::ERR_EXISTS);
        client.fence([whole_group()], []).wait()?;
        if client.proc().rank == Rank::new(2) {
            client.group_leave(NAME, &[]).wait()?;
            let left = client.group_destruct(NAME, &[]).wait().unwrap_err();
            assert_eq!(left.status(), Status::ERR_NOT_FOUND);
            client.fence([], []).wait()?;
        } else {
            // The other member has left before.
            client.fence([], []).wait()?;
            client.group_destruct(NAME, &local).wait()?;
        }
        Ok(client.finalize()?)
    };
    let act = &act;
    let tasks = settings.into_iter();
    let tasks = tasks.map(|settings| -> Task<'_, _> { Box::new(move || act(settings)) });
    all(tasks.collect())?.into_iter().collect::<Result<()>>()?;
    Ok(server.finalize()?)
}

#[test]
fn invited_processes_join_fence_and_destruct() -> Result<()> {
    let (_folder, server, processes) = job(3, false)?;
    let [leader, first, second] = &processes[..] else {
        return Err("not three processes".into());
    };
    let use_it = |process: &Process, group: Group| -> Result<()> {
        assert_eq!(group.members, procs(&[2, 0, 1]));
        let client = &process.client;
        client.fence(vec![whole_group()], Vec::new()).wait()?;
        let local = vec![Info::new(keys::GROUP_LOCAL_ONLY, true)];
        Ok(client.group_destruct(NAME, local).wait()?)
    };
    for _ in 0..3 {
        let lead = || use_it(leader, leader.invite(&[2, 0, 1], &[])?);
        let follow = |process: &Process| use_it(process, process.join(&[])?);
        let ended = all(vec![
            Box::new(lead),
            Box::new(|| follow(first)),
            Box::new(|| follow(second)),
        ]);
        ended?.into_iter().collect::<Result<()>>()?;
        // The event of the complete group also reaches the leader's program.
        let complete = leader.heard()?;
        let ClientEvent::Event(complete) = complete else {
            return Err("no event".into());
        };
        assert_eq!(complete.status, Status::GROUP_CONSTRUCT_COMPLETE);
        for follower in [first, second] {
            let heard = follower.heard()?;
            let is_complete = matches!(heard, ClientEvent::Event(event)
                if event.status == Status::GROUP_CONSTRUCT_COMPLETE);
            assert!(is_complete);
        }
    }
    Ok(server.finalize()?)
}

#[test]
fn a_process_that_declines_ends_the_invitation_for_all() -> Result<()> {
    let (_folder, server, processes) = job(3, false)?;
    let ended = all(vec![
        Box::new(|| status(&processes[0].invite(&[0, 1, 2], &[]))),
        Box::new(|| status(&processes[1].join(&[]))),
        Box::new(|| status(&processes[2].decline())),
    ]);
    let expected = [
        Status::GROUP_CONSTRUCT_ABORT,
        Status::GROUP_CONSTRUCT_ABORT,
        Status::SUCCESS,
    ];
    assert_eq!(ended?, expected);
    Ok(server.finalize()?)
}

#[test]
fn an_optional_group_is_formed_without_a_process_that_declines() -> Result<()> {
    let (_folder, server, processes) = job(3, false)?;
    let optional = [Info::new(keys::GROUP_OPTIONAL, true)];
    let mut ended = all(vec![
        Box::new(|| processes[0].invite(&[0, 1, 2], &optional).map(Some)),
        Box::new(|| processes[1].join(&[]).map(Some)),
        Box::new(|| processes[2].decline().map(|()| None)),
    ])?;
    assert_eq!(status(&ended.pop().unwrap_or(Ok(None))), Status::SUCCESS);
    for group in ended {
        assert_eq!(group?.map(|group| group.members), Some(procs(&[0, 1])));
    }
    Ok(server.finalize()?)
}

#[test]
fn the_leader_invites_a_replacement_for_a_process_that_declines() -> Result<()> {
    let (_folder, server, processes) = job(3, true)?;
    let decide = || -> Result<()> {
        let ClientEvent::Group(event, decision) = processes[0].heard()? else {
            return Err("no process declined".into());
        };
        assert_eq!(event.status, Status::GROUP_INVITE_DECLINED);
        assert_eq!(event.source, proc(1));
        // A process cannot be invited twice, and an invalid decision changes nothing.
        let whole_job = Proc::new(JOB, Rank::WILDCARD);
        for bad in [vec![], procs(&[1]), procs(&[2, 2]), vec![whole_job]] {
            let refused = decision.decide(Decision::Invite(bad));
            let status = refused.map_err(|error| error.status());
            assert_eq!(status, Err(Status::ERR_BAD_PARAM));
        }
        decision.decide(Decision::Invite(procs(&[2])))?;
        // Only the first decision counts.
        decision.decide(Decision::Abort)?;
        Ok(())
    };
    let ended = all(vec![
        Box::new(|| processes[0].invite(&[0, 1], &[]).map(Some)),
        Box::new(|| processes[1].decline().map(|()| None)),
        Box::new(|| processes[2].join(&[]).map(Some)),
        Box::new(|| decide().map(|()| None)),
    ])?;
    let ended = ended.into_iter().collect::<Result<Vec<_>>>()?;
    let groups: Vec<_> = ended.into_iter().flatten().collect();
    assert_eq!(groups.len(), 2);
    assert!(groups.iter().all(|group| group.members == procs(&[0, 2])));
    Ok(server.finalize()?)
}

#[test]
fn an_invitation_without_an_answer_times_out() -> Result<()> {
    let (_folder, server, processes) = job(3, false)?;
    let second = [Info::new(keys::TIMEOUT, 1)];
    let ended = all(vec![
        Box::new(|| status(&processes[0].invite(&[0, 1, 2], &second))),
        Box::new(|| status(&processes[1].join(&[]))),
    ]);
    assert_eq!(ended?, [Status::ERR_TIMEOUT, Status::GROUP_CONSTRUCT_ABORT]);
    Ok(server.finalize()?)
}

#[test]
fn a_process_whose_join_timed_out_is_not_a_member() -> Result<()> {
    let (_folder, server, processes) = job(3, true)?;
    let second = [Info::new(keys::TIMEOUT, 1)];
    let optional = [Info::new(keys::GROUP_OPTIONAL, true)];
    let ended = all(vec![
        Box::new(|| processes[0].invite(&[0, 1, 2], &optional)),
        Box::new(|| processes[1].join(&second)),
        Box::new(|| {
            // Join only after the leader was notified that the other process has timed out.
            match processes[0].heard()? {
                ClientEvent::Group(event, _) => assert_eq!(event.source, proc(1)),
                other => return Err(format!("{other:?}").into()),
            }
            processes[2].join(&[])
        }),
    ])?;
    let [led, late, joined] = &ended[..] else {
        return Err("not three outcomes".into());
    };
    assert_eq!(status(late), Status::ERR_TIMEOUT);
    for group in [led, joined] {
        let members = group.as_ref().map(|group| &group.members);
        assert_eq!(members.ok(), Some(&procs(&[0, 2])));
    }
    Ok(server.finalize()?)
}

#[test]
fn blocking_clients_invite_and_join() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (server, settings) = serve(folder.path(), 3)?;
    let act = |settings: Settings| -> Result<Group> {
        let client = Client::init(settings)?;
        client
            .register_events([Status::GROUP_INVITED], &[])
            .wait()?;
        client.fence([], []).wait()?;
        let group = match client.proc().rank.as_raw() {
            0 => client.group_invite(NAME, &[client.job()], &[]).wait()?,
            _ => {
                let invited = client.next_event(LIMIT)?.ok_or("no invitation")?;
                client.group_join(NAME, &invited.source, &[]).wait()?
            }
        };
        client.fence([whole_group()], []).wait()?;
        client.finalize()?;
        Ok(group)
    };
    let act = &act;
    let tasks = settings.into_iter();
    let tasks = tasks.map(|settings| -> Task<'_, _> { Box::new(move || act(settings)) });
    for group in all(tasks.collect())? {
        assert_eq!(group?.members, procs(&[0, 1, 2]));
    }
    Ok(server.finalize()?)
}

#[test]
fn an_invalid_invitation_is_refused() -> Result<()> {
    let (_folder, server, processes) = job(2, false)?;
    let client = &processes[0].client;
    let bad = |name: &str, ranks: &[u32]| {
        let refused = client.group_invite(name, &procs(ranks)[..], &[]).wait();
        refused.unwrap_err().status()
    };
    for (name, ranks) in [
        ("", &[0, 1][..]),
        (&"x".repeat(256), &[0, 1]),
        ("x", &[0, 1, 1]),
        ("x", &[]),
    ] {
        assert_eq!(bad(name, ranks), Status::ERR_BAD_PARAM, "{name} {ranks:?}");
    }
    let own = client.group_join("x", &proc(0), &[]).wait();
    assert_eq!(own.unwrap_err().status(), Status::ERR_BAD_PARAM);
    // A group of one process is valid, and that process is then a member.
    let alone = client.group_invite("x", &procs(&[0])[..], &[]).wait()?;
    assert_eq!(alone.members, procs(&[0]));
    let again = client
        .group_construct("x", procs(&[0, 1]), Vec::new())
        .wait();
    assert_eq!(again.unwrap_err().status(), Status::ERR_EXISTS);
    Ok(server.finalize()?)
}

#[test]
fn an_acceptance_without_a_group_name_is_matched() -> Result<()> {
    let (_folder, server, processes) = job(2, false)?;
    let join = || -> Result<()> {
        let leader = processes[1].invited()?;
        let infos = vec![Info::new(keys::EVENT_CUSTOM_RANGE, leader)];
        let (accepted, range) = (Status::GROUP_INVITE_ACCEPTED, DataRange::CUSTOM);
        Ok(processes[1].client.notify(accepted, range, infos).wait()?)
    };
    let ended = all(vec![
        Box::new(|| processes[0].invite(&[0, 1], &[]).map(Some)),
        Box::new(|| join().map(|()| None)),
    ])?;
    let ended = ended.into_iter().collect::<Result<Vec<_>>>()?;
    let led = ended.into_iter().flatten().next();
    assert_eq!(led.map(|group| group.members), Some(procs(&[0, 1])));
    Ok(server.finalize()?)
}

#[test]
fn a_lost_leader_is_replaced_by_a_member() -> Result<()> {
    let (_folder, server, processes, leader) = job_with_one_to_lose(true)?;
    let decide = |rank: usize, decision: Decision| -> Result<()> {
        match processes[rank].heard()? {
            ClientEvent::Group(event, asked) => {
                assert_eq!(event.status, Status::GROUP_LEADER_FAILED);
                // Only the leader can invite.
                let refused = asked.decide(Decision::Invite(procs(&[2])));
                assert_eq!(refused.unwrap_err().status(), Status::ERR_BAD_PARAM);
                Ok(asked.decide(decision)?)
            }
            other => Err(format!("{other:?} instead of a question").into()),
        }
    };
    let ready = std::sync::Barrier::new(3);
    let join = |rank: usize| -> Result<Group> {
        let leader = processes[rank].invited()?;
        ready.wait();
        let limit = [Info::new(keys::TIMEOUT, 60)];
        let client = &processes[rank].client;
        Ok(client.group_join(NAME, &leader, &limit).wait()?)
    };
    let ended = all(vec![
        Box::new(|| join(0).map(Some)),
        Box::new(|| join(1).map(Some)),
        Box::new(|| {
            lose_leader(leader, || {
                ready.wait();
            })?;
            decide(0, Decision::Lead)?;
            decide(1, Decision::GoOnWithout).map(|()| None)
        }),
    ])?;
    let ended = ended.into_iter().collect::<Result<Vec<_>>>()?;
    let groups: Vec<_> = ended.into_iter().flatten().collect();
    assert_eq!(groups.len(), 2);
    assert!(groups.iter().all(|group| group.members == procs(&[0, 1])));
    // The name selects both members and no other process.
    let fences = processes.iter().map(|process| -> Task<'_, Result<()>> {
        Box::new(|| Ok(process.client.fence([whole_group()], []).wait()?))
    });
    for fenced in all(fences.collect())? {
        fenced?;
    }
    Ok(server.finalize()?)
}

/// Invites the others from the last process, which is lost after both have accepted.
fn lose_leader(leader: Client, invited: impl FnOnce()) -> Result<()> {
    leader
        .register_events([Status::GROUP_INVITE_ACCEPTED], &[])
        .wait()?;
    let infos = [
        Info::new(keys::EVENT_CUSTOM_RANGE, procs(&[0, 1])),
        Info::new(keys::GROUP_ID, NAME),
    ];
    leader
        .notify(Status::GROUP_INVITED, DataRange::CUSTOM, &infos)
        .wait()?;
    invited();
    leader.next_event(LIMIT)?.ok_or("no process accepts")?;
    leader.next_event(LIMIT)?.ok_or("only one accepts")?;
    drop(leader);
    Ok(())
}

/// Starts a job whose last process can be lost.
fn job_with_one_to_lose(
    decides: bool,
) -> Result<(tempfile::TempDir, Server, Vec<Process>, Client)> {
    let folder = tempfile::tempdir()?;
    let (server, mut settings) = serve(folder.path(), 3)?;
    let last = Client::init(settings.pop().ok_or("no process")?)?;
    let processes = settings
        .into_iter()
        .map(|settings| Process::new(settings, decides));
    Ok((folder, server, processes.collect::<Result<_>>()?, last))
}

#[test]
fn the_loss_of_an_invited_process_ends_the_invitation() -> Result<()> {
    let (_folder, server, processes, last) = job_with_one_to_lose(false)?;
    last.register_events([Status::GROUP_INVITED], &[]).wait()?;
    let lose = || -> Result<()> {
        last.next_event(LIMIT)?.ok_or("no invitation")?;
        drop(last);
        Ok(())
    };
    let ended = all(vec![
        Box::new(|| status(&processes[0].invite(&[0, 1, 2], &[]))),
        Box::new(|| status(&processes[1].join(&[]))),
        Box::new(|| status(&lose())),
    ]);
    let expected = [
        Status::GROUP_CONSTRUCT_ABORT,
        Status::GROUP_CONSTRUCT_ABORT,
        Status::SUCCESS,
    ];
    assert_eq!(ended?, expected);
    // A process that has exited before its invitation counts as lost, too.
    let again = processes[0].invite(&[0, 2], &[]);
    assert_eq!(status(&again), Status::GROUP_CONSTRUCT_ABORT);
    Ok(server.finalize()?)
}

#[test]
fn the_loss_of_the_leader_ends_the_joins() -> Result<()> {
    let (_folder, server, processes, leader) = job_with_one_to_lose(false)?;
    let ended = all(vec![
        Box::new(|| status(&processes[0].join(&[]))),
        Box::new(|| status(&processes[1].join(&[]))),
        Box::new(|| status(&lose_leader(leader, || {}))),
    ]);
    let expected = [
        Status::GROUP_LEADER_FAILED,
        Status::GROUP_LEADER_FAILED,
        Status::SUCCESS,
    ];
    assert_eq!(ended?, expected);
    Ok(server.finalize()?)
}
