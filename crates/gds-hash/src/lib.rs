// SPDX-License-Identifier: MIT OR Apache-2.0
//! The datastore: the job info that a host registers, stored folded, with fast gets.
//!
//! A host registers a [`Job`] with infos. The infos are values of the session, the job, its
//! applications, nodes and processes, alone or in nested arrays, and the two maps that place
//! processes on nodes. The maps stay folded ([`pmix_map`]). Values that follow from the maps, such
//! as the peers on a node, are derived on demand. Registered values take precedence over derived
//! ones.
//!
//! ```
//! use gds_hash::{LocalNode, Job, Request};
//! use pmix_types::{Info, Rank, Value, keys};
//! # let preg = pmix_builtin::open_preg(&preg_core::Params::default())?;
//! let infos = [Info::new(keys::NODE_MAP, "n00,n01"), Info::new(keys::PROC_MAP, "0,1;2,3")];
//! let job = Job::register(&preg, &LocalNode::new("n00"), "job@1", &infos)?;
//! let peers = job.get(&Request::new(Rank::new(2), keys::LOCAL_PEERS))?;
//! assert_eq!(*peers, Value::from("2,3"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Sources: PMIx Standard, chapters "Reserved keys" (data realms and retrieval rules) and "Server"
//! (namespace registration).
#![forbid(unsafe_code)]

mod error;
mod exchange;
mod job;
mod qualifiers;
mod query;
mod reader;
mod shared;
mod store;

pub use error::Error;
pub use exchange::{
    Codec, CommitLimits, CommitMessage, CommitPart, Inflate, JobInfoReplies, KeyChange, Modex,
    ModexForm, ModexStore, OwnPuts, PackedPuts, Participant, Remote, StagedCommit, Told,
    UnansweredCommit, job_infos,
};
pub use job::{
    Answer, Job, KnownAnswer, KnownAnswers, KnownNode, LocalNode, Realm, Registration, Request,
    Subject, owned_answer,
};
pub use query::QueryResults;
pub use reader::{MapReader, PlainMaps};
pub use store::{Registered, Store};
