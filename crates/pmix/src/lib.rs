// SPDX-License-Identifier: MIT OR Apache-2.0
//! PMIx for programs in Rust: one crate to depend on for hosts, clients and tools.
//!
//! PMIx (Process Management Interface - Exascale) is how the launcher of a parallel job tells its
//! processes who runs where, and how they find each other. This crate re-exports what a program needs
//! of the crates of pmix-rs:
//!
//! | module | what is in it | crate |
//! | --- | --- | --- |
//! | [`types`] | the data model: statuses, processes, infos, values, keys | `pmix-types` |
//! | [`map`] | node maps and process maps, folded | `pmix-map` |
//! | [`hostlist`] | lists of names as Slurm and ClusterShell write them | `pmix-hostlist` |
//! | [`topology`] | what a node is made of, who shares which part, how far devices are | `pmix-topology` |
//! | [`params`] | MCA parameters and the environment they come from | `pmix-mca` |
//! | [`wire`] | how a peer packs its messages | `bfrops` |
//! | `encoding`, with feature `server` | encoded maps (`pmix[...]` and others) | `preg-core`, `pmix-builtin` |
//! | `server`, with feature `server` | the server of a node and the interface of its host | `pmix-server` |
//! | `host`, with feature `server` | parts that a host takes: publish and lookup, cleanup, forwarding | `pmix-host` |
//! | `client`, with feature `client` | clients of the server that started the program | `pmix-client` |
//! | `tool`, with feature `tool` | tools, which attach to a server that did not start them | `pmix-tool` |
//!
//! [`prelude`] has what most programs name. All three features are on by default.
//!
//! | example | what it shows |
//! | --- | --- |
//! | `minimal_host.rs` | a host of one node with a progress thread: publish and lookup, cleanup, abort |
//! | `three_nodes.rs` | a host of three nodes with TCP between them: a controller, and a process on each node |
//! | `three_nodes_tokio.rs` | the same host in an async runtime |
//! | `minimal_client.rs` | a process of a job: put, commit, fence, get |
//! | `busy_client.rs` | a process that gives its host work: direct modex, publish and lookup, cleanup |
//! | `loop_client.rs` | a process whose own loop waits for the server, by poll(2) |
//! | `tokio_client.rs` | a process that waits for the server in an async runtime |
//!
#![cfg_attr(doc, doc = "Their text is in the module [`examples`].")]
//! They build in a crate of your own that also depends on `rustix` with the features `event`, `process` and `time`, and
//! for those with `tokio` in their name on `tokio` with `macros`, `net`, `process`, `rt`, `sync` and `time`.
//!
//! # A host
//!
//! A host, for example a resource manager, registers a job and its processes and starts them with
//! the environment that the server gives.
//!
#![cfg_attr(feature = "server", doc = "```")]
#![cfg_attr(not(feature = "server"), doc = "```ignore")]
//! use pmix::prelude::*;
//!
//! let server = Server::builder().host(NoHost).hostname("n00").build()?;
//! server.start()?;
//! let nodes = NodeList::parse_text(b"n00", &Limits::default())?;
//! let procs = ProcMap::parse_text(b"0-1", &Limits::default())?;
//! let infos = [Info::new(keys::UNIV_SIZE, 2_u32)];
//! let job = Registration::new(&infos).with_maps(nodes, procs);
//! server.register_nspace(&"job@1".into(), 2, job)?;
//! for rank in [0, 1] {
//!     let proc = Proc::new("job@1", Rank::new(rank));
//!     let user = Credentials { uid: 1000, gid: 1000 };
//!     server.register_client(&proc, user, HostObject(0))?;
//!     let environment = server.setup_fork(&proc)?;
//!     assert!(environment.iter().any(|(name, _)| name == "PMIX_RANK"));
//! }
//! server.finalize()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # A client
//!
#![cfg_attr(feature = "client", doc = "```no_run")]
#![cfg_attr(not(feature = "client"), doc = "```ignore")]
//! use pmix::prelude::*;
//!
//! let client = Client::from_env()?;
//! client.put(Scope::GLOBAL, "card", "ib0:17")?;
//! client.commit()?;
//! client.fence([], [Info::new(keys::COLLECT_DATA, true)]).wait()?;
//! let peer = Proc::new(client.proc().nspace.clone(), Rank::new(1));
//! println!("{:?}", client.get(&peer, "card", &[]).wait()?);
//! client.finalize()?;
//! # Ok::<(), pmix::client::Error>(())
//! ```
//!
//! # A tool
//!
//! A tool finds a server, attaches to it, and then has all calls of a client.
//!
#![cfg_attr(feature = "tool", doc = "```no_run")]
#![cfg_attr(not(feature = "tool"), doc = "```ignore")]
//! use pmix::tool::{Search, Tool};
//! use pmix::types::{Query, Text, keys};
//!
//! let found = Search::from_env().find()?;
//! let mut tool = Tool::new();
//! tool.attach(&found, |_| {})?;
//! let jobs = Query { keys: vec![Text::from(keys::QUERY_NAMESPACES)], qualifiers: vec![] };
//! println!("{:?}", tool.query([jobs]).wait()?);
//! tool.finalize()?;
//! # Ok::<(), pmix::tool::Error>(())
//! ```
//!
//! # A program without a launcher
//!
//! `Client::from_env` fails with `PMIX_ERR_NOT_AVAILABLE` in a process that no launcher
//! started. A program that runs in both ways takes `Settings::from_env_or_singleton`: without a launcher its process is a
//! job of one, whose fences succeed and which gets what it puts.
//!
#![cfg_attr(feature = "client", doc = "```")]
#![cfg_attr(not(feature = "client"), doc = "```ignore")]
//! use pmix::prelude::*;
//!
//! let client = Client::init(Settings::singleton())?;
//! assert!(client.is_singleton());
//! assert_eq!(client.proc().rank, Rank::new(0));
//! client.fence([], []).wait()?;
//! let size = client.get_of_job(keys::JOB_SIZE).wait()?;
//! assert_eq!(size.to_number::<u32>(), Ok(1));
//! # Ok::<(), pmix::client::Error>(())
//! ```
//!
//! Source: PMIx Standard; the bytes are those of OpenPMIx.
#![forbid(unsafe_code)]

pub use pmix_hostlist as hostlist;
pub use pmix_map as map;
pub use pmix_topology as topology;
pub use pmix_types as types;

/// Tools, which attach to a server that did not start them.
#[cfg(feature = "tool")]
pub use pmix_tool as tool;

/// Clients of the server that started the program.
#[cfg(feature = "client")]
pub mod client {
    pub use pmix_client::*;
    pub use pmix_proto::{Event, PeerForm, Request, reply, request};
}

/// The server of a node, and the interface of its host.
#[cfg(feature = "server")]
pub use pmix_server as server;

/// Parts that a host takes: publish and lookup, cleanup, forwarding of streams.
#[cfg(feature = "server")]
pub use pmix_host as host;

/// Encoded maps: what a host writes its node and process maps as, and reads them from.
#[cfg(feature = "server")]
pub mod encoding {
    pub use pmix_builtin::open_preg;
    pub use preg_core::{
        ComponentStatus, Error, Explanation, Extent, Field, LegacyRegex, Module, Packed, Preg,
        Regex2, Regex2Ref, Scheme, Terminator, Unpacked, ValueForm, parameters,
    };
}

/// The packing format of a peer, which a client sets for its server.
pub mod wire {
    pub use bfrops::{BufferKind, Integers, Layout, Module};
}

/// MCA parameters (with feature `server`), and the environment that they and addresses come from.
pub mod params {
    pub use pmix_mca::Environment;
    #[cfg(feature = "server")]
    pub use pmix_mca::{
        Catalog, Decision, Error, Kind, ParamInfo, ParamSpec, Params, ParamsBuilder, PluginFile,
        Refusal, Setting, Source,
    };
}

/// The text of the programs in the folder `examples` of this crate.
#[cfg(all(doc, not(doctest)))]
pub mod examples {
    macro_rules! examples {
        ($($name:ident $file:literal)*) => {
            $(
                #[doc = concat!("```\n", include_str!(concat!("../examples/", $file)), "```")]
                pub mod $name {}
            )*
        };
    }

    examples! {
        minimal_host "minimal_host.rs"
        three_nodes "three_nodes.rs"
        three_nodes_tokio "three_nodes_tokio.rs"
        minimal_client "minimal_client.rs"
        busy_client "busy_client.rs"
        loop_client "loop_client.rs"
        tokio_client "tokio_client.rs"
    }
}

/// Commonly used items.
pub mod prelude {
    #[cfg(feature = "client")]
    pub use crate::client::{Client, Event, Settings};
    pub use crate::map::{Limits, MapParser, NodeList, ProcMap};
    #[cfg(feature = "server")]
    pub use crate::server::{
        Completion, Credentials, Host, HostObject, NoHost, Registration, Server, ServerEvent,
    };
    pub use crate::types::{
        DataArray, Info, Key, Nspace, Proc, Rank, Scope, Status, Text, Value, keys,
    };
}

/// The programs of `docs/programs.md` compile, and those that need no server run.
#[cfg(all(doctest, feature = "client", feature = "server"))]
#[doc = include_str!("../../../docs/programs.md")]
struct Programs;
