// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups of processes on two nodes: two servers in one process, whose host carries between them what one
//! has for the other.
#![cfg(all(feature = "client", feature = "server"))]

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use pmix::client::Group;
use pmix::params::Environment;
use pmix::prelude::*;
use pmix::server::upcall::{self, NotifyEvent};
use pmix::types::GroupOperation;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const JOB: &str = "job@2";
const NODES: [&str; 2] = ["n00", "n01"];
const NAME: &str = "ocean";

/// Longer than anything takes here, so that a fault ends the test.
const LIMIT: Duration = Duration::from_secs(60);

fn procs(ranks: &[u32]) -> Vec<Proc<'static>> {
    let ranks = ranks.iter();
    ranks.map(|rank| Proc::new(JOB, Rank::new(*rank))).collect()
}

fn whole_group() -> Proc<'static> {
    Proc::new(NAME, Rank::WILDCARD)
}

/// What a server asks of the host.
enum Call {
    Fence(upcall::Fence, Completion<Vec<u8>>),
    Group(upcall::Group, Completion<Vec<Info<'static>>>),
    Event(NotifyEvent, Completion<()>),
    /// There is nothing more to carry.
    End,
}

/// The host as the server of one node knows it.
struct NodeHost {
    node: usize,
    calls: Sender<(usize, Call)>,
}

impl NodeHost {
    fn send(&self, call: Call) {
        // When nobody carries any longer, the completion answers by being dropped.
        drop(self.calls.send((self.node, call)));
    }
}

impl Host for NodeHost {
    fn fence(&self, call: upcall::Fence, done: Completion<Vec<u8>>) {
        self.send(Call::Fence(call, done));
    }

    fn group(&self, call: upcall::Group, done: Completion<Vec<Info<'static>>>) {
        self.send(Call::Group(call, done));
    }

    fn notify_event(&self, call: NotifyEvent, done: Completion<()>) {
        self.send(Call::Event(call, done));
    }
}

/// The part of one node in the construction or the end of a group.
struct Part {
    node: usize,
    call: upcall::Group,
    done: Completion<Vec<Info<'static>>>,
}

impl Part {
    /// How it failed on its node, if it did.
    fn failed(&self) -> Option<Status> {
        let mut infos = self.call.directives.iter();
        let info = infos.find(|info| info.key.is(keys::LOCAL_COLLECTIVE_STATUS))?;
        match info.value {
            Value::Status(status) => Some(status),
            _ => None,
        }
    }
}

/// Carries what servers ask until there is nothing more.
fn carry(servers: &[Server], calls: &Receiver<(usize, Call)>) -> Result<()> {
    let mut fences: Vec<(usize, upcall::Fence, Completion<Vec<u8>>)> = Vec::new();
    let mut parts: Vec<Part> = Vec::new();
    let mut last_context = 0;
    loop {
        let (node, call) = calls.recv()?;
        match call {
            Call::End => return Ok(()),
            Call::Fence(call, done) => {
                let is_other = |(from, other, _): &(usize, upcall::Fence, _)| {
                    *from != node && other.procs == call.procs
                };
                match fences.iter().position(is_other) {
                    None => fences.push((node, call, done)),
                    Some(place) => {
                        let (_, other, other_done) = fences.remove(place);
                        let data = [other.data, call.data].concat();
                        other_done.succeed(data.clone());
                        done.succeed(data);
                    }
                }
            }
            Call::Group(call, done) => {
                let part = Part { node, call, done };
                let is_other = |other: &Part| {
                    let (own, other_call) = (&part.call, &other.call);
                    other.node != node
                        && (&own.id, own.operation) == (&other_call.id, other_call.operation)
                };
                let Some(place) = parts.iter().position(is_other) else {
                    // One process alone has nobody on the other node.
                    match &*part.call.procs {
                        [one] if one.rank != Rank::WILDCARD => {
                            last_context += 1;
                            let context = Value::Size(last_context);
                            part.done
                                .succeed(vec![Info::new(keys::GROUP_CONTEXT_ID, context)]);
                        }
                        _ => parts.push(part),
                    }
                    continue;
                };
                let other = parts.remove(place);
                assert_eq!(other.call.procs, part.call.procs);
                let failed = other.failed().or_else(|| part.failed());
                match failed {
                    Some(status) => {
                        other.done.fail(status);
                        part.done.fail(status);
                    }
                    None => {
                        let mut infos = Vec::new();
                        if part.call.operation == GroupOperation::CONSTRUCT {
                            last_context += 1;
                            let context = Value::Size(last_context);
                            infos.push(Info::new(keys::GROUP_CONTEXT_ID, context));
                        }
                        other.done.succeed(infos.clone());
                        part.done.succeed(infos);
                    }
                }
            }
            Call::Event(event, done) => {
                done.succeed(());
                let others = servers.iter().enumerate();
                for (_, server) in others.filter(|(other, _)| *other != node) {
                    server.notify(event.status, &event.source, event.range, &event.infos)?;
                }
            }
        }
    }
}

/// Runs something as each of the four processes of a job, the first two on one node, and returns what each
/// brings.
fn run<T: Send>(act: impl Fn(u32, Client) -> Result<T> + Sync) -> Result<Vec<Result<T>>> {
    let (sender, calls) = channel();
    let user = Credentials {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
    };
    let folder = tempfile::tempdir()?;
    let nodes = NodeList::parse_text(NODES.join(",").as_bytes(), &Limits::default())?;
    let map = ProcMap::parse_text(b"0-1;2-3", &Limits::default())?;
    let (mut servers, mut settings) = (Vec::new(), Vec::new());
    for (node, (name, ranks)) in NODES.into_iter().zip([0..2, 2..4]).enumerate() {
        let calls = sender.clone();
        let own_folder = folder.path().join(name);
        std::fs::create_dir(&own_folder)?;
        let server = Server::builder().host(NodeHost { node, calls });
        let server = server.nspace(format!("host.{name}")).hostname(name);
        let server = server
            .server_tmpdir(&own_folder)
            .system_tmpdir(&own_folder)
            .build()?;
        server.start()?;
        let job = Registration::new(&[]).with_maps(nodes.clone(), map.clone());
        server.register_nspace(&JOB.into(), 2, job)?;
        for rank in ranks {
            let proc = Proc::new(JOB, Rank::new(rank));
            server.register_client(&proc, user, HostObject(0))?;
            let mut own = Settings::of(&Environment {
                vars: server.setup_fork(&proc)?,
                cwd: own_folder.clone(),
                home: None,
                system: own_folder.clone(),
            })?;
            own.time_limit = Some(LIMIT);
            settings.push((rank, own));
        }
        servers.push(server);
    }
    let (act, carried) = (&act, &servers);
    let outcomes = thread::scope(|scope| -> Result<_> {
        let carrier = scope.spawn(move || carry(carried, &calls));
        let clients = settings.into_iter();
        let clients = clients
            .map(|(rank, own)| scope.spawn(move || -> Result<T> { act(rank, Client::init(own)?) }));
        let clients: Vec<_> = clients.collect();
        let outcomes = clients.into_iter().map(|client| client.join());
        let outcomes: std::result::Result<Vec<_>, _> = outcomes.collect();
        sender.send((0, Call::End))?;
        carrier.join().map_err(|_| "the host panicked")??;
        outcomes.map_err(|_| "a process panicked".into())
    })?;
    for server in &servers {
        server.finalize()?;
    }
    Ok(outcomes)
}

/// The next event, which has to be of this status.
fn expect(client: &mut Client, status: Status) -> Result<Proc<'static>> {
    let event = client.next_event(LIMIT)?.ok_or("no event")?;
    assert_eq!(event.status, status);
    Ok(event.source)
}

fn status_of<T>(outcome: std::result::Result<T, pmix::client::Error>) -> Status {
    outcome.map_or_else(|error| error.status(), |_| Status::SUCCESS)
}

#[test]
fn a_group_of_two_nodes_is_constructed_left_and_taken_apart() -> Result<()> {
    let outcomes = run(|rank, mut client| {
        client.register_events(&[Status::GROUP_LEFT], &[])?;
        client.fence(&Fence::new())?;
        let assign = [Info::new(keys::GROUP_ASSIGN_CONTEXT_ID, true)];
        let made = client.group_construct(NAME, &procs(&[3, 0, 2, 1]), &assign)?;
        client.fence(&Fence::new().of([whole_group()]))?;
        if rank == 3 {
            client.group_leave(NAME, &[])?;
        } else {
            assert_eq!(
                expect(&mut client, Status::GROUP_LEFT)?,
                procs(&[3])[0].clone()
            );
            // The name stands for those who are left.
            client.fence(&Fence::new().of([whole_group()]))?;
            client.group_destruct(NAME, &[])?;
        }
        client.fence(&Fence::new())?;
        let after = status_of(client.group_destruct(NAME, &[]));
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
    let outcomes = run(|rank, mut client| {
        client.fence(&Fence::new())?;
        if rank == 3 {
            drop(client);
            return Ok(Status::SUCCESS);
        }
        let made = status_of(client.group_construct(NAME, &procs(&[0, 1, 2, 3]), &[]));
        client.finalize()?;
        Ok(made)
    })?;
    let outcomes = outcomes.into_iter().collect::<Result<Vec<_>>>()?;
    let lost = Status::ERR_LOST_CONNECTION;
    assert_eq!(outcomes, [lost, lost, lost, Status::SUCCESS]);
    Ok(())
}

/// The first invites all, and each that is to take part joins; the group is used and taken apart.
fn invite_and_use(rank: u32, mut client: Client, infos: &[Info<'_>]) -> Result<Group> {
    let group = match rank {
        0 => client.group_invite(NAME, &procs(&[0, 1, 2, 3]), infos)?,
        _ => {
            let leader = expect(&mut client, Status::GROUP_INVITED)?;
            client.group_join(NAME, &leader, &[])?
        }
    };
    client.fence(&Fence::new().of([whole_group()]))?;
    client.group_destruct(NAME, &[])?;
    client.finalize()?;
    Ok(group)
}

#[test]
fn those_who_are_invited_from_another_node_join() -> Result<()> {
    let outcomes = run(|rank, mut client| {
        client.register_events(&[Status::GROUP_INVITED], &[])?;
        client.fence(&Fence::new())?;
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
    let outcomes = run(|rank, mut client| {
        client.register_events(&[Status::GROUP_INVITED], &[])?;
        client.fence(&Fence::new())?;
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
fn one_that_joins_need_not_say_who_leads() -> Result<()> {
    let outcomes = run(|rank, mut client| {
        let nobody = None;
        client.register_events(&[Status::GROUP_INVITED], &[])?;
        let early = status_of(client.group_join(NAME, nobody, &[]));
        client.fence(&Fence::new())?;
        let made = match rank {
            0 => client.group_invite(NAME, &procs(&[0, 1, 2]), &[]).map(drop),
            3 => Ok(()),
            _ => {
                expect(&mut client, Status::GROUP_INVITED)?;
                client.group_join(NAME, nobody, &[]).map(drop)
            }
        };
        let made = status_of(made);
        // An invitation that was answered is none any longer.
        let late = status_of(client.group_decline(NAME, nobody));
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
fn who_is_lost_before_it_answers_another_node_is_done_without() -> Result<()> {
    let outcomes = run(|rank, mut client| {
        client.register_events(&[Status::GROUP_INVITED], &[])?;
        client.fence(&Fence::new())?;
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
