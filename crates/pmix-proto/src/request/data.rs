// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests about data that processes put or publish.

use pmix_types::{DataType, Info, Key, Nspace, Proc, Rank};

use crate::codec::{Contents, Each, Kvals, Many, Maybe, NspaceText, One, Part, Tail, message};
use crate::wire_type;

message! {
    /// Sends the data that a process has put since its last commit.
    Commit<'a> {
        /// The data: for each scope, a call of `PMIX_SCOPE` and one of `PMIX_BUFFER`, which
        /// contains a call of `PMIX_KVAL` for each datum. `LOCAL` has the local and global data,
        /// `REMOTE` the remote and global data. In messages to servers since 7.0, `DEL_LOCAL` and
        /// `DEL_REMOTE` with the removed keys precede them. Between clients and servers of this
        /// project, `DEL_INTERNAL` with an empty buffer at the end means that the commit continues
        /// in another message. The datastore parses the data.
        blocks: &'a [u8] = Tail<Blocks>,
    }

    /// Joins a fence.
    Fence<'a> {
        /// The participants. A wildcard rank means all processes of a job.
        procs: Vec<Proc<'a>> = Many<wire_type::Proc>,
        /// The directives: `pmix.collect`, `pmix.timeout`.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// Requests a value that the client does not have.
    Get<'a> {
        /// The job.
        nspace: Nspace<'a> = NspaceText,
        /// The process.
        rank: Rank = One<wire_type::Rank>,
        /// The directives and qualifiers: `pmix.immediate`, `pmix.timeout`, a realm, a scope.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
        /// The key; `None` requests all data.
        key: Option<Key<'a>> = Maybe<One<wire_type::Key>>,
    }

    /// Publishes data for the processes that its infos name.
    Publish<'a> {
        /// The user id of the process.
        uid: u32 = One<wire_type::Uint32>,
        /// The data and the directives `pmix.range` and `pmix.persist`.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// Requests published data by keys.
    Lookup<'a> {
        /// The user id of the process.
        uid: u32 = One<wire_type::Uint32>,
        /// The keys.
        keys: Vec<Key<'a>> = Each<wire_type::Key>,
        /// The directives: `pmix.range`, `pmix.wait`, `pmix.timeout`.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// Withdraws data that the process published.
    Unpublish<'a> {
        /// The user id of the process.
        uid: u32 = One<wire_type::Uint32>,
        /// The keys. An empty list means all keys that the process published.
        keys: Vec<Key<'a>> = Each<wire_type::Key>,
        /// The directives: `pmix.range`.
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
