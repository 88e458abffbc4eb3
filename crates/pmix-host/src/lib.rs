// SPDX-License-Identifier: MIT OR Apache-2.0
//! Components for the host of a PMIx server.
//!
//! A host, for example a resource manager, implements [`pmix_server::Host`] and completes the upcalls that depend on
//! it. Other upcalls and events require the same work of every host. Each module here does one such kind of work,
//! independently of the others.
//!
//! | component | purpose | calls of the host |
//! | --- | --- | --- |
//! | [`publish::PublishService`] | stores published data and lookups | upcalls, ends of processes and jobs, timeouts |
//! | [`cleanup::remove`] | removes files that processes registered for cleanup | `ServerEvent::Cleanup` |
//! | [`forward::OutputForwarder`] | copies output to the host's streams and for pulls | pipes of processes, polls |
//! | [`forward::StdinPipe`] | feeds the standard input of a process without waiting | `push_stdin` |
//! | [`controller::ControllerLinks`] | links a controller with its nodes and serves their upcalls | bytes of a transport, lost nodes, timeouts |
//! | [`node::NodeLink`] | links the server of a node with the controller | progress of the server, bytes of a transport, ends of processes |
//! | [`services::ControllerServices`] | serves the upcalls of all nodes, without the links | upcalls, ends of processes and nodes, timeouts |
//! | [`jobs::JobTable`] | records the nodes of processes, and their ends | starts and ends of jobs, ends of processes and nodes |
//! | [`link::Link`] | carries upcalls, replies and events between the processes of a host | bytes of a transport |
//! | [`frames::Frames`] | divides a stream of bytes into messages | bytes of a transport |
//! | [`collectives::Collectives`] | gathers fences, connects and disconnects of several nodes | `fence`, `connect`, `disconnect`, ends of processes and nodes, timeouts |
//! | [`groups::GroupAssembler`] | assembles group constructs | `group`, ends of processes and servers, timeouts |
//! | [`helpers::Helpers`] | runs work that may block in threads | the work; it wakes the host |
//! | [`monitor::MonitorService`] | watches files, measures usage | `monitor`, ends of processes and jobs, timeouts |
//! | [`relay`] | says which servers get an event, and the events of a lost node | `notify_event`, lost nodes |
//! | [`tree::Tree`] | computes parents and branches in a tree of nodes | any |
//! | [`usage`] | reads the resource usage of processes and the node | requests |
//!
//! Heartbeats need no component: the server itself watches them (`PMIX_MONITOR_HEARTBEAT`) and raises the event for a
//! missing one. It calls `monitor` of the host for everything else.
//!
//! `pmix run` is built of these components (crate `pmix-launch`). In the crate `pmix`, the example `minimal_host` shows
//! the first two in a host of 200 lines, and `three_nodes` those of a host of several nodes in 250 lines.
//!
//! The page `docs/nodes.md` of the project has every duty of a host of several nodes.
//!
//! Threads are started by [`helpers`] and for monitored files. Most components get the time as an argument. A clock is
//! read only by [`publish::PublishService::lookup`], [`usage`], [`forward`] and the checks of monitored files.
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "a test begins at some instant")
)]

pub mod cleanup;
pub mod collectives;
pub mod controller;
mod error;
pub mod forward;
pub mod frames;
pub mod groups;
pub mod helpers;
pub mod jobs;
pub mod link;
pub mod monitor;
pub mod node;
pub mod publish;
pub mod relay;
pub mod services;
pub mod tree;
pub mod usage;

pub use error::Error;
