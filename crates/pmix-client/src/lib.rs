// SPDX-License-Identifier: MIT OR Apache-2.0
//! A small PMIx client: [`Client`] blocks and has no thread, [`SharedClient`] serves many threads, and
//! [`Core`] is what a client knows and waits for, without a socket.
//!
//! A [`Client`] connects to the server that started the process, puts and commits data, waits in fences,
//! gets what others put and what is known of the job, hears of events. One socket, no thread, no
//! callback: who needs those drives a [`Core`]. What the server said of the job is
//! kept in a `gds-hash` store, so questions about it are answered here by the rules that a server
//! answers them by.
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
