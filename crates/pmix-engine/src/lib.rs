// SPDX-License-Identifier: MIT OR Apache-2.0
//! The logic of a PMIx server without sockets, files, threads or a clock.
//!
//! A driver, such as the crate `pmix-server`, passes inputs to an [`Engine`]: new connections, received bytes, replies
//! of the host, the current time. It then collects the outputs. The driver owns the sockets and the clock; tests
//! connect engines in memory. The engine has one owner and no locks. Job information is in a [`gds_hash::Store`], which
//! other threads may read.
//!
//! Invariants:
//!
//! 1. Every request gets exactly one reply, on its tag, with at least a status.
//! 2. The [`Config`] bounds the memory that each peer can occupy.
//! 3. An invalid message affects the peer that sent it and no other peer.
//! 4. All local participants of a collective get the same result.
//!
//! Sources: PMIx Standard, chapter "Server"; `pmix-proto` defines the wire forms.
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "a test begins at some instant")
)]

mod admission;
mod by_peer;
mod collective;
mod config;
mod control;
mod cx;
mod engine;
mod error;
mod event;
mod events;
mod exchange;
mod finalize;
mod group;
pub mod host;
mod ids;
pub mod infos;
mod iof;
mod obeyed;
mod peers;
mod pending;
mod procs;
mod psec;
mod query;
mod recount;
mod registry;
mod relay;
mod requests;
mod resources;
mod shared;
mod sharing;
mod stats;
mod subsystems;
mod timer;
mod waits;
pub mod weight;

pub use collective::Collective;
pub use config::{
    ClonePolicy, Config, ControlLimits, EventLimits, OutputLimits, ReplyLimits, UnaskedLimits,
};
pub use control::{Cleanup, CleanupDirectory};
pub use engine::Engine;
pub use error::Error;
pub use event::{EngineEvent, GroupChange};
pub use events::EventSource;
pub use gds_hash::{ModexForm, Registration};
pub use host::{CallId, Credentials, HostCall, HostObject, HostReply, Upcall};
pub use ids::DirectModexId;
pub use peers::{Chunk, Origin, PeerId, Transmit};
pub use pending::PendingCall;
pub use procs::Procs;
pub use psec::{Claim, Psec, Verification, Verified};
pub use recount::Difference;
pub use shared::SharedChange;
pub use stats::Stats;
pub use waits::{RankRun, RankRuns, Wait, WaitOperation, Waits};
