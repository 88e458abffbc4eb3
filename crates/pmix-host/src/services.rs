// SPDX-License-Identifier: MIT OR Apache-2.0
//! The services of a controller: the process of a host to which the servers of all nodes pass their upcalls.
//!
//! [`ControllerServices`] serves the upcalls that every host of several nodes serves in the same way. It combines
//! [`Collectives`], [`GroupAssembler`], [`PublishService`] and [`relay`]; the host passes it upcalls, ends of processes
//! and lost nodes once, and it passes them to each of these in the required order.
//!
//! | upcall | service |
//! | --- | --- |
//! | `Fence`, `Connect`, `Disconnect`, `Group` (destruct) | gathered from all nodes that participate |
//! | `Group` (construct) | assembled, with a context id if one is requested |
//! | `JobControl` that requests a context id | the next context id |
//! | `DirectModex` | passed to the node of the process |
//! | `NotifyEvent` | passed to the servers of the other nodes |
//! | `RegisterEvents`, `DeregisterEvents` | success: events of other nodes are passed on in any case |
//! | `Publish`, `Lookup`, `Unpublish` | served for all nodes |
//! | one of these with a required directive that is not supported | `PMIX_ERR_NOT_SUPPORTED`, for all nodes of a collective |
//! | all others | returned to the host, for example `Abort`, `Spawn`, `JobControl`, `Query` |
//!
//! | event | call of the host |
//! | --- | --- |
//! | an upcall of a node arrived | [`take`](ControllerServices::take) |
//! | a process has ended, and all upcalls that it caused have arrived | [`proc_ended`](ControllerServices::proc_ended) |
//! | a node is lost | [`node_lost`](ControllerServices::node_lost) |
//! | a job has ended | [`job_ended`](ControllerServices::job_ended) |
//! | the [`deadline`](ControllerServices::deadline) has passed | [`tick`](ControllerServices::tick) |
//! | after each of these | [`next_action`](ControllerServices::next_action) until `None` |
//!
//! There is no link inside; [`crate::controller`] combines the services with the links to the nodes. `T` is the host's
//! token of an upcall, for example the number of the node and of its call.
//!
//! ```
//! use std::time::Instant;
//! use pmix_host::jobs::JobTable;
//! use pmix_host::services::{ControllerServices, ServiceAction};
//! use pmix_map::{Limits, ProcMap};
//! use pmix_server::upcall::DirectModex;
//! use pmix_types::{Proc, Rank};
//!
//! let mut jobs = JobTable::default();
//! let procs = ProcMap::parse_text(b"0;1", &Limits::default())?;
//! jobs.add("job@1".into(), procs, vec![0, 1])?;
//! let mut services = ControllerServices::new(2);
//! let request = DirectModex::new(Proc::new("job@1", Rank::new(1)), vec![]);
//! let own = services.take("call 7 of node 0", 0, request, &jobs, Instant::now());
//! assert!(own.is_none(), "the host has nothing to do itself");
//! let Some(ServiceAction::Modex { node: 1, token, .. }) = services.next_action() else {
//!     panic!("not passed on");
//! };
//! // Node 1 has replied, and the host replies to call 7 of node 0.
//! assert_eq!(token, "call 7 of node 0");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Source: PMIx Standard, chapter "Server-Specific Interfaces".

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use pmix_server::Completion;
use pmix_server::upcall::{DirectModex, HostReply, JobControl, NotifyEvent, Upcall};
use pmix_types::{GroupOperation, Info, Nspace, Proc, Rank, Status, Value, keys};

use crate::collectives::{Collectives, Contribution, EndedCollective, Nodes};
use crate::groups::{EndedConstruct, GroupAssembler};
use crate::publish::PublishService;
use crate::relay;

/// The keys that a construct supports besides those of the server.
const SUPPORTED_BY_CONSTRUCT: &[&str] = &[
    keys::GROUP_ADD_MEMBERS,
    keys::GROUP_ASSIGN_CONTEXT_ID,
    keys::GROUP_BOOTSTRAP,
];

/// The directives of published data.
const SUPPORTED_BY_PUBLISH: &[&str] = &[keys::ACCESS_PERMISSIONS, keys::PERSISTENCE, keys::RANGE];

/// The directives of a lookup.
const SUPPORTED_BY_LOOKUP: &[&str] = &[
    keys::ACCESS_PERMISSIONS,
    keys::RANGE,
    keys::TIMEOUT,
    keys::WAIT,
];

/// An action of the host that its services require.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ServiceAction<T> {
    /// The reply to an upcall.
    Reply {
        /// The token of the upcall.
        token: T,
        /// The reply.
        reply: HostReply,
    },
    /// A request for the server of a node ([`Server::dmodex_request`](pmix_server::Server::dmodex_request)). Its result is
    /// the reply to an upcall; `PMIX_ERR_LOST_CONNECTION` if the node is lost before it replies.
    Modex {
        /// The node of the process.
        node: usize,
        /// The process and the required key.
        request: DirectModex,
        /// The token of the upcall.
        token: T,
    },
    /// An event for the server of a node ([`Server::notify`](pmix_server::Server::notify)).
    Notify {
        /// The node.
        node: usize,
        /// The event.
        event: NotifyEvent,
    },
}

/// The services of a controller for the servers of its nodes.
#[derive(Debug)]
pub struct ControllerServices<T> {
    num_nodes: usize,
    collectives: Collectives<T>,
    groups: GroupAssembler<T>,
    published: PublishService,
    /// The replies of `published`, whose completions may be called by later upcalls.
    completed: Receiver<(T, HostReply)>,
    completions: Sender<(T, HostReply)>,
    last_context: u64,
    actions: VecDeque<ServiceAction<T>>,
}

impl<T: Send + 'static> ControllerServices<T> {
    /// Creates the services for nodes that are numbered from 0.
    #[must_use]
    pub fn new(num_nodes: usize) -> Self {
        let (completions, completed) = channel();
        Self {
            num_nodes,
            collectives: Collectives::default(),
            groups: GroupAssembler::default(),
            published: PublishService::default(),
            completed,
            completions,
            last_context: 0,
            actions: VecDeque::new(),
        }
    }

    /// Sets the number of nodes, for a host to which nodes are added.
    pub fn set_num_nodes(&mut self, num_nodes: usize) {
        self.num_nodes = num_nodes;
    }

    /// Handles an upcall of the server of a node. Returns it with its token if the host serves it itself.
    pub fn take(
        &mut self,
        token: T,
        node: usize,
        upcall: impl Into<Upcall>,
        nodes: &impl Nodes,
        now: Instant,
    ) -> Option<(T, Upcall)> {
        let upcall = match Contribution::from_upcall(upcall.into()) {
            Ok(contribution) => {
                match self.collectives.take(token, node, contribution, nodes, now) {
                    Ok(ended) => self.end_collectives(ended),
                    Err(refused) => {
                        tracing::warn!(error = %refused.error, "a collective is refused");
                        let reply = HostReply::Done(refused.error.status());
                        self.reply(refused.token, reply);
                    }
                }
                return None;
            }
            Err(other) => *other,
        };
        match upcall {
            Upcall::Group(mut call) if call.operation == GroupOperation::CONSTRUCT => {
                if !obeys(&call.directives, SUPPORTED_BY_CONSTRUCT) {
                    // The callers of other nodes wait for this one, so the construct fails for all.
                    let status = Status::ERR_NOT_SUPPORTED;
                    let failed = Info::new(keys::LOCAL_COLLECTIVE_STATUS, status);
                    call.directives.push(failed);
                }
                let ended = self.groups.take(token, node, &call, nodes, now);
                self.end_constructs(ended);
            }
            Upcall::JobControl(call) if wants_context_id(&call) => {
                let infos = vec![self.next_context()];
                self.reply(token, HostReply::Infos(Status::SUCCESS, infos));
            }
            Upcall::DirectModex(request) => self.route(token, request, nodes),
            Upcall::NotifyEvent(event) => {
                self.reply(token, HostReply::Done(Status::SUCCESS));
                self.relay(&event, node, nodes);
            }
            Upcall::RegisterEvents(_) | Upcall::DeregisterEvents(_) => {
                self.reply(token, HostReply::Done(Status::SUCCESS));
            }
            Upcall::Publish(call) if obeys(&call.infos, SUPPORTED_BY_PUBLISH) => {
                let done = self.completion(token);
                self.published.publish(&call, done);
                self.take_completed();
            }
            Upcall::Lookup(call) if obeys(&call.infos, SUPPORTED_BY_LOOKUP) => {
                let done = self.completion(token);
                self.published.lookup(&call, done);
                self.take_completed();
            }
            Upcall::Unpublish(call) if obeys(&call.infos, &[keys::RANGE]) => {
                let done = self.completion(token);
                self.published.unpublish(&call, done);
                self.take_completed();
            }
            Upcall::Publish(_) | Upcall::Lookup(_) | Upcall::Unpublish(_) => {
                self.reply(token, HostReply::NotSupported);
            }
            other => return Some((token, other)),
        }
        None
    }

    /// Passes a request for the data of a process to its node, and one for job info to any node of the job.
    fn route(&mut self, token: T, request: DirectModex, nodes: &impl Nodes) {
        let proc = &request.proc;
        let place = match proc.rank {
            Rank::WILDCARD => {
                let mut shares = nodes.nodes_of_job(&proc.nspace).into_iter();
                let share = shares.find(|share| !nodes.is_lost(share.node));
                share.map(|share| share.node)
            }
            _ => nodes.server_of(proc),
        };
        match place {
            Some(node) if !nodes.is_lost(node) => self.actions.push_back(ServiceAction::Modex {
                node,
                request,
                token,
            }),
            Some(_) => self.reply(token, HostReply::Done(Status::ERR_LOST_CONNECTION)),
            None => self.reply(token, HostReply::Done(Status::ERR_NOT_FOUND)),
        }
    }

    fn relay(&mut self, event: &NotifyEvent, from: usize, nodes: &impl Nodes) {
        let left = (0..self.num_nodes).filter(|node| !nodes.is_lost(*node));
        for node in relay::recipients(event, from, left) {
            let event = event.clone();
            self.actions
                .push_back(ServiceAction::Notify { node, event });
        }
    }

    /// Raises an event of the host itself at all nodes that are not lost, for example the exit of a process.
    pub fn notify(&mut self, event: &NotifyEvent, nodes: &impl Nodes) {
        for node in (0..self.num_nodes).filter(|node| !nodes.is_lost(*node)) {
            let event = event.clone();
            self.actions
                .push_back(ServiceAction::Notify { node, event });
        }
    }

    /// Records that a process has ended. The host calls it once for each end, after the upcalls that the server of the
    /// process made before. [`has_ended`](crate::groups::Processes::has_ended) returns `true` for it from here on.
    pub fn proc_ended(&mut self, proc: &Proc<'_>, nodes: &impl Nodes) {
        let ended = self.collectives.proc_ended(proc, nodes);
        self.end_collectives(ended);
        self.end_in_services(proc, nodes);
    }

    fn end_in_services(&mut self, proc: &Proc<'_>, nodes: &impl Nodes) {
        let ended = self.groups.proc_ended(proc, nodes);
        self.end_constructs(ended);
        self.published.proc_ended(proc);
        self.take_completed();
    }

    /// Records that a node is lost. `procs` are its processes that had not ended; they have ended by it. [`Nodes`] reports
    /// the node as lost and the processes as ended from here on. Calls of the node are not answered any more, because no
    /// link leads to it.
    ///
    /// The servers of the other nodes are notified of each of the processes before the calls that waited for the node
    /// fail.
    pub fn node_lost(
        &mut self,
        node: usize,
        procs: impl IntoIterator<Item = Proc<'static>>,
        nodes: &impl Nodes,
    ) {
        let procs: Vec<_> = procs.into_iter().collect();
        for event in relay::lost_events(procs.iter().cloned()) {
            self.notify(&event, nodes);
        }
        let ended = self.collectives.node_lost(node);
        self.end_collectives(ended);
        let ended = self.groups.server_ended(node, nodes);
        self.end_constructs(ended);
        for proc in &procs {
            self.end_in_services(proc, nodes);
        }
    }

    /// Records that all processes of a job have ended, and drops the data that they published.
    pub fn job_ended(&mut self, nspace: &Nspace<'_>) {
        self.published.job_ended(nspace);
        self.take_completed();
    }

    /// Returns the time at which [`tick`](Self::tick) is to be called next.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let deadlines = [
            self.collectives.deadline(),
            self.groups.poll_timeout(),
            self.published.deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Fails the calls whose time has passed.
    pub fn tick(&mut self, now: Instant) {
        let ended = self.collectives.tick(now);
        self.end_collectives(ended);
        let ended = self.groups.handle_timeout(now);
        self.end_constructs(ended);
        self.published.tick(now);
        self.take_completed();
    }

    /// Returns the next action of the host.
    pub fn next_action(&mut self) -> Option<ServiceAction<T>> {
        self.actions.pop_front()
    }

    /// Returns a context id that no group of this controller has.
    pub fn next_context(&mut self) -> Info<'static> {
        self.last_context = self.last_context.saturating_add(1);
        Info::new(keys::GROUP_CONTEXT_ID, Value::Size(self.last_context))
    }

    fn reply(&mut self, token: T, reply: HostReply) {
        self.actions
            .push_back(ServiceAction::Reply { token, reply });
    }

    fn end_collectives(&mut self, ended: Vec<EndedCollective<T>>) {
        for mut one in ended {
            if let Ok(gathered) = &one.outcome
                && !obeys(&gathered.infos, &[keys::GROUP_FT_COLLECTIVE])
            {
                one.outcome = Err(Status::ERR_NOT_SUPPORTED);
            }
            let reply = one.reply();
            for token in one.tokens {
                self.reply(token, reply.clone());
            }
        }
    }

    fn end_constructs(&mut self, ended: Vec<EndedConstruct<T>>) {
        for one in ended {
            let reply = match one.outcome {
                Ok(mut infos) => {
                    if one.wants_context_id {
                        infos.push(self.next_context());
                    }
                    HostReply::Infos(Status::SUCCESS, infos)
                }
                Err(status) => HostReply::Done(status),
            };
            for token in one.tokens {
                self.reply(token, reply.clone());
            }
        }
    }

    fn completion<R: pmix_server::Reply>(&self, token: T) -> Completion<R> {
        let sender = self.completions.clone();
        // The receiver lives as long as the service that has the completion.
        Completion::from_fn(move |reply| drop(sender.send((token, reply))))
    }

    fn take_completed(&mut self) {
        while let Ok((token, reply)) = self.completed.try_recv() {
            self.reply(token, reply);
        }
    }
}

/// Returns `true` if all required infos are supported or were processed by the server.
fn obeys(infos: &[Info<'_>], supported: &[&str]) -> bool {
    let mut required = infos.iter().filter(|info| info.must_be_obeyed());
    required.all(|info| supported.iter().any(|key| info.key.is(key)))
}

/// Returns `true` for the request of a server for the context id of a group that is formed by invitation.
fn wants_context_id(call: &JobControl) -> bool {
    let is_set = |info: &Info<'_>| {
        info.key.is(keys::GROUP_ASSIGN_CONTEXT_ID) && info.value == Value::Bool(true)
    };
    call.targets.is_empty() && call.directives.iter().any(is_set)
}

#[cfg(test)]
mod tests;
