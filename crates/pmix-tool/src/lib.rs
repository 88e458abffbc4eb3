// SPDX-License-Identifier: MIT OR Apache-2.0
//! PMIx tools: processes that attach to a server which did not start them.
//!
//! A [`Search`] finds a server: by address, by process id, by name, by a rendezvous file, or by default the server that
//! the environment names, then that of the system, then the only server of a session. A [`Tool`] attaches to one server
//! or to several, of which one is primary. It has all calls of a [`Client`].
//!
//! ```no_run
//! use pmix_tool::{Search, Tool};
//! use pmix_types::{Query, Text, keys};
//!
//! let found = Search::from_env().find()?;
//! let mut tool = Tool::new();
//! tool.attach(&found, |_| {})?;
//! let names = Query { keys: vec![Text::from(keys::QUERY_NAMESPACES)], qualifiers: vec![] };
//! println!("{:?}", tool.query([names]).wait()?);
//! tool.finalize()?;
//! # Ok::<(), pmix_tool::Error>(())
//! ```
//!
//! Source: PMIx Standard, chapter "Tools and Debuggers".
#![forbid(unsafe_code)]

mod attachment;
mod control;
mod error;
mod launchers;
pub mod pull;
mod rendezvous;
mod search;
mod servers;
mod tool;
mod walk;

pub use attachment::{Attachment, Identity};
pub use control::Control;
pub use error::Error;
pub use launchers::{LauncherEvent, LauncherListener, Launchers};
pub use pmix_client::{Call, Client, ClientEvent, ThreadStart, Uri};
pub use rendezvous::{FoundServer, PassedOver};
pub use search::{Listing, Search, Target};
pub use servers::available_servers;
pub use tool::Tool;
