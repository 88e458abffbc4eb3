// SPDX-License-Identifier: MIT OR Apache-2.0
//! PMI-1 and PMI-2: the interfaces of the MPICH family, served from the data of a PMIx server.
//!
//! MPICH, NVSHMEM and some libraries of OpenSHMEM usually do not use PMIx. They send commands in text form to the
//! launcher: `cmd=put kvsname=job key=card value=ib0`. A launcher with a PMIx server starts a [`Service`] for them, and
//! passes the variables of [`Service::variables`] to its processes. A process that uses them connects to the service,
//! which connects to the PMIx server in the name of the process. So the server, its tools and its other processes see
//! a PMIx process: a put is a `PMIx_Put`, a barrier a `PMIx_Fence` that collects data, a spawn a `PMIx_Spawn`.
//!
//! ```text
//! bytes ── Decoder ── Command ── Request::read ── Request, Ticket ── Client of pmix-client ── Reply ── Ticket ── bytes
//! ```
//!
//! [`Decoder`], [`Request`] and [`Ticket`] work without a socket. Each connection has a thread of its own, because a
//! client of PMI-1 waits for each of its replies.
//!
//! Source: the protocols as MPICH 5.0.2 and Hydra exchange them (PMI 1.1, 1.2 and 2.0); PMIx Standard, chapters "Data
//! Access and Sharing", "Process Management" and "Publish/Lookup Operations", for the calls that serve them.
#![forbid(unsafe_code)]

mod client;
mod connection;
mod error;
mod mapping;
mod registry;
mod reply;
mod request;
mod responder;
mod service;
mod session;
#[cfg(test)]
mod tests;
mod wire;

pub use error::Error;
pub use mapping::{MAPPING, process_mapping};
pub use registry::JobSettings;
pub use reply::{Reply, Ticket};
pub use request::{Application, Group, Pairs, Request, Spawn};
pub use service::{MPICH_SELECTION, Service, Variables};
pub use session::PREPUT;
pub use wire::{Command, Decoder, MAX_COMMAND_BYTES, Wire};
