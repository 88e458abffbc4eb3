// SPDX-License-Identifier: MIT OR Apache-2.0
//! A PMIx client: [`Client`] connects a process to its server, with a [`Call`] for each function of the Standard.
//!
//! A client puts and commits data, takes part in fences and groups, gets job info and the data of its peers, spawns
//! jobs, and receives events. It has one socket and starts a thread only for callbacks. Job info from the server is kept
//! in a `gds-hash` store, so the client resolves a get by the same rules as the server.
//!
//! ```no_run
//! use pmix_client::Client;
//! use pmix_types::{Info, Proc, Rank, Scope, keys};
//!
//! let client = Client::from_env()?;
//! let size = client.get_of_job(keys::JOB_SIZE).wait()?;
//! client.put(Scope::GLOBAL, "card", "ib0:17")?;
//! client.commit()?;
//! client.fence([], [Info::new(keys::COLLECT_DATA, true)]).wait()?;
//! let peer = Proc::new(client.proc().nspace.clone(), Rank::new(1));
//! println!("{:?} of {size:?}", client.get(&peer, "card", &[]).wait()?);
//! client.finalize()?;
//! # Ok::<(), pmix_client::Error>(())
//! ```
//!
//! The same call with a callback is `client.fence([], []).start(|result| …)`, with a time limit
//! `client.fence([], []).within(limit).wait()`. A program that waits in its own loop uses the module [`driver`].
//!
//! Source: PMIx Standard, chapters "Client initialization and finalization" and "Process-related
//! non-reserved keys".
#![forbid(unsafe_code)]

mod cache;
mod call;
mod client;
mod commit;
mod connection;
mod core;
pub mod driver;
mod error;
mod get;
mod group;
mod handlers;
mod hello;
mod inflate;
mod known;
mod obeyed;
mod own_answers;
mod prefetch;
mod resolve;
mod settings;
mod shared;
mod shared_data;
mod socket;
mod tool_connection;
mod uri;

pub use self::core::{Answers, Forwarded};
pub use call::Call;
pub use client::Client;
pub use error::Error;
pub use group::{Decision, Group};
pub use settings::{Security, Settings, ThreadStart};
pub use shared::{ClientEvent, GroupDecision};
pub use uri::Uri;
