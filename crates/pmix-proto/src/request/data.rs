// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests about data: what processes put for each other and what they publish.

use pmix_types::{DataType, Info, Key, Nspace, Proc, Rank};

use crate::codec::{Contents, Each, Kvals, Many, Maybe, NspaceText, One, Tail, message};
use crate::part::Part;
use crate::wire_type;

message! {
    /// Hands over what a process has put since it began, or since its last commit.
    Commit<'a> {
        /// For each scope a call of `PMIX_SCOPE` and one of `PMIX_BUFFER` that holds a call of
        /// `PMIX_KVAL` for each datum: `LOCAL` for what is local or global, `REMOTE` for what is
        /// remote or global; before them, to servers since 7.0, `DEL_LOCAL` and `DEL_REMOTE` with keys that
        /// are removed; at the end, among servers and clients of this project, `DEL_INTERNAL` with an empty buffer
        /// if the commit goes on in another message. The data store reads it.
        blocks: &'a [u8] = Tail<Blocks>,
    }

    /// Joins a fence of the processes it names.
    Fence<'a> {
        /// Who takes part; a wildcard rank stands for all of a job.
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
        /// The key; none asks for all that there is.
        key: Option<Key<'a>> = Maybe<One<wire_type::Key>>,
    }

    /// Publishes data for the processes that its infos name.
    Publish<'a> {
        /// The user that the process runs as.
        uid: u32 = One<wire_type::Uint32>,
        /// The data, and `pmix.range`, `pmix.persist` among them.
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

    /// Withdraws what the process published under some keys.
    Unpublish<'a> {
        /// The user that the process runs as.
        uid: u32 = One<wire_type::Uint32>,
        /// The keys; none stands for all.
        keys: Vec<Key<'a>> = Each<wire_type::Key>,
        /// `pmix.range`.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// Asks again for all that a process has put by now. Since 5.0.
    RefreshCache<'a> {
        /// The job.
        nspace: Nspace<'a> = NspaceText,
        /// The process.
        rank: Rank = One<wire_type::Rank>,
    }
}

/// What a process put, by scope.
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
