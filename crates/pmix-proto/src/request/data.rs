// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests about data that processes put or publish.

use pmix_types::{DataType, Info, Key, Nspace, Proc, Rank};

use crate::codec::{Contents, Each, Kvals, Many, Maybe, NspaceText, One, Part, Tail, message};
use crate::wire_type;

message! {
    /// Sends the data that a process has put since its last commit.
    Commit<'a> {
        /// For each scope a call of `PMIX_SCOPE` and one of `PMIX_BUFFER` that contains a call of
        /// `PMIX_KVAL` for each datum. `LOCAL` has the local and global data, `REMOTE` the remote
        /// and global data. Before them, to servers since 7.0, `DEL_LOCAL` and `DEL_REMOTE` have
        /// the removed keys. At the end, between servers and clients of this project,
        /// `DEL_INTERNAL` with an empty buffer means that the commit continues in another message.
        /// The data store parses them.
        blocks: &'a [u8] = Tail<Blocks>,
    }

    /// Joins a fence.
    Fence<'a> {
        /// The participants; a wildcard rank names all processes of a job.
        procs: Vec<Proc<'a>> = Many<wire_type::Proc>,
        /// `pmix.collect`, `pmix.timeout`.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// Asks for a value that the client does not have.
    Get<'a> {
        /// The job.
        nspace: Nspace<'a> = NspaceText,
        /// The process.
        rank: Rank = One<wire_type::Rank>,
        /// `pmix.immediate`, `pmix.timeout`, a realm, a scope.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
        /// The key; `None` requests all data.
        key: Option<Key<'a>> = Maybe<One<wire_type::Key>>,
    }

    /// Publishes data for the processes that its infos name.
    Publish<'a> {
        /// The user that the process runs as.
        uid: u32 = One<wire_type::Uint32>,
        /// The data, and among them `pmix.range` and `pmix.persist`.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// Asks for published data by its keys.
    Lookup<'a> {
        /// The user that the process runs as.
        uid: u32 = One<wire_type::Uint32>,
        /// The keys.
        keys: Vec<Key<'a>> = Each<wire_type::Key>,
        /// `pmix.range`, `pmix.wait`, `pmix.timeout`.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// Withdraws data that the process published.
    Unpublish<'a> {
        /// The user that the process runs as.
        uid: u32 = One<wire_type::Uint32>,
        /// The keys; an empty list names all of them.
        keys: Vec<Key<'a>> = Each<wire_type::Key>,
        /// `pmix.range`.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// Requests all data that a process has put, regardless of caches. Since 5.0.
    RefreshCache<'a> {
        /// The job.
        nspace: Nspace<'a> = NspaceText,
        /// The process.
        rank: Rank = One<wire_type::Rank>,
    }
}

/// The data that a process put, by scope.
enum Blocks {}

impl Contents for Blocks {
    fn outline() -> Vec<Part> {
        let data = vec![Part::Rest(Kvals::outline())];
        vec![
            Part::One("scope", DataType::SCOPE),
            Part::Packed("data", DataType::BUFFER, data),
        ]
    }
}
