// SPDX-License-Identifier: MIT OR Apache-2.0
//! Components for the host of a PMIx server.
//!
//! A host, for example a resource manager, implements [`pmix_server::Host`] and completes the upcalls that depend on
//! it. Other upcalls and events require the same work of every host. Each module here does one such kind of work,
//! independently of the others.
//!
//! | part | what it does | what the host does with it |
//! | --- | --- | --- |
//! | [`publish::PublishService`] | keeps what processes publish, and the lookups that wait for it | hands it `publish`, `lookup`, `unpublish`, ends of processes and jobs, and the time |
//! | [`cleanup::remove`] | removes files and directories that processes registered for cleanup | hands it `ServerEvent::Cleanup` |
//! | [`forward::OutputForwarder`] | copies the output of processes to the host's own streams, and keeps it for those who pull it | adds the pipes of each process, and polls |
//! | [`forward::StdinPipe`] | feeds the standard input of a process without waiting for it | hands it `push_stdin` |
//! | [`groups::GroupAssembler`] | gathers constructs of groups whose members do not all know each other | hands it `group`, ends of processes and servers, and the time |
//! | [`helpers::Helpers`] | does work whose length a disk or a process decides, with threads | hands it the work, and is woken when it has ended |
//! | [`monitor::MonitorService`] | watches files, and tells what processes and the node use | hands it `monitor`, ends of processes and jobs, and the time; notifies its events |
//! | [`usage`] | reads what processes and the node use | asks it |
//!
//! Heartbeats need no part: the server watches them itself (`PMIX_MONITOR_HEARTBEAT`) and raises the
//! event when one is missing. The host's `monitor` is called for what the server does not watch.
//!
//! `pmix run` is built of these parts (crate `pmix-launch`); the example `minimal_host` of the crate
//! `pmix` shows the first two in a host of 200 lines.
//!
//! [`helpers`] starts threads, as do monitored files. Only [`publish::PublishService::lookup`], for the beginning of a
//! lookup, and [`usage`], for the time of a measurement, read a clock.
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "a test begins at some instant")
)]

pub mod cleanup;
mod error;
pub mod forward;
pub mod groups;
pub mod helpers;
pub mod monitor;
pub mod publish;
pub mod usage;

pub use error::Error;
