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
//! `pmix run` is built of these components (crate `pmix-launch`); the example `minimal_host` of the crate
//! `pmix` shows the first two in a host of 200 lines.
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
mod error;
pub mod forward;
pub mod groups;
pub mod helpers;
pub mod monitor;
pub mod publish;
pub mod relay;
pub mod tree;
pub mod usage;

pub use error::Error;
