// SPDX-License-Identifier: MIT OR Apache-2.0
//! The server of a node: [`pmix_engine`] with sockets, a progress thread and the interface of its host.
//!
//! A host, for example a resource manager, creates a [`Server`], registers a job and its processes, and
//! starts them with the environment that [`Server::setup_fork`] returns. It implements the trait [`Host`] for
//! requests that the server cannot complete by itself. The server does not start processes; the host does.
//!
//! ```
//! use pmix_server::{Credentials, HostObject, NoHost, Server};
//! use pmix_types::{Info, Proc, Rank, keys};
//!
//! let server = Server::builder().host(NoHost).hostname("n00").build()?;
//! server.start()?;
//! let infos = [Info::new(keys::NODE_MAP, "n00"), Info::new(keys::PROC_MAP, "0-1")];
//! server.register_nspace(&"job@1".into(), 2, &infos)?;
//! for rank in [0, 1] {
//!     let proc = Proc::new("job@1", Rank::new(rank));
//!     server.register_client(&proc, Credentials::new(1000, 1000), HostObject(0))?;
//!     let environment = server.setup_fork(&proc)?;
//!     assert!(environment.iter().any(|(name, _)| name == "PMIX_SERVER_URI41"));
//! }
//! server.finalize()?;
//! # Ok::<(), pmix_server::Error>(())
//! ```
//!
//! Invariants:
//!
//! 1. Methods of the host are called by one thread that holds no lock; they can call the server.
//! 2. A method that panics or drops its [`Completion`] fails one request; the service goes on.
//! 3. Data sent to every client is stored once and written to each socket without copying.
//! 4. A link to a rendezvous file is never followed, and the file of a running server is never replaced.
//! 5. The owner of a socket on this node is determined by the kernel, not by the peer.
//!
//! Sources: PMIx Standard, chapter "Server-Specific Interfaces"; files and environment as in OpenPMIx 4.2 and
//! 5.0.
#![forbid(unsafe_code)]

mod builder;
mod driver;
mod engine_handle;
mod error;
mod fork;
mod host;
mod net;
mod psec;
mod rendezvous;
mod server;
mod shared;

pub use builder::{Builder, gds_parameters};
pub use error::Error;
pub use host::{
    Completion, Credential, Host, NoHost, Reply, ServerEvent, UntypedCompletion, UpcallHost,
    WireObserver, call_host,
};
pub use net::{Listeners, socket_owner};
pub use pmix_engine::host as upcall;
pub use pmix_engine::{
    Cleanup, CleanupDirectory, ClonePolicy, Collective, Config, ControlLimits, Credentials,
    EventLimits, EventSource, GroupChange, HostObject, ModexForm, OutputLimits, PeerId, RankRun,
    RankRuns, Registration, ReplyLimits, Stats, UnaskedLimits, Wait, WaitOperation, Waits,
};
pub use pmix_proto::{SupportLevel, SupportedFunction, is_about_support};
pub use psec::{CredentialService, psec_parameters};
pub use server::{ConnectedTool, Server};
