// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two servers in one process, whose host relays messages between them.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use pmix::params::Environment;
use pmix::prelude::*;
use pmix::server::upcall::{self, NotifyEvent};
use pmix::types::{DataArray, GroupOperation};

pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

pub(crate) const JOB: &str = "job@2";
const NODES: [&str; 2] = ["n00", "n01"];

/// The time limit of each step, which only a fault reaches.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn procs(ranks: &[u32]) -> Vec<Proc<'static>> {
    let ranks = ranks.iter();
    ranks.map(|rank| Proc::new(JOB, Rank::new(*rank))).collect()
}

/// A request of a server to the host.
enum Call {
    Fence(upcall::Fence, Completion<Vec<u8>>),
    Group(upcall::Group, Completion<Vec<Info<'static>>>),
    Event(NotifyEvent, Completion<()>),
    /// The end of the calls.
    End,
}

/// The host of one node's server.
struct NodeHost {
    node: usize,
    calls: Sender<(usize, Call)>,
}

impl NodeHost {
    fn send(&self, call: Call) {
        // Without a receiver the completion is dropped, which fails the request.
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

/// The participants of one node in a construct or destruct of a group.
struct Part {
    node: usize,
    call: upcall::Group,
    done: Completion<Vec<Info<'static>>>,
}

impl Part {
    /// Returns the remaining members on all nodes, in the order of this node.
    fn members(&self, other: &Self) -> Vec<Proc<'static>> {
        let [own, others] = [self, other].map(|part| {
            let mut infos = part.call.directives.iter();
            let info = infos.find(|info| info.key.is(keys::GROUP_MEMBERSHIP));
            match info.map(|info| &info.value) {
                Some(Value::DataArray(DataArray::Proc(procs))) => procs.clone(),
                _ => Vec::new(),
            }
        });
        let mut both = own;
        both.retain(|proc| others.contains(proc));
        both
    }

    /// Returns the status with which it failed on its node, if it did.
    fn failed(&self) -> Option<Status> {
        let mut infos = self.call.directives.iter();
        let info = infos.find(|info| info.key.is(keys::LOCAL_COLLECTIVE_STATUS))?;
        match info.value {
            Value::Status(status) => Some(status),
            _ => None,
        }
    }
}

/// Relays the calls of the servers until their end.
fn carry(
    servers: &[Server],
    calls: &Receiver<(usize, Call)>,
    carried: &impl Fn(&NotifyEvent),
) -> Result<()> {
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
                    // A single process has no participant on the other node.
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
                            let members = other.members(&part);
                            infos.push(Info::new(keys::GROUP_MEMBERSHIP, members));
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
                carried(&event);
            }
        }
    }
}

/// Runs a function in each of the four processes of a job, the first two on one node, and returns their results.
pub(crate) fn run<T: Send>(
    act: impl Fn(u32, Client) -> Result<T> + Sync,
) -> Result<Vec<Result<T>>> {
    run_with(|rank, own| act(rank, Client::init(own)?), |_| ())
}

/// Runs processes that connect by themselves. `on_event` is called for events that the host has delivered to the other
/// server.
pub(crate) fn run_with<T: Send>(
    act: impl Fn(u32, Settings) -> Result<T> + Sync,
    on_event: impl Fn(&NotifyEvent) + Sync,
) -> Result<Vec<Result<T>>> {
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
    let (act, carried, on_event) = (&act, &servers, &on_event);
    let outcomes = thread::scope(|scope| -> Result<_> {
        let carrier = scope.spawn(move || carry(carried, &calls, on_event));
        let clients = settings.into_iter();
        let clients = clients.map(|(rank, own)| scope.spawn(move || act(rank, own)));
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
