// SPDX-License-Identifier: MIT OR Apache-2.0
//! A small PMIx client in three forms: the blocking [`Client`] has no thread, [`SharedClient`] serves many threads, and
//! [`Core`] is the state machine of a client without a socket.
//!
//! A [`Client`] connects to the server that started the process. It puts and commits data, takes part in fences, gets
//! job info and the data of its peers, and receives events. It has one socket, no thread and no callback; a program
//! that needs threads or callbacks uses [`SharedClient`] or drives a [`Core`]. Job info from the server is kept in a
//! `gds-hash` store, so the client resolves a get by the same rules as the server.
//!
//! ```no_run
//! use pmix_client::{Client, Fence};
//! use pmix_types::{Proc, Rank, Scope, keys};
//!
//! let mut client = Client::from_env()?;
//! let size = client.get_of_job(keys::JOB_SIZE)?;
//! client.put(Scope::GLOBAL, "card", "ib0:17")?;
//! client.commit()?;
//! client.fence(&Fence::new().collect())?;
//! let peer = Proc::new(client.proc().nspace.clone(), Rank::new(1));
//! println!("{:?} of {size:?}", client.get(&peer, "card", &[])?);
//! client.finalize()?;
//! # Ok::<(), pmix_client::Error>(())
//! ```
//!
//! Source: PMIx Standard, chapters "Client initialization and finalization" and "Process-related
//! non-reserved keys".
#![forbid(unsafe_code)]

mod ask;
mod cache;
mod client;
mod commit;
mod connection;
mod core;
mod error;
mod fence;
mod get;
mod group;
mod handlers;
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

pub use self::core::{Answer, Completed, Core, CoreStats, Forwarded, OperationId};
pub use ask::{Answers, Ask, Found};
pub use client::Client;
pub use error::Error;
pub use fence::Fence;
pub use group::{Decision, Group, Question};
pub use handlers::{EventHandler, HandlerOrder, Handlers};
pub use obeyed::{check_get, check_required};
pub use own_answers::OwnAnswers;
pub use settings::{Security, Settings, ThreadStart};
pub use shared::{ClientEvent, GroupDecision, SharedClient};
pub use tool_connection::ToolConnection;
pub use uri::Uri;
