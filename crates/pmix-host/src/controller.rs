// SPDX-License-Identifier: MIT OR Apache-2.0
//! The links of a controller to the nodes of a host, without a transport.
//!
//! A controller is the process of a host to which the servers of all nodes pass their upcalls. [`ControllerLinks`] has a
//! [`Link`] for each node, the [`JobTable`], and the [`ControllerServices`] that serve the upcalls. At the other end of
//! each link is a [`NodeLink`](crate::node::NodeLink).
//!
//! | event | call of the host |
//! | --- | --- |
//! | a job is started | [`add_job`](ControllerLinks::add_job), before a node registers it |
//! | the transport of a node has bytes, or takes some | [`link`](ControllerLinks::link), for example [`Link::transfer`] |
//! | after that | [`poll_message`](ControllerLinks::poll_message) until `None`; the host serves the upcalls that it returns |
//! | the transport of a node has ended, or one of these calls failed | [`node_lost`](ControllerLinks::node_lost) |
//! | the [`deadline`](ControllerLinks::deadline) has passed | [`tick`](ControllerLinks::tick) |
//! | all processes of a job have ended | [`job_ended`](ControllerLinks::job_ended) |
//!
//! Every call may give any link output. The example `three_nodes` of the crate `pmix` uses this over TCP.
//!
//! Source: this project.

use std::time::Instant;

use pmix_map::ProcMap;
use pmix_server::upcall::{HostReply, NotifyEvent, Upcall};
use pmix_types::{Nspace, Proc, Status};

use crate::Error;
use crate::groups::Processes as _;
use crate::jobs::JobTable;
use crate::link::{CallNumber, Link, LinkLimits, LinkMessage};
use crate::services::{ControllerServices, ServiceAction};

/// An upcall of the server of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeCall {
    node: usize,
    number: CallNumber,
}

impl NodeCall {
    /// Returns the node whose server made the upcall.
    #[must_use]
    pub const fn node(self) -> usize {
        self.node
    }
}

/// A message of a node for the host.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum NodeMessage {
    /// An upcall that the host serves itself and completes with [`ControllerLinks::reply`].
    Upcall(NodeCall, Upcall),
    /// A process has ended, with this exit code. The services know of it.
    Ended(Proc<'static>, i32),
    /// A message of the host's own form.
    Own(Vec<u8>),
}

/// The links of a controller to its nodes, which are numbered from 0.
#[derive(Debug)]
pub struct ControllerLinks {
    /// The links to the nodes that are not lost.
    links: Vec<Option<Link<NodeCall>>>,
    jobs: JobTable,
    services: ControllerServices<NodeCall>,
    limits: LinkLimits,
}

impl ControllerLinks {
    /// Creates links to a number of nodes.
    #[must_use]
    pub fn new(num_nodes: usize) -> Self {
        Self::with_limits(num_nodes, LinkLimits::default())
    }

    /// Creates links to a number of nodes, with limits that the nodes also have ([`NodeLink`](crate::node::NodeLink)).
    #[must_use]
    pub fn with_limits(num_nodes: usize, limits: LinkLimits) -> Self {
        let mut links = Self {
            links: Vec::new(),
            jobs: JobTable::default(),
            services: ControllerServices::new(0),
            limits,
        };
        for _ in 0..num_nodes {
            links.add_node();
        }
        links
    }

    /// Adds a link to a further node. Returns its number.
    pub fn add_node(&mut self) -> usize {
        self.links.push(Some(Link::new(self.limits)));
        self.services.set_num_nodes(self.links.len());
        self.links.len() - 1
    }

    /// Adds a job ([`JobTable::add`]).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`JobTable::add`], and `PMIX_ERR_BAD_PARAM` for a node that has no link.
    pub fn add_job(
        &mut self,
        nspace: Nspace<'static>,
        procs: ProcMap,
        nodes: Vec<usize>,
    ) -> Result<(), Error> {
        if let Some(node) = nodes.iter().find(|node| **node >= self.links.len()) {
            let message = format!("job {nspace} has processes on node {node}, which has no link");
            return Err(Error::bad(message));
        }
        self.jobs.add(nspace, procs, nodes)
    }

    /// Removes a job whose processes have all ended.
    pub fn job_ended(&mut self, nspace: &Nspace<'_>) {
        self.services.job_ended(nspace);
        self.jobs.remove(nspace);
        self.act();
    }

    /// Returns the table of jobs.
    #[must_use]
    pub fn jobs(&self) -> &JobTable {
        &self.jobs
    }

    /// Returns the number of processes of all jobs that have not ended.
    #[must_use]
    pub fn num_running(&self) -> usize {
        self.jobs.num_running().unwrap_or(0)
    }

    /// Returns the link to a node, or `None` if the node is lost.
    pub fn link(&mut self, node: usize) -> Option<&mut Link<NodeCall>> {
        self.links.get_mut(node)?.as_mut()
    }

    /// Handles the messages of a node, and returns the next one for the host.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Link::poll_message`], and `PMIX_ERR_NOT_FOUND` if the node reports the end of a process that
    /// does not run there. The host records the node as lost.
    pub fn poll_message(
        &mut self,
        node: usize,
        now: Instant,
    ) -> Result<Option<NodeMessage>, Error> {
        while let Some(link) = self.link(node) {
            let Some(message) = link.poll_message()? else {
                break;
            };
            let for_host = self.handle(node, message, now)?;
            self.act();
            if for_host.is_some() {
                return Ok(for_host);
            }
        }
        Ok(None)
    }

    fn handle(
        &mut self,
        node: usize,
        message: LinkMessage<NodeCall>,
        now: Instant,
    ) -> Result<Option<NodeMessage>, Error> {
        Ok(match message {
            LinkMessage::Call(number, upcall) => {
                let call = NodeCall { node, number };
                let own = self.services.take(call, node, upcall, &self.jobs, now);
                own.map(|(call, upcall)| NodeMessage::Upcall(call, upcall))
            }
            // The data of a process, which another node has requested.
            LinkMessage::Reply(call, reply) => {
                self.reply(call, &reply);
                None
            }
            // The host may have removed the job before its last process ended.
            LinkMessage::Ended(proc, _) if self.jobs.job_size(&proc.nspace).is_none() => None,
            LinkMessage::Ended(proc, exit_code) => {
                self.jobs.end(node, &proc)?;
                self.services.proc_ended(&proc, &self.jobs);
                Some(NodeMessage::Ended(proc, exit_code))
            }
            LinkMessage::Own(message) => Some(NodeMessage::Own(message)),
            // A node passes its events as upcalls.
            LinkMessage::Event(_) => None,
        })
    }

    /// Replies to an upcall. A reply to a lost node is dropped.
    pub fn reply(&mut self, call: NodeCall, reply: &HostReply) {
        if let Some(link) = self.link(call.node) {
            link.reply(call.number, reply);
        }
    }

    /// Notifies the servers of all nodes of an event of the host, for example the exit of a process.
    pub fn notify(&mut self, event: &NotifyEvent) {
        self.services.notify(event, &self.jobs);
        self.act();
    }

    /// Records that a node is lost. Its link ends, its processes count as ended, and calls that wait for it fail with
    /// `PMIX_ERR_LOST_CONNECTION`. Returns its processes that had not ended.
    pub fn node_lost(&mut self, node: usize) -> Vec<Proc<'static>> {
        let link = self.links.get_mut(node).and_then(Option::take);
        let Some(link) = link else {
            return Vec::new();
        };
        let lost = self.jobs.lose(node);
        self.services.node_lost(node, lost.clone(), &self.jobs);
        self.act();
        for call in link.close() {
            self.reply(call, &HostReply::Done(Status::ERR_LOST_CONNECTION));
        }
        lost
    }

    /// Returns the time at which [`tick`](Self::tick) is to be called next.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.services.deadline()
    }

    /// Fails the calls whose time has passed.
    pub fn tick(&mut self, now: Instant) {
        self.services.tick(now);
        self.act();
    }

    /// Sends what the services require.
    fn act(&mut self) {
        while let Some(action) = self.services.next_action() {
            match action {
                ServiceAction::Reply { token, reply } => self.reply(token, &reply),
                ServiceAction::Modex {
                    node,
                    request,
                    token,
                } => match self.link(node) {
                    Some(link) => link.call(request, token),
                    None => self.reply(token, &HostReply::Done(Status::ERR_LOST_CONNECTION)),
                },
                ServiceAction::Notify { node, event } => {
                    if let Some(link) = self.link(node) {
                        link.notify(event);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
